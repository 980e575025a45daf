"""Which delayed messages: by their places, or by what is true of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console.groups import UsageInvalid
from goqueue.console.session import suggesting
from goqueue.errors import DelayedAmbiguous, DelayedNotFound

if TYPE_CHECKING:
    from goqueue.client import Client

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Places = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PLACE...]", help="Partition and offset, as in 0@17; or filters choose them."),
]
WhereFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="FILTER", help="Only those that fit, as in 'json.total>40'; more than one must all."
    ),
]
PartitionFlag = Annotated[
    int | None, typer.Option("--partition", metavar="N", min=0, help="Only those of this partition.")
]
FromFlag = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Only those due at a time, +1h, or later.")
]
ToFlag = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Only those due before a time, a day, or +1h.")
]
LimitFlag = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many, the next due first.")
]
AllFlag = Annotated[bool, typer.Option("--all", help="All that wait in the topic, as far as filters let them.")]


@dataclass(frozen=True, slots=True)
class Choice:
    """What must be true of those that are meant."""

    where: list[str]
    partition: int | None = None
    start: str | None = None
    until: str | None = None

    def is_any(self) -> bool:
        return bool(self.where) or any(one is not None for one in (self.partition, self.start, self.until))

    def wishes(self) -> dict[str, Any]:
        """As the client takes them."""
        found = {
            "partition": self.partition,
            "due_from": _moment("--from", self.start, "earliest"),
            "due_to": _moment("--to", self.until, "latest"),
        }
        return {"filters": self.where} | {name: wish for name, wish in found.items() if wish is not None}


def _moment(flag: str, text: str | None, bound: str) -> Any:
    """`bound` is what says that there is none."""
    if text is None or text == bound:
        return None
    from goqueue.console.places import parse_moment  # noqa: PLC0415 - with the SDK, once it is needed

    return parse_moment(flag, text)


def check_means_some(places: list[str] | None, choice: Choice, *, everything: bool, limited: bool) -> None:
    """Nobody changes all messages of a topic by having left something out."""
    if places and (everything or choice.is_any() or limited):
        raise UsageInvalid("places and filters both say which messages", hint="give one of the two")
    if not places and not everything and not choice.is_any():
        raise UsageInvalid(
            "nothing says which messages", hint="name them as in 0@17, choose them as in --where key=tea, or say --all"
        )


@contextmanager
def naming(client: "Client", topic: str, offset: int | None = None) -> Iterator[None]:
    """Who names a topic or a message that is not there is told what to run next, in the words of this program."""
    try:
        with suggesting(client):
            yield
    except DelayedNotFound as error:
        error.hint = (
            f"`goqueue-cli delayed list {topic}` shows those that wait; a settled one is forgotten after a while"
        )
        raise
    except DelayedAmbiguous as error:
        numbers = error.details.get("partitions") or [0]
        error.hint = f"name the partition as well, as in {numbers[0]}@{offset}"
        raise
