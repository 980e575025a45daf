"""Errors of one node at another: the same class, sentence and hint."""

from typing import Any

import msgspec

from goqueue.errors import GoQueueError, TransientError


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """An error on its way."""

    code: str
    sentence: str
    hint: str | None
    details: dict[str, Any]


def refusal_of(error: GoQueueError) -> Refusal:
    return Refusal(error.code, error.sentence, error.hint, msgspec.to_builtins(error.details))


def error_of(refusal: Refusal) -> GoQueueError:
    """Return the error; one that this version does not know is a transient one."""
    kind = next((kind for kind in _subclasses(GoQueueError) if kind.code == refusal.code), TransientError)
    return kind(refusal.sentence, hint=refusal.hint, **refusal.details)


def _subclasses(kind: type[GoQueueError]) -> list[type[GoQueueError]]:
    return [one for below in kind.__subclasses__() for one in (below, *_subclasses(below))]
