"""The rules of a producer with transactions: its requests, and what answers mean, without a broker."""

import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from goqueue.client.accumulator import Accumulator, topic_queues
from goqueue.client.api_request import ApiRequest
from goqueue.client.delivery import SendBatch
from goqueue.client.message_encoding import frame_fields
from goqueue.client.producer_core import Options
from goqueue.client.publish_requests import SectionResult
from goqueue.client.sender import SendStep
from goqueue.client.transaction_acks import TransactionAcks
from goqueue.client.transaction_core import TransactionalSender, TransactionPhase
from goqueue.errors import (
    BrokerOverloaded,
    BrokerUnreachable,
    GoQueueError,
    LogFenced,
    ProducerFenced,
    RequestInvalid,
    RequestTimedOut,
    TransactionAborted,
    TransactionFull,
    TransactionNotOpen,
)
from goqueue.limits import MIB, REASON_CHARACTERS_MAX
from goqueue.partitioner import murmur3
from goqueue.storage import frame
from goqueue.testing.clock import ManualClock
from tests.client.test_accumulator import identity, messages

ABORTED = TransactionAborted("it was aborted", reason="restart")
FENCED = ProducerFenced("there is another one")
LOST = BrokerUnreachable("not reachable", unsure=True)


def asked(call: ApiRequest[Any]) -> tuple[str, Any]:
    """The path and the query or body of a call."""
    url = urlsplit(call.path)
    if url.query:
        return url.path, {name: values[0] for name, values in parse_qs(url.query).items()}
    body = b"".join(call.body)
    return url.path, msgspec.json.decode(body) if body.startswith(b"{") else {}


class Sender:
    """A producer with transactions without its thread; it has an epoch and an open transaction."""

    def __init__(self, *, identified: bool = True, opened: bool = True, **options: Any) -> None:
        chosen = Options(linger=0, transactional_id="orders-1", transaction_timeout="30s", **options)
        self.clock = ManualClock()
        self.accumulator = Accumulator(chosen.rules(), self.clock)
        self.dispatch = TransactionalSender(self.accumulator, self.clock, chosen)
        self.topic = topic_queues("t", 2, murmur3, MIB)
        if identified:
            self.dispatch.done(self.step(), (7, 3))
        if opened:
            self.dispatch.open(TransactionAcks())

    def add(self, value: bytes = b"x", partition: int = 0, *, delayed: bool = False) -> SendBatch:
        topic = self.topic.delayed if delayed else self.topic
        due = ("__deliver_in", struct.pack(">Q", 10**9)) if delayed else None
        content = frame.encode(value, flags=frame.TRANSACTIONAL)
        origin = frame_fields(frame.NO_HEADERS, value, flags=frame.TRANSACTIONAL)
        return self.accumulator.add_many(topic, topic.queues[partition], [content], len(content), origin, due)

    def step(self) -> SendStep:
        step, _, _ = self.dispatch.next()
        assert step is not None
        return step

    def idle(self) -> float | None:
        step, seconds, _ = self.dispatch.next()
        assert step is None
        return seconds

    def deliver(self, outcome: Any = None) -> SendStep:
        step = self.step()
        results = [SectionResult(batch.partition, 0, batch.count) for batch in step.batches]
        self.dispatch.done(step, results if outcome is None else outcome)
        return step

    def end(self, script: Any, *outcomes: Any) -> list[tuple[str, Any]]:
        """Carry out how it ends, with these outcomes of its calls; gives what was asked."""
        self.dispatch.ending()
        calls: list[tuple[str, Any]] = []
        left: list[Any] = list(outcomes)
        outcome: Any = None
        try:
            while True:
                call = script.throw(outcome) if isinstance(outcome, GoQueueError) else script.send(outcome)
                calls.append(asked(call))
                outcome = left.pop(0)
        except StopIteration:
            return calls
        finally:
            script.close()
            self.calls = calls
            self.dispatch.over()
            assert left == []

    def commit(self, *outcomes: Any) -> list[tuple[str, Any]]:
        return self.end(self.dispatch.commit(), *outcomes)

    def abort(self, *outcomes: Any) -> list[tuple[str, Any]]:
        return self.end(self.dispatch.abort("no more"), *outcomes)


