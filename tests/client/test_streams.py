"""Streams: making, changing, finding; their messages; backups."""

import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jetstream.client.config import ConsumerLimits, StreamConfig, StreamSource, SubjectTransform
from jetstream.client.errors import ApiError, NoMessageError, StreamNotFoundError
from jetstream.client.snapshot import SnapshotResult
from jetstream.schema.stream import StreamConfig as WireConfig
from tests.client.conftest import ServerProcess, gone


async def filled(js: Any, n: int = 10, **fields: Any) -> Any:
    stream = await js.create_stream(name="S", subjects=["s.>"], **fields)
    await js.publish_many((f"s.{i % 3}", b"%d" % i) for i in range(n))
    return stream


async def test_a_stream_is_created_with_seconds_and_shown_with_seconds(js: Any) -> None:
    stream = await js.create_stream(
        name="S",
        subjects=["s.>"],
        max_age=timedelta(hours=1),
        duplicate_window=30,
        consumer_limits=ConsumerLimits(inactive_threshold=5.5),
    )
    config = stream.cached_info.config
    assert (config.max_age, config.duplicate_window) == (3600, 30)
    assert config.consumer_limits.inactive_threshold == 5.5
    assert stream.cached_info.created is not None
    assert "S" in stream.cached_info._repr_html_()


async def test_a_config_can_be_an_object_a_mapping_or_the_wires_own(js: Any) -> None:
    await js.create_stream(StreamConfig(name="A", max_age=60), description="changed")
    await js.create_stream({"name": "B", "max_age": 60_000_000_000})
    await js.create_stream(WireConfig(name="C", max_age=60_000_000_000))
    infos = [info async for info in js.list_streams()]
    assert [(info.name, info.config.max_age) for info in infos] == [(n, 60) for n in "ABC"]
    assert infos[0].config.description == "changed"


async def test_creating_twice_is_fine_unless_it_differs(js: Any) -> None:
    await js.create_stream(name="S")
    await js.create_stream(name="S")
    with pytest.raises(ApiError) as caught:
        await js.create_stream(name="S", max_msgs=5)
    assert caught.value.err_code == 10058
    assert "update_stream" in str(caught.value.hint)
    changed = await js.create_or_update_stream(name="S", max_msgs=5)
    assert changed.cached_info.config.max_msgs == 5
    made = await js.create_or_update_stream(name="T")
    assert made.name == "T"


async def test_one_field_can_be_changed(js: Any) -> None:
    stream = await js.create_stream(name="S", subjects=["a"], max_age=60)
    info = await stream.update(description="new")
    assert (info.config.description, info.config.max_age) == ("new", 60)


async def test_a_missing_stream_has_an_error_of_its_own(js: Any) -> None:
    for work in (js.stream("S"), js.delete_stream("S"), js.update_stream(name="S")):
        with pytest.raises(StreamNotFoundError):
            await work
    with pytest.raises(ValueError, match="invalid stream name"):
        await js.stream("a.b")


async def test_streams_are_found_by_subject(js: Any) -> None:
    await js.create_stream(name="S", subjects=["s.>"])
    await js.create_stream(name="T", subjects=["t.*"])
    assert await js.stream_name_by_subject("t.x") == "T"
    assert [name async for name in js.stream_names("s.a")] == ["S"]
    assert [name async for name in js.stream_names()] == ["S", "T"]
    assert await js.find("s.y") == "S"
    with pytest.raises(StreamNotFoundError):
        await js.stream_name_by_subject("zzz")


async def test_more_streams_than_a_page(js: Any) -> None:
    for n in range(260):
        await js.create_stream(name=f"S{n:03}", storage="memory")
    assert len([info async for info in js.list_streams()]) == 260


async def test_purging_by_subject_sequence_and_count(js: Any) -> None:
    stream = await filled(js, 10)
    assert await stream.purge(subject="s.0") == 4
    assert await stream.purge(seq=4) == 2
    assert await stream.purge(keep=1) == 3
    assert await stream.purge() == 1


async def test_info_counts_subjects_and_deletions(js: Any) -> None:
    stream = await filled(js, 5)
    await stream.delete_msg(2)
    await stream.secure_delete_msg(3)
    info = await stream.info(subjects_filter=">", deleted_details=True)
    assert info.state.subjects == {"s.0": 2, "s.1": 1}
    assert info.state.deleted == [2, 3]
    assert stream.cached_info is info


