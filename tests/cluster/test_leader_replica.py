"""The leader of a partition: high watermark, ISR and resigning."""

from goqueue.cluster.leader_replica import AskController, LeaderReplica, ReplicaSettings
from goqueue.cluster.replication_messages import IsrChange, ResignLeadership
from goqueue.limits import OFFSET_MAX
from tests.cluster.replicas import SECOND, Replica, exchange, state

TICK = SECOND // 4


def cluster() -> tuple[Replica, Replica, Replica]:
    """Three nodes; the first leads in epoch 1, and all have its first frame."""
    one, two, three = Replica("n1"), Replica("n2"), Replica("n3")
    one.lead(state("n1", 1))
    one.sync()
    for other in (two, three):
        other.follow("n1", 1)
        exchange(one, other)
    return one, two, three


def leader_of(replica: Replica) -> LeaderReplica:
    assert replica.leader is not None
    return replica.leader


def run(core: LeaderReplica, since: int, until: int) -> list[IsrChange]:
    """Tick for a time; return what the controller was asked for."""
    found: list[IsrChange] = []
    for now in range(since, until, TICK):
        core.tick(now)
        requests = [effect.request for effect in core.effects if isinstance(effect, AskController)]
        found += [one for one in requests if isinstance(one, IsrChange)]
        core.effects.clear()
    return found


def test_high_watermark_is_the_least_durable_end_of_the_isr() -> None:
    one, two, three = cluster()
    one.publish("a", "b")
    one.sync()
    exchange(one, two)
    assert leader_of(one).high_watermark == 1

    exchange(one, three)

    assert leader_of(one).high_watermark == 3
    exchange(one, two)
    assert two.follower is not None
    assert two.follower.high_watermark == 3


def test_leader_counts_itself_by_its_own_sync() -> None:
    one, two, three = cluster()
    one.publish("a")
    exchange(one, two)
    exchange(one, three)

    assert leader_of(one).high_watermark == 1
    assert leader_of(one).replicated_end == 2
    one.sync()

    assert leader_of(one).high_watermark == 2


def test_new_leader_commits_nothing_before_its_first_frame_is_everywhere() -> None:
    one, two, three = cluster()
    one.publish("a")
    for node in (two, three):
        exchange(one, node, confirm=False)
    two.lead(state("n2", 2, ("n2", "n3")))
    three.follow("n2", 2)
    exchange(two, three)
    assert leader_of(two).high_watermark == leader_of(two).replicated_end == 1

    two.sync()

    assert leader_of(two).high_watermark == 3


def test_nothing_is_committed_while_the_isr_is_too_small() -> None:
    one, two, _three = cluster()
    leader_of(one).changed(state("n1", 1, ("n1",), version=2))
    one.publish("a")
    one.sync()

    assert leader_of(one).high_watermark == 1
    leader_of(one).changed(state("n1", 1, ("n1", "n2"), version=3))
    exchange(one, two)

    assert leader_of(one).high_watermark == 2


def test_leader_alone_commits_what_it_has_stored_if_one_replica_is_enough() -> None:
    one, _, _ = cluster()
    leader_of(one).changed(state("n1", 1, ("n1",), version=2, min_isr=1))
    one.publish("a")

    assert leader_of(one).replicated_end == OFFSET_MAX
    assert leader_of(one).high_watermark == 1
    one.sync()
    assert leader_of(one).high_watermark == 2


def test_replica_that_lags_counts_until_its_removal_is_committed() -> None:
    one, two, _three = cluster()
    core = leader_of(one)
    core.tick(0)
    one.publish("a")
    one.sync()
    exchange(one, two)
    requests = run(core, TICK, 2 * SECOND)

    assert [node for node, _ in requests[0].isr] == ["n1", "n2"]
    assert requests[0].reason == "n3 lags"
    assert core.high_watermark == 1
    core.changed(state("n1", 1, ("n1", "n2"), version=2))

    assert core.high_watermark == 2