def delivered() -> Sender:
    """One with a message of its transaction at the broker."""
    sender = Sender()
    sender.add()
    sender.deliver()
    return sender


WHOSE = {"transactional_id": "orders-1", "producer_id": 7, "epoch": 3}

# --- who it is ---


def test_epoch_is_requested_before_the_first_send() -> None:
    sender = Sender(identified=False, opened=False)
    step = sender.step()
    assert asked(step.call) == ("/producers/init", {"transactional_id": "orders-1", "transaction_timeout_ms": 30_000})
    sender.dispatch.done(step, (7, 3))
    assert sender.accumulator.identity == (7, 3)
    assert sender.idle() is None


def test_epoch_request_is_retried() -> None:
    sender = Sender(identified=False, opened=False)
    sender.deliver(LOST)
    assert not sender.dispatch.is_ready
    sender.clock.advance((sender.idle() or 0) + 0.001)
    sender.deliver((7, 3))
    assert sender.dispatch.is_ready


def test_who_waits_in_vain_for_an_epoch_is_told_why() -> None:
    sender = Sender(identified=False, opened=False)
    with pytest.raises(RequestTimedOut, match="orders-1"):
        sender.dispatch.open(TransactionAcks())
    sender.deliver(LOST)
    with pytest.raises(BrokerUnreachable, match="not reachable"):
        sender.dispatch.open(TransactionAcks())


def test_refused_epoch_is_requested_again_for_the_next_transaction() -> None:
    sender = Sender(identified=False, opened=False)
    sender.deliver(TransactionFull("too many ids"))
    assert sender.dispatch.is_ready
    assert sender.idle() is None
    sender.dispatch.want()
    sender.deliver(TransactionFull("too many ids"))
    with pytest.raises(TransactionFull):
        sender.dispatch.open(TransactionAcks())
    sender.dispatch.want()
    sender.deliver((7, 3))
    sender.dispatch.open(TransactionAcks())


# --- what it sends ---


def test_the_first_publication_begins_the_transaction_and_the_next_do_not() -> None:
    sender = Sender()
    sender.add()
    assert asked(sender.deliver().call) == ("/topics/t/messages", {"producer_id": "7", "epoch": "3", "begin": "true"})
    sender.add()
    assert asked(sender.deliver().call) == ("/topics/t/messages", {"producer_id": "7", "epoch": "3"})


def test_a_publication_that_was_lost_begins_it_again() -> None:
    sender = Sender()
    sender.add()
    first = sender.deliver(LOST)
    sender.clock.advance(10)
    second = sender.step()
    assert (asked(second.call)[1]["begin"], second.call.body) == ("true", first.call.body)


def test_every_frame_says_that_it_is_of_a_transaction_and_the_first_whose() -> None:
    sender = Sender()
    for _ in range(3):
        sender.add()
    (section,) = sender.step().call.body
    assert identity(bytes(section)) == (7, 3, 0, 3)
    assert all(message.flags & frame.TRANSACTIONAL for message in messages(bytes(section)))


def test_sequences_begin_anew_with_each_epoch_also_in_the_delayed_log() -> None:
    sender = Sender()
    for epoch in (3, 4):
        if epoch == 4:
            sender.commit((7, 4))
            sender.dispatch.open(TransactionAcks())
        for sequence in (0, 1):
            sender.add(delayed=False)
            sender.add(delayed=True)
            marks = [identity(bytes(section)) for section in sender.deliver().call.body]
            assert marks == [(7, epoch, sequence, 1)] * 2


# --- how it ends ---


def test_an_empty_transaction_asks_nothing_and_keeps_its_epoch() -> None:
    for end in (Sender.commit, Sender.abort):
        sender = Sender()
        assert end(sender) == []
        assert sender.accumulator.identity == (7, 3)


def test_the_answer_to_the_end_has_the_next_epoch() -> None:
    for end, path in ((Sender.commit, "commit"), (Sender.abort, "abort")):
        sender = Sender()
        sender.add()
        sender.deliver()
        ((asked_path, body),) = end(sender, (7, 4))
        assert (asked_path, {**body, **WHOSE}) == (f"/transactions/{path}", body)
        assert sender.accumulator.identity == (7, 4)
        assert sender.dispatch.phase is TransactionPhase.IDLE


