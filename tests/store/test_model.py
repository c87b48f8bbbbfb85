"""Random operations against a plain dictionary, with restarts, crashes and upkeep in between."""

from array import array
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jetstream.store.base import StreamStore
from jetstream.store.log import FileStore
from jetstream.store.memory import MemoryStore
from jetstream.subjects.match import matches
from jetstream.testing.disk import FaultyDisk
from tests.store.builders import a_batch, a_log, flushed, settled

SUBJECTS = [b"a", b"a.b", b"a.c", b"b.c", b"a.b.c", b"k.1", b"k.2", b"k.3"]
FILTERS = [[b"a"], [b"a.*"], [b"a.>"], [b"k.*", b"a"], [b">"], [b"*.c"]]

subjects = st.sampled_from(SUBJECTS)
payloads = st.binary(max_size=40)
seqs = st.integers(1, 60)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), subjects, payloads, st.booleans()),
        st.tuples(st.just("run"), st.lists(st.tuples(subjects, payloads), max_size=12)),
        st.tuples(st.just("gap"), subjects, st.integers(1, 9000)),
        st.tuples(st.just("skip"), st.integers(1, 4)),
        st.tuples(st.just("remove"), seqs, st.booleans()),
        st.tuples(st.just("remove_many"), st.lists(seqs, max_size=6)),
        st.tuples(st.just("truncate"), seqs),
        st.tuples(st.just("purge_filter"), st.integers(0, len(FILTERS) - 1), st.integers(0, 3)),
        st.tuples(st.just("keep"), st.integers(1, 5)),
        st.tuples(st.just("limit"), st.integers(1, 4)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("upkeep")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("crash")),
    ),
    max_size=50,
)


@dataclass
class Model:
    """What a stream is: messages by sequence, and how far the sequences went."""

    messages: dict[int, tuple[bytes, bytes, bytes, int]] = field(default_factory=dict)
    last_seq: int = 0
    last_ts: int = 0
    limit: int = -1

    def add(self, seq: int, subject: bytes, headers: bytes, payload: bytes, now: int) -> None:
        self.messages[seq] = (subject, headers, payload, now)
        self.last_seq, self.last_ts = seq, now
        self.enforce(subject)

    def enforce(self, subject: bytes) -> None:
        have = [seq for seq, each in sorted(self.messages.items()) if each[0] == subject]
        if self.limit > 0:
            for seq in have[: -self.limit]:
                del self.messages[seq]

    def drop_below(self, first_seq: int) -> None:
        self.messages = {seq: each for seq, each in self.messages.items() if seq >= first_seq}
        self.last_seq = max(self.last_seq, first_seq - 1)

    def matching(self, patterns: list[bytes], start: int = 1) -> list[int]:
        return [
            seq
            for seq, each in sorted(self.messages.items())
            if seq >= start and any(matches(pattern, each[0]) for pattern in patterns)
        ]


