"""The client's methods for delayed messages."""

from collections.abc import Iterable
from typing import Any, TypeVar

from goqueue.client.address import quote
from goqueue.client.admin_requests import JsonObject, filter_texts, given
from goqueue.client.answers import DelayedChanges, DelayedMessage, DelayedMessages
from goqueue.client.api_request import ApiRequest, json_request, operation, with_query
from goqueue.client.times import Delay, DeliverAt, Moment, delay_fields, shift_text, to_text
from goqueue.errors import RequestInvalid
from goqueue.limits import DELAY_SECONDS_FOR_REQUEST

T = TypeVar("T")

_DONE = "call it again: it is refused with delayed_not_pending if that was done"
_GO_ON = "call it again: what was settled is not chosen a second time, and the rest goes on"
_MOVED = "look at the due times before you call it again: a delay begins anew then, and a shift is added once more"


class DelayedMessageAdmin:
    """Delayed messages by their offset in the delayed log, and many of them by filters.

    The methods ending in `_where` take `filters` as a reader does, and due times from `due_from` up to but without
    `due_to`; `dry_run` only counts. They return how many `matched`, were `scanned` and have `changed`, and whether the
    scan is `complete`: one request runs for up to about twenty seconds.
    """

    @operation
    def delayed(  # noqa: PLR0913 - independent options, given by name
        self,
        topic: str,
        limit: int = 100,
        skip: int = 0,
        partition: int | None = None,
        state: str | None = None,
        filters: Iterable[str] | str = (),
        *,
        due_from: Moment | None = None,
        due_to: Moment | None = None,
    ) -> ApiRequest[DelayedMessages]:
        """Return delayed messages of a topic in the order of their due times: `messages`, `count`, `total` pending.

        `state` is "pending" (default), "delivered", "cancelled" or "expired".
        """
        chosen = _selection(filters, due_from, due_to, partition=partition, state=state)
        path = with_query(_path(topic), limit=limit, skip=skip, **chosen)
        patience = DELAY_SECONDS_FOR_REQUEST if chosen["filter"] else 0.0
        return json_request("GET", path, DelayedMessages, patience=patience, place=_leader(topic, partition))

    @operation
    def delayed_message(self, topic: str, partition: int | None, offset: int) -> ApiRequest[DelayedMessage]:
        """Return one with its value and headers. Without a partition, the first that has this offset."""
        path = _path(topic, offset) if partition is None else _path(topic, partition, offset)
        return json_request("GET", path, DelayedMessage, place=_leader(topic, partition))

    @operation
    def cancel_delayed(self, topic: str, partition: int, offset: int) -> ApiRequest[JsonObject]:
        """Cancel a delayed message; only a pending one can be cancelled."""
        place = topic, partition
        return _change(JsonObject, "DELETE", _path(*place, offset), None, _DONE, place=place)

    @operation
    def reschedule_delayed(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> ApiRequest[DelayedMessage]:
        """Deliver it after that delay from now, or at that time. Return its new entry."""
        path, place = _path(topic, partition, offset), (topic, partition)
        return _change(DelayedMessage, "PATCH", path, _due(delay, deliver_at), _MOVED, place=place)

    @operation
    def deliver_delayed(self, topic: str, partition: int, offset: int) -> ApiRequest[JsonObject]:
        """Deliver it now; it is durable in the topic when this returns."""
        path, place = _path(topic, partition, offset, "deliver"), (topic, partition)
        return _change(JsonObject, "POST", path, {}, _DONE, place=place)

    @operation
    def cancel_delayed_where(
        self,
        topic: str,
        filters: Iterable[str] | str = (),
        *,
        partition: int | None = None,
        due_from: Moment | None = None,
        due_to: Moment | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> ApiRequest[DelayedChanges]:
        """Cancel all that match."""
        body = _selection(filters, due_from, due_to, partition=partition, limit=limit, dry_run=dry_run)
        return _change_many(topic, "cancel", body, _GO_ON, partition)

    @operation
    def reschedule_delayed_where(  # noqa: PLR0913 - as above
        self,
        topic: str,
        filters: Iterable[str] | str = (),
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
        shift: Delay | None = None,
        partition: int | None = None,
        due_from: Moment | None = None,
        due_to: Moment | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> ApiRequest[DelayedChanges]:
        """Deliver all that match after a delay, at a time, or moved by a `shift` ("1h", or "-5m" for earlier)."""
        body = _selection(filters, due_from, due_to, partition=partition, limit=limit, dry_run=dry_run)
        if shift is None:
            body |= _due(delay, deliver_at)
        elif delay_fields(delay, deliver_at):
            raise RequestInvalid("messages are shifted, or all moved to one time: give one of them")
        else:
            body["shift"] = shift_text(shift)
        return _change_many(topic, "reschedule", body, _MOVED, partition)

    @operation
    def deliver_delayed_where(
        self,
        topic: str,
        filters: Iterable[str] | str = (),
        *,
        partition: int | None = None,
        due_from: Moment | None = None,
        due_to: Moment | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> ApiRequest[DelayedChanges]:
        """Deliver all that match now."""
        body = _selection(filters, due_from, due_to, partition=partition, limit=limit, dry_run=dry_run)
        return _change_many(topic, "deliver", body, _GO_ON, partition)

    @operation
    def delayed_timeline(self, topic: str, buckets: int | None = None) -> ApiRequest[JsonObject]:
        """Return how many are due when: `pending`, `overdue`, `next_due`, and `buckets` from seconds to a year."""
        return json_request("GET", with_query(_path(topic, "timeline"), buckets=buckets), JsonObject)

    @operation
    def delay_stats(self) -> ApiRequest[JsonObject]:
        """Return the numbers of pending, delivered and cancelled messages, and how late deliveries were."""
        return json_request("GET", "/delay/stats", JsonObject)


def _path(topic: str, *parts: int | str) -> str:
    return "/".join((f"/topics/{quote(topic)}/delayed", *map(str, parts)))


def _due(delay: Delay | None, deliver_at: DeliverAt | None) -> JsonObject:
    found = delay_fields(delay, deliver_at)
    if not found:
        raise RequestInvalid("nothing says when to deliver", hint="give a delay, or deliver_at a time")
    return found


def _selection(
    filters: Iterable[str] | str, due_from: Moment | None, due_to: Moment | None, **options: Any
) -> JsonObject:
    """Return the options of a selection with the broker's names, and times in RFC 3339."""
    times = {name: to_text(time) for name, time in (("from", due_from), ("to", due_to)) if time is not None}
    return given(options) | times | {"filter": filter_texts(filters)}


def _leader(topic: str, partition: int | None) -> tuple[str, int] | None:
    """Return the partition whose leader answers; any node answers for a whole topic."""
    return None if partition is None else (topic, partition)


def _change_many(
    topic: str, what: str, body: JsonObject, unsure_hint: str, partition: int | None
) -> ApiRequest[DelayedChanges]:
    """Return a change of many messages. With filters, the scan may take longer than the timeout."""
    path, place = _path(topic, what), _leader(topic, partition)
    return _change(DelayedChanges, "POST", path, body, unsure_hint, DELAY_SECONDS_FOR_REQUEST, place=place)


def _change(
    kind: type[T],
    method: str,
    path: str,
    body: JsonObject | None,
    unsure_hint: str,
    patience: float = 0.0,
    *,
    place: tuple[str, int] | None,
) -> ApiRequest[T]:
    """Return a request that is not repeated automatically: a second one may hide that the first succeeded.

    The hint is for the case that its answer was lost.
    """
    return json_request(
        method, path, kind, body, idempotent=False, patience=patience, unsure_hint=unsure_hint, place=place
    )
