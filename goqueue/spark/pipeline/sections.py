"""Sections of a pipeline file, its variables, and the parsers of its values."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from goqueue.config.document import DocumentEntry
from goqueue.config.problem import Origin, Problem, display_key
from goqueue.config.value_types import BOOLEAN
from goqueue.errors import GoQueueError
from goqueue.nearest import nearest
from goqueue.quantities import parse_duration, quoted
from goqueue.spark.inspections.inspection import read_time
from goqueue.spark.pipeline.model import LocatedText
from goqueue.spark.reading.plan import ReadBound, TimePoint

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SINK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def parse_bound(text: str, now_ns: int) -> ReadBound:
    """Parse where reading begins or ends: `earliest`, `latest`, `now`, a time, a day, or a time ago."""
    if text in ("earliest", "latest"):
        return ReadBound("earliest" if text == "earliest" else "latest")
    if text == "now":
        return ReadBound("latest")
    try:
        return ReadBound(TimePoint(read_time(text, now_ns)))
    except ValueError:
        if text.startswith("-"):
            raise
        raise ValueError(
            f"{quoted(text)} is no place to read from or to: write earliest, latest, a time as in"
            " 2026-03-01T12:00:00Z, a day as in 2026-03-01, or -24h"
        ) from None


def check_identifier(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("is no name that a query can say: letters, digits and _, and no digit first")
    return text


def check_sink_name(text: str) -> str:
    if not _SINK.fullmatch(text):
        raise ValueError("is no name: letters, digits, _ and -")
    return text


def parse_switch(text: str) -> bool:
    return bool(BOOLEAN.parse(text))


def parse_interval(text: str) -> float:
    found = parse_duration(text)
    if found <= 0:
        raise ValueError(f"{quoted(text)} is no time to wait")
    return found


def parse_row_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text)):
        raise ValueError(f"{quoted(text)} is not a number of rows from 1 to 99999")
    return int(text)


def parse_url(text: str) -> str:
    urls = [url.strip() for url in text.split(",")]
    for url in urls:
        if not re.fullmatch(r"https?://[^\s/]+/?", url):
            raise ValueError(f"{quoted(url)} is not the address of a broker, as in http://127.0.0.1:8080")
    return ",".join(url.rstrip("/") for url in urls)


def parse_text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


def check_choice(text: str, names: Iterable[str], what: str) -> str:
    """Return `text`, if it is one of these names."""
    known = list(names)
    if text not in known:
        raise ValueError(f"{quoted(text)} is no {what}: {suggest(text, known)}")
    return text


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint for a wrong name: the most similar known name, and all of them."""
    names = list(known)
    meant = nearest(name, names)
    listed = f"there are {', '.join(names)}" if names else "there are none"
    return f"did you mean {meant}? {listed}" if meant else listed


_REFERENCE = re.compile(r"(\$?)\$\{([^{}\n]*)\}")
_ENVIRONMENT = "env:"


class Variables:
    """The values of names: given ones, days of the run, and with `env:` the environment.

    `$${` writes `${` itself.
    """

    def __init__(self, given: Mapping[str, str], environment: Mapping[str, str], now_ns: int) -> None:
        today = datetime.fromtimestamp(now_ns // 1_000_000_000, UTC).date()
        days = {"date": today.isoformat(), "yesterday": (today - timedelta(days=1)).isoformat()}
        self._given = given
        self._values = {**days, **given}
        self._environment = environment
        self.used: set[str] = set()

    def declare(self, name: str, text: str) -> None:
        """Set the value of a name unless it was given; names declared above may be in it."""
        if name not in self._given:
            self._values[name] = ""  # it is known, even where what it stands for is not
            self._values[name] = self.fill(text)

    def fill(self, text: str) -> str:
        """Return `text` with values in the place of names; raise ValueError."""
        return _REFERENCE.sub(self._value, text)

    def _value(self, found: "re.Match[str]") -> str:
        escape, name = found.groups()
        if escape:
            return found[0][1:]
        self.used.add(name)
        if name.startswith(_ENVIRONMENT):
            variable = name.removeprefix(_ENVIRONMENT)
            if variable not in self._environment:
                raise ValueError(f"{quoted(found[0])}: the environment has no {quoted(variable)}")
            return self._environment[variable]
        if name not in self._values:
            meant = nearest(name, list(self._values))
            hint = f"did you mean ${{{meant}}}?" if meant else f"give it with --set {name}=…"
            raise ValueError(f"{quoted(found[0])} has no value: {hint}")
        return self._values[name]


T = TypeVar("T")


@dataclass
class FileContext:
    """The state that all sections of a file share."""

    variables: Variables
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, origin: Origin, key: str, sentence: str, hint: str | None = None) -> None:
        self.problems.append(Problem(origin, key, sentence, hint))


