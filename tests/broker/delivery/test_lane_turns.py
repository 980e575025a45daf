"""What a poll takes where messages have several priorities: urgent ones first, all in their order, nobody never."""

import pytest

from goqueue.broker.delivery.changes import Range
from goqueue.broker.work import run
from goqueue.errors import LeaseExpired
from goqueue.limits import LANE_WEIGHTS
from goqueue.storage.compaction import plan_compaction
from tests.broker.brokers import Running, frames_of
from tests.broker.groupwork import Team, offsets_of, values_of

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(5)


def team_with(lanes: list[int], **topic: object) -> tuple[Team, str]:
    """Messages of these lanes, each named by its offset."""
    running = Running()
    running.create("orders", 1, **topic)
    team = Team(running)
    team.publish(*(str(number) for number in range(len(lanes))), lanes=lanes)
    return team, team.join(in_flight_max=10_000)


def offsets(team: Team, member: str, most: int = 100) -> list[int]:
    return [offset for portion in team.poll(member, most) for offset in offsets_of(portion)]


def lanes_of(team: Team, member: str, most: int) -> list[int]:
    """Of the messages of a poll, which is acknowledged."""
    found = []
    for portion in team.poll(member, most):
        found += [portion.grant.lane] * portion.content.count
        team.ack(portion)
    return found


# --- in which order ---


def test_the_urgent_come_first_and_each_lane_keeps_its_order() -> None:
    team, one = team_with([NORMAL, BACKGROUND, CRITICAL, NORMAL, CRITICAL, HIGH])
    assert offsets(team, one) == [2, 4, 5, 0, 3, 1]


def test_a_critical_message_behind_many_is_handed_out_at_once() -> None:
    team, one = team_with([NORMAL] * 500)
    assert offsets(team, one, 1) == [0]
    team.publish("urgent", lanes=[CRITICAL])
    assert offsets(team, one, 3) == [500, 1, 2]


def test_what_is_published_while_lanes_are_read_has_its_place() -> None:
    team, one = team_with([NORMAL, LOW])
    assert offsets(team, one, 1) == [0]
    team.publish("a", "b", lanes=[HIGH, NORMAL])
    assert offsets(team, one, 2) == [2, 3]
    team.publish("c", lanes=[CRITICAL])
    assert offsets(team, one) == [4, 1]


@pytest.mark.parametrize("most", [1, 10, 100])
def test_busy_lanes_get_their_shares(most: int) -> None:
    team, one = team_with([0, 1, 2, 3, 4] * 300)
    found = [lane for _ in range(200 // most) for lane in lanes_of(team, one, most)]
    for lane, weight in enumerate(LANE_WEIGHTS):
        assert found.count(lane) == pytest.approx(2 * weight, abs=1)


def test_weights_are_the_topics_own_and_may_change() -> None:
    team, one = team_with([CRITICAL, BACKGROUND] * 300, lane_weights=(1, 1, 1, 1, 1))
    assert lanes_of(team, one, 100).count(BACKGROUND) == 50
    told: list[object] = []
    team.running.broker.alter_topic("orders", {"lane_weights": (9, 1, 1, 1, 1)}, told.append)
    team.running.flush()
    assert lanes_of(team, one, 100).count(BACKGROUND) == 10


def test_a_lane_that_was_passed_over_for_its_time_goes_first_once() -> None:
    team, one = team_with([CRITICAL] * 50 + [BACKGROUND], lane_boost_seconds=30.0, lane_weights=(1000, 1, 1, 1, 1))
    assert lanes_of(team, one, 2) == [CRITICAL] * 2
    team.heartbeat(one)
    team.due(29.0)
    assert lanes_of(team, one, 2) == [CRITICAL] * 2
    team.due(1.0)
    assert lanes_of(team, one, 2) == [CRITICAL, BACKGROUND]


# --- leases, acks, retries ---


def test_a_lease_is_of_one_lane_and_one_whatever_lies_between() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 50)
    urgent, normal = team.poll(one)
    assert [portion.grant.lane for portion in (urgent, normal)] == [CRITICAL, NORMAL]
    assert offsets_of(urgent) == list(range(0, 100, 2))
    assert (team.cursor().leased, len(team.cursor().leases)) == (100, 2)


def test_an_ack_of_all_between_the_first_and_the_last_is_an_ack_of_the_lease_alone() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 3)
    urgent, normal = team.poll(one)
    team.ack(urgent, (0, 5))
    assert team.cursor().leased == 3
    assert team.cursor().floor == 1
    team.ack(normal)
    assert (team.cursor().floor, team.cursor().run_count) == (6, 0)


