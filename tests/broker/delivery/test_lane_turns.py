"""What a poll takes where messages have several priorities: urgent ones first, all in their order, nobody never."""

import errno
from collections.abc import Callable

import pytest

from goqueue.broker.delivery.changes import Range
from goqueue.broker.delivery.gathering import Gathered
from goqueue.broker.delivery.taking import Handed
from goqueue.broker.groups.offsets import ResetWish
from goqueue.broker.view import View
from goqueue.broker.work import Promise, Work, run
from goqueue.errors import DiskFull, LeaseExpired, RangeDamaged
from goqueue.limits import LANE_WEIGHTS
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.truncation import truncate
from tests.broker.brokers import Running, frames_of
from tests.broker.groupwork import Team, offsets_of, values_of
from tests.simulation.groups.checks import check_cursor

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


# --- where a lane goes on ---


def test_what_is_left_of_a_lane_is_looked_for_and_not_counted_since_compaction_may_have_been_there() -> None:
    team, _ = team_with([NORMAL, CRITICAL, NORMAL, NORMAL, CRITICAL])
    view = View(team.running.broker.topics["orders"].partitions[0])
    gone = Gathered(None, through=2)
    assert run(gone.head(view, CRITICAL, [(1, 2)], 5)) == 4
    assert run(gone.head(view, NORMAL, [(1, 2)], 5)) == 2
    assert run(gone.head(view, HIGH, [(1, 2)], 5)) == 5
    assert run(gone.head(view, CRITICAL, [(1, 3)], 5)) == 2  # not all of it was looked at
    assert run(gone.head(view, CRITICAL, [], 5)) == 5


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
    assert lanes_of(team, one, 2) == [BACKGROUND, CRITICAL]


def test_busy_lanes_get_their_shares_where_answers_have_room_for_few() -> None:
    running = Running()
    running.create()
    team = Team(running)
    team.publish(*["x" * 300] * 300, lanes=[CRITICAL, BACKGROUND] * 150)
    one = team.join()
    found: list[int] = []
    while len(found) < 159:
        for portion in team.poll(one, 100, bytes_max=1000):
            found += [portion.grant.lane] * portion.content.count
            team.ack(portion)
    assert found.count(BACKGROUND) == pytest.approx(159 * 3 / 53, abs=3)


def test_a_lane_that_was_passed_over_comes_first_where_others_need_all_the_room() -> None:
    running = Running()
    running.create()
    team = Team(running)
    for size, lane in ((10, BACKGROUND), (900, CRITICAL)):
        team.publish(*["x" * size] * 20, lanes=[lane] * 20)
    one = team.join()
    found: list[list[int]] = []
    for _ in range(3):
        portions = team.poll(one, 2, bytes_max=1000)
        found.append([portion.grant.lane for portion in portions])
        for portion in portions:
            team.ack(portion)
        team.heartbeat(one)
        team.due(15.0)
    assert found[-1][0] == BACKGROUND


def test_shares_of_a_topic_that_is_gone_are_forgotten() -> None:
    team, one = team_with([CRITICAL, NORMAL])
    team.poll(one)
    shares = team.coordinator.polls._turns._shares
    assert shares["team"]
    team.running.delete()
    assert not shares["team"]


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


@pytest.mark.parametrize("again", [False, True])
def test_an_ack_of_all_between_the_first_and_the_last_may_be_repeated(*, again: bool) -> None:
    team, one = team_with([CRITICAL, NORMAL, CRITICAL, LOW, CRITICAL])
    urgent, normal = team.poll(one, 4)
    team.ack(urgent)
    team.ack(urgent)
    team.nack(normal)
    team = team.crash() if again else team
    team.ack(urgent)
    with pytest.raises(LeaseExpired):
        team.ack(normal)


def test_an_ack_that_comes_after_others_were_handed_the_lease_is_refused() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 3)
    urgent, _ = team.poll(one, visibility=5.0)
    team.heartbeat(one)
    team.due(5.0)
    with pytest.raises(LeaseExpired):
        team.ack(urgent)
    again, _ = team.poll(one)
    with pytest.raises(LeaseExpired):
        team.ack(urgent)
    team.ack(again)
    team.ack(urgent)


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


def test_a_last_attempt_in_an_urgent_lane_keeps_nobody_from_what_is_due_in_others() -> None:
    team, one = team_with([LOW, CRITICAL])
    low, urgent = sorted(team.poll(one), key=lambda portion: portion.grant.first)
    for _ in range(2):
        team.nack(urgent, delay=0.0)
        (urgent,) = team.poll(one)
    team.nack(low, delay=0.0)
    team.due(1.0)
    team.nack(urgent, delay=0.0)
    again = team.take(one, 1)
    assert (offsets_of(again), offsets(team, one, 1)) == ([0], [])
    team.ack(again)
    assert offsets(team, one, 1) == [1]


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


