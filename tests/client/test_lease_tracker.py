"""The rules of a consumer's leases, without threads or sockets, against a broker of a few lines."""

import gc
import struct
from typing import Any

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.client.api_request import ApiResponse
from goqueue.client.lease import OffsetRanges, count_offsets
from goqueue.client.lease_tracker import LeaseTracker, SettlementBatch
from goqueue.client.leased_message import Batch, Delivered, decode
from goqueue.client.member_requests import ReceivedPoll, TopicPartition, _polled
from goqueue.client.serializers.message_decoding import MessageDecoding
from goqueue.errors import BrokerUnreachable, RequestInvalid, RequestTimedOut
from goqueue.storage import frame
from tests.client.group_peers import LATE, RESULTS, leases_reply

RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=20)


@given(RANGES)
def test_intervals_are_a_set_of_offsets(added: list[tuple[int, int]]) -> None:
    intervals, twin = OffsetRanges(), set[int]()
    for first, end in added:
        fresh = intervals.add(first, end)
        assert {offset for low, high in fresh for offset in range(low, high)} == set(range(first, end)) - twin
        assert count_offsets(fresh) == len(set(range(first, end)) - twin)
        twin |= set(range(first, end))
        assert {offset for low, high in intervals.ranges() for offset in range(low, high)} == twin
        assert all(
            before < after for (_, before), (after, _) in zip(intervals.ranges(), intervals.ranges()[1:], strict=False)
        )
    for first in range(31):
        for end in range(first, 31):
            assert intervals.covers(first, end) == (set(range(first, end)) <= twin)


def answer_of(reply: bytes) -> ApiResponse:
    head, _, body = reply.partition(b"\r\n\r\n")
    checksum = head.lower().partition(b"x-goqueue-checksum: ")[2]
    return ApiResponse(200, {b"x-goqueue-checksum": checksum}, body)


def polled(name: str, offsets: list[int], *, partition: int = 0, end: int | None = None) -> ReceivedPoll:
    """An answer with one lease."""
    content = b"".join(frame.encode(b"%d" % offset, offset=offset) for offset in offsets)
    leased = {
        "topic": "t",
        "partition": partition,
        "lease": name,
        "first": offsets[0],
        "end": end or offsets[-1] + 1,
        "attempt": 1,
        "failures": 0,
        "visibility": 10.0,
        "bytes": len(content),
    }
    return _polled(
        answer_of(leases_reply({"generation": 1, "rebalance_required": False, "leases": [leased]}, [content]))
    )


class Unused:
    """Owns leases of which nothing is awaited."""

    decoding: MessageDecoding | None = None

    def durable(self, *_: Any) -> Any:
        raise AssertionError

    reserve = finish_reservation = durable


def leases_of(*, extend: bool = True) -> LeaseTracker:
    return LeaseTracker(Unused(), lambda: None, extend=extend)


def hand_out(leases: LeaseTracker) -> Batch:
    part = leases.next()
    assert part is not None
    messages, gaps = decode(*part)
    part[0].held.skip(gaps)
    return Batch(part[0], messages)


def taken(leases: LeaseTracker, *offsets: int, now: float = 0.0, **more: Any) -> Batch:
    leases.took(polled("lease", list(offsets), **more), now)
    return hand_out(leases)


def gathered(leases: LeaseTracker) -> SettlementBatch:
    settlement = leases.gather(0.0)
    assert settlement is not None
    return settlement


def wire(settlement: SettlementBatch | None) -> dict[str, Any]:
    """Return what would be sent, without the names of the lease."""
    if settlement is None:
        return {}
    named = ("topic", "partition", "lease")
    return {
        action: [{word: value for word, value in entry.items() if word not in named} for entry in entries]
        for action, entries in msgspec.json.decode(msgspec.json.encode(settlement.to_wire())).items()
    }


# --- what is sent ---


def test_acks_in_order_are_one_range() -> None:
    leases = leases_of()
    for message in taken(leases, *range(100)):
        message.ack()
    assert wire(leases.gather(0.0)) == {"acks": [{"ranges": [[0, 100]]}]}
    assert leases.is_idle


def test_acks_in_any_order_are_few_ranges() -> None:
    leases = leases_of()
    batch = taken(leases, *range(10))
    for index in (3, 1, 2, 9, 8):
        batch[index].ack()
    assert wire(leases.gather(0.0)) == {"acks": [{"ranges": [[1, 4], [8, 10]]}]}
    assert not leases.is_idle
    batch.ack()
    assert wire(leases.gather(0.0)) == {"acks": [{"ranges": [[0, 1], [4, 8]]}]}