def test_replica_that_was_asked_for_counts_from_then_on() -> None:
    one, two, _three = cluster()
    core = leader_of(one)
    core.changed(state("n1", 1, ("n1", "n2"), version=2))
    requests = run(core, 0, SECOND)
    assert [node for node, _ in requests[0].isr] == ["n1", "n2", "n3"]
    one.publish("a")
    one.sync()
    exchange(one, two)

    assert core.high_watermark == 1
    core.refused(1, is_final=True)

    assert core.high_watermark == 2


def test_refusal_of_an_earlier_attempt_is_not_believed() -> None:
    one, two, _three = cluster()
    core = leader_of(one)
    core.changed(state("n1", 1, ("n1", "n2"), version=2))
    assert len(run(core, 0, 3 * SECOND)) > 1
    one.publish("a")
    one.sync()
    exchange(one, two)
    core.refused(1, is_final=True)

    assert core.high_watermark == 1  # a later attempt may have been accepted
    core.changed(state("n1", 1, ("n1", "n2"), version=3))

    assert core.high_watermark == 2


def test_process_that_started_anew_is_asked_for_after_the_request_for_its_predecessor_is_refused() -> None:
    one, _two, three = cluster()
    core = leader_of(one)
    core.changed(state("n1", 1, ("n1", "n2"), version=2))
    attempts = len(run(core, 0, 3 * SECOND))
    assert attempts > 1
    core.disconnected("n3")
    follower = three.follow("n1", 1)
    follower.broker_epoch = 7
    exchange(one, three)

    core.refused(attempts, is_final=True)

    later = run(core, 3 * SECOND, 6 * SECOND)
    assert ("n3", 7) in later[0].isr


