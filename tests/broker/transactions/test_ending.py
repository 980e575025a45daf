"""Transactions end in every log and group that they have touched, once, and what a start finds of them ends as well."""

import errno

import pytest

from goqueue.broker.transactions.records import Spot
from goqueue.broker.transactions.whose import Whose
from goqueue.broker.work import run
from goqueue.errors import LogFenced, TransactionPending
from goqueue.storage import frame
from tests.broker.brokers import Running
from tests.broker.groupwork import Team
from tests.broker.transactions.scene import ORDERS, Scene

PRICES = Spot("prices", 0)
NEVER = 7200.0


def two_topics() -> Scene:
    scene = Scene()
    scene.running.create("prices")
    return scene


def test_a_commit_is_seen_in_all_partitions_and_an_abort_in_none() -> None:
    scene = two_topics()
    whose = scene.init()
    scene.send(whose, b"a")
    scene.send(whose, b"b", spot=PRICES)
    assert (scene.seen(), scene.seen(PRICES)) == ([], [])
    scene.commit(whose)
    assert (scene.seen(), scene.seen(PRICES)) == ([b"a"], [b"b"])
    following = scene.known().whose
    scene.send(following, b"c")
    scene.send(following, b"d", spot=PRICES)
    scene.abort(following)
    assert (scene.seen(), scene.seen(PRICES)) == ([b"a"], [b"b"])
    assert not scene.is_held_back()


def test_a_partition_that_was_touched_and_not_written_to_gets_no_marker() -> None:
    scene = Scene()
    whose = scene.init()
    scene.touch(whose, ORDERS)
    scene.commit(whose)
    assert scene.partition().log_end == 0


def test_of_the_members_those_count_that_are_named() -> None:
    scene = Scene()
    whose = scene.init()
    members = [scene.do(scene.coordinator.join(whose, None, begin=True))[1] for _ in range(2)]
    scene.touch(whose, ORDERS)
    for member, value in zip(members, (b"counts", b"does not"), strict=True):
        scene.ask_to_send(Whose(member, 0), value)
    scene.send(whose, b"its own")
    scene.commit(whose, counted=members[:1])
    assert scene.seen() == [b"counts", b"its own"]
    scene = scene.crash().recover()
    assert scene.seen() == [b"counts", b"its own"]


def test_what_was_decided_is_carried_out_by_the_next_start_as_it_was_decided() -> None:
    for is_commit in (True, False):
        scene = Scene()
        whose = scene.init()
        _, member = scene.do(scene.coordinator.join(whose, None, begin=True))
        scene.send(whose, b"a")
        scene.ask_to_send(Whose(member, 0), b"b")
        scene.is_carrying = False
        scene.ask(scene.coordinator.end(whose, scene.known().id, is_commit=is_commit, counted=[]))
        scene.flush()
        assert scene.known().state in ("prepare_commit", "prepare_abort")
        scene = scene.crash()
        assert scene.is_held_back()
        assert scene.recover().seen() == ([b"a"] if is_commit else [])
        assert not scene.is_held_back()


def test_nothing_is_carried_out_before_it_is_recorded_that_it_was_decided() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    told = scene.ask(scene.coordinator.end(whose, scene.known().id, is_commit=True))
    assert scene.known().state == "prepare_commit"
    run(scene.running.broker.ending.recover())  # a recovery that is tried again, or somebody who tries an end again
    run(scene.running.broker.ending.carry_out(scene.known().id))
    assert (told.all, scene.known().state) == ([], "prepare_commit")
    assert scene.is_held_back()
    scene.flush()
    assert told.result.state == "complete_commit"


def test_what_was_open_is_aborted_by_the_next_start_and_others_go_on_meanwhile() -> None:
    scene = two_topics()
    scene.send(scene.init(), b"a")
    scene = scene.restart()
    recovery = scene.ask(scene.running.broker.ending.recover())
    scene.partition().publish(bytearray(frame.encode(b"plain")), 1000, lambda _: None)
    scene.running.flush()
    assert scene.seen() == []
    for _ in range(4):
        scene.flush()
    assert recovery.result is None
    assert scene.seen() == [b"plain"]
    ended = scene.known().last
    assert ended is not None
    assert (ended.state, ended.reason) == ("complete_abort", "restart")