def test_what_comes_where_the_power_took_what_had_been_handed_out_is_handed_out() -> None:
    team, one = team_with([NORMAL] * 5 + [CRITICAL] * 5)
    for portion in team.poll(one, 6):
        team.ack(portion)
    assert team.cursor().heads is not None
    truncate(team.running.partition().log, team.running.disk, 7)
    team = team.restart()
    team.publish("x", "y", lanes=[CRITICAL] * 2)
    assert {7, 8} <= set(offsets(team, one))


@pytest.mark.parametrize("lanes", [[NORMAL] * 10, [NORMAL, CRITICAL] * 5])
def test_what_was_done_out_of_order_stays_done_where_the_power_took_later_ones(lanes: list[int]) -> None:
    team, one = team_with(lanes)
    for portion in team.poll(one, 10):
        for first, end in portion.content.ranges():
            if first <= 4 < end:
                team.ack(portion, (4, 5))
    truncate(team.running.partition().log, team.running.disk, 7)
    team = team.restart()
    team.publish("x", lanes=[NORMAL])
    team.due(31)
    team.due(60)
    found = offsets(team, team.join(in_flight_max=100))
    assert sorted(found) == [0, 1, 2, 3, 5, 6, 7]


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


def compacted() -> Team:
    """Of 300 messages some are left, and an urgent one behind them."""
    running = Running()
    running.create(cleanup="compact")
    team = Team(running)
    for number in range(300):
        running.publish(frames_of([b"v"], key=b"k%d" % number if number % 10 == 0 else b"often", lanes=[NORMAL]))
    running.publish(frames_of([b"v"], key=b"urgent", lanes=[CRITICAL]))
    running.partition().log.roll()
    running.flush()
    job = plan_compaction(running.partition().log, running.disk, now_ns=running.clock.now_ns())
    while not job.is_done:
        job.run()
        job.apply()
    return team


def test_what_is_left_has_an_age_where_the_first_of_a_lane_is_gone() -> None:
    team = compacted()
    one = team.join()
    assert offsets(team, one, 2) == [300, 0]
    for lease in list(team.cursor().leases.values()):
        team.coordinator.settlement.give_back(lease.id)
    for portion in team.poll(one, 2):
        team.ack(portion)
    team.running.clock.advance(5.0)
    (lag,) = team.do(team.coordinator.lags.of("team"))
    assert lag.messages
    assert lag.seconds >= 5.0


def test_what_compaction_took_of_a_lane_is_passed_over_to_what_it_left() -> None:
    team = compacted()
    one = team.join()
    found: list[int] = []
    while polled := offsets(team, one, 2):
        found += polled
    assert found == [300, *range(0, 300, 10), 299]


