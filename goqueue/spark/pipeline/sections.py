"""Sections of a pipeline's file, taken apart key by key; what is wrong is kept until all of it is known."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from goqueue.config.document import Entry
from goqueue.config.problem import Origin, Problem, shown_key
from goqueue.errors import GoQueueError
from goqueue.quantities import quoted
from goqueue.spark.pipeline.model import Placed
from goqueue.spark.pipeline.values import advice
from goqueue.spark.pipeline.variables import Variables

T = TypeVar("T")


@dataclass
class Reading:
    """What all sections of a file share."""

    variables: Variables
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, origin: Origin, key: str, sentence: str, hint: str | None = None) -> None:
        self.problems.append(Problem(origin, key, sentence, hint))


class Section:
    """One mapping. `known` are the keys that it may have; None takes them all, as where people give names."""

    def __init__(
        self, reading: Reading, key: str, origin: Origin, entries: Iterable[Entry], known: Iterable[str] | None
    ) -> None:
        self.key = key
        self.origin = origin
        self._reading = reading
        self._entries: dict[str, Entry] = {}
        names = None if known is None else list(known)
        for entry in entries:
            if names is not None and entry.key not in names:
                told = shown_key(self._below(entry.key))
                reading.refuse(entry.key_origin, told, "is not known here", advice(entry.key, names))
            else:
                self._entries[entry.key] = entry

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def entry(self, name: str) -> Entry:
        return self._entries[name]

    def refuse(self, name: str | None, sentence: str, hint: str | None = None) -> None:
        """A problem with the value of a key, or with the section as a whole."""
        entry = self._entries.get(name or "")
        self._reading.refuse(entry.origin if entry else self.origin, self._below(name), sentence, hint)

    def placed(self, name: str) -> Placed | None:
        """A text with the values of its variables."""
        entry = self._entries.get(name)
        return None if entry is None else self._placed(entry, self._below(name), "one value belongs")

    def take(self, name: str, read: Callable[[str], T]) -> T | None:
        """A value as `read` understands it; None where there is none, or none that can be understood."""
        found = self.placed(name)
        return None if found is None else self._read(found, name, read)

    def many(self, name: str) -> tuple[str, ...]:
        """A list, or names with commas between them."""
        return tuple(item.text for item in self._items(name))

    def each(self, name: str, read: Callable[[str], T]) -> tuple[T, ...]:
        """The same, each as `read` understands it; those that it cannot understand are left out."""
        found = [self._read(item, name, read) for item in self._items(name)]
        return tuple(one for one in found if one is not None)

    def _items(self, name: str) -> list[Placed]:
        entry = self._entries.get(name)
        if entry is None:
            return []
        if entry.shape != "list":
            found = self._placed(entry, self._below(name), "a list belongs")
            parts = [] if found is None else found.text.split(",")
            return [Placed(part.strip(), entry.origin) for part in parts if part.strip()]
        items = [self._placed(item, self._below(name), "a name belongs") for item in entry.entries]
        return [item for item in items if item is not None]

    def section(self, name: str, known: Iterable[str] | None) -> "Section | None":
        entry = self._entries.get(name)
        if entry is None:
            return None
        if entry.shape not in ("section", "nothing", "refused"):
            what = "a list" if entry.shape == "list" else quoted(entry.text)
            self.refuse(name, f"is {what} where a section belongs", "indent its keys below it")
        if entry.shape != "section":
            return Section(self._reading, self._below(name), entry.key_origin, (), known) if known is None else None
        return Section(self._reading, self._below(name), entry.key_origin, entry.entries, known)

    def one_of(self, *names: str) -> str | None:
        """Which one of these is given: exactly one must be."""
        found = [name for name in names if name in self._entries]
        if len(found) == 1:
            return found[0]
        if found:
            self.refuse(found[1], f"stands beside {found[0]}", f"keep one of {', '.join(names)}")
        else:
            self.refuse(None, f"has none of {', '.join(names)}", "give one of them")
        return None

    def _read(self, found: Placed, name: str, read: Callable[[str], T]) -> T | None:
        try:
            return read(found.text)
        except (ValueError, GoQueueError) as error:
            self._reading.refuse(found.origin, self._below(name), str(error), getattr(error, "hint", None))
            return None

    def _placed(self, entry: Entry, key: str, wanted: str) -> Placed | None:
        if entry.shape == "text":
            try:
                return Placed(self._reading.variables.fill(entry.text), entry.origin)
            except ValueError as error:
                self._reading.refuse(entry.origin, key, str(error))
        elif entry.shape == "nothing":
            self._reading.refuse(entry.key_origin, key, "has no value")
        elif entry.shape != "refused":
            self._reading.refuse(entry.origin, key, f"is a {entry.shape} where {wanted}")
        return None

    def _below(self, name: str | None) -> str:
        return ".".join(part for part in (self.key, name) if part)
