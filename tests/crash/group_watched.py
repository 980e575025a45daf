"""Consumers that tell a watch which poll brought what, and when it was sent.

An application need not know that, and cannot: answers are asked for ahead of time. The checker has to, since a poll
that was sent before an ack may well bring what the ack covers.
"""

import time
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from goqueue.client import AsyncClient, AsyncConsumer, Client, Consumer
from goqueue.client.api_request import ApiRequest
from goqueue.client.consumer_core import ConsumerCore, parse_consumer_options
from goqueue.client.member_requests import ReceivedPoll
from tests.crash.group_worker import Poll, Watch


class _Watched(ConsumerCore):
    """The recording that both kinds of consumers share."""

    watch: Watch
    _asked_ns = 0

    @property
    @abstractmethod
    def is_asking(self) -> bool:
        """Return whether a poll is under way: then no other one is sent."""

    def _poll(self, idle_left: float | None = None) -> ApiRequest[ReceivedPoll]:
        if not self.is_asking:
            self._asked_ns = time.monotonic_ns()
        return super()._poll(idle_left)

    def _polled(self, polled: ReceivedPoll, since: float) -> None:
        assert self.member_id is not None
        poll = Poll(self._asked_ns, polled.head.generation, self.member_id)
        self.watch.polled([lease.lease for lease in polled.head.leases], poll)
        super()._polled(polled, since)


class WatchedConsumer(_Watched, Consumer):
    @property
    def is_asking(self) -> bool:
        return self._poller.is_under_way


class WatchedAsyncConsumer(_Watched, AsyncConsumer):
    @property
    def is_asking(self) -> bool:
        return self._poller.is_under_way


class WatchedClient(Client):
    def watched(self, watch: Watch, group: str, topics: Iterable[str], **options: Any) -> WatchedConsumer:
        consumer = WatchedConsumer(group, topics, self._connect, parse_consumer_options(options), self._timeout)
        consumer.watch = watch
        return consumer


class WatchedAsyncClient(AsyncClient):
    def watched(self, watch: Watch, group: str, topics: Iterable[str], **options: Any) -> WatchedAsyncConsumer:
        consumer = WatchedAsyncConsumer(group, topics, self._connect, parse_consumer_options(options), self._timeout)
        consumer.watch = watch
        return consumer
