"""Polls with several priorities: urgent messages first, lanes in order, none starved."""

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.view import PartitionView
from goqueue.broker.core.work import Promise, run_work
from goqueue.broker.groups.fetch import LaneFetch
from goqueue.broker.groups.offsets import ResetOptions
from goqueue.broker.groups.records import Range
from goqueue.errors import DiskFull, LeaseExpired, RangeDamaged
from goqueue.limits import LANE_WEIGHTS
from goqueue.storage.truncation import truncate
from tests.broker.brokers import Running, before_each_job, begin, frames_of
from tests.broker.groupwork import Team, offsets_of, values_of
from tests.simulation.groups.checks import check_cursor

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(5)


def team_with(lanes: list[int], **topic: Any) -> tuple[Team, str]:
    """Messages of these lanes, each named by its offset."""
    team = Team(**topic)
    team.publish(*(str(number) for number in range(len(lanes))), lanes=lanes)
    return team, team.join(in_flight_max=10_000)


def offsets(team: Team, member: str, most: int = 100) -> list[int]:
    return [offset for batch in team.poll(member, most) for offset in offsets_of(batch)]


def lanes_of(team: Team, member: str, most: int) -> list[int]:
    """Poll, acknowledge, and return the lanes of the messages."""
    found = []
    for batch in team.poll(member, most):
        found += [batch.grant.lane] * batch.content.count
        team.ack(batch)
    return found


# --- where a lane goes on ---


def test_lane_head_is_searched_after_compaction() -> None:
    team, _ = team_with([NORMAL, CRITICAL, NORMAL, NORMAL, CRITICAL])
    view = PartitionView(team.running.broker.topics["orders"].partitions[0])
    gone = LaneFetch(None, through=2)
    assert run_work(gone.head(view, CRITICAL, [(1, 2)], 5)) == 4
    assert run_work(gone.head(view, NORMAL, [(1, 2)], 5)) == 2
    assert run_work(gone.head(view, HIGH, [(1, 2)], 5)) == 5
    assert run_work(gone.head(view, CRITICAL, [(1, 3)], 5)) == 2  # not all of it was looked at
    assert run_work(gone.head(view, CRITICAL, [], 5)) == 5


# --- in which order ---


def test_urgent_messages_come_first_in_lane_order() -> None:
    team, one = team_with([NORMAL, BACKGROUND, CRITICAL, NORMAL, CRITICAL, HIGH])
    assert offsets(team, one) == [2, 4, 5, 0, 3, 1]


def test_critical_message_overtakes_backlog() -> None:
    team, one = team_with([NORMAL] * 500)
    assert offsets(team, one, 1) == [0]
    team.publish("urgent", lanes=[CRITICAL])
    assert offsets(team, one, 3) == [500, 1, 2]


def test_messages_published_during_lane_reads_are_delivered() -> None:
    team, one = team_with([NORMAL, LOW])
    assert offsets(team, one, 1) == [0]
    team.publish("a", "b", lanes=[HIGH, NORMAL])
    assert offsets(team, one, 2) == [2, 3]
    team.publish("c", lanes=[CRITICAL])
    assert offsets(team, one) == [4, 1]