def agree(store: StreamStore, model: Model) -> None:
    existing = sorted(model.messages)
    assert store.last_seq == model.last_seq
    assert store.msgs == len(existing)
    assert list(store.next_seqs(1, 1000)) == existing
    first = existing[0] if existing else (model.last_seq + 1 if model.last_seq else 0)
    assert store.first_seq == first
    assert store.lost() is None
    fixed, extra = (16, 0) if isinstance(store, MemoryStore) else (30, 4)
    assert store.bytes == sum(
        fixed + len(s) + len(h) + len(p) + (extra if h else 0)
        for s, h, p, _ in model.messages.values()
    )
    for seq, (subject, headers, payload, now) in model.messages.items():
        found = store.get(seq)
        assert found is not None
        assert (found.subject, found.headers, found.payload, found.time_ns) == (
            subject, headers, payload, now,
        )  # fmt: skip
    assert store.first_ts == (model.messages[existing[0]][3] if existing else 0)
    middle = existing[len(existing) // 2] if existing else 1
    for patterns in FILTERS:
        chosen = store.filter(patterns)
        for start in (1, middle, middle + 1):
            expected = model.matching(patterns, start)
            assert list(store.next_seqs(start, 1000, chosen)) == expected
            assert store.count_from(start, chosen) == len(expected)
        below = [seq for seq in model.matching(patterns) if seq < middle]
        assert store.last_match(chosen, before=middle) == (below[-1] if below else 0)
        lasts = {model.messages[seq][0]: seq for seq in model.matching(patterns)}
        assert list(store.last_seqs(chosen)) == sorted(lasts.values())
    for subject in SUBJECTS:
        have = [seq for seq in existing if model.messages[seq][0] == subject]
        state = (len(have), have[0], have[-1]) if have else (0, 0, 0)
        assert store.subject_state(subject) == state


def play(
    store: StreamStore, model: Model, script: list[tuple[object, ...]], disk: FaultyDisk | None
) -> None:
    now = 1_000
    for step in script:
        now += 7
        store = do(store, model, step, now, disk)
        agree(store, model)


def do(
    store: StreamStore,
    model: Model,
    step: tuple[object, ...],
    now: int,
    disk: FaultyDisk | None,
) -> StreamStore:
    match step:
        case ("append", bytes(subject), bytes(payload), with_headers):
            headers = b"NATS/1.0\r\n\r\n" if with_headers else b""
            seq = store.append(subject, headers, payload, now)
            model.add(seq, subject, headers, payload, now)
        case ("run", list(messages)):
            first = store.append_run(a_batch(*messages), 0, len(messages), now)
            for i, (subject, payload) in enumerate(messages):
                model.add(first + i, subject, b"", payload, now)
        case ("gap", bytes(subject), int(n)):
            seq = store.append(subject, b"", b"gap", now, seq=model.last_seq + n)
            model.add(seq, subject, b"", b"gap", now)
        case ("skip", int(n)):
            model.last_seq = store.skip(n, now)
        case ("remove", int(seq), erase):
            assert store.remove(seq, bool(erase)) == (model.messages.pop(seq, None) is not None)
        case ("remove_many", list(some)):
            gone = {seq for seq in some if model.messages.pop(seq, None) is not None}
            assert store.remove_many(array("Q", some)) == len(gone)
        case ("truncate", int(seq)):
            before = len(model.messages)
            model.drop_below(seq)
            assert store.truncate_front(seq) == before - len(model.messages)
        case ("purge_filter", int(i), int(keep)):
            going = model.matching(FILTERS[i])
            going = going[: max(len(going) - keep, 0)]
            assert store.purge(filter=store.filter(FILTERS[i]), keep=keep) == len(going)
            for seq in going:
                del model.messages[seq]
        case ("keep", int(keep)):
            going = sorted(model.messages)[:-keep]
            assert store.purge(keep=keep) == len(going)
            for seq in going:
                del model.messages[seq]
        case ("limit", int(limit)):
            store.set_limits(max_msgs_per_subject=limit)
            model.limit = limit
            for subject in SUBJECTS:
                model.enforce(subject)
        case _:
            return housekeep(store, str(step[0]), disk, model.limit)
    return store


def housekeep(store: StreamStore, step: str, disk: FaultyDisk | None, limit: int) -> StreamStore:
    if not isinstance(store, FileStore):
        store.work(1_000_000)
        return store
    assert disk is not None
    if step == "flush":
        flushed(store)
    elif step == "upkeep":
        settled(store)
    elif step == "restart":
        store.close()
        return a_log(disk, segment_bytes=600, max_msgs_per_subject=limit)
    else:
        flushed(store)
        store.abandon()
        disk.crash()
        return a_log(disk, segment_bytes=600, max_msgs_per_subject=limit)
    return store


COUNTS = [pytest.param(60, id="short"), pytest.param(3_000, id="long", marks=pytest.mark.long)]


@pytest.mark.parametrize("examples", COUNTS)
def test_a_log_in_files_agrees_with_a_dictionary(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(script=operations)
    def check(script: list[tuple[object, ...]]) -> None:
        disk = FaultyDisk()
        play(a_log(disk, segment_bytes=600), Model(), script, disk)

    check()


@pytest.mark.parametrize("examples", COUNTS)
def test_a_log_in_memory_agrees_with_a_dictionary(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(script=operations)
    def check(script: list[tuple[object, ...]]) -> None:
        play(MemoryStore(), Model(), script, None)

    check()