def test_replica_that_returns_and_lags_again_has_to_keep_up_for_longer() -> None:
    one, two, three = cluster()
    core, version, waits, now = leader_of(one), 1, [], 0
    for _ in range(4):
        core.tick(now)
        one.publish("a")
        one.sync()
        exchange(one, two)
        (_request, *_) = run(core, now, now + 2 * SECOND)
        version += 1
        core.changed(state("n1", 1, ("n1", "n2"), version=version))
        exchange(one, three)
        began = now = now + 2 * SECOND
        while not (found := run(core, now, now + TICK)):
            now += TICK
        waits.append((now - began) // SECOND)
        version += 1
        core.changed(state("n1", 1, version=version))
        assert found[0].reason == "n3 has caught up"

    assert waits == [1, 2, 4, 8]


def test_replica_that_confirms_all_is_no_matter_for_the_controller() -> None:
    one, two, three = cluster()
    core = leader_of(one)
    uneven = [core.is_uneven]
    one.publish("a")
    uneven.append(core.is_uneven)
    for node in (two, three):
        exchange(one, node)
    one.sync()

    assert [*uneven, core.is_uneven] == [False, True, False]
    assert run(core, 0, 10 * SECOND) == []


def test_replica_that_never_came_leaves_the_isr() -> None:
    one, two = Replica("n1"), Replica("n2")
    core = one.lead(state("n1", 1), ReplicaSettings())
    one.sync()
    two.follow("n1", 1)
    exchange(one, two)
    requests = run(core, 0, 2 * SECOND)

    assert [node for node, _ in requests[0].isr] == ["n1", "n2"]


def test_leader_whose_disk_refuses_resigns_and_commits_nothing_more() -> None:
    one, two, three = cluster()
    core = leader_of(one)
    one.publish("a")
    core.failed("the disk is full")
    for node in (two, three):
        exchange(one, node)

    assert isinstance(one.asked[0], ResignLeadership)
    assert core.replicated_end == core.high_watermark == 1


def test_request_names_the_process_that_holds_the_replica() -> None:
    one, _two, three = cluster()
    core = leader_of(one)
    core.changed(state("n1", 1, ("n1", "n2"), version=2))
    three.restart(loses=1)
    follower = three.follow("n1", 1)
    follower.broker_epoch = 77
    core.disconnected("n3")
    assert run(core, 0, SECOND) == []
    exchange(one, three)
    (request, *_) = run(core, SECOND, 2 * SECOND)

    assert request.isr == (("n1", 0), ("n2", 0), ("n3", 77))


def test_follower_that_tells_of_damage_leaves_the_isr_at_once() -> None:
    one, two, three = cluster()
    one.publish("a", "b")
    one.sync()
    exchange(one, two)
    exchange(one, three)
    assert two.follower is not None
    two.follower.is_sound_below(1)
    exchange(one, two, confirm=False)

    (change,) = run(leader_of(one), 0, TICK)

    assert [node for node, _ in change.isr] == ["n1", "n3"]
    assert change.damaged == ("n2",)


def both(isr: tuple[str, ...]) -> tuple[tuple[Replica, Replica], tuple[Replica, Replica]]:
    """The first two nodes, each with a partition and its delayed log; the second one follows both."""
    first, second = (Replica("n1"), Replica("n1")), (Replica("n2"), Replica("n2"))
    for leads, follows in zip(first, second, strict=True):
        leads.lead(state("n1", 1, isr, min_isr=1))
        leads.sync()
        follows.follow("n1", 1)
        exchange(leads, follows)
    main, delayed = map(leader_of, first)
    main.delayed, delayed.partition = delayed, main
    return first, second


def test_replica_that_lags_in_the_delayed_log_leaves_the_isr() -> None:
    (one, later), (two, _) = both(("n1", "n2"))
    later.publish("x")
    later.sync()
    exchange(one, two)
    assert [[node for node, _ in request.isr] for request in run(leader_of(one), 0, 2 * SECOND)][:1] == [["n1"]]


def test_replica_returns_when_it_keeps_up_in_both_logs_and_counts_in_both_from_then_on() -> None:
    (one, later), (_, two) = both(("n1",))
    leader_of(later).followers["n2"].match = 0
    assert run(leader_of(one), 0, 5 * SECOND) == [], "it lacks a part of the delayed log"

    exchange(later, two)
    leader_of(later).followers["n2"].match = later.end
    assert run(leader_of(one), 5 * SECOND, 8 * SECOND)[0].isr == (("n1", 0), ("n2", 0))
    later.publish("x")
    later.sync()
    assert leader_of(later).high_watermark < later.end, "committed without the replica that is asked for"


def test_no_replica_returns_while_a_delayed_log_is_not_led() -> None:
    (one, _), _ = both(("n1",))
    leader_of(one).delayed, leader_of(one).has_unled_delayed = None, True
    assert run(leader_of(one), 0, 5 * SECOND) == []


def test_replica_that_alone_holds_up_the_others_leaves_after_half_the_lag() -> None:
    one, two, _three = cluster()
    core = leader_of(one)
    core.tick(0)
    one.publish("a")
    one.sync()
    exchange(one, two)

    assert run(core, TICK, SECOND // 2) == []
    (request,) = run(core, SECOND // 2, SECOND)
    assert [node for node, _ in request.isr] == ["n1", "n2"]


def test_replicas_that_are_late_together_have_the_whole_lag() -> None:
    one, _two, _three = cluster()
    core = leader_of(one)
    core.tick(0)
    one.publish("a")
    one.sync()

    assert run(core, TICK, SECOND + TICK) == []
    assert len(run(core, SECOND + TICK, SECOND + 2 * TICK)) == 1


def test_replica_without_which_too_few_are_in_sync_has_the_whole_lag() -> None:
    one, two, _three = cluster()
    core = leader_of(one)
    core.changed(state("n1", 1, min_isr=3, version=2))
    core.tick(0)
    one.publish("a")
    one.sync()
    exchange(one, two)

    assert run(core, TICK, SECOND + TICK) == []
    assert len(run(core, SECOND + TICK, SECOND + 2 * TICK)) == 1