@pytest.mark.parametrize("most", [1, 10, 100])
def test_busy_lanes_get_their_weights(most: int) -> None:
    team, one = team_with([0, 1, 2, 3, 4] * 300)
    found = [lane for _ in range(200 // most) for lane in lanes_of(team, one, most)]
    for lane, weight in enumerate(LANE_WEIGHTS):
        assert found.count(lane) == pytest.approx(2 * weight, abs=1)


def test_lane_weights_are_topic_settings() -> None:
    team, one = team_with([CRITICAL, BACKGROUND] * 300, lane_weights=(1, 1, 1, 1, 1))
    assert lanes_of(team, one, 100).count(BACKGROUND) == 50
    told: list[object] = []
    team.running.broker.alter_topic("orders", {"lane_weights": (9, 1, 1, 1, 1)}, told.append)
    team.running.flush()
    assert lanes_of(team, one, 100).count(BACKGROUND) == 10


def test_starved_lane_is_boosted_once() -> None:
    team, one = team_with([CRITICAL] * 50 + [BACKGROUND], lane_boost_seconds=30.0, lane_weights=(1000, 1, 1, 1, 1))
    assert lanes_of(team, one, 2) == [CRITICAL] * 2
    team.heartbeat(one)
    team.due(29.0)
    assert lanes_of(team, one, 2) == [CRITICAL] * 2
    team.due(1.0)
    assert lanes_of(team, one, 2) == [BACKGROUND, CRITICAL]


def test_busy_lanes_get_their_weights_in_small_polls(team: Team) -> None:
    team.publish(*["x" * 300] * 300, lanes=[CRITICAL, BACKGROUND] * 150)
    one = team.join()
    found: list[int] = []
    while len(found) < 159:
        for batch in team.poll(one, 100, bytes_max=1000):
            found += [batch.grant.lane] * batch.content.count
            team.ack(batch)
    assert found.count(BACKGROUND) == pytest.approx(159 * 3 / 53, abs=3)


def test_starved_lane_is_boosted_in_full_polls(team: Team) -> None:
    for size, lane in ((10, BACKGROUND), (900, CRITICAL)):
        team.publish(*["x" * size] * 20, lanes=[lane] * 20)
    one = team.join()
    found: list[list[int]] = []
    for _ in range(3):
        batches = team.poll(one, 2, bytes_max=1000)
        found.append([batch.grant.lane for batch in batches])
        for batch in batches:
            team.ack(batch)
        team.heartbeat(one)
        team.due(15.0)
    assert found[-1][0] == BACKGROUND


def test_lane_shares_of_deleted_topic_are_dropped() -> None:
    team, one = team_with([CRITICAL, NORMAL])
    team.poll(one)
    shares = team.coordinator.polling._lane_polling._schedulers
    assert shares["team"]
    team.running.delete()
    assert not shares["team"]


# --- leases, acks, retries ---


def test_lease_covers_one_lane_across_others() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 50)
    urgent, normal = team.poll(one)
    assert [batch.grant.lane for batch in (urgent, normal)] == [CRITICAL, NORMAL]
    assert offsets_of(urgent) == list(range(0, 100, 2))
    assert (team.cursor().leased, len(team.cursor().leases)) == (100, 2)


def test_ack_of_lease_range_acks_only_its_lane() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 3)
    urgent, normal = team.poll(one)
    team.ack(urgent, (0, 5))
    assert team.cursor().leased == 3
    assert team.cursor().floor == 1
    team.ack(normal)
    assert (team.cursor().floor, team.cursor().run_count) == (6, 0)


@pytest.mark.parametrize("again", [False, True])
def test_ack_of_lane_lease_range_can_be_repeated(*, again: bool) -> None:
    team, one = team_with([CRITICAL, NORMAL, CRITICAL, LOW, CRITICAL])
    urgent, normal = team.poll(one, 4)
    team.ack(urgent)
    team.ack(urgent)
    team.nack(normal)
    team = team.crash() if again else team
    team.ack(urgent)
    with pytest.raises(LeaseExpired):
        team.ack(normal)


def test_late_ack_of_redelivered_lane_lease_is_refused() -> None:
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


def test_nacked_message_is_not_acked_with_its_range() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 3)
    urgent, _ = team.poll(one)
    team.nack(urgent, (2, 3))
    with pytest.raises(LeaseExpired):
        team.ack(urgent, (0, 5))
    team.ack(urgent, (0, 1), (4, 5))
    assert team.ack(urgent, (0, 1)).requeued is False, "an ack may be repeated"


def test_expired_lane_lease_is_redelivered_as_one_lease() -> None:
    team, one = team_with([CRITICAL, NORMAL] * 20)
    team.poll(one, visibility=5.0)
    team.heartbeat(one)
    team.due(5.0)
    assert [(batch.grant.deliveries, batch.content.count) for batch in team.poll(one)] == [(2, 20), (2, 20)]


def test_urgent_last_attempt_does_not_block_other_lanes() -> None:
    team, one = team_with([LOW, CRITICAL])
    low, urgent = sorted(team.poll(one), key=lambda batch: batch.grant.first)
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


def test_lanes_merge_when_all_messages_were_delivered() -> None:
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


def test_single_priority_topic_is_not_read_by_lanes() -> None:
    for lane in range(5):
        team, one = team_with([lane] * 30)
        assert offsets(team, one, 10) == list(range(10))
        team.publish("more", lanes=[lane])
        assert offsets(team, one) == list(range(10, 31))
        assert team.cursor().heads is None


# --- what holds all of it ---


def test_messages_appended_after_lost_tail_are_delivered() -> None:
    team, one = team_with([NORMAL] * 5 + [CRITICAL] * 5)
    for batch in team.poll(one, 6):
        team.ack(batch)
    assert team.cursor().heads is not None
    truncate(team.running.partition().log, team.running.disk, 7)
    team = team.restart()
    team.publish("x", "y", lanes=[CRITICAL] * 2)
    assert {7, 8} <= set(offsets(team, one))


