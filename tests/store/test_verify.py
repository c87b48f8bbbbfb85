"""`jetstream store verify`: finds what is wrong and leaves everything as it was."""

from pathlib import Path

import pytest

from jetstream.errors import StoreError
from jetstream.store.vault import Vault
from jetstream.store.verify import verify
from tests.store.builders import flushed, settled


def a_store(root: Path) -> None:
    vault = Vault(str(root))
    for name in ("ORDERS", "PAYMENTS"):
        home = vault.create("$G", name, b'{"name":"%s"}' % name.encode(), 5)
        log = home.open()
        log.segment_bytes_min = log.segment_bytes_max = 2_000
        for i in range(60):
            log.append(b"s.%d" % (i % 3), b"", b"payload %d" % i, i)
        settled(log)
        log.append(b"s", b"", b"the last one", 99)
        flushed(log)
        journal = home.journal()
        journal.put("worker", b"state")
        journal.close()
        log.close()
    vault.close()


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_whole_store_is_found_whole(tmp_path: Path) -> None:
    a_store(tmp_path)
    before = snapshot(tmp_path)
    report = verify(str(tmp_path))
    assert report.ok
    assert [(each.name, each.messages, each.consumers) for each in report.streams] == [
        ("ORDERS", 61, 1),
        ("PAYMENTS", 61, 1),
    ]
    assert snapshot(tmp_path) == before


def test_damage_is_named_and_nothing_is_touched(tmp_path: Path) -> None:
    a_store(tmp_path)
    for path in tmp_path.rglob("*.seg"):
        data = bytearray(path.read_bytes())
        if "ORDERS" in str(path) and b"payload 7" in data:
            data[data.index(b"payload 7") + 3] ^= 4
        if "PAYMENTS" in str(path) and b"the last one" in data:
            data[data.index(b"the last one")] ^= 4
        path.write_bytes(data)
    (tmp_path / "%24G" / "PAYMENTS" / "meta-b").write_text("scribble")
    before = snapshot(tmp_path)
    report = verify(str(tmp_path))
    assert not report.ok
    orders, payments = report.streams
    assert orders.lost == [(8, 8)]
    assert payments.lost == [(61, 61)]
    assert "  lost: 8" in report.lines()
    assert any("metadata" in note for note in report.notes)
    assert snapshot(tmp_path) == before


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        verify(str(tmp_path / "nowhere"))