def test_a_crash_behind_the_markers_writes_no_others() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    scene.running.disk.fail("write", errno.ENOSPC, path="*__transactions*.log", skip=1)
    scene.commit(whose)
    end = scene.partition().log_end
    scene = scene.crash().recover()
    assert scene.known().state == "complete_commit"
    assert scene.partition().log_end == end


def test_one_that_cannot_be_ended_does_not_keep_another_from_it() -> None:
    scene = two_topics()
    one, other = scene.init("one"), scene.init("other")
    scene.send(one, b"a")
    scene.send(other, b"b", spot=PRICES)
    scene = scene.crash()
    scene.running.disk.fail("write", errno.ENOSPC, path="*orders*")
    scene.recover()
    assert scene.known("one").state == "prepare_abort"
    assert scene.known("other").state == "complete_abort"
    scene.due(2)
    assert scene.known("one").state == "complete_abort"


def pledged(scene: Scene) -> tuple[Team, Whose]:
    """A group that has acknowledged the only message in a transaction."""
    team = Team(scene.running)
    team.publish("read")
    whose = scene.init()
    scene.touch(whose, groups=[team.name])
    team.pledge(team.take(team.join("one", session=NEVER)), whose=whose)
    return team, whose


def test_what_a_group_has_acknowledged_is_done_with_at_the_commit() -> None:
    scene = Scene()
    team, whose = pledged(scene)
    assert team.cursor().floor == 0
    scene.commit(whose)
    assert team.cursor().floor == 1


def test_what_a_group_has_acknowledged_comes_again_after_an_abort() -> None:
    scene = Scene()
    team, whose = pledged(scene)
    (member,) = team.group.members
    assert team.poll(member) == []
    scene.abort(whose)
    assert team.take(member).grant.deliveries == 2


def test_a_group_whose_log_takes_nothing_is_asked_again() -> None:
    scene = Scene()
    team, whose = pledged(scene)
    scene.running.disk.fail("write", errno.ENOSPC, path="*__consumer_offsets*")
    with pytest.raises(TransactionPending):
        scene.commit(whose)
    assert team.cursor().floor == 0
    scene.due(2)
    assert team.cursor().floor == 1
    assert scene.known().state == "complete_commit"


def test_what_was_not_synced_yet_is_before_it_is_decided() -> None:
    scene = Scene(flush="interval")
    whose = scene.init()
    scene.send(whose, b"a")
    assert scene.partition().durable_end == 0
    scene.is_carrying = False
    scene.ask(scene.coordinator.end(whose, scene.known().id, is_commit=True))
    for _ in range(5):
        scene.flush()
    assert scene.known().state == "prepare_commit"
    scene.coordinator.journal.log.sync_soon()
    scene.flush()
    assert scene.crash().recover().seen() == [b"a"]


def test_what_cannot_be_synced_any_more_cannot_be_committed() -> None:
    scene = Scene(flush="interval")
    whose = scene.init()
    scene.send(whose, b"a")
    scene.running.disk.fail("sync", path="*orders*")
    told = scene.ask(scene.coordinator.end(whose, scene.known().id, is_commit=True))
    for _ in range(3):
        scene.flush()
    assert isinstance(told.refusal, LogFenced)
    assert scene.known().state == "ongoing"
    assert scene.crash().recover().seen() == []


def test_a_marker_is_on_the_device_before_nobody_looks_for_it_any_more() -> None:
    scene = Scene(flush="interval")
    whose = scene.init()
    scene.send(whose, b"a")
    scene.abort(whose)
    scene.init("another")  # has the log of transactions synced
    scene = scene.crash().recover()
    assert scene.known().state == "complete_abort"
    assert scene.seen() == []


def test_a_start_without_anything_open_has_nothing_to_do() -> None:
    scene = Scene(Running())
    run(scene.running.broker.ending.recover())
    assert repr(scene.running.broker.ending) == "<Ending 0 under way>"
