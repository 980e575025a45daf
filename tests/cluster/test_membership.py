"""Statuses of nodes as people see them."""

from goqueue.cluster.membership import Membership, MembershipSettings

SECOND = 1_000_000_000


def membership() -> tuple[Membership, list[tuple[str, str]]]:
    found = Membership(MembershipSettings(6 * SECOND, 9 * SECOND), "n1", ("n1", "n2", "n3"))
    events: list[tuple[str, str]] = []
    found.on_event.subscribe(lambda kind, node: events.append((kind, node)))
    return found, events


def test_node_is_unknown_until_it_is_heard() -> None:
    members, events = membership()
    members.tick(100 * SECOND)

    assert members.status("n2") == "unknown"
    assert members.status("n1") == "alive"
    members.heard("n2", 100 * SECOND)

    assert members.status("n2") == "alive"
    assert events == [("joined", "n2")]


def test_silent_node_is_suspect_after_6_and_dead_after_9_seconds() -> None:
    members, events = membership()
    members.heard("n2", 0)
    statuses = []
    for second in (5, 6, 8, 9, 60):
        members.tick(second * SECOND)
        statuses.append(members.status("n2"))

    assert statuses == ["alive", "suspect", "suspect", "dead", "dead"]
    assert events == [("joined", "n2"), ("suspected", "n2"), ("died", "n2")]


def test_dead_node_that_is_heard_again_has_recovered() -> None:
    members, events = membership()
    members.heard("n2", 0)
    members.tick(20 * SECOND)
    members.heard("n2", 21 * SECOND)

    assert members.status("n2") == "alive"
    assert events[-1] == ("recovered", "n2")


def test_node_that_leaves_is_dead_after_silence_without_having_been_suspected() -> None:
    members, events = membership()
    members.heard("n2", 0)
    members.leaves("n2")
    members.heard("n2", 1)
    statuses = []
    for second in (1, 8, 10):
        members.tick(second * SECOND)
        statuses.append(members.status("n2"))

    assert statuses == ["leaving", "leaving", "dead"]
    assert events == [("joined", "n2"), ("left", "n2")]


def test_node_that_leaves_is_alive_only_by_a_new_connection() -> None:
    members, events = membership()
    members.heard("n2", 0)
    members.leaves("n2")
    members.heard("n2", 1)
    assert members.status("n2") == "leaving"

    members.connected("n2", 2)

    assert members.status("n2") == "alive"
    assert events == [("joined", "n2"), ("left", "n2"), ("recovered", "n2")]
