"""Runs delayed messages on the event loop."""

import asyncio
import logging
from functools import partial

from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.delay.scheduler import DelayScheduler
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import DELAY_CLOCK_BACK_NS, DELAY_RETRY_SECONDS, DELAY_TIMER_SECONDS
from goqueue.runtime.runner import Runner, Shell

_log = logging.getLogger("goqueue.delay")

_CONCURRENT_PARTITIONS = 16  # each has a batch in memory


class DelayRunner(Runner):
    """Runs the delay scheduler: a timer, and a task for each partition that has messages to deliver."""

    def __init__(self, scheduler: DelayScheduler, clock: Clock, shell: Shell) -> None:
        super().__init__(shell)
        self._scheduler = scheduler
        self._clock = clock
        self._running: set[PartitionDelivery] = set()
        self._run_again: set[PartitionDelivery] = set()
        """Deliveries that became due while they were running."""
        self._paused: dict[PartitionDelivery, float] = {}
        """Until when refused deliveries pause, in the loop's time."""
        self._turn = asyncio.Semaphore(_CONCURRENT_PARTITIONS)
        self._seen_ns = clock.now_ns()

    def start(self) -> None:
        self._scheduler.on_earlier.subscribe(self._arm)
        self._deliver_due()

    # --- the timer ---

    def _arm(self) -> None:
        """Set the timer for the next delivery, at most a second ahead, since the wall clock may be set."""
        when_ns = self._scheduler.next_ns
        left = DELAY_TIMER_SECONDS if when_ns is None else (when_ns - self._clock.now_ns()) / NANOSECONDS
        self._call_in(min(DELAY_TIMER_SECONDS, left), self._deliver_due)

    def _deliver_due(self) -> None:
        now_ns = self._clock.now_ns()
        if now_ns < self._seen_ns - DELAY_CLOCK_BACK_NS:
            self._scheduler.on_clock_set_back()
            self._seen_ns = now_ns
        self._seen_ns = max(self._seen_ns, now_ns)
        for delivery in self._scheduler.due():
            self._start_delivery(delivery)
        self._arm()

    # --- deliveries ---

    def _start_delivery(self, delivery: PartitionDelivery) -> None:
        if delivery in self._running:
            self._run_again.add(delivery)
            return
        left = self._paused.pop(delivery, 0.0) - self._loop.time()
        if left > 0:
            self._pause(delivery, left)
            return
        self._running.add(delivery)
        self._run(self._deliver(delivery)).add_done_callback(partial(self._delivered, delivery))

    async def _deliver(self, delivery: PartitionDelivery) -> None:
        name = delivery.delays.partition.log.name
        try:
            async with self._turn:
                await self._shell.perform(delivery.deliver(lambda: self._is_stopping))
        except GoQueueError as error:
            if not delivery.delays.partition.log.is_closed and delivery.delays.is_led:
                _log.warning("delivery of delayed messages of %s failed and is retried: %s", name, error)
                self._pause(delivery, DELAY_RETRY_SECONDS)
        except Exception:
            _log.exception("delivery of delayed messages of %s failed and is retried", name)
            self._pause(delivery, DELAY_RETRY_SECONDS)
        else:
            self._scheduler.done(delivery)

    def _pause(self, delivery: PartitionDelivery, seconds: float) -> None:
        """Run the delivery again after this time, and not before."""
        self._run_again.discard(delivery)
        self._paused[delivery] = self._loop.time() + seconds
        self._scheduler.retry_later(delivery, self._clock.now_ns() + round(seconds * NANOSECONDS))

    def _delivered(self, delivery: PartitionDelivery, _: object) -> None:
        self._running.discard(delivery)
        if delivery in self._run_again and not self._is_stopping:
            self._run_again.discard(delivery)
            self._start_delivery(delivery)
        else:
            self._arm()
