"""Where a benchmark takes place: a broker that may be put under load, and a topic."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from goqueue.console import terminal
from goqueue.console.danger import agree
from goqueue.console.failure import doing
from goqueue.console.names import short
from goqueue.console.session import Session, suggesting
from goqueue.errors import GoQueueError
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import Client

_VALUES = 1_000
"""Values that differ: enough that nothing is gained by them being the same, few enough to be made in no time."""


def agree_to_load(session: Session, plan: str, *, confirm: str | None, dry_run: bool) -> bool:
    """Whether to go on. A broker that somebody protects is not put under load by mistake."""
    if dry_run:
        terminal.write_lines([f"would {plan}"])
        return False
    if session.protected:
        agree(session, f"put the broker under load and {plan}", name=session.guard or "", yes=True, confirm=confirm)
    return True


def place_of(topic: str | None, partitions: int) -> str:
    """Where something will be, in words."""
    return f"topic {short(topic)}" if topic else f"a new topic with {format_count(partitions, 'partition')}"


@contextmanager
def ground(session: Session, topic: str | None, partitions: int, *, keep: bool = False) -> "Iterator[Ground]":
    """A client and a topic: the one that was named, or a new one that is gone in the end, whatever happens."""
    with session.client() as client, doing("measure" if topic is None else f"measure with topic {short(topic)}"):
        with suggesting(client):
            if topic is not None:
                yield Ground(client, topic, client.topic(topic).partitions, is_own=False)
                return
        own = new_name()
        client.create_topic(own, partitions)
        try:
            yield Ground(client, own, partitions, is_own=True)
        finally:
            if not keep:
                _delete(client, own)


class Ground:
    """The place of one benchmark."""

    def __init__(self, client: "Client", topic: str, partitions: int, *, is_own: bool) -> None:
        self.client = client
        self.topic = topic
        self.partitions = partitions
        self.is_own = is_own


def new_name() -> str:
    return f"bench-{secrets.token_hex(4)}"


def values(size: int) -> list[bytes]:
    """What is published: random, so that nothing can be compressed, and the same each time."""
    random = Random(size)  # noqa: S311 - made up data
    return [random.randbytes(size) for _ in range(_VALUES)]


def _delete(client: "Client", topic: str) -> None:
    try:
        client.delete_topic(topic)
    except GoQueueError as error:
        terminal.say(f"topic {topic} is left behind: {error.sentence}")
