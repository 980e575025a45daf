"""Runs functions on schedules: each schedule is a chain of delayed messages, each of which publishes the next one.

All messages of a chain have its name as key, so they are handled one at a time and in order. There are three kinds:

- A `tick` is delayed until its schedule is due. Handling it publishes a `run` and the next tick, and acks it, in one
  transaction. So a kill neither doubles nor loses the chain, and any number of processes may do this.
- A `run` calls the function. It is retried and dead-lettered like any message, and does not hold up the chain for ever.
- A `start` is published by each worker that starts. Handling it begins the chain if no tick is pending, and replaces a
  pending tick of another schedule.

What must stay true: a tick publishes the next one only if none is pending. So chains that were begun twice, by a worker
that did not see a tick on its way, become one again. A tick records the time `since` when it was published; another
tick that was due by then has been run.
"""

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from goqueue.client._sync.client import Client
from goqueue.client._sync.transaction import Transaction, TransactionalProducer
from goqueue.client.handler_options import LOG
from goqueue.client.leased_message import Delivered
from goqueue.client.schedule import Schedule, parse_schedule
from goqueue.client.times import Nanoseconds
from goqueue.clock import NANOSECONDS
from goqueue.errors import (
    DelayedNotPending,
    GoQueueError,
    ProducerFenced,
    TopicExists,
    TransactionAborted,
    TransientError,
)
from goqueue.limits import DELAY_SECONDS_MAX
from goqueue.quantities import format_time, parse_time

UNKNOWN_RETRY_SECONDS = 60.0
"""The delay of a retry of which this process has no function: a process of another version may have it."""

_PAUSE_SECONDS = 0.5
_DELAY_NS_MAX = round((DELAY_SECONDS_MAX - 86_400) * NANOSECONDS)


@dataclass(frozen=True, slots=True)
class Job:
    """A function and when it runs."""

    schedule: Schedule
    function: Callable[[], object]

    def call(self) -> None:
        result = self.function()
        if inspect.iscoroutine(result):
            asyncio.run(result)


class ScheduleChain:
    """The chains of one worker's schedules; `handle` is the handler of their topic."""

    def __init__(self, client: Client, topic: str, jobs: Mapping[str, Job], now_ns: Callable[[], int] = time.time_ns):
        self._client = client
        self._topic = topic
        self._jobs = jobs
        self._now_ns = now_ns
        self._lock = threading.Lock()
        """Guards the producer, which has one transaction at a time."""
        self._producer: TransactionalProducer | None = None

    def start(self) -> None:
        """Create the topic, and have each chain begun if it is not under way."""
        with suppress(TopicExists):
            self._client.create_topic(self._topic, partitions=1)
        for name, job in self._jobs.items():
            self._client.publish(self._topic, _encode("start", job.schedule), key=name)

    def close(self) -> None:
        """Close the producer; the next transaction opens another one."""
        with self._lock, suppress(GoQueueError):
            producer, self._producer = self._producer, None
            if producer is not None:
                producer.close()

    def handle(self, message: Delivered) -> None:
        entry = json.loads(message.value or b"{}")
        name = (message.key or b"").decode()
        job = self._jobs.get(name)
        if job is None and entry["kind"] != "start":
            LOG.warning("schedule %s is not in this worker: it was removed, or is in another version of it", name)
            message.nack(UNKNOWN_RETRY_SECONDS, f"no schedule {name} in this worker")
            return
        if job is not None and entry["kind"] == "run":
            job.call()
            return
        try:
            self._continue(name, entry, message)
        except (TransientError, ProducerFenced, TransactionAborted) as error:
            # Not a failure: too many of them would end the chain.
            LOG.warning("schedule %s: %s; trying again", name, error.sentence)
            self.close()
            threading.Event().wait(_PAUSE_SECONDS)
            message.release()

    def _continue(self, name: str, entry: dict[str, str], message: Delivered) -> None:
        """Handle a start or a tick."""
        job = self._jobs.get(name)
        schedule = parse_schedule(entry["schedule"]) if job is None else job.schedule
        since = max(self._now_ns(), message.timestamp_ns)
        due_ns = parse_time(entry["due"]) if entry["kind"] == "tick" else None
        pending = self._pending(name, due_ns or 0)
        if due_ns is None:
            for other in [one for one in pending if one["schedule"] != str(schedule)]:
                with suppress(DelayedNotPending):
                    self._client.cancel_delayed(self._topic, other["partition"], other["offset"])
            pending = [one for one in pending if one["schedule"] == str(schedule)]
        must_run = due_ns is not None and all(parse_time(one["since"]) < due_ns for one in pending)
        with self._lock, self._transaction() as transaction:
            if must_run:
                transaction.send(self._topic, _encode("run", schedule, due=entry["due"]), key=name)
            if not pending:
                value, time_ns = following(schedule, since)
                transaction.send(self._topic, value, key=name, deliver_at=Nanoseconds(time_ns))
            transaction.ack(message)

    def _pending(self, name: str, after_ns: int) -> list[dict[str, Any]]:
        """Return the pending ticks of a chain that are due later than `after_ns`."""
        listed = self._client.delayed(self._topic, filters=[f"key={name}"])["messages"]
        found = []
        for one in listed:
            if parse_time(one["deliver_at"]) > after_ns:
                shown = self._client.delayed_message(self._topic, one["partition"], one["offset"])
                found.append(one | json.loads(shown["value"]))
        return found

    def _transaction(self) -> Transaction:
        """Return a transaction of this worker. Another worker that has the partition by now fences it."""
        if self._producer is None:
            self._producer = self._client.producer(transactional_id=self._topic)
        return self._producer.transaction()


def following(schedule: Schedule, since_ns: int) -> tuple[str, int]:
    """Return the next tick and its time; a start at the longest delay if the schedule is due later than that."""
    due_ns, latest_ns = schedule.next_after(since_ns), since_ns + _DELAY_NS_MAX
    times = {"due": format_time(due_ns), "since": format_time(since_ns)}
    return _encode("tick" if due_ns <= latest_ns else "start", schedule, **times), min(due_ns, latest_ns)


def _encode(kind: str, schedule: Schedule, **times: str) -> str:
    return json.dumps({"kind": kind, "schedule": str(schedule)} | times)
