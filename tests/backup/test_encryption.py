"""Backups with keys and compression: nothing is read without the key, and nothing changed goes unnoticed."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from goqueue.backup.catalog import BackupCatalog
from goqueue.backup.key_file import new_key_text
from goqueue.backup.manifest import Manifest
from goqueue.backup.opening import open_target
from goqueue.backup.point_in_time import backup_before, choose_backups
from goqueue.backup.repair import BackupRepair
from goqueue.backup.target import BackupTarget
from goqueue.backup.verify import load_manifest, load_verification, store_verification, verify_backup
from goqueue.errors import BackupDamaged, BackupKeyInvalid, BackupKeyMismatch, BackupNotFound, BackupTargetInvalid
from goqueue.limits import STORE_PART_BYTES
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Crashed, FaultyDisk
from tests.backup.backups import TARGET, back_up_to, held, name_of, problems_in, restore_from, restored
from tests.backup.keys import key_file, keys_of, locked, target_with, write_secret
from tests.backup.object_store import MotoServer, settings
from tests.backup.test_backup import filled, write
from tests.crash.life import telling
from tests.storage.stores import append, open_store


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return key_file(tmp_path / "key")


def small(disk: FaultyDisk) -> Store:
    store = open_store(disk, ManualClock())
    append(store, store.create("t/0"), b"plain text " * 60, key=b"k")
    append(store, store.create("__groups/3"), b"two")
    return store


def paths(disk: FaultyDisk, folder: str = "") -> list[str]:
    return [path for path in disk.paths() if path.startswith(f"{TARGET}/{folder}") and not path.endswith("/lock")]


def is_found(target: BackupTarget) -> bool:
    """Return whether a verification tells that something is not as it was written."""
    with suppress(BackupNotFound, BackupTargetInvalid, BackupKeyMismatch):
        return bool(problems_in(target))
    return True


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_flipped_bit_at_each_byte_of_a_compressed_backup_is_found(keys: Path, *, is_encrypted: bool) -> None:
    disk = FaultyDisk()
    used = keys if is_encrypted else None
    back_up_to(target_with(disk, used), disk, small(disk))
    assert problems_in(target_with(disk, used)) == []
    forms = {path.rpartition(".")[2] for path in paths(disk, "objects/")}
    assert "sealed" in forms if is_encrypted else "packed" in forms
    target = target_with(disk, used)
    for path in paths(disk):
        for position in range(len(disk.read_file(path))):
            disk.flip(path, position, position % 8)
            assert is_found(target), f"{path} at {position}"
            disk.flip(path, position, position % 8)
    for path in [path for path in paths(disk) if not path.endswith("/id")]:
        content = disk.read_file(path)
        disk.remove(path)
        assert is_found(target_with(disk, used))
        disk.write_file(path, content)
    assert problems_in(target) == []


def test_target_tells_nothing_of_what_is_in_it(keys: Path) -> None:
    disk = FaultyDisk()
    store = small(disk)
    manifest = back_up_to(target_with(disk, keys, "none"), disk, store)
    target = target_with(disk, keys)
    with locked(target):
        store_verification(target, verify_backup(target, manifest.id), 5)
    everything = b"".join(path.encode() + disk.read_file(path) for path in paths(disk))
    for log in manifest.logs:
        told = [log.name, "segments", *(piece.sha256 for piece in log.pieces()), *(p.last_header for p in log.pieces())]
        assert not any(one and one.encode() in everything for one in told)
    assert b"plain text" not in everything
    assert len(paths(disk, "objects/")) == manifest.new_objects
    assert manifest.stored_size == sum(len(disk.read_file(path)) for path in paths(disk, "objects/"))


def test_swapped_files_are_found(keys: Path) -> None:
    disk = FaultyDisk()
    store, target = small(disk), target_with(disk, keys)
    for number in range(2):
        back_up_to(target, disk, store, number)
        append(store, store.log("t/0"), b"more")
        with locked(target):
            store_verification(target, verify_backup(target, name_of(number)), number)
    one, other, *_ = paths(disk, "objects/")
    swap(disk, one, other)
    assert all(any("stored under another name" in said for said in problems_in(target, n)) for n in range(2))
    swap(disk, one, other)
    for folder in ("backups", "verified"):
        swap(disk, *paths(disk, f"{folder}/"))
    assert "stored under another name" in problems_in(target)[0]
    assert load_verification(target, name_of(0)) is None


def swap(disk: FaultyDisk, one: str, other: str) -> None:
    content, another = disk.read_file(one), disk.read_file(other)
    disk.write_file(one, another)
    disk.write_file(other, content)


def test_backup_of_another_key_is_refused_and_not_called_damaged(keys: Path, tmp_path: Path) -> None:
    disk, other = FaultyDisk(), key_file(tmp_path / "other")
    back_up_to(target_with(disk, keys), disk, small(disk))
    (key,), (wrong,) = keys_of(keys).ids, keys_of(other).ids
    for used, said in ((other, f"with key {key}, and {other} has {wrong}"), (None, f"key {key}, and there is no key")):
        target = target_with(disk, used)
        for use in (lambda t=target: verify_backup(t, name_of(0)), lambda t=target: restore_from(t, disk)):
            with pytest.raises(BackupKeyMismatch, match=said):
                use()
        (summary,) = BackupCatalog(target).summaries()
        assert (summary.state, summary.problem is not None and said in summary.problem) == ("locked", True)
        with pytest.raises(BackupKeyMismatch, match=said):
            BackupRepair(disk, target)
    seen = target_with(disk, other)
    seen.read_keys()
    other.chmod(0o644)
    assert BackupCatalog(seen).summaries()[0].state == "locked"
    with pytest.raises(BackupKeyInvalid, match="others may read"):
        target_with(disk, other).open("this test")
    (summary,) = BackupCatalog(target_with(disk, keys)).summaries()
    assert (summary.state, summary.key_id) == ("complete", key)


def test_backup_without_encryption_is_refused_where_there_is_a_key(keys: Path) -> None:
    disk = FaultyDisk()
    store = small(disk)
    back_up_to(target_with(disk, None), disk, store)
    target = target_with(disk, keys)
    with pytest.raises(BackupKeyMismatch, match=r"is not encrypted, so .* does not prove who made it"):
        verify_backup(target, name_of(0))
    made = back_up_to(target, disk, store, 1)
    assert made.new_objects == 2, "nothing is taken from the one before"
    assert problems_in(target, 1) == []
    assert [one.state for one in BackupCatalog(target).summaries()] == ["complete", "complete"]
    plain = target_with(disk, None)
    assert [problems_in(plain), len(plain.objects())] == [[], 4]
    with locked(target):
        BackupCatalog(target).delete(name_of(0))
    assert all(name.endswith(".sealed") for name in target.objects())
    assert problems_in(target, 1) == []


def test_restore_to_a_time_takes_the_backups_that_the_key_proves(keys: Path, tmp_path: Path) -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store, began = filled(disk, clock), clock.now_ns()
    for number, used in enumerate((None, keys, keys, None)):
        back_up_to(target_with(disk, used), disk, store, number)
        clock.advance(1)
    target = target_with(disk, keys)
    manifest, earlier = choose_backups(target, began)
    assert (manifest.id, earlier) == (name_of(1), None)
    assert backup_before(target, load_manifest(target, name_of(2)), clock.now_ns()) == manifest
    assert backup_before(target, manifest, clock.now_ns()) is None
    with pytest.raises(BackupKeyMismatch):
        choose_backups(target_with(disk, key_file(tmp_path / "other")), began)


def test_forged_verification_without_encryption_is_not_believed(keys: Path) -> None:
    disk = FaultyDisk()
    back_up_to(target_with(disk, keys), disk, small(disk))
    forger = target_with(disk, None)
    with locked(forger):
        store_verification(forger, verify_backup(target_with(disk, keys), name_of(0)), 5)
    assert load_verification(target_with(disk, keys), name_of(0)) is None


def test_rotated_key_encrypts_a_full_backup_and_the_old_one_is_read_until_its_line_is_removed(keys: Path) -> None:
    disk = FaultyDisk()
    store, target = small(disk), target_with(disk, keys)
    first = back_up_to(target, disk, store)
    (old,) = keys_of(keys).ids
    write_secret(keys, new_key_text(keys.read_text())[0])
    second = back_up_to(target, disk, store, 1)
    assert first.new_objects == second.new_objects
    assert not first.objects().keys() & second.objects().keys()
    assert [problems_in(target, number) for number in range(2)] == [[], []]
    kept = "\n".join(line for line in keys.read_text().splitlines() if not line.startswith(old))
    write_secret(keys, kept)
    catalog = BackupCatalog(target_with(disk, keys))
    assert [one.state for one in catalog.summaries()] == ["locked", "complete"]
    with locked(catalog.target):
        assert catalog.delete(name_of(0)) == first.new_objects
    assert problems_in(target, 1) == []


def test_objects_stay_while_a_backup_of_an_unknown_key_may_need_them(keys: Path) -> None:
    disk = FaultyDisk()
    store = small(disk)
    back_up_to(target_with(disk, keys), disk, store)
    plain = target_with(disk, None)
    back_up_to(plain, disk, store, 1)
    with locked(plain):
        assert BackupCatalog(plain).delete(name_of(1)) == 0
    assert problems_in(target_with(disk, keys)) == []


def test_older_target_is_read_and_continued() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store, older = filled(disk, clock), target_with(disk, None, "none")
    back_up_to(older, disk, store)
    disk.write_file(f"{TARGET}/FORMAT", b"goqueue-backups 1\n")
    target = target_with(disk, None)
    assert problems_in(target) == []
    write(store, clock, 3)
    expected = held(store)
    grown = back_up_to(target, disk, store, 1)
    assert {name.endswith(".packed") for name in grown.objects()} == {True, False}
    assert disk.read_file(f"{TARGET}/FORMAT") == b"goqueue-backups 2\n"
    assert [problems_in(target, number) for number in range(2)] == [[], []]
    restore_from(target, disk, 1)
    assert restored(disk) == expected
    disk.write_file(f"{TARGET}/FORMAT", b"goqueue-backups 3\n")
    with pytest.raises(BackupDamaged, match="install a newer version"):
        target_with(disk, None).check()


def test_backup_goes_on_with_pieces_of_either_form(keys: Path) -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = filled(disk, clock)

    def again(number: int, compression: str) -> Manifest:
        return back_up_to(target_with(disk, None, compression), disk, store, number)

    assert again(0, "zstd").new_bytes < again(0, "zstd").size
    assert again(1, "none").new_objects == 0
    write(store, clock, 1)
    assert again(2, "none").new_objects > 0
    assert again(3, "zstd").new_objects == 0
    assert [problems_in(target_with(disk, None), number) for number in range(4)] == [[]] * 4
    encrypted = target_with(disk, keys, "none")
    back_up_to(encrypted, disk, store, 4)
    assert back_up_to(target_with(disk, keys), disk, store, 5).new_objects == 0


def test_encrypted_backup_that_is_killed_at_any_step_leaves_the_earlier_one_and_is_continued(keys: Path) -> None:
    disk, clock = FaultyDisk(9), ManualClock()
    store = filled(disk, clock)
    back_up_to(target_with(disk, keys), disk, store)
    write(store, clock, 1)
    expected, operation, is_finished, continued = held(store), 0, False, 0
    while not is_finished:
        operation += 2
        life = disk.after_crash("everything")
        store = open_store(life, clock, segment_bytes=1000)
        life.crash_at(life.operations + operation)
        try:
            whole = back_up_to(target_with(life, keys), life, store, 1).new_objects
            is_finished = True
        except Crashed:
            left = life.crash("some", torn=True)
            target = target_with(left, keys)
            with telling(f"operation {operation}", left):
                assert problems_in(target) == []
                if len(target.ids()) == 1:
                    added = back_up_to(target, left, open_store(left, segment_bytes=1000), 1).new_objects
                    continued = max(continued, added)
                restore_from(target, left, 1)
                assert restored(left) == expected
    assert operation > 30
    assert continued == whole


def test_large_encrypted_piece_is_sent_to_an_object_store_in_parts(store: MotoServer, keys: Path) -> None:
    disk, bucket = FaultyDisk(), store.bucket()
    target = open_target(f"s3://{bucket}", settings(store.url, key_file=str(keys)))
    logs = open_store(disk, ManualClock(), segment_bytes=2**25)
    append(logs, logs.create("t/0"), random.Random(1).randbytes(2 * STORE_PART_BYTES))
    (piece,) = back_up_to(target, disk, logs).objects().values()
    assert piece.stored_size > 2 * STORE_PART_BYTES
    assert problems_in(target) == []


def test_object_store_has_encrypted_backups(store: MotoServer, keys: Path) -> None:
    disk, clock, bucket = FaultyDisk(), ManualClock(), store.bucket()
    target = open_target(f"s3://{bucket}", settings(store.url, key_file=str(keys)))
    logs = filled(disk, clock)
    back_up_to(target, disk, logs)
    write(logs, clock, 2)
    expected = held(logs)
    back_up_to(target, disk, logs, 1)
    assert [problems_in(target, number) for number in range(2)] == [[], []]
    assert all(name.endswith(".sealed") for name in store.names(bucket) if name.startswith("objects/"))
    assert all(store.content(bucket, n).startswith(b"goqueue-content 1 ") for n in store.names(bucket) if "/" in n)
    restore_from(target, disk, 1)
    assert restored(disk) == expected
    with pytest.raises(BackupKeyMismatch, match="there is no key file"):
        load_manifest(open_target(f"s3://{bucket}", settings(store.url)), name_of(1))
    with locked(target):
        assert BackupCatalog(target).delete(name_of(0), name_of(1))
    assert target.objects() == {}
