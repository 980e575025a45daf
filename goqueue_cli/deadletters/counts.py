"""`goqueue-cli dlq list` and `dlq errors`: how many dead letters there are, and why they failed."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import terminal
from goqueue.console.each import each
from goqueue.console.failure import doing
from goqueue.console.figures import age
from goqueue.console.names import refuse_empty
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count, format_size
from goqueue_cli.deadletters import letters
from goqueue_cli.deadletters.choice import TopicName, looking, tell_none
from goqueue_cli.deadletters.letters import SUFFIX, Row, dead_letter_topic, origin
from goqueue_cli.nearest import naming_dead_letters

if TYPE_CHECKING:
    from goqueue.client import Client

_TOPICS = (
    Column("TOPIC", "name"),
    Column("LETTERS", "letters", format_count),
    Column("REASONS", "reasons", format_count),
    Column("MOST-FREQUENT", "most_frequent"),
    Column("MESSAGES", "total_messages", format_count, wide=True),
    Column("SIZE", "total_size_bytes", format_size, wide=True),
)
_ERRORS = (
    Column("COUNT", "count", format_count),
    Column("AGE", "newest", age),
    Column("EXAMPLE", "example", lambda place: place.rpartition("/")[2]),
    Column("ERROR", "error", lambda error: error or "(nobody has said why)"),
)


@session_flags
def list_topics(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC...", help="Of these topics only.")] = None,
    *,
    session: Session,
) -> None:
    """List the topics with dead letters, and how many each has.

    \b
      goqueue-cli dlq list
      goqueue-cli dlq list orders payments
      goqueue-cli dlq list -o json

    LETTERS were not sent back yet; MESSAGES (-o wide) counts the others too, which lie there until retention takes
    them. A topic is named by itself, or by that of its dead letters.
    """
    with doing("list the dead letters"), session.client() as client:
        known = {one.name: one for one in client.topic_details()}
        chosen = list(dict.fromkeys(map(dead_letter_topic, topics))) if topics else []
        names = chosen or sorted(name for name in known if name.endswith(SUFFIX))
    if not names:
        session.write([], _TOPICS)
        if session.for_people:
            terminal.say("there are no dead letters")
        return

    def work(client: "Client", name: str) -> Row:
        details = known.get(name)
        with naming_dead_letters(client):
            counts = client.dead_letter_errors(origin(name))
        return {
            "topic": origin(name),
            "letters": sum(counts["errors"].values()),
            "complete": counts["complete"],
            "reasons": len(counts["errors"]),
            "most_frequent": next(iter(counts["errors"]), None),
            "errors": counts["errors"],
            "total_messages": details.total_messages if details else 0,
            "total_size_bytes": details.total_size_bytes if details else 0,
        }

    def write(rows: list[Row], session: Session) -> None:
        session.write(rows, _TOPICS)
        _warn_of_more(row["name"] for row in rows if not row.get("complete", True))

    each(session, names, "count dead letters of topic", work, write)


@session_flags
def errors(topic: TopicName, *, session: Session) -> None:
    """Show why the dead letters of a topic have failed, and how many.

    \b
      goqueue-cli dlq errors orders
      goqueue-cli dlq errors orders -o json

    The most frequent reason comes first. EXAMPLE is one of its newest dead letters, and AGE how long that one has been
    there: `dlq describe TOPIC EXAMPLE` shows it.
    """
    refuse_empty(topic)
    with looking(session, topic) as client:
        found = client.dead_letter_errors(origin(topic))
        examples: dict[str, Row] = {}
        for row in letters.newest(client, topic) if found["errors"] else []:
            examples.setdefault(row["error"], row)
    rows = [_error_row(error, count, examples.get(error)) for error, count in found["errors"].items()]
    session.write(rows, _ERRORS)
    if not rows:
        tell_none(session, topic)
    elif not found["complete"]:
        _warn_of_more([dead_letter_topic(topic)])


def _error_row(error: str, count: int, example: Row | None) -> Row:
    newest, place = (example["timestamp"], example["name"]) if example else (None, None)
    return {"name": error, "error": error, "count": count, "newest": newest, "example": place}


def _warn_of_more(names: Iterable[str]) -> None:
    """A request looks at so many, and no further."""
    if told := ", ".join(names):
        terminal.say(f"there are more in {told} than were looked at: the counts are those of the oldest")
