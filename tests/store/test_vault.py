"""Streams in a vault: found again, rebuilt from their segments, removed for good."""

import pytest

from jetstream.clock import Random
from jetstream.errors import StoreError
from jetstream.store.vault import Vault, directory_name
from jetstream.testing.disk import VARIANTS, FaultyDisk, PowerCut
from tests.store.builders import crashed, flushed

CONFIG = b'{"name":"ORDERS"}'


def a_vault(disk: FaultyDisk) -> Vault:
    return Vault("/data", disk, Random(1))


def test_streams_are_found_again_with_their_config() -> None:
    disk = FaultyDisk()
    store = a_vault(disk).create("$G", "ORDERS", CONFIG, 77).open()
    store.append(b"a", b"", b"x", 1)
    store.update_config(b'{"name":"ORDERS","max_msgs":5}')
    flushed(store)
    disk.crash("nothing")
    vault = a_vault(disk)
    assert vault.accounts() == ["$G"]
    (home,) = vault.streams("$G")
    assert (home.name, home.account, home.created_ns) == ("ORDERS", "$G", 77)
    assert home.config == b'{"name":"ORDERS","max_msgs":5}'
    assert home.open().msgs == 1
    assert vault.report == []


def test_names_that_are_no_directory_names() -> None:
    disk = FaultyDisk()
    vault = a_vault(disk)
    names = ["a b", "über/ ", "x" * 255, "%24G", "é" * 120]
    for name in names:
        vault.create("ACC/1", name, CONFIG, 1)
    assert sorted(home.name for home in a_vault(disk).streams("ACC/1")) == sorted(names)
    assert all(len(directory_name(name).encode()) <= 255 for name in names)


def test_a_name_is_taken_once() -> None:
    vault = a_vault(FaultyDisk())
    vault.create("$G", "ORDERS", CONFIG, 1)
    with pytest.raises(StoreError):
        vault.create("$G", "ORDERS", CONFIG, 2)


@pytest.mark.parametrize("copy", ["meta-a", "meta-b"])
def test_one_damaged_copy_of_the_metadata_is_renewed(copy: str) -> None:
    disk = FaultyDisk()
    a_vault(disk).create("$G", "ORDERS", CONFIG, 1)
    disk.files[f"/data/%24G/ORDERS/{copy}"].content[20] ^= 8
    vault = a_vault(disk)
    assert [home.config for home in vault.streams("$G")] == [CONFIG]
    assert len(vault.report) == 1
    again = a_vault(disk)
    again.streams("$G")
    assert again.report == []


def test_a_stream_is_rebuilt_from_its_segments_alone() -> None:
    disk = FaultyDisk()
    store = a_vault(disk).create("$G", "ORDERS", CONFIG, 77).open()
    store.append(b"a", b"", b"x", 1)
    store.update_config(b'{"name":"ORDERS","v":2}')
    flushed(store)
    for copy in ("meta-a", "meta-b"):
        disk.remove(f"/data/%24G/ORDERS/{copy}")
    (home,) = a_vault(disk).streams("$G")
    store = home.open()
    assert (home.name, home.created_ns, store.msgs) == ("ORDERS", 77, 1)
    assert home.config == b'{"name":"ORDERS","v":2}'


def test_what_cannot_be_read_is_set_aside_and_never_deleted() -> None:
    disk = FaultyDisk()
    vault = a_vault(disk)
    vault.create("$G", "ORDERS", CONFIG, 1)
    disk.make_directory("/data/%24G/JUNK")
    disk.open("/data/%24G/JUNK/file", create=True).write(0, b"hello")
    vault = a_vault(disk)
    assert [home.name for home in vault.streams("$G")] == ["ORDERS"]
    assert bytes(disk.files["/data/+quarantine/JUNK/file"].content) == b"hello"
    assert vault.accounts() == ["$G"]


def test_a_removed_stream_is_there_or_gone_wherever_the_power_goes() -> None:
    for variant in VARIANTS:
        for cut in range(60):
            disk = FaultyDisk()
            store = a_vault(disk).create("$G", "ORDERS", CONFIG, 1).open()
            store.append(b"a", b"", b"x", 1)
            flushed(store)
            disk.cut_after = disk.operations + cut
            try:
                store.destroy()
                finished = True
            except PowerCut:
                finished = False
            found = crashed(disk, variant, cut)
            homes = a_vault(found).streams("$G")
            assert not (homes and finished)
            if homes:
                assert homes[0].open().msgs == 1
            else:
                a_vault(found).create("$G", "ORDERS", CONFIG, 2)


def test_a_stream_made_anew_does_not_meet_its_predecessor() -> None:
    disk = FaultyDisk()
    vault = a_vault(disk)
    for payload in (b"old", b"new"):
        store = vault.create("$G", "ORDERS", CONFIG, 1).open()
        store.append(b"a", b"", payload, 1)
        store.write()
        vault.journal.append(store.take_unsynced())
        vault.journal.sync()
        store.mark_synced(1)
        if payload == b"old":
            store.destroy()
    disk.crash("nothing")
    (home,) = a_vault(disk).streams("$G")
    message = home.open().get(1)
    assert message is not None
    assert message.payload == b"new"
