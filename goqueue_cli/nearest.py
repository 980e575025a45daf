"""Whoever mistypes the name of a group, a transactional id, or a topic of dead letters is told what to look at next."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from goqueue.console.nearest import nearest
from goqueue.console.session import suggesting
from goqueue.errors import GoQueueError, GroupNotFound, ProducerNotFound, TopicNotFound

if TYPE_CHECKING:
    from goqueue.client import Client

_GROUPS = "`goqueue-cli group list` shows the groups"
_TRANSACTIONS = "`goqueue-cli transaction list --all` shows the transactional ids"
_NAMES_MAX = 1_000
_DEAD_LETTERS = "`goqueue-cli dlq list` shows the topics with dead letters"


@contextmanager
def naming(client: "Client") -> Iterator[None]:
    """The broker knows which group was meant. Where it does not, its hint is one for HTTP, and not for this program."""
    try:
        with suggesting(client):
            yield
    except GroupNotFound as error:
        if not _is_guess(error.hint):
            error.hint = _GROUPS
        raise


@contextmanager
def naming_dead_letters(client: "Client") -> Iterator[None]:
    """The same where a topic is named by itself or by its dead letters."""
    try:
        with naming(client):
            yield
    except TopicNotFound as error:
        if not _is_guess(error.hint):
            error.hint = _DEAD_LETTERS
        raise


@contextmanager
def naming_transactions(client: "Client", name: str) -> Iterator[None]:
    """The same for a transactional id."""
    try:
        yield
    except ProducerNotFound as error:
        error.hint = _TRANSACTIONS
        with suppress(GoQueueError):
            known = [one["transactional_id"] for one in client.transactions("all", limit=_NAMES_MAX)]
            if guess := nearest(name, known):
                error.hint = f"did you mean {guess}?"
        raise


def _is_guess(hint: str | None) -> bool:
    return hint is not None and hint.startswith("did you mean")