def test_what_failed_aborts_the_transaction_and_is_raised_by_the_commit() -> None:
    sender = Sender()
    sender.add()
    sender.deliver(LogFenced("the disk is gone"))
    assert isinstance(sender.dispatch.refusal, LogFenced)
    with pytest.raises(LogFenced):
        sender.commit((7, 4))
    assert sender.calls == [("/transactions/abort", {**WHOSE, "reason": "LogFenced: the disk is gone"})]
    assert sender.accumulator.identity == (7, 4)


def test_one_refused_partition_fails_all_of_it() -> None:
    sender = Sender()
    sender.add(partition=0)
    sender.add(partition=1)
    refused = SectionResult(1, error={"error": "full", "code": "message_too_large"})
    sender.deliver([SectionResult(0, 0, 1), refused])
    with pytest.raises(GoQueueError, match="full"):
        sender.commit((7, 4))
    assert [path for path, _ in sender.calls] == ["/transactions/abort"]


def test_what_was_not_delivered_is_never_committed() -> None:
    sender = delivered()
    late = sender.add()
    with pytest.raises(TransactionAborted):
        sender.commit((7, 4))
    assert isinstance(late.error, TransactionAborted)


@pytest.mark.parametrize("error", [ABORTED, TransactionNotOpen("nothing is open")])
def test_an_abort_of_what_is_over_already_is_no_failure(error: GoQueueError) -> None:
    sender = delivered()
    assert len(sender.abort(error)) == 1
    assert sender.accumulator.identity is None


def test_what_the_broker_has_aborted_is_not_aborted_again() -> None:
    sender = Sender()
    sender.add()
    sender.deliver(ABORTED)
    with pytest.raises(TransactionAborted) as error:
        sender.commit()
    assert (error.value, sender.calls) == (ABORTED, [])
    assert asked(sender.step().call)[0] == "/producers/init"


@pytest.mark.parametrize("outcome", [LOST, RequestTimedOut("no answer")])
def test_a_commit_whose_outcome_is_not_known_says_where_to_look(outcome: GoQueueError) -> None:
    sender = delivered()
    with pytest.raises(type(outcome)) as error:
        sender.commit(outcome)
    assert "client.transaction('orders-1')" in (error.value.hint or "")
    assert asked(sender.step().call)[0] == "/producers/init"


def test_after_an_abort_that_was_lost_the_next_epoch_is_asked_for() -> None:
    sender = delivered()
    former = sender.accumulator.identity
    with pytest.raises(BrokerUnreachable):
        sender.abort(LOST)
    path, body = asked(sender.step().call)
    assert (path, (body["producer_id"], body["epoch"])) == ("/producers/init", former)


def test_what_comes_back_late_is_of_no_transaction() -> None:
    sender = Sender()
    sender.add()
    late = sender.step()
    sender.abort((7, 4))
    assert sender.dispatch.done(late, FENCED) == []
    sender.dispatch.open(TransactionAcks())
    assert sender.dispatch.done(late, [SectionResult(0, 0, 1)]) == []
    assert sender.dispatch.refusal is None
    sender.add()
    assert asked(sender.step().call)[1]["begin"] == "true"


def test_a_step_that_is_under_way_when_it_ends_changes_nothing() -> None:
    sender = Sender()
    batch = sender.add()
    step = sender.step()
    sender.dispatch.ending()
    assert sender.dispatch.done(step, FENCED) == []
    assert isinstance(batch.error, TransactionAborted)
    assert isinstance(sender.dispatch.refusal, RequestInvalid)


# --- another one has taken over ---


def fenced_while_it_sends(sender: Sender) -> None:
    sender.deliver(FENCED)
    with pytest.raises(ProducerFenced):
        sender.commit()


def fenced_while_it_commits(sender: Sender) -> None:
    sender.deliver()
    with pytest.raises(ProducerFenced):
        sender.commit(FENCED)


def fenced_while_it_aborts(sender: Sender) -> None:
    sender.deliver()
    with pytest.raises(ProducerFenced):
        sender.abort(FENCED)