@pytest.mark.parametrize("lanes", [[NORMAL] * 10, [NORMAL, CRITICAL] * 5])
def test_out_of_order_acks_survive_lost_tail(lanes: list[int]) -> None:
    team, one = team_with(lanes)
    for batch in team.poll(one, 10):
        for first, end in batch.content.ranges():
            if first <= 4 < end:
                team.ack(batch, (4, 5))
    truncate(team.running.partition().log, team.running.disk, 7)
    team = team.restart()
    team.publish("x", lanes=[NORMAL])
    team.due(31)
    team.due(60)
    found = offsets(team, team.join(in_flight_max=100))
    assert sorted(found) == [0, 1, 2, 3, 5, 6, 7]


def test_backlog_is_counted_by_lane() -> None:
    team, one = team_with([CRITICAL] * 10 + [NORMAL] * 10 + [LOW] * 10)
    first = team.poll(one, 12)
    (lag,) = team.do(team.coordinator.lags.of_group("team"))
    assert (lag.messages, lag.in_flight) == (30, 12)
    for batch in first:
        team.ack(batch)
    (lag,) = team.do(team.coordinator.lags.of_group("team"))
    assert (lag.messages, lag.in_flight, lag.waiting) == (18, 0, 0)
    while batches := team.poll(one):
        for batch in batches:
            team.ack(batch)
    (lag,) = team.do(team.coordinator.lags.of_group("team"))
    assert (lag.messages, lag.seconds, lag.floor) == (0, 0.0, 30)


def test_key_order_holds_within_a_lane(team: Team) -> None:
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


def test_failed_message_blocks_its_key_with_lanes(team: Team) -> None:
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


def test_retries_removed_by_compaction_are_settled() -> None:
    running = Running()
    running.create(cleanup="compact")
    team = Team(running)
    for number in range(6):
        running.publish(frames_of([b"v"], key=b"k%d" % (number % 2), lanes=[CRITICAL if number % 2 else NORMAL]))
    one = team.join()
    for batch in team.poll(one):
        team.nack(batch, delay=0.0)
    running.roll()
    running.compact()
    assert sorted(offsets(team, one)) == [4, 5]
    left: list[Range] = [(first, end) for first, end, _ in team.cursor().waiting.runs()]
    assert left == []


def compacted() -> Team:
    """Publish 300 messages, compact most of them away, and publish an urgent one."""
    running = Running()
    running.create(cleanup="compact")
    team = Team(running)
    for number in range(300):
        running.publish(frames_of([b"v"], key=b"k%d" % number if number % 10 == 0 else b"often", lanes=[NORMAL]))
    running.publish(frames_of([b"v"], key=b"urgent", lanes=[CRITICAL]))
    running.roll()
    running.compact()
    return team


def test_backlog_age_is_known_when_lane_head_was_compacted() -> None:
    team = compacted()
    one = team.join()
    assert offsets(team, one, 2) == [300, 0]
    for lease in list(team.cursor().leases.values()):
        team.coordinator.settlement.return_lease(lease.id)
    for batch in team.poll(one, 2):
        team.ack(batch)
    team.running.clock.advance(5.0)
    (lag,) = team.do(team.coordinator.lags.of_group("team"))
    assert lag.messages
    assert lag.seconds >= 5.0


def test_compacted_lane_messages_are_skipped() -> None:
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


@pytest.mark.parametrize(
    ("lanes", "damaged_offset", "delivered"),
    [
        pytest.param([CRITICAL, NORMAL, NORMAL, CRITICAL], 1, [0, 3], id="messages_of_other_lanes"),
        pytest.param([CRITICAL, NORMAL, NORMAL, LOW], 1, [0, 3], id="lower_lanes"),
        pytest.param([CRITICAL, NORMAL, NORMAL, NORMAL], 2, [0, 1], id="messages_before_the_damage"),
    ],
)
def test_damage_in_one_lane_does_not_block(lanes: list[int], damaged_offset: int, delivered: list[int]) -> None:
    team, one = team_with(lanes)
    damaged(team, damaged_offset, 4)
    assert offsets(team, one) == delivered
    with pytest.raises(RangeDamaged):
        team.poll(one)


def test_retention_during_lane_read_skips_removed_messages() -> None:
    team, one = team_with([CRITICAL] + [NORMAL] * 1000 + [CRITICAL])

    def meanwhile() -> None:
        team.expire()
        team.publish("later")

    assert offsets_while(team, one, meanwhile, 2) == [0]
    assert offsets(team, one, 2) == [1002]
    assert team.cursor().lost == 1001


def test_keys_of_lane_leases_are_read_together(team: Team) -> None:
    team.publish(*["x"] * 50, key="a", lanes=[CRITICAL, NORMAL] * 25)
    one = team.join(order="key")
    for batch in team.poll(one):
        team.nack(batch, delay=0.0)
    assert len(list(team.cursor().waiting.runs())) == 50
    jobs = 0
    work = team.polling(one)
    job = next(work)
    while not isinstance(job, Promise):
        jobs += 1
        job = work.send(job())
    assert jobs < 10


