"""Did each order arrive exactly once? Counted and compared on both ends."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from jetstream.client.jetstream import JetStream
from jetstream.demo.orders import Checksum


class Proof(Struct):
    """What was sent and what is there."""

    sent: Checksum
    arrived: Checksum
    archived: Checksum
    dead_letters: int
    refused: int

    @property
    def holds(self) -> bool:
        return self.sent == self.arrived == self.archived and self.dead_letters == self.refused

    def sentences(self) -> list[str]:
        return [
            f"sent        {self.sent}",
            f"in CLEAN    {self.arrived}",
            f"in Parquet  {self.archived}",
            f"bad rows    {self.refused:,} sent, {self.dead_letters:,} in the dead-letter stream",
        ]

    def facts(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "sent": [self.sent.count, f"{self.sent.sum:016x}"],
            "arrived": [self.arrived.count, f"{self.arrived.sum:016x}"],
            "archived": [self.archived.count, f"{self.archived.sum:016x}"],
            "bad_rows": self.refused,
            "dead_letters": self.dead_letters,
        }


async def read_stream(js: JetStream, stream: str) -> Checksum:
    """Every order in a stream, by its number."""
    found = Checksum()
    info = await js.stream_info(stream)
    left = info.raw["state"]["messages"]
    if not left:
        return found
    consumer = await js.ordered_consumer(stream)
    async with await consumer.messages() as messages:
        async for message in messages:
            found.add(int(msgspec.json.decode(message.data)["id"]))
            left -= 1
            if not left:
                break
    return found


def read_archive(directory: Path) -> Checksum:
    """Every order in the Parquet table."""
    import pyarrow.parquet as pq

    from jetstream.spark.tables import open_table

    found = Checksum()
    if not directory.exists():
        return found
    for file in open_table(str(directory), "parquet").files():
        for number in (
            pq.ParquetFile(directory / file.path).read(columns=["id"]).column("id").to_pylist()
        ):
            found.add(int(number))
    return found