def damaged(team: Team, offset: int, messages: int) -> None:
    """One of so many that are all of one size."""
    segment = team.running.partition().log.segments[0]
    team.running.disk.flip(segment.path, segment.size // messages * offset + 20)


def test_damage_of_another_lane_keeps_nobody_from_what_lies_around_it() -> None:
    team, one = team_with([CRITICAL, NORMAL, NORMAL, CRITICAL])
    damaged(team, 1, 4)
    assert offsets(team, one) == [0, 3]
    with pytest.raises(RangeDamaged):
        team.poll(one)


def test_a_lane_that_is_damaged_keeps_no_other_from_its_turn() -> None:
    team, one = team_with([CRITICAL, NORMAL, NORMAL, LOW])
    damaged(team, 1, 4)
    assert offsets(team, one) == [0, 3]
    with pytest.raises(RangeDamaged):
        team.poll(one)


def test_what_lies_before_damage_is_handed_out_first() -> None:
    team, one = team_with([CRITICAL, NORMAL, NORMAL, NORMAL])
    damaged(team, 2, 4)
    assert offsets(team, one) == [0, 1]
    with pytest.raises(RangeDamaged):
        team.poll(one)


def test_what_retention_takes_while_a_lane_is_read_is_passed_over() -> None:
    team, one = team_with([CRITICAL] + [NORMAL] * 1000 + [CRITICAL])

    def meanwhile() -> None:
        team.expire()
        team.publish("later")

    assert offsets_while(team, one, meanwhile, 2) == [0]
    assert offsets(team, one, 2) == [1002]
    assert team.cursor().lost == 1001


def test_keys_of_what_a_consumer_of_lanes_had_are_read_together() -> None:
    running = Running()
    running.create()
    team = Team(running)
    team.publish(*["x"] * 50, key="a", lanes=[CRITICAL, NORMAL] * 25)
    one = team.join(order="key")
    for portion in team.poll(one):
        team.nack(portion, delay=0.0)
    assert len(list(team.cursor().waiting.runs())) == 50
    jobs = 0
    work = team.polling(one)
    job = next(work)
    while not isinstance(job, Promise):
        jobs += 1
        job = work.send(job())
    assert jobs < 10


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
    counts: list[int] = []
    team.coordinator.offsets.on_progress = lambda _, __, count: counts.append(count)
    team.commit(one, 7)
    team.commit(one, 7)
    assert counts == [3]
    assert (team.cursor().floor, team.cursor().leased) == (2, 0)
    assert offsets(team, one) == [2, 3, 4, 5]
    team.commit(one, 7)
    assert offsets(team, one) == []


@pytest.mark.parametrize(("lanes", "rest"), [([CRITICAL, NORMAL] * 5, [7, 9]), ([CRITICAL] * 5 + [NORMAL] * 5, [8, 9])])
def test_an_ack_of_what_a_commit_has_cut_through_leaves_the_floor_where_it_belongs(
    lanes: list[int], rest: list[int]
) -> None:
    team, one = team_with(lanes)
    (urgent,), (normal,) = team.poll(one, 5), team.poll(one, 3)
    team.commit(one, 4)
    team.ack(urgent)
    team.ack(normal)
    check_cursor(team.cursor())
    assert team.cursor().settled() == []
    assert offsets(team, one) == rest


@pytest.mark.parametrize("held", [0, 1])
def test_what_is_known_of_leases_does_not_grow_while_one_message_stays_in_hand(held: int) -> None:
    """Be it where lanes are read one by one, or before that."""
    team, one = team_with([NORMAL] * held + [CRITICAL] * 300)
    team.publish(*["x"] * 300, lanes=[NORMAL] * 300)
    team.poll(one, 1)
    for _ in range(300):
        for portion in team.poll(one, 1):
            team.ack(portion)
    assert len(team.cursor().leases._fronts) < 100


def test_a_commit_settles_what_waits_below_it_in_every_lane() -> None:
    team, one = team_with([NORMAL, CRITICAL] * 3)
    urgent, normal = team.poll(one, 4)
    team.nack(urgent, delay=0.0)
    team.commit(one, 4)
    assert sorted(offsets(team, one)) == [2, 4, 5]
    assert normal.content.count == 1


# --- what happens while a poll waits for the disk ---


def interrupted(work: Work[Handed], meanwhile: Callable[[], object]) -> Work[Handed]:
    """Something else happens while it looks something up for the first time."""
    job = next(work)
    assert not isinstance(job, Promise), "it needs the disk"
    meanwhile()
    try:
        job = work.send(job())
        while True:
            job = work.send((yield job))
    except StopIteration as end:
        handed: Handed = end.value
        return handed


def offsets_while(team: Team, member: str, meanwhile: Callable[[], object], most: int = 100) -> list[int]:
    handed = team.do(interrupted(team.polling(member, most), meanwhile))
    return [offset for portion in handed.portions for offset in offsets_of(portion)]


def ask_to_reset(team: Team) -> None:
    next(team.coordinator.offsets.reset(team.name, ResetWish("orders", "earliest")))


def all_of(team: Team, member: str) -> list[int]:
    """Of all polls until there is nothing more, acknowledged."""
    found = []
    while portions := team.poll(member):
        for portion in portions:
            found += offsets_of(portion)
            team.ack(portion)
    return found


def test_a_reset_while_lanes_are_read_loses_nothing() -> None:
    team, one = team_with([CRITICAL] * 30 + [NORMAL] * 30 + [LOW] * 5)
    for portion in team.poll(one, 55):
        team.ack(portion)
    team.publish("x", "y", lanes=[NORMAL, LOW])
    found = offsets_while(team, one, lambda: ask_to_reset(team))
    assert sorted([*found, *all_of(team, one)]) == list(range(67))


def test_a_reset_while_it_is_asked_whether_lanes_are_over_loses_nothing() -> None:
    team, one = team_with([CRITICAL] + [NORMAL] * 5)
    for portion in team.poll(one):
        team.ack(portion)
    team.publish("x")
    team = team.restart()
    assert team.cursor().heads is not None
    found = offsets_while(team, one, lambda: ask_to_reset(team))
    assert sorted([*found, *all_of(team, one)]) == list(range(7))


def test_leases_that_the_disk_refuses_while_the_next_are_read_are_handed_out_later() -> None:
    team, one = team_with([CRITICAL] * 5 + [NORMAL] * 5)
    refused = team.polling(one, 5)
    job = next(refused)
    while not isinstance(job, Promise):
        job = refused.send(job())

    def meanwhile() -> None:
        team.running.disk.fail("write", errno.ENOSPC, path="*/__consumer_offsets/*")
        team.running.flush()
        with pytest.raises(DiskFull):
            refused.throw(DiskFull("the disk is full"))

    found = offsets_while(team, one, meanwhile, 5)
    assert sorted([*found, *all_of(team, one)]) == list(range(10))