def test_offsets_without_messages_do_not_part_a_range() -> None:
    leases = leases_of()
    for message in taken(leases, 3, 5, 6, 9, end=12):
        message.ack()
    assert wire(leases.gather(0.0)) == {"acks": [{"ranges": [[3, 12]]}]}
    assert leases.is_idle


def test_of_offsets_without_messages_only_the_neighbours_are_told() -> None:
    """Where messages of other lanes lie between there are as many of them as messages."""
    leases = leases_of()
    batch = taken(leases, *range(0, 100, 2))
    batch[10].ack()
    assert wire(leases.gather(0.0)) == {"acks": [{"ranges": [[19, 22]]}]}
    for message in batch[:10]:
        message.ack()
    assert wire(leases.gather(0.0)) == {"acks": [{"ranges": [[0, 20]]}]}
    batch.ack()
    assert wire(leases.gather(0.0)) == {"acks": [{"ranges": [[21, 99]]}]}
    assert leases.is_idle


def test_the_first_word_counts() -> None:
    leases = leases_of()
    first, second, third = taken(leases, 0, 1, 2)
    first.reject(reason="bad")
    first.ack()
    second.ack()
    second.nack(delay="5s")
    third.nack(delay="1500ms", reason="later")
    third.reject()
    assert wire(leases.gather(0.0)) == {
        "rejects": [{"ranges": [[0, 1]], "reason": "bad"}],
        "acks": [{"ranges": [[1, 2]]}],
        "nacks": [{"ranges": [[2, 3]], "delay": 1.5, "reason": "later"}],
    }


def test_nacks_alike_are_one_entry() -> None:
    leases = leases_of()
    batch = taken(leases, *range(4))
    for message in batch[:3]:
        message.nack(delay=1)
    batch[3].nack(delay=2)
    found = wire(leases.gather(0.0))["nacks"]
    assert sorted(found, key=lambda entry: entry["delay"]) == [
        {"ranges": [[0, 1], [1, 2], [2, 3]], "delay": 1.0},
        {"ranges": [[3, 4]], "delay": 2.0},
    ]


def test_a_block_acks_nacks_or_releases() -> None:
    leases = leases_of()
    first, second, third = taken(leases, 0, 1, 2)
    with first:
        pass
    for message, error in ((second, ValueError("no")), (third, KeyboardInterrupt())):
        with pytest.raises(type(error)), message:
            raise error
    assert wire(leases.gather(0.0)) == {
        "acks": [{"ranges": [[0, 1]]}],
        "nacks": [{"ranges": [[1, 2]], "reason": "ValueError: no"}],
        "releases": [{"ranges": [[2, 3]]}],
    }


def test_a_batch_is_settled_but_for_what_was_settled_before() -> None:
    leases = leases_of()
    with taken(leases, *range(5)) as batch:
        batch[2].nack()
    assert wire(leases.gather(0.0)) == {"nacks": [{"ranges": [[2, 3]]}], "acks": [{"ranges": [[0, 2], [3, 5]]}]}


def test_a_request_has_so_many_ranges_and_the_rest_comes_next() -> None:
    leases = leases_of()
    batch = taken(leases, *range(20_001))
    for message in batch[::2]:
        message.nack()
    sizes = []
    while (settlement := leases.gather(0.0)) is not None:
        sizes.append(sum(len(entry.ranges) for entry in settlement.entries))
    assert sizes == [5_000, 5_000, 1]


# --- extensions ---


def test_a_lease_in_use_is_extended_at_half_its_time() -> None:
    leases = leases_of()
    batch = taken(leases, 0, 1, now=100.0)
    batch[0].ack()
    assert "extensions" not in wire(leases.gather(104.9))
    assert wire(leases.gather(105.0)) == {"extensions": [{"timeout": 10.0}]}
    assert wire(leases.gather(109.9)) == {}
    assert wire(leases.gather(110.0)) == {"extensions": [{"timeout": 10.0}]}
    batch[1].ack()
    assert "extensions" not in wire(leases.gather(120.0))


def test_lease_without_live_messages_is_not_extended() -> None:
    leases = leases_of()
    batch = taken(leases, 0, 1)
    message = batch[1]
    del batch
    assert wire(leases.gather(6.0)) == {"extensions": [{"timeout": 10.0}]}
    del message
    assert leases.gather(100.0) is None
    assert leases.is_idle


def test_what_was_not_handed_out_yet_is_extended() -> None:
    leases = leases_of()
    leases.took(polled("lease", [0, 1]), 0.0)
    assert wire(leases.gather(6.0)) == {"extensions": [{"timeout": 10.0}]}