def test_lane_statistics_count_deliveries() -> None:
    team, one = team_with([CRITICAL, NORMAL, NORMAL])
    team.running.clock.advance(2.0)
    team.poll(one)
    served = team.coordinator.polling.stats.partitions[PartitionRef("orders", 0)]
    assert [lane.messages for lane in served] == [1, 0, 2, 0, 0]
    assert served[CRITICAL].wait_seconds >= 2.0
    assert run_work(team.running.partition().lanes.count(NORMAL, 0, 3, 10)) == 2


def test_commit_past_urgent_message_keeps_undelivered_ones() -> None:
    team, one = team_with([NORMAL] * 6 + [CRITICAL])
    assert offsets(team, one, 3) == [6, 0, 1]
    counts: list[int] = []
    team.coordinator.offsets.on_progress.subscribe(lambda _, __, count: counts.append(count))
    team.commit(one, 7)
    team.commit(one, 7)
    assert counts == [3]
    assert (team.cursor().floor, team.cursor().leased) == (2, 0)
    assert offsets(team, one) == [2, 3, 4, 5]
    team.commit(one, 7)
    assert offsets(team, one) == []


@pytest.mark.parametrize(("lanes", "rest"), [([CRITICAL, NORMAL] * 5, [7, 9]), ([CRITICAL] * 5 + [NORMAL] * 5, [8, 9])])
def test_ack_of_lease_cut_by_commit_keeps_floor(lanes: list[int], rest: list[int]) -> None:
    team, one = team_with(lanes)
    (urgent,), (normal,) = team.poll(one, 5), team.poll(one, 3)
    team.commit(one, 4)
    team.ack(urgent)
    team.ack(normal)
    check_cursor(team.cursor())
    assert team.cursor().settled() == []
    assert offsets(team, one) == rest


@pytest.mark.parametrize("held", [0, 1])
def test_lease_index_does_not_grow_behind_one_open_message(held: int) -> None:
    """Be it where lanes are read one by one, or before that."""
    team, one = team_with([NORMAL] * held + [CRITICAL] * 300)
    team.publish(*["x"] * 300, lanes=[NORMAL] * 300)
    team.poll(one, 1)
    for _ in range(300):
        for batch in team.poll(one, 1):
            team.ack(batch)
    assert len(team.cursor().leases._firsts) < 100


# --- what happens while a poll waits for the disk ---


def offsets_while(team: Team, member: str, meanwhile: Callable[[], object], most: int = 100) -> list[int]:
    """Poll while something else happens before the first job."""
    events = [meanwhile]
    handed = team.do(before_each_job(team.polling(member, most), lambda: events and events.pop()()))
    assert not events, "it needs the disk"
    return [offset for batch in handed.batches for offset in offsets_of(batch)]


def ask_to_reset(team: Team) -> None:
    next(team.coordinator.offsets.reset(team.name, ResetOptions("orders", "earliest")))


def all_of(team: Team, member: str) -> list[int]:
    """Poll and acknowledge until nothing is left; return all values."""
    found = []
    while batches := team.poll(member):
        for batch in batches:
            found += offsets_of(batch)
            team.ack(batch)
    return found


def test_reset_during_lane_read_loses_nothing() -> None:
    team, one = team_with([CRITICAL] * 30 + [NORMAL] * 30 + [LOW] * 5)
    for batch in team.poll(one, 55):
        team.ack(batch)
    team.publish("x", "y", lanes=[NORMAL, LOW])
    found = offsets_while(team, one, lambda: ask_to_reset(team))
    assert sorted([*found, *all_of(team, one)]) == list(range(67))


def test_reset_during_lane_merge_check_loses_nothing() -> None:
    team, one = team_with([CRITICAL] + [NORMAL] * 5)
    for batch in team.poll(one):
        team.ack(batch)
    team.publish("x")
    team = team.restart()
    assert team.cursor().heads is not None
    found = offsets_while(team, one, lambda: ask_to_reset(team))
    assert sorted([*found, *all_of(team, one)]) == list(range(7))


def test_lane_leases_refused_by_disk_are_delivered_later() -> None:
    team, one = team_with([CRITICAL] * 5 + [NORMAL] * 5)
    refused = team.polling(one, 5)
    begin(refused)

    def meanwhile() -> None:
        team.running.refuse_writes("*/__consumer_offsets/*")
        team.running.flush()
        with pytest.raises(DiskFull):
            refused.throw(DiskFull("the disk is full"))

    found = offsets_while(team, one, meanwhile, 5)
    assert sorted([*found, *all_of(team, one)]) == list(range(10))
