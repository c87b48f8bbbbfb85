"""Messages as columns: the readable twin of `_columns.pyx`, and the door to whichever is there.

Spark and every other bulk reader want columns, not message objects. `Columns` takes the MSG and
HMSG frames of one subscription out of a read buffer and keeps subjects, payloads, headers,
sequences and times in buffers that Arrow takes over as they are. `publishes` goes the other way,
`Acks` counts what came back.

The compiled kernel does the same without a Python object per message. A package that was shipped
to Spark executors as a zip cannot load compiled code, so this twin is complete.
`JETSTREAM_PURE=1` chooses it everywhere.
"""

import os
import re
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from jetstream.schema.times import parse_rfc3339

NEED_MORE = 0
OTHER = 1
FULL = 2
PAST_END = 3

ACK = 0
DIRECT = 1

Taken = tuple[int, Any, Any, Any, Any, Any, Any, Any, Any]

_ADDED = re.compile(rb"\r\nNats-Stream:[^\r]*\r\n")


class PureColumns:
    """Rows of one subscription as columns."""

    def __init__(
        self,
        sid: int,
        mode: int = ACK,
        up_to: int = 0,
        with_headers: bool = False,
        with_data: bool = True,
    ) -> None:
        self.last_seq = 0
        self.pending = -1
        self.past_end_seq = 0
        self.stopped = NEED_MORE
        self._sid = str(sid).encode()
        self._mode = mode
        self._up_to = up_to
        self._with_headers = with_headers
        self._with_data = with_data
        self._fresh()

    def _fresh(self) -> None:
        self.rows = 0
        self.data_bytes = 0
        self._subjects: list[bytes] = []
        self._payloads: list[bytes] = []
        self._headers: list[bytes] = []
        self._seqs = array("q")
        self._times = array("q")

    def take(self) -> Taken:
        """All rows so far: (rows, subject_ends, subjects, payload_ends, payloads, seqs, …)."""
        subject_ends, subjects = _joined(self._subjects)
        payload_ends, payloads = _joined(self._payloads)
        header_ends, headers = _joined(self._headers)
        taken = (
            *(self.rows, subject_ends, subjects, payload_ends, payloads),
            *(self._seqs, self._times, header_ends, headers),
        )
        self._fresh()
        return taken

    def feed(
        self, buffer: bytearray | bytes, start: int, end: int, rows_max: int, bytes_max: int
    ) -> int:
        """Take whole frames out of buffer[start:end]; returns where it stopped."""
        at = start
        while True:
            if self.rows >= rows_max or self.data_bytes >= bytes_max:
                self.stopped = FULL
                return at
            line_end = buffer.find(b"\r\n", at, end)
            if line_end < 0:
                known = buffer[at : at + 4] in (b"MSG ", b"HMSG")
                self.stopped = NEED_MORE if known or end - at < 4 else OTHER
                return at
            words = bytes(buffer[at:line_end]).split()
            kind = words[0] if words else b""
            if kind not in (b"MSG", b"HMSG") or len(words) < 4 or words[2] != self._sid:
                self.stopped = OTHER
                return at
            total = int(words[-1])
            body = line_end + 2
            if end - body < total + 2:
                self.stopped = NEED_MORE
                return at
            head = int(words[-2]) if kind == b"HMSG" else 0
            headers = bytes(buffer[body : body + head])
            payload = bytes(buffer[body + head : body + total])
            if self._mode == ACK:
                taken = len(words) == (6 if head else 5) and self._from_ack(words, headers, payload)
            else:
                taken = self._from_direct(headers, payload)
            if not taken:
                self.stopped = OTHER
                return at
            if self.past_end_seq:
                self.stopped = PAST_END
                return at
            at = body + total + 2

    def _from_ack(self, words: list[bytes], headers: bytes, payload: bytes) -> bool:
        tokens = words[3].split(b".")
        if tokens[:2] != [b"$JS", b"ACK"] or not (len(tokens) == 9 or len(tokens) >= 11):
            return False
        first = 4 if len(tokens) == 9 else 6
        seq = int(tokens[first + 1])
        if self._up_to and seq > self._up_to:
            self.past_end_seq = seq
            return True
        self.pending = int(tokens[first + 4])
        self._row(words[1], headers, payload, seq, int(tokens[first + 3]))
        return True

    def _from_direct(self, block: bytes, payload: bytes) -> bool:
        """Stored headers, then Nats-Stream, -Subject, -Sequence, -Time-Stamp of the server."""
        added = list(_ADDED.finditer(block))
        if block[8:10] != b"\r\n" or not added:
            return False
        cut = added[-1].start() + 2
        facts = dict(
            line.split(b":", 1) for line in block[cut:].split(b"\r\n") if line.startswith(b"Nats-")
        )
        if b"Nats-Sequence" not in facts or b"Nats-Subject" not in facts:
            return False
        seq = int(facts[b"Nats-Sequence"])
        if self._up_to and seq > self._up_to:
            self.past_end_seq = seq
            return True
        self.pending = int(facts.get(b"Nats-Num-Pending", b"-1"))
        time = parse_rfc3339(facts[b"Nats-Time-Stamp"].strip().decode())
        headers = block[:cut] + b"\r\n" if cut > 10 else b""
        self._row(facts[b"Nats-Subject"].strip(), headers, payload, seq, time)
        return True

    def _row(self, subject: bytes, headers: bytes, payload: bytes, seq: int, time: int) -> None:
        self._subjects.append(subject)
        self._payloads.append(payload if self._with_data else b"")
        if self._with_headers:
            self._headers.append(headers)
            self.data_bytes += len(headers)
        self._seqs.append(seq)
        self._times.append(time)
        self.last_seq = seq
        self.rows += 1
        self.data_bytes += len(subject) + len(self._payloads[-1])


