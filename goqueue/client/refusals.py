"""What a refusal of the broker is here: the class of `goqueue.errors` with its code."""

from functools import cache
from typing import Any

import msgspec

from goqueue.client.address import Address
from goqueue.client.calls import Answer
from goqueue.errors import BrokerUnreachable, CallerError, GoQueueError, OperatorError, TransientError

_GATEWAY = {502, 504}
_UNSURE = {408, 502, 504}  # nobody knows whether the broker did what it was asked
_TRANSIENT = {408, 425, 429, 503}


@cache
def kinds() -> dict[str, type[GoQueueError]]:
    """All classes by their code."""
    found: dict[str, type[GoQueueError]] = {}
    left: list[type[GoQueueError]] = [GoQueueError]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if "code" in vars(kind):
            found.setdefault(kind.code, kind)
    del found["error"]
    return found


def of_record(record: object, status: int = 400) -> GoQueueError:
    """The error that `{"error": ..., "code": ...}` tells of.

    A code that this version does not know becomes the nearest general class, and stands in `details["code"]`.
    """
    fields: dict[str, Any] = record if isinstance(record, dict) else {}
    sentence, code, hint, details = (fields.get(name) for name in ("error", "code", "hint", "details"))
    given = {str(name): value for name, value in details.items()} if isinstance(details, dict) else {}
    given = {name: value for name, value in given.items() if name not in {"sentence", "hint", "self"}}
    kind = kinds().get(str(code)) or _general(status)
    if kind.code != code:
        given |= {"code": code, "status": status}
    said = sentence if isinstance(sentence, str) and sentence else f"the answer is {status}"
    return kind(said, hint=hint if isinstance(hint, str) else None, **given)


def _general(status: int) -> type[GoQueueError]:
    if status in _GATEWAY:
        return BrokerUnreachable
    if status in _TRANSIENT:
        return TransientError
    return OperatorError if status >= 500 else CallerError


def of_answer(answer: Answer) -> GoQueueError:
    """The error that an answer is, with how long it asks to wait."""
    try:
        record = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        record = None
    has_code = isinstance(record, dict) and isinstance(record.get("code"), str)
    if not has_code and answer.status not in _TRANSIENT | _GATEWAY:
        return foreign(answer.source, f"it answers with status {answer.status} and without a code")
    error = of_record(record, answer.status)
    if answer.status in _UNSURE:
        error.details.setdefault("unsure", True)
    after = answer.header(b"retry-after")
    if after.isdecimal() and len(after) < 6:
        error.details.setdefault("retry_after", float(after))
    return error


def unreadable(answer: Answer, why: object) -> BrokerUnreachable:
    """What answers is no broker, or one that this client does not understand."""
    return foreign(answer.source, f"its answer with status {answer.status} cannot be read: {why}")


def foreign(source: Address | str, why: str) -> BrokerUnreachable:
    """Something answers there, so that asking again would change nothing."""
    return BrokerUnreachable(
        f"what answers at {source} is not a GoQueue broker: {why}",
        hint="is this its address, and no other server or proxy stands there?",
        foreign=True,
    )