def test_an_extension_that_was_asked_for_counts_from_then() -> None:
    leases = leases_of()
    batch = taken(leases, 0)
    batch[0].extend("2m")
    assert wire(leases.gather(1.0)) == {"extensions": [{"timeout": 120.0}]}
    assert leases.gather(60.0) is None
    assert wire(leases.gather(61.0)) == {"extensions": [{"timeout": 10.0}]}


def test_leases_are_not_extended_when_the_option_is_off() -> None:
    leases = leases_of(extend=False)
    batch = taken(leases, 0)
    assert leases.gather(9.0) is None
    batch.extend(20)
    assert wire(leases.gather(9.0)) == {"extensions": [{"timeout": 20.0}]}


def test_a_lease_that_is_lost_is_not_extended() -> None:
    leases = leases_of()
    batch = taken(leases, 0)
    leases.drop([TopicPartition("t", 0)])
    assert leases.gather(9.0) is None
    batch.ack()  # late, and the broker says so
    assert wire(leases.gather(9.0)) == {"acks": [{"ranges": [[0, 1]]}]}


# --- what comes back ---


def test_what_was_refused_is_told_once() -> None:
    leases = leases_of()
    batch = taken(leases, 0, 1, 2)
    batch[0].ack()
    batch[1].ack()
    settlement = gathered(leases)
    assert leases.conclude(settlement, {"acks": [LATE]}, 0.0)
    (refused,) = leases.refused()
    assert (refused.ranges, refused.action, refused.error.code) == ([(0, 2)], "acks", "lease_expired")
    error = leases.failure()
    assert error is not None
    assert (error.code, error.details["refused"]) == ("lease_expired", 2)
    assert (leases.refused(), leases.failure(), leases.stats.refused) == ([], None, 2)


def test_what_may_succeed_later_is_sent_again() -> None:
    leases = leases_of()
    taken(leases, 0).ack()
    settlement = gathered(leases)
    full = {"error": {"error": "full", "code": "disk_full"}}
    assert leases.conclude(settlement, {"acks": [full]}, 0.0)
    assert wire(leases.gather(0.0)) == {"acks": [{"ranges": [[0, 1]]}]}


def test_one_wrong_entry_does_not_spoil_the_others() -> None:
    leases = leases_of()
    batch = taken(leases, 0, 1)
    batch[0].ack()
    batch[1].nack(delay=7)
    settlement = gathered(leases)
    assert leases.conclude(settlement, RequestInvalid("no"), 0.0)
    first, second = gathered(leases), gathered(leases)
    assert {*wire(first), *wire(second)} == {"acks", "nacks"}
    for alone in (first, second):
        nacks = "nacks" in wire(alone)
        assert leases.conclude(alone, RequestInvalid("no") if nacks else {"acks": [{}]}, 0.0)
    assert (leases.stats.acked, leases.stats.refused) == (1, 1)


# --- anything, in any order ---


