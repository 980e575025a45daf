"""Short helpers for tests of backups: one of a store that is flushed by hand, and what a restore of it holds."""

from goqueue.backup.create import BackupWriter, Throttle
from goqueue.backup.cut import Cut, take_cut
from goqueue.backup.manifest import Manifest
from goqueue.backup.opening import open_target
from goqueue.backup.restore import plan_restore, restore_backup
from goqueue.backup.target import BackupTarget
from goqueue.backup.verify import load_manifest, verify_backup
from goqueue.storage.disk import Disk
from goqueue.storage.frame import StoredMessage
from goqueue.storage.store import Store
from tests.storage.stores import messages, open_store

TARGET, RESTORED = "/backups", "/restored"

Held = dict[str, list[StoredMessage]]


def name_of(number: int) -> str:
    return f"20261120T031500Z-{number:08x}"


def back_up(disk: Disk, store: Store, number: int = 0) -> Manifest:
    return back_up_to(open_target(TARGET, disk=disk), disk, store, number)


def back_up_to(target: BackupTarget, disk: Disk, store: Store, number: int = 0) -> Manifest:
    """Make a backup, as a broker does."""
    cut = cut_of(disk, store)
    lock = target.open("this test")
    try:
        return BackupWriter(disk, f"{store.path}/cut", cut, target, Throttle(0)).run(name_of(number), "1", 2)
    finally:
        lock.release()


def cut_of(disk: Disk, store: Store) -> Cut:
    """Take the cut of a backup, as a broker does."""
    work = take_cut(store, disk, f"{store.path}/cut", store.resources.clock.now_ns())
    job = next(work)
    job()
    try:
        work.send(None)
    except StopIteration as end:
        found: Cut = end.value
        return found
    raise AssertionError("a cut has one job")


def problems(disk: Disk, number: int = 0) -> list[str]:
    return problems_in(open_target(TARGET, disk=disk), number)


def problems_in(target: BackupTarget, number: int = 0) -> list[str]:
    """Verify a backup."""
    return [str(one) for one in verify_backup(target, name_of(number)).problems]


def restore(disk: Disk, number: int = 0, path: str = RESTORED) -> None:
    restore_from(open_target(TARGET, disk=disk), disk, number, path)


def restore_from(target: BackupTarget, disk: Disk, number: int = 0, path: str = RESTORED) -> None:
    plan = plan_restore(disk, load_manifest(target, name_of(number)), path)
    restore_backup(disk, target, plan, "this test")


def held(store: Store) -> Held:
    """The messages of all logs."""
    return {name: messages(log) for name, log in store.logs.items()}


def restored(disk: Disk, path: str = RESTORED) -> Held:
    """Return the messages that a broker finds in a restored directory."""
    store = open_store(disk, path=path)
    assert not store.unopened
    return held(store)
