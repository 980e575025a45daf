"""The calls about delayed messages that were not delivered yet."""

from collections.abc import Iterable
from typing import Any

import msgspec

from goqueue.client.address import quote
from goqueue.client.calls import Call
from goqueue.client.due import Delay, DeliverAt, fields_of, shift_text
from goqueue.client.endpoints import ask, filter_texts
from goqueue.client.times import to_text
from goqueue.errors import RequestInvalid
from goqueue.limits import DELAY_SECONDS_FOR_REQUEST

Facts = dict[str, Any]

_DONE = "call it again: it is refused with delayed_not_pending if that was done"
_GO_ON = "call it again: what was settled is not chosen a second time, and the rest goes on"
_MOVED = "look at the due times before you call it again: a delay begins anew then, and a shift is added once more"


def listed(topic: str, limit: int, skip: int, wishes: Facts, filters: Iterable[str] | str) -> Call[Facts]:
    """`wishes` are `partition`, `state`, `due_from` and `due_to`, of which None chooses nothing."""
    given: Facts = {"limit": limit, "skip": skip} | _chosen(wishes, filters)
    texts = given.pop("filter")
    pairs = [*given.items(), *(("filter", text) for text in texts)]
    query = "&".join(f"{word}={quote(str(value))}" for word, value in pairs)
    return _searching(ask("GET", f"{_path(topic)}?{query}", Facts), bool(texts))


def message(topic: str, partition: int | None, offset: int) -> Call[Facts]:
    place = (offset,) if partition is None else (partition, offset)
    return ask("GET", _path(topic, *place), Facts)


def cancel(topic: str, partition: int, offset: int) -> Call[Facts]:
    """A second one would be refused, and hide that the first one was not; so nothing here is repeated unasked."""
    return _unsure(_DONE, "DELETE", _path(topic, partition, offset))


def reschedule(
    topic: str, partition: int, offset: int, delay: Delay | None, deliver_at: DeliverAt | None
) -> Call[Facts]:
    return _unsure(_MOVED, "PATCH", _path(topic, partition, offset), _when(delay, deliver_at))


def deliver(topic: str, partition: int, offset: int) -> Call[Facts]:
    return _unsure(_DONE, "POST", f"{_path(topic, partition, offset)}/deliver", {})


def cancel_where(topic: str, filters: Iterable[str] | str, wishes: Facts) -> Call[Facts]:
    return _many(_GO_ON, f"{_path(topic)}/cancel", _chosen(wishes, filters))


def reschedule_where(
    topic: str,
    filters: Iterable[str] | str,
    wishes: Facts,
    delay: Delay | None,
    deliver_at: DeliverAt | None,
    shift: Delay | None,
) -> Call[Facts]:
    """A shift moves each from where it is."""
    if shift is None:
        when = _when(delay, deliver_at)
    elif fields_of(delay, deliver_at):
        raise RequestInvalid("messages are shifted, or all moved to one time: say one of them")
    else:
        when = {"shift": shift_text(shift)}
    return _many(_MOVED, f"{_path(topic)}/reschedule", _chosen(wishes, filters) | when)


def deliver_where(topic: str, filters: Iterable[str] | str, wishes: Facts) -> Call[Facts]:
    return _many(_GO_ON, f"{_path(topic)}/deliver", _chosen(wishes, filters))


def timeline(topic: str, buckets: int | None) -> Call[Facts]:
    chosen = "" if buckets is None else f"?buckets={buckets}"
    return ask("GET", f"{_path(topic)}/timeline{chosen}", Facts)


def stats() -> Call[Facts]:
    return ask("GET", "/delay/stats", Facts)


def _path(topic: str, *place: int) -> str:
    return "/".join((f"/topics/{quote(topic)}/delayed", *map(str, place)))


def _when(delay: Delay | None, deliver_at: DeliverAt | None) -> Facts:
    found = fields_of(delay, deliver_at)
    if not found:
        raise RequestInvalid("nothing says when to deliver", hint="give a delay, or deliver_at a time")
    return found


def _unsure(hint: str, method: str, path: str, body: Facts | None = None) -> Call[Facts]:
    """A call that is not repeated where nobody knows whether it was done, and what to do then."""
    return msgspec.structs.replace(ask(method, path, Facts, body, idempotent=False), unsure_hint=hint)


def _many(hint: str, path: str, body: Facts) -> Call[Facts]:
    return _searching(_unsure(hint, "POST", path, body), True)


def _searching(call: Call[Facts], does: bool) -> Call[Facts]:
    """The broker looks at messages for as long as it allows itself, which may be more than the timeout."""
    return msgspec.structs.replace(call, patience=DELAY_SECONDS_FOR_REQUEST) if does else call


def _chosen(wishes: Facts, filters: Iterable[str] | str) -> Facts:
    """What was wished for, as the broker calls it, with times as it reads them."""
    given = {word: value for word, value in wishes.items() if value is not None}
    for ours, theirs in (("due_from", "from"), ("due_to", "to")):
        if ours in given:
            given[theirs] = to_text(given.pop(ours))
    return given | {"filter": filter_texts(filters)}
