"""The calls about delayed messages that were not delivered yet."""

from collections.abc import Iterable
from typing import Any

import msgspec

from goqueue.client.address import quote
from goqueue.client.calls import Call
from goqueue.client.due import Delay, DeliverAt, fields_of, shift_text
from goqueue.client.endpoints import ask
from goqueue.client.times import Moment, to_text
from goqueue.errors import RequestInvalid

Facts = dict[str, Any]

_AGAIN = "call it again: what was settled already is refused with delayed_not_pending, and nothing is delivered twice"
_GO_ON = "call it again: what was settled already is not chosen a second time, and the rest goes on"


def listed(topic: str, limit: int, skip: int, wishes: Facts, filters: Iterable[str] | str) -> Call[Facts]:
    """`wishes` are `partition`, `state`, `due_from` and `due_to`, of which None chooses nothing."""
    given = {"limit": limit, "skip": skip} | _chosen(wishes)
    pairs = [*given.items(), *(("filter", text) for text in _texts(filters))]
    query = "&".join(f"{word}={quote(str(value))}" for word, value in pairs)
    return ask("GET", f"{_path(topic)}?{query}", Facts)


def message(topic: str, partition: int | None, offset: int) -> Call[Facts]:
    place = (offset,) if partition is None else (partition, offset)
    return ask("GET", _path(topic, *place), Facts)


def cancel(topic: str, partition: int, offset: int) -> Call[Facts]:
    return _once("DELETE", _path(topic, partition, offset))


def reschedule(
    topic: str, partition: int, offset: int, delay: Delay | None, deliver_at: DeliverAt | None
) -> Call[Facts]:
    """A delay that is repeated begins again, so that is not; a time stays what it is."""
    when = _when(delay, deliver_at)
    return _once("PATCH", _path(topic, partition, offset), when, idempotent="deliver_at" in when)


def deliver(topic: str, partition: int, offset: int) -> Call[Facts]:
    return _once("POST", f"{_path(topic, partition, offset)}/deliver", {})


def cancel_where(topic: str, filters: Iterable[str] | str, wishes: Facts) -> Call[Facts]:
    return _many(topic, "cancel", filters, wishes)


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
        return _many(topic, "reschedule", filters, wishes | _when(delay, deliver_at))
    if fields_of(delay, deliver_at):
        raise RequestInvalid("messages are shifted, or all moved to one time: say one of them")
    return _many(topic, "reschedule", filters, wishes | {"shift": shift_text(shift)})


def deliver_where(topic: str, filters: Iterable[str] | str, wishes: Facts) -> Call[Facts]:
    return _many(topic, "deliver", filters, wishes)


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


def _once(method: str, path: str, body: Facts | None = None, *, idempotent: bool = False) -> Call[Facts]:
    """A second cancellation would be refused, and hide that the first one was not."""
    call = ask(method, path, Facts, body, idempotent=idempotent)
    return msgspec.structs.replace(call, unsure_hint=_AGAIN)


def _many(topic: str, action: str, filters: Iterable[str] | str, wishes: Facts) -> Call[Facts]:
    body = _chosen(wishes) | {"filter": _texts(filters)}
    call = ask("POST", f"{_path(topic)}/{action}", Facts, body, idempotent=bool(body.get("dry_run")))
    return msgspec.structs.replace(call, unsure_hint=_GO_ON)


def _chosen(wishes: Facts) -> Facts:
    """What was wished for, as the broker calls it, with times as it reads them."""
    given = {word: value for word, value in wishes.items() if value is not None}
    for ours, theirs in (("due_from", "from"), ("due_to", "to")):
        if ours in given:
            time: Moment = given.pop(ours)
            given[theirs] = to_text(time)
    return given


def _texts(filters: Iterable[str] | str) -> list[str]:
    return [filters] if isinstance(filters, str) else list(filters)