def _joined(parts: list[bytes]) -> "tuple[array[int], bytes]":
    return array("i", accumulate(map(len, parts), initial=0)), b"".join(parts)


def pure_publishes(
    subject_ends: Any,
    subjects: Any,
    payload_ends: Any,
    payloads: Any,
    header_blocks: Sequence[bytes] | None,
    fixed_subject: bytes,
    id_prefix: bytes,
    common_headers: bytes,
    reply_prefix: bytes,
    start: int,
    stop: int,
    first_row: int,
    skip: Any,
) -> bytes:
    """PUB or HPUB frames of the rows [start, stop); offsets are int32 buffers as Arrow has them."""
    payload_at = memoryview(payload_ends).cast("B").cast("i")
    payload_data = memoryview(payloads).cast("B")
    subject_at = memoryview(subject_ends).cast("B").cast("i") if subjects is not None else None
    subject_data = memoryview(subjects).cast("B") if subjects is not None else None
    plain = not id_prefix and header_blocks is None and not common_headers
    out: list[bytes] = []
    for row in range(start, stop):
        if skip is not None and skip[row]:
            continue
        if subject_at is not None and subject_data is not None:
            subject = bytes(subject_data[subject_at[row] : subject_at[row + 1]])
        else:
            subject = fixed_subject
        payload = bytes(payload_data[payload_at[row] : payload_at[row + 1]])
        reply = reply_prefix + str(row).encode()
        if plain:
            out.append(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload))
            continue
        block = header_blocks[row] if header_blocks is not None else b""
        head = (block[:-2] if len(block) > 4 else b"NATS/1.0\r\n") + common_headers
        if id_prefix:
            head += b"Nats-Msg-Id: %b%d\r\n" % (id_prefix, first_row + row)
        head += b"\r\n"
        total = len(head) + len(payload)
        out.append(
            b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, len(head), total, head, payload)
        )
    return b"".join(out)


class PureAcks:
    """Counts good publish acknowledgements; everything else is left for the caller to look at."""

    def __init__(self, sid: int, prefix_length: int, flags: bytearray) -> None:
        """`flags` has one byte per row; an acknowledged row becomes 1."""
        self.good = 0
        self.duplicates = 0
        self.last_seq = 0
        self.stopped = NEED_MORE
        self._sid = str(sid).encode()
        self._prefix_length = prefix_length
        self._flags = flags

    def feed(self, buffer: bytearray | bytes, start: int, end: int) -> int:
        at = start
        while True:
            line_end = buffer.find(b"\r\n", at, end)
            if line_end < 0:
                self.stopped = (
                    NEED_MORE if end - at < 4 or buffer[at : at + 4] == b"MSG " else OTHER
                )
                return at
            words = bytes(buffer[at:line_end]).split()
            row = words[1][self._prefix_length :] if len(words) == 4 else b""
            if words[:1] != [b"MSG"] or not row.isdigit() or words[2] != self._sid:
                self.stopped = OTHER
                return at
            total = int(words[3])
            body = line_end + 2
            if end - body < total + 2:
                self.stopped = NEED_MORE
                return at
            ack = bytes(buffer[body : body + total])
            if not ack.startswith(b'{"stream":"') or int(row) >= len(self._flags):
                self.stopped = OTHER
                return at
            at = body + total + 2
            if not self._flags[int(row)]:
                self._flags[int(row)] = 1
                self.good += 1
            seq = re.search(rb'"seq":(\d+)', ack)
            self.last_seq = max(self.last_seq, int(seq[1]) if seq else 0)
            self.duplicates += b'"duplicate"' in ack


if TYPE_CHECKING:
    Columns = PureColumns
    Acks = PureAcks
    publishes = pure_publishes
    COMPILED = True
else:
    try:
        if os.environ.get("JETSTREAM_PURE") == "1":
            raise ImportError("pure Python was asked for")
        from jetstream.client._columns import Acks, Columns, publishes

        COMPILED = True
    except ImportError:
        Columns, Acks, publishes = PureColumns, PureAcks, pure_publishes
        COMPILED = False