@pytest.mark.parametrize("direct", [False, True])
async def test_messages_can_be_read_by_place(js: Any, direct: bool) -> None:
    stream = await filled(js, 9, allow_direct=direct)
    await js.publish("s.h", b"body", headers={"A": ["1", "2"]})
    assert (await stream.get_msg(5)).data == b"4"
    last = await stream.get_last_msg("s.h")
    assert (last.subject, last.seq, last.data) == ("s.h", 10, b"body")
    assert last.headers == {"A": ["1", "2"]}
    assert last.time_ns > 0
    assert (await stream.get_msg(5, next_for="s.0")).seq == 7
    assert (await stream.get_msg_at(last.time)).seq >= 9
    with pytest.raises(NoMessageError):
        await stream.get_msg(99)
    with pytest.raises(NoMessageError):
        await stream.get_last_msg("s.none")


async def test_many_messages_in_one_request(js: Any) -> None:
    stream = await filled(js, 20, allow_direct=True)
    got = [m async for m in stream.get_batch(5, seq=3)]
    assert [m.seq for m in got] == [3, 4, 5, 6, 7]
    assert got[0].num_pending == 17
    assert [m.seq async for m in stream.get_batch(3, subject="s.1")] == [2, 5, 8]
    assert [m async for m in stream.get_batch(3, seq=99)] == []
    assert [m.seq async for m in stream.get_last_msgs(["s.0", "s.1"])] == [19, 20]
    assert [m.seq async for m in stream.get_last_msgs("s.>", up_to_seq=10)] == [8, 9, 10]


async def test_a_mirror_and_a_source_copy_a_stream(js: Any) -> None:
    import asyncio

    await filled(js, 6)
    mirror = await js.create_stream(name="M", mirror=StreamSource(name="S"))
    source = await js.create_stream(
        name="T",
        sources=[
            StreamSource(
                name="S",
                subject_transforms=[SubjectTransform(src="s.*", dest="t.$1")],
            )
        ],
    )
    for _ in range(100):
        if (await mirror.info()).state.messages == 6 == (await source.info()).state.messages:
            break
        await asyncio.sleep(0.1)
    assert (await mirror.get_msg(3)).subject == "s.2"
    assert (await source.get_msg(3)).subject == "t.2"
    assert (await source.info()).sources[0].name == "S"


async def test_account_info_has_usage_and_limits(js: Any) -> None:
    await js.create_stream(name="S")
    info = await js.account_info()
    assert (info.streams, info.limits.max_streams) == (1, -1)
    assert info.api.level >= 1


async def test_a_sealed_stream_refuses_everything(js: Any) -> None:
    stream = await filled(js, 1)
    await stream.seal()
    with pytest.raises(ApiError) as caught:
        await js.publish("s.1", b"")
    assert caught.value.err_code == 10109


async def test_a_backup_can_be_restored_under_its_name(
    js: Any, server: ServerProcess, tmp_path: Path
) -> None:
    stream = await filled(js, 500, description="kept")
    await stream.create_consumer(durable_name="c")
    steps: list[int] = []

    def progress(so_far: SnapshotResult) -> None:
        steps.append(so_far.bytes)

    result = await stream.snapshot(tmp_path / "backup", progress=progress)
    assert (result.stream, result.messages) == ("S", 500)
    assert steps == sorted(steps)
    assert result.bytes == steps[-1]
    await stream.delete()
    await gone(server)
    restored = await js.restore_stream(tmp_path / "backup", progress=progress)
    assert restored.state["messages"] == 500
    again = await js.stream("S")
    assert again.cached_info.config.description == "kept"
    assert (await again.get_msg(77)).data == b"76"
    assert [name async for name in again.consumer_names()] == ["c"]


async def test_a_backup_can_go_through_memory_without_our_first_line(
    js: Any, server: ServerProcess
) -> None:
    stream = await filled(js, 50)
    memory = io.BytesIO()
    result = await stream.snapshot(memory, consumers=False, bare=True)
    await stream.delete()
    await gone(server)
    memory.seek(0)
    await js.restore_stream(memory, config=result.config, state=result.state)
    assert (await js.stream_info("S")).state.messages == 50


async def test_the_older_names_are_aliases(js: Any) -> None:
    await js.streams.add(name="S", subjects=["s.>"])
    await js.publish("s.1", b"x")
    assert (await js.streams.info("S")).state.messages == 1
    assert [info.name async for info in js.streams.list()] == ["S"]
    assert await js.streams.find("s.2") == "S"
    assert (await js.streams.get_message("S", 1)).data == b"x"
    await js.streams.delete_message("S", 1)
    await js.streams.update(name="S", subjects=["s.>", "t"])
    await js.consumers.add("S", durable_name="me")
    assert (await js.consumers.info("S", "me")).name == "me"
    assert [info.name async for info in js.consumers.list("S")] == ["me"]
    await js.publish("t", b"pulled")
    assert (await js.pull("S", "me")).data == b"pulled"
    assert await js.pull_batch("S", "me", batch=5, expires=1) == []
    await js.consumers.delete("S", "me")
    assert await js.streams.purge("S") == 1
    await js.streams.delete("S")
