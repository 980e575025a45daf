"""What is wrong with a configuration, and where that was said."""

import re
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Literal

from goqueue.quantities import quoted


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a setting got its value: `name` is the path, the variable or the flag."""

    kind: Literal["default", "file", "environment", "flag"] = "default"
    name: str = ""
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        name = "default" if self.kind == "default" else self.name or "''"
        return ":".join(str(part) for part in (name, self.line, self.column) if part is not None)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that must change before the configuration can be used."""

    origin: Origin
    key: str
    sentence: str
    hint: str | None = None

    def __str__(self) -> str:
        parts = [str(self.origin), self.key, self.sentence + (f" ({self.hint})" if self.hint else "")]
        return ": ".join(part for part in parts if part)

    def as_json(self) -> dict[str, Any]:
        return {"origin": self.origin.as_json(), "key": self.key, "problem": self.sentence, "hint": self.hint}


def nearest(name: str, known: list[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant. Capitals and separators count for nothing; a word of it is enough."""
    words = [candidate for candidate in known if _plain(name) in _plain(candidate).split("_")]
    if len(words) == 1:
        return words[0]
    plain = {_plain(candidate): candidate for candidate in known}
    found = get_close_matches(_plain(name[:100]), plain, n=1, cutoff=cutoff)
    return plain[found[0]] if found else None


def shown_key(key: str) -> str:
    """A key for the place before the colon: as it is when it is an ordinary name."""
    return key if re.fullmatch(r"[\w.-]{1,100}", key) else quoted(key)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