def test_single_acks_in_any_order_end_at_the_same_floor() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 3)
    urgent, normal = team.poll(one)
    for offset in (4, 0, 2):
        team.ack(urgent, (offset, offset + 1))
    for offset in (5, 3, 1):
        assert team.cursor().floor == 1
        team.ack(normal, (offset, offset + 1))
    assert team.cursor().floor == 6


def test_a_message_that_was_nacked_is_not_acked_with_its_neighbours() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 3)
    urgent, _ = team.poll(one)
    team.nack(urgent, (2, 3))
    with pytest.raises(LeaseExpired):
        team.ack(urgent, (0, 5))
    team.ack(urgent, (0, 1), (4, 5))
    assert team.ack(urgent, (0, 1)).requeued is False, "an ack may be repeated"


def test_retries_keep_their_lane() -> None:
    team, one = team_with([CRITICAL, NORMAL, NORMAL, NORMAL, CRITICAL])
    urgent = team.poll(one, 1)[0]
    team.nack(urgent, delay=0.0)
    assert offsets(team, one, 2) == [0, 4]
    normal = team.take(one, 1)
    team.nack(normal, delay=0.0)
    team.publish("later", lanes=[CRITICAL])
    assert offsets(team, one) == [5, 1, 2, 3]


def test_what_a_crashed_consumer_had_of_a_lane_comes_again_as_one_lease() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 20)
    team.poll(one, visibility=5.0)
    team.heartbeat(one)
    team.due(5.0)
    assert [(portion.grant.deliveries, portion.content.count) for portion in team.poll(one)] == [(2, 20), (2, 20)]


def test_what_was_handed_out_before_a_second_priority_came_comes_again_in_its_own_time() -> None:
    team, one = team_with([NORMAL] * 6)
    first = team.take(one, 3)
    team.publish("urgent", lanes=[CRITICAL])
    team.nack(first, (1, 2), delay=0.0)
    assert offsets(team, one) == [6, 1, 3, 4, 5]


def test_the_last_attempt_is_alone_in_lanes_too() -> None:
    team, one = team_with([CRITICAL, NORMAL, NORMAL])
    for _ in range(3):
        team.nack(team.take(one, 1), delay=0.0)
    last = team.take(one)
    assert (offsets_of(last), last.grant.failures) == ([0], 3)
    assert team.poll(one) == []
    team.ack(last)
    assert offsets(team, one) == [1, 2]


def test_rejected_messages_of_a_lane_leave_for_the_dead_letters() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 2)
    urgent, normal = team.poll(one)
    team.say("reject", urgent, (0, 1), (2, 3))
    team.ack(normal)
    assert team.cursor().floor == 0
    team.carry()
    assert [message.value for message in team.messages()] == [b"0", b"2"]
    assert team.cursor().floor == 4


# --- one lane again ---


def test_lanes_are_one_again_when_all_have_been_handed_out() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 5)
    urgent, normal = team.poll(one)
    team.publish(*"abc")
    rest = team.take(one)
    team.ack(normal)
    team.ack(urgent)
    assert team.cursor().heads is not None
    team.publish(*"de")
    assert offsets(team, one) == [13, 14]
    assert (team.cursor().heads, team.cursor().floor) == (None, 10)
    team.ack(rest)
    assert (team.cursor().floor, team.cursor().leased) == (13, 2)


def test_a_topic_with_one_priority_is_never_read_by_lanes() -> None:
    for lane in range(5):
        team, one = team_with([lane] * 30)
        assert offsets(team, one, 10) == list(range(10))
        team.publish("more", lanes=[lane])
        assert offsets(team, one) == list(range(10, 31))
        assert team.cursor().heads is None


# --- what holds all of it ---


@pytest.mark.parametrize("again", ["crash", "restart"])
def test_where_each_lane_stands_survives(again: str) -> None:
    team, one = team_with([CRITICAL, NORMAL] * 10)
    urgent, normal = team.poll(one, 16)
    team.ack(urgent)
    heads = list(team.cursor().heads or ())
    team = team.crash() if again == "crash" else team.restart()
    assert team.cursor().heads == heads
    assert team.cursor().leased == normal.content.count
    team.ack(normal)
    taken = {*offsets_of(urgent), *offsets_of(normal)}
    assert sorted(offsets(team, one)) == [offset for offset in range(20) if offset not in taken]


def test_a_commit_ends_what_is_below_it_in_every_lane() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 5)
    team.poll(one, 7)
    team.commit(one, 2)
    assert (team.cursor().floor, team.cursor().leased) == (2, 5)


