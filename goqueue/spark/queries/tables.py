"""Topics as tables: their names and columns, the same for every engine that answers queries."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from goqueue.errors import GoQueueError, RequestInvalid, TopicNotFound
from goqueue.nearest import nearest
from goqueue.quantities import quoted

MESSAGE_COLUMNS = ("partition", "offset", "timestamp", "key", "value", "priority", "headers", "topic")
"""The columns of every table, in the order of `SELECT *`; between value and priority stand the fields of JSON."""
RAW_COLUMNS = {"raw_key": "key", "raw_value": "value"}
"""Columns that have as bytes what key and value have as text."""
TEXT_COLUMNS = ("key", "value")
DATA_COLUMN, ERROR_COLUMN = "data", "data_error"
"""What the source makes of values by their schemas. Tables have the fields of the first, and the second as it is."""
_AT_FIELDS = MESSAGE_COLUMNS.index("priority")
_PREFIX = "json_"


def field_columns(fields: Iterable[str]) -> dict[str, str]:
    """Return columns and the fields of JSON that they hold. SQL ignores case; a taken name gets the prefix `json_`."""
    return column_names(fields, (*MESSAGE_COLUMNS, *RAW_COLUMNS))


def typed_columns(fields: Iterable[str]) -> dict[str, str]:
    """Return columns and the fields of a schema that they hold."""
    return column_names(fields, (*MESSAGE_COLUMNS, *RAW_COLUMNS, ERROR_COLUMN))


def table_columns(fields: Iterable[str]) -> list[str]:
    """Return all columns, with those of JSON fields where they stand."""
    return [*MESSAGE_COLUMNS[:_AT_FIELDS], *fields, *MESSAGE_COLUMNS[_AT_FIELDS:], *RAW_COLUMNS]


def without_raw(columns: Iterable[str], query: str) -> list[str]:
    """Leave out raw columns that a query does not name: they come from a `*`, and repeat what is there."""
    return [name for name in columns if name not in RAW_COLUMNS or name in query.lower()]


def stored_columns(needed: Iterable[str], fields: Collection[str]) -> tuple[str, ...]:
    """Return the message columns that these are made of; at least one, because rows must be counted."""
    made = {RAW_COLUMNS.get(name, "value" if name in fields else name) for name in needed}
    return tuple(name for name in MESSAGE_COLUMNS if name in made) or ("offset",)


def column_names(fields: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return a column for each field. SQL ignores case; a name that is taken gets the prefix `json_`."""
    used = {name.lower() for name in taken}
    names: dict[str, str] = {}
    for name in fields:
        column = name
        while column.lower() in used:
            column = _PREFIX + column
        used.add(column.lower())
        names[column] = name
    return names


@dataclass(frozen=True)
class TableNames:
    """The topics that may stand in a query. A name without quotes has `_` for `-` and `.`, in any case."""

    topics: Mapping[str, tuple[int, ...]]

    @cached_property
    def _plain(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for topic in self.topics:
            for name in dict.fromkeys((topic.lower(), unquoted(topic))):
                found.setdefault(name, []).append(topic)
        return found

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._plain

    def topic(self, name: str) -> str:
        """Return the topic that a name in a query means."""
        alike = self._plain.get(name.lower(), [])
        exact = [topic for topic in alike if topic.lower() == name.lower()]
        if len(exact or alike) > 1:
            raise RequestInvalid(f"{name} may mean {' or '.join(alike)}, which SQL cannot tell apart")
        return (exact or alike)[0]

    def name_of(self, topic: str) -> str:
        """Return how a topic is written in a query: without quotes where that is enough."""
        plain = unquoted(topic)
        is_enough = len(self._plain[plain]) == 1 and re.fullmatch(r"[a-z_]\w*", plain)
        return plain if is_enough else f'"{topic}"'


def unquoted(topic: str) -> str:
    """Return how a topic is written without quotes."""
    return topic.lower().replace("-", "_").replace(".", "_")


def unknown_topic(name: str, topics: Iterable[str], position: str = "", quote: str = "`") -> GoQueueError:
    known = [topic for topic in topics if not topic.startswith("__")]
    if name in known:  # it was written without quotes, so its dots were taken for those between names
        return without_quotes(name, position, quote)
    guess = nearest(name, known)
    known, guess = [_written(topic, quote) for topic in known], guess and _written(guess, quote)
    listed = ", ".join(known[:5]) + (", …" if len(known) > 5 else "")
    hint = f"did you mean {guess}?" if guess else f"there are: {listed}" if known else None
    return TopicNotFound(f"there is no topic {quoted(name)}{position}", hint=hint)


_BARE_NAME = re.compile(r"\b(?:from|join)\s+([\w.-]+)", re.IGNORECASE)


def bare_topic(query: str, topics: Iterable[str]) -> str | None:
    """Return a topic behind FROM or JOIN whose name needs quotes and has none, as in `FROM svc-invoices`."""
    for found in _BARE_NAME.finditer(query):
        name = found[1].lower()
        for topic in topics:
            if topic.lower() == name and needs_quotes(topic):
                return topic
    return None


def bare_hyphen(query: str) -> str | None:
    """Return a name behind FROM or JOIN with a hyphen in it that no topic has, for a query with an error there."""
    return next((found[1] for found in _BARE_NAME.finditer(query) if "-" in found[1]), None)


def needs_quotes(topic: str) -> bool:
    return re.fullmatch(r"[^\W\d]\w*", topic) is None


def _written(topic: str, quote: str) -> str:
    return f"{quote}{topic}{quote}" if needs_quotes(topic) else topic


def unknown_column(
    name: str, tables: Mapping[str, Sequence[str]], position: str = "", near: Sequence[str] = ()
) -> GoQueueError:
    """Return the error for a column that no table of a query has; its hint lists all columns of the tables.

    `near` are the columns to name where none of a table is known.
    """
    guess = nearest(name, [column for columns in tables.values() for column in columns] or near)
    listed = "; ".join(f"{table} has {', '.join(columns)}" for table, columns in tables.items())
    listed = listed or (f"there are {', '.join(near)}" if near else "")
    hint = "; ".join(part for part in (f"did you mean {guess}?" if guess else "", listed) if part)
    return RequestInvalid(f"there is no column {quoted(name)}{position}", hint=hint.replace("?; ", "? ") or None)


def without_quotes(topic: str, position: str, quote: str) -> GoQueueError:
    """Return the error for a topic whose name needs quotes and has none."""
    return RequestInvalid(
        f"topic {topic} is written without quotes{position}",
        hint=f"write it as {unquoted(topic)} or {quote}{topic}{quote}",
    )
