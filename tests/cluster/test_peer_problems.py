"""Problems with connections between nodes, as people see them."""

from goqueue.cluster.peer_problems import PeerProblems

SECOND = 1_000_000_000


def test_problem_is_shown_while_attempts_meet_it() -> None:
    problems = PeerProblems(2)
    news = [problems.add("n2", "another secret", second * SECOND) for second in (0, 2, 4)]

    assert news == [True, False, False]
    assert problems.shown(13 * SECOND) == {"n2": "another secret"}
    assert problems.shown(14 * SECOND) == {}
    assert problems.add("n2", "another secret", 20 * SECOND)


def test_problem_of_a_node_that_connects_is_forgotten() -> None:
    problems = PeerProblems(2)
    problems.add("n2", "another secret", 0)
    problems.clear("n2")

    assert problems.shown(0) == {}


def test_problems_of_many_names_take_bounded_room_until_they_are_over() -> None:
    problems = PeerProblems(2)
    for node in ("n2", "n3", "n4"):
        problems.add(node, "another secret", 0)

    assert sorted(problems.shown(0)) == ["n2", "n3"]
    assert problems.add("n4", "another secret", 10 * SECOND)
