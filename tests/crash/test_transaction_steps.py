"""A whole transaction, over two topics, a delayed log and a group, and a crash at each step that it takes on the disk.

Everything of it is seen afterwards or nothing; no client waits behind it; and what was answered is so.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import pytest

from goqueue import delay
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import LogRef, PartitionRef
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.work import run_work
from goqueue.errors import ProducerFenced, TransactionAborted, TransactionNotOpen
from goqueue.storage import frame, scan
from goqueue.storage.flusher import FlushMode
from goqueue.testing.disk import Crashed, Keep
from goqueue.wire.sections import PRODUCER_HEADER
from tests.broker.brokers import Running, Told
from tests.broker.groupwork import Team
from tests.broker.transactions.scene import ORDERS, Scene
from tests.crash.scenarios import Sample

PRICES, LATER = LogRef("prices", 0), LogRef("orders", 0, is_delayed=True)
NEVER = 7200.0


@dataclass
class Written:
    """A transaction as its producer knows it."""

    scene: Scene
    whose: TransactionId
    is_asked: bool = False
    """Whether it was to be committed."""
    answer: str = ""
    is_over: bool = False


def begun(flush: FlushMode = "always") -> tuple[Scene, Team, TransactionId]:
    """A broker with two topics, of which a group has read something."""
    scene = Scene(Running(flush=flush))
    team = Team(scene.running)
    for name in ("orders", "prices"):
        scene.running.create(name)
    team.publish("read")
    scene.running.broker.scheduling(scene.partition())
    return scene, team, scene.init()


def live(scene: Scene, team: Team, written: Written, *, commits: bool) -> None:
    """The transaction, from the first call to the answer."""
    whose = written.whose
    portion = team.take(team.join("one", session=NEVER))
    scene.send(whose, b"a", b"b")
    scene.send(whose, b"c", log_ref=PRICES)
    scene.touch(whose, LATER)
    later(scene, whose)
    scene.touch(whose, groups=[team.name])
    team.ack_in_transaction(portion, transaction_id=whose)
    scene.send(whose, b"d", sequence=2)
    written.is_asked = commits
    written.answer = scene.end(written.whose, is_commit=commits).state
    scene.flush()


def later(scene: Scene, whose: TransactionId) -> None:
    """A message that is due long after."""
    told: Told[object] = Told()
    headers = [
        (PRODUCER_HEADER, ProducerMark(*whose, 0, 1).encode()),
        delay.deliver_at_header(scene.running.clock.now_ns() + 10**12),
    ]
    content = frame.encode(b"later", None, frame.encode_headers(headers), flags=frame.TRANSACTIONAL)
    frames = scan.check_batch(bytearray(content))
    scene.partition(LATER).take(frames, ProducerMark(*whose, 0, 1), told, is_transactional=True)
    scene.flush()
    assert told.result


def ended(flush: FlushMode, sample: Sample, *, commits: bool) -> Iterator[Written]:
    """Transactions with a crash at the first operation of the disk, at the second, and so on; the last has none."""
    for operation in sample(count(1)):
        scene, team, whose = begun(flush)
        written = Written(scene, whose)
        disk = scene.running.disk
        disk.crash_at(disk.operations + operation, after_bytes=40)
        with suppress(Crashed):
            live(scene, team, written, commits=commits)
            written.is_over = True
        yield written
        if written.is_over:
            assert operation > 20, "a transaction takes many steps"
            return


def crashes(flush: FlushMode, sample: Sample, *, commits: bool, keep: Keep) -> Iterator[tuple[Written, Scene, Team]]:
    """The broker that comes after each of them, recovered."""
    for written in ended(flush, sample, commits=commits):
        running = written.scene.running
        scene = Scene(Running(running.disk.crash(keep), running.clock, flush)).recover()
        yield written, scene, Team(scene.running, life=1)


def seen(scene: Scene, team: Team) -> dict[str, bool]:
    """Return what of it is there, by where."""
    values = [scene.seen(log_ref) for log_ref in (ORDERS, PRICES)]
    delivery = scene.running.broker.scheduling(scene.partition())
    run_work(delivery.delays.catch_up())
    cursor = team.coordinator.store.cursor(team.name, PartitionRef("orders", 0))
    return {
        "orders": values[0][1:] == [b"a", b"b", b"d"],
        "prices": values[1] == [b"c"],
        "delayed": delivery.delays.schedule.pending == 1,
        "group": cursor is not None and cursor.floor >= 1,
        "nothing in orders": values[0][1:] == [],
        "nothing in prices": values[1] == [],
        "nothing delayed": delivery.delays.schedule.pending == 0,
        "nothing done": cursor is None or (cursor.floor == 0 and not cursor.transactional),
    }


WAYS: dict[str, tuple[FlushMode, Keep, bool]] = {
    "a commit, killed": ("always", "everything", True),
    "a commit, power lost": ("always", "synced", True),
    "a commit, power lost while writing": ("always", "some", True),
    "a commit between two syncs, power lost": ("interval", "synced", True),
    "a commit between two syncs, power lost while writing": ("interval", "some", True),
    "an abort, power lost while writing": ("always", "some", False),
}


@pytest.mark.parametrize("way", WAYS)
def test_transaction_is_atomic_after_a_crash_at_any_step(way: str, sample: Sample) -> None:
    flush, keep, commits = WAYS[way]
    outcomes = set[bool]()
    for written, scene, team in crashes(flush, sample, commits=commits, keep=keep):
        for log_ref in (ORDERS, PRICES, LATER):
            partition = scene.partition(log_ref)
            assert partition.last_stable == partition.high_watermark, "the last stable offset moves on"
        there = seen(scene, team)
        is_committed = there["prices"]
        wanted = list(there)[:4] if is_committed else list(there)[4:]
        assert all(there[one] for one in wanted), f"all or nothing: {there} after {scene.running.disk.journal[-1]}"
        assert is_committed <= written.is_asked, "no client has asked for it"
        if written.answer:
            assert is_committed == (written.answer == "complete_commit"), f"it was answered: {written.answer}"
        outcomes.add(is_committed)
    assert outcomes == ({True, False} if commits else {False})


def test_late_end_is_fenced_after_a_crash_at_any_step(sample: Sample) -> None:
    for written, scene, _ in crashes("always", sample, commits=True, keep="some"):
        following = scene.init()
        scene.send(following, b"next", log_ref=PRICES)
        before, seen_before = scene.known(), scene.seen(PRICES)
        for is_commit in (True, False):
            with suppress(ProducerFenced, TransactionAborted, TransactionNotOpen):
                assert scene.end(written.whose, is_commit=is_commit) == before.last, (
                    "asked again, the answer is the same"
                )
        assert scene.known() is before
        assert scene.seen(PRICES) == seen_before
        scene.commit(following)
        assert scene.seen(PRICES) == [*seen_before, b"next"]


def test_retry_across_a_crash_is_stored_once(sample: Sample) -> None:
    """A client without an answer sends it again: in the transaction, which may be over, and then in another one."""
    for written, scene, _ in crashes("always", sample, commits=True, keep="some"):
        record = scene.known()
        if record.last is not None and record.last.state == "complete_commit":
            assert scene.commit(written.whose).state == "complete_commit"
        else:
            with suppress(TransactionAborted):
                scene.send(written.whose, b"c", log_ref=PRICES)
            following = scene.init()
            scene.send(following, b"c", log_ref=PRICES)
            assert scene.ask_to_send(following, b"c", log_ref=PRICES).result.duplicate
            scene.commit(following)
        assert scene.seen(PRICES) == [b"c"]