def fenced_while_it_asks_how_to_go_on(sender: Sender) -> None:
    sender.deliver()
    with pytest.raises(TransactionAborted):
        sender.commit(ABORTED)
    sender.dispatch.done(sender.step(), FENCED)


FENCES = (fenced_while_it_sends, fenced_while_it_commits, fenced_while_it_aborts, fenced_while_it_asks_how_to_go_on)


@pytest.mark.parametrize("fence", FENCES)
def test_a_fenced_producer_says_so_from_then_on(fence: Callable[[Sender], None]) -> None:
    sender = Sender()
    sender.add()
    fence(sender)
    assert sender.dispatch.refusal is FENCED
    with pytest.raises(ProducerFenced):
        sender.dispatch.want()
    assert sender.idle() is None


# --- one at a time ---


def test_one_transaction_is_open_at_a_time() -> None:
    sender = Sender()
    with pytest.raises(RequestInvalid, match="one at a time"):
        sender.dispatch.want()
    sender.dispatch.ending()
    with pytest.raises(RequestInvalid, match="one at a time"):
        sender.dispatch.open(TransactionAcks())


def test_outside_of_a_transaction_nothing_is_sent() -> None:
    refusal = Sender(opened=False).dispatch.refusal
    assert isinstance(refusal, RequestInvalid)
    assert "tx.send" in (refusal.hint or "")


# --- heartbeats ---


def test_what_the_broker_does_not_know_needs_no_heartbeat() -> None:
    sender = Sender(opened=False)
    assert sender.idle() is None
    sender.dispatch.open(TransactionAcks())
    assert sender.idle() is None


def test_after_a_third_of_the_timeout_in_silence_it_beats() -> None:
    sender = delivered()
    assert sender.idle() == pytest.approx(10)
    sender.clock.advance(9)
    sender.add()
    sender.deliver()  # which is a sign of life
    sender.clock.advance(9)
    assert sender.idle() == pytest.approx(1)
    sender.clock.advance(1)
    beat = sender.deliver({"ok": True})
    assert asked(beat.call) == ("/producers/7/heartbeat", {"transactional_id": "orders-1", "epoch": 3})
    assert sender.idle() == pytest.approx(10)


def test_a_heartbeat_that_is_lost_is_repeated_soon() -> None:
    sender = delivered()
    sender.clock.advance(10)
    sender.deliver(BrokerOverloaded("busy"))
    assert (sender.idle() or 0) < 1
    assert sender.dispatch.refusal is None


def test_a_heartbeat_learns_that_the_transaction_was_aborted() -> None:
    sender = delivered()
    sender.clock.advance(10)
    sender.deliver(ABORTED)
    assert sender.dispatch.refusal is ABORTED
    assert sender.idle() is None


def test_while_it_ends_nothing_beats() -> None:
    sender = delivered()
    sender.dispatch.ending()
    sender.clock.advance(100)
    assert sender.idle() is None


# --- options ---


@pytest.mark.parametrize("timeout", [30, "30s", timedelta(seconds=30)])
def test_a_timeout_is_said_as_everywhere(timeout: Any) -> None:
    chosen = Options(transactional_id="x", transaction_timeout=timeout)
    clock = ManualClock()
    dispatch = TransactionalSender(Accumulator(chosen.rules(), clock), clock, chosen)
    step, _, _ = dispatch.next()
    assert step is not None
    assert asked(step.call)[1]["transaction_timeout_ms"] == 30_000


def test_a_reason_is_no_longer_than_the_broker_takes() -> None:
    sender = delivered()
    ((_, body),) = sender.end(sender.dispatch.abort("x" * 100_000), (7, 4))
    assert len(body["reason"]) == REASON_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"transactional_id": ""}, "transactional_id"),
        ({"transactional_id": 7}, "transactional_id"),
        ({"transactional_id": "x", "acks": "none"}, "acks"),
        ({"transactional_id": "x", "idempotent": False}, "idempotent"),
        ({"transactional_id": "x", "transaction_timeout": 0.5}, "0.5 seconds"),
        ({"transactional_id": "x", "transaction_timeout": "1h"}, "3600 seconds"),
        ({"transactional_id": "x", "transaction_timeout": "soon"}, "transaction_timeout"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestInvalid, match=sentence):
        Options(**options)