def test_a_reset_reads_all_lanes_anew() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 3)
    team.poll(one)
    team.reset("earliest")
    assert offsets(team, one) == [0, 2, 4, 1, 3, 5]


def test_what_is_left_is_counted_by_lanes() -> None:
    team, one = team_with([CRITICAL] * 10 + [NORMAL] * 10 + [LOW] * 10)
    first = team.poll(one, 12)
    (lag,) = team.do(team.coordinator.lags.of("team"))
    assert (lag.messages, lag.leased) == (30, 12)
    for portion in first:
        team.ack(portion)
    (lag,) = team.do(team.coordinator.lags.of("team"))
    assert (lag.messages, lag.leased, lag.waiting) == (18, 0, 0)
    while portions := team.poll(one):
        for portion in portions:
            team.ack(portion)
    (lag,) = team.do(team.coordinator.lags.of("team"))
    assert (lag.messages, lag.seconds, lag.floor) == (0, 0.0, 30)


def test_messages_of_a_key_keep_their_order_within_a_lane() -> None:
    running = Running()
    running.create()
    team = Team(running)
    for key, lane in (("a", NORMAL), ("b", NORMAL), ("a", NORMAL), ("c", CRITICAL)):
        team.publish(key, key=key, lanes=[lane])
    one = team.join(order="key")
    assert values_of(team.poll(one, 2)) == ["c", "a"]
    first = next(iter(team.cursor().leases.values())).grant
    assert first.lane == CRITICAL
    normal = team.poll(one, 1)
    assert values_of(normal) == ["b"]
    team.nack(normal[0], delay=10.0)
    assert values_of(team.poll(one)) == ["a"]


def test_a_failed_message_keeps_later_ones_of_its_key_waiting_in_lanes_too() -> None:
    running = Running()
    running.create()
    team = Team(running)
    for key, lane in (("a", NORMAL), ("x", CRITICAL), ("a", NORMAL), ("b", NORMAL)):
        team.publish(key, key=key, lanes=[lane])
    one = team.join(order="key")
    urgent, normal = team.poll(one, 2)
    team.nack(normal, delay=10.0)
    (rest,) = team.poll(one)
    assert offsets_of(rest) == [3]
    team.ack(rest)
    team.ack(urgent)
    team.heartbeat(one)
    team.due(10.0)
    again = team.take(one, 1)
    assert offsets_of(again) == [0]
    team.ack(again)
    assert offsets_of(team.take(one)) == [2]
    assert isinstance(team.cursor().floor, int)


def test_what_compaction_took_from_what_was_to_be_tried_again_is_done_with() -> None:
    running = Running()
    running.create(cleanup="compact")
    team = Team(running)
    for number in range(6):
        running.publish(frames_of([b"v"], key=b"k%d" % (number % 2), lanes=[CRITICAL if number % 2 else NORMAL]))
    one = team.join()
    for portion in team.poll(one):
        team.nack(portion, delay=0.0)
    running.partition().log.roll()
    running.flush()
    job = plan_compaction(running.partition().log, running.disk, now_ns=running.clock.now_ns())
    job.run()
    job.apply()
    assert sorted(offsets(team, one)) == [4, 5]
    left: list[Range] = [(first, end) for first, end, _ in team.cursor().waiting.runs()]
    assert left == []


def test_statistics_tell_how_much_each_lane_was_given() -> None:
    team, one = team_with([CRITICAL, NORMAL, NORMAL])
    team.running.clock.advance(2.0)
    team.poll(one)
    served = team.coordinator.polls.served.places["orders", 0]
    assert [lane.messages for lane in served] == [1, 0, 2, 0, 0]
    assert served[CRITICAL].wait_seconds >= 2.0
    assert run(team.running.partition().lanes.count(NORMAL, 0, 3, 10)) == 2


def test_a_commit_behind_an_urgent_message_leaves_what_nobody_has_seen() -> None:
    team, one = team_with([NORMAL] * 6 + [CRITICAL])
    assert offsets(team, one, 3) == [6, 0, 1]
    team.commit(one, 7)
    assert (team.cursor().floor, team.cursor().leased) == (2, 0)
    assert offsets(team, one) == [2, 3, 4, 5]
    team.commit(one, 7)
    assert offsets(team, one) == []


def test_a_commit_settles_what_waits_below_it_in_every_lane() -> None:
    team, one = team_with([NORMAL, CRITICAL] * 3)
    urgent, normal = team.poll(one, 4)
    team.nack(urgent, delay=0.0)
    team.commit(one, 4)
    assert sorted(offsets(team, one)) == [2, 4, 5]
    assert normal.content.count == 1