class PipelineSection:
    """One mapping. `known` are the keys that it may have; None takes them all, as where people give names."""

    def __init__(
        self,
        reading: FileContext,
        key: str,
        origin: Origin,
        entries: Iterable[DocumentEntry],
        known: Iterable[str] | None,
    ) -> None:
        self.key = key
        self.origin = origin
        self._reading = reading
        self._entries: dict[str, DocumentEntry] = {}
        names = None if known is None else list(known)
        for entry in entries:
            if names is not None and entry.key not in names:
                told = display_key(self._below(entry.key))
                reading.refuse(entry.key_origin, told, "is not known here", suggest(entry.key, names))
            else:
                self._entries[entry.key] = entry

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def entry(self, name: str) -> DocumentEntry:
        return self._entries[name]

    def refuse(self, name: str | None, sentence: str, hint: str | None = None) -> None:
        """Add a problem with the value of a key, or with the whole section."""
        entry = self._entries.get(name or "")
        self._reading.refuse(entry.origin if entry else self.origin, self._below(name), sentence, hint)

    def placed(self, name: str) -> LocatedText | None:
        """Return a text with the values of its variables."""
        entry = self._entries.get(name)
        return None if entry is None else self._placed(entry, self._below(name), "one value belongs")

    def take(self, name: str, read: Callable[[str], T]) -> T | None:
        """Return a value parsed by `read`; None where there is none, or it is wrong."""
        found = self.placed(name)
        return None if found is None else self._read(found, name, read)

    def many(self, name: str) -> tuple[str, ...]:
        """Return a list, or names with commas between them."""
        return tuple(item.text for item in self._items(name))

    def each(self, name: str, read: Callable[[str], T]) -> tuple[T, ...]:
        """Return the items of a list, each parsed by `read`, without the wrong ones."""
        found = [self._read(item, name, read) for item in self._items(name)]
        return tuple(one for one in found if one is not None)

    def _items(self, name: str) -> list[LocatedText]:
        entry = self._entries.get(name)
        if entry is None:
            return []
        if entry.shape != "list":
            found = self._placed(entry, self._below(name), "a list belongs")
            parts = [] if found is None else found.text.split(",")
            return [LocatedText(part.strip(), entry.origin) for part in parts if part.strip()]
        items = [self._placed(item, self._below(name), "a name belongs") for item in entry.entries]
        return [item for item in items if item is not None]

    def section(self, name: str, known: Iterable[str] | None) -> "PipelineSection | None":
        entry = self._entries.get(name)
        if entry is None:
            return None
        if entry.shape not in ("section", "nothing", "refused"):
            what = "a list" if entry.shape == "list" else quoted(entry.text)
            self.refuse(name, f"is {what} where a section belongs", "indent its keys below it")
        if entry.shape != "section":
            return (
                PipelineSection(self._reading, self._below(name), entry.key_origin, (), known)
                if known is None
                else None
            )
        return PipelineSection(self._reading, self._below(name), entry.key_origin, entry.entries, known)

    def one_of(self, *names: str) -> str | None:
        """Return which one of these keys is given: exactly one must be."""
        found = [name for name in names if name in self._entries]
        if len(found) == 1:
            return found[0]
        if found:
            self.refuse(found[1], f"stands beside {found[0]}", f"keep one of {', '.join(names)}")
        else:
            self.refuse(None, f"has none of {', '.join(names)}", "give one of them")
        return None

    def _read(self, found: LocatedText, name: str, read: Callable[[str], T]) -> T | None:
        try:
            return read(found.text)
        except (ValueError, GoQueueError) as error:
            self._reading.refuse(found.origin, self._below(name), str(error), getattr(error, "hint", None))
            return None

    def _placed(self, entry: DocumentEntry, key: str, wanted: str) -> LocatedText | None:
        if entry.shape == "text":
            try:
                return LocatedText(self._reading.variables.fill(entry.text), entry.origin)
            except ValueError as error:
                self._reading.refuse(entry.origin, key, str(error))
        elif entry.shape == "nothing":
            self._reading.refuse(entry.key_origin, key, "has no value")
        elif entry.shape != "refused":
            self._reading.refuse(entry.origin, key, f"is a {entry.shape} where {wanted}")
        return None

    def _below(self, name: str | None) -> str:
        return ".".join(part for part in (self.key, name) if part)