class Interleavings(RuleBasedStateMachine):
    """The consumer's leases between an application that does what it likes and a broker that loses answers."""

    def __init__(self) -> None:
        super().__init__()
        gc.disable()  # a lease is over when its messages are: at the same step in each run, not when a collector comes
        self.leases = leases_of()
        self.now = 0.0
        self.names = 0
        self.batches: list[Batch] = []
        self.said: dict[tuple[str, int], str] = {}
        """The first word of the application about each message."""
        self.done: dict[tuple[str, int], str] = {}
        """What the broker did."""
        self.valid: set[str] = set()
        self.dropped: set[str] = set()
        self.current: SettlementBatch | None = None

    # --- the application ---

    @rule(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=8), partition=st.integers(0, 1))
    def receive(self, sizes: list[int], partition: int) -> None:
        offsets = [sum(sizes[: index + 1]) for index in range(len(sizes))]
        self.names += 1
        self.valid.add(f"l{self.names}")
        self.leases.took(polled(f"l{self.names}", offsets, partition=partition), self.now)

    @precondition(lambda self: self.leases.has_unread)
    @rule()
    def read(self) -> None:
        part = self.leases.next()
        if part is not None:
            messages, gaps = decode(*part)
            part[0].held.skip(gaps)
            assert part[0].held.leased.lease not in self.dropped
            self.batches.append(Batch(part[0], messages))

    def say(self, message: Delivered, action: str) -> None:
        self.said.setdefault((message._lease.held.leased.lease, message.offset), action)

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), action=st.sampled_from(["acks", "nacks", "rejects", "releases"]))
    def settle_one(self, data: st.DataObject, action: str) -> None:
        batch = data.draw(st.sampled_from(self.batches), "batch")
        message = data.draw(st.sampled_from(batch.messages), "message")
        getattr(message, action.removesuffix("s"))()
        self.say(message, action)

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), action=st.sampled_from(["acks", "nacks", "releases"]))
    def settle_all(self, data: st.DataObject, action: str) -> None:
        batch = data.draw(st.sampled_from(self.batches), "batch")
        getattr(batch, action.removesuffix("s"))()
        for message in batch:
            self.say(message, action)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.batches), "batch").extend(5)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        self.batches.pop(data.draw(st.integers(0, len(self.batches) - 1), "batch"))

    # --- time, and the broker ---

    @rule(seconds=st.floats(0.0, 6.0))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.valid)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        self.valid.discard(data.draw(st.sampled_from(sorted(self.valid)), "lease"))

    @rule(partition=st.integers(0, 1))
    def drop(self, partition: int) -> None:
        self.leases.drop([TopicPartition("t", partition)])
        self.dropped |= {f"l{number}" for number in range(1, self.names + 1)} - {
            held.leased.lease for held in self.leases._held.values() if not held.over
        }

    @precondition(lambda self: self.current is None)
    @rule()
    def send(self) -> None:
        self.current = self.leases.gather(self.now)

    @precondition(lambda self: self.current is not None)
    @rule(arrives=st.booleans(), answered=st.booleans())
    def outcome(self, arrives: bool, answered: bool) -> None:
        assert self.current is not None
        results = self.carry_out(self.current) if arrives else {}
        if arrives and answered:
            assert self.leases.conclude(self.current, results, self.now)
            self.current = None
        else:
            lost = RequestTimedOut("lost", unsure=True)
            assert not self.leases.conclude(self.current, lost, self.now)

    def carry_out(self, settlement: SettlementBatch) -> dict[str, list[dict[str, Any]]]:
        results: dict[str, list[dict[str, Any]]] = {}
        for action, entries in settlement.to_wire().items():
            results[action] = [self.carry_out_one(action, entry) for entry in entries]
        return results

    def carry_out_one(self, action: str, entry: Any) -> dict[str, Any]:
        name = entry["lease"]
        settled = {(name, offset) for first, end in entry.get("ranges", ()) for offset in range(first, end)}
        repeated = bool(settled) and settled <= self.done.keys()
        if name not in self.valid or (repeated and action != "acks"):
            return LATE
        for place in settled - self.done.keys():
            self.done[place] = action
        return RESULTS[action]

    # --- what must stay true ---

    @invariant()
    def settlements_match_what_was_noted(self) -> None:
        for place, action in self.done.items():
            assert self.said.get(place, action) == action
        assert all(action == "acks" for place, action in self.done.items() if place not in self.said)

    @invariant()
    def only_gaps_are_acked_unsaid(self) -> None:
        messages = {
            (batch._lease.held.leased.lease, message.offset) for batch in self.batches for message in batch.messages
        }
        assert not [place for place in self.done if place in messages and place not in self.said]

    def teardown(self) -> None:
        """Nothing is forgotten: what was said is sent to the end."""
        gc.enable()
        while True:
            self.current = self.current or self.leases.gather(self.now)
            if self.current is None:
                break
            assert self.leases.conclude(self.current, self.carry_out(self.current), self.now)
            self.current = None
        assert not self.leases.has_news
        for (name, offset), action in self.said.items():
            if name in self.valid:
                assert self.done.get((name, offset)) == action
        stats = self.leases.stats
        assert stats.acked + stats.nacked + stats.rejected + stats.released + stats.refused == len(self.said)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(stateful_step_count=40)


def test_an_answer_may_have_no_leases() -> None:
    whole = leases_reply({"generation": 1, "rebalance_required": False, "leases": []}, [])
    assert _polled(answer_of(whole)).head.leases == []


@pytest.mark.parametrize("body", [b"", b"\0\0", struct.pack(">I", 5) + b"12345", struct.pack(">I", 2**32 - 1) + b"{}"])
def test_what_is_no_answer_of_leases_is_refused(body: bytes) -> None:
    with pytest.raises(BrokerUnreachable, match="not a GoQueue broker"):
        _polled(ApiResponse(200, {b"x-goqueue-checksum": b"%08x" % crc32c(body)}, body))


def test_leases_that_do_not_fit_their_frames_are_refused() -> None:
    leased = {
        "topic": "t",
        "partition": 0,
        "lease": "l",
        "first": 0,
        "end": 1,
        "attempt": 1,
        "visibility": 1,
        "bytes": 9,
    }
    head = {"generation": 1, "rebalance_required": False, "leases": [leased]}
    with pytest.raises(BrokerUnreachable, match="0 bytes of frames, and its leases 9"):
        _polled(answer_of(leases_reply(head, [])))
