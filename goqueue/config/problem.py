"""Problems of a configuration, with the position of each."""

import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

from goqueue.quantities import quoted


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a setting: `name` is the path, the variable or the flag."""

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
    """One mistake in a configuration."""

    origin: Origin
    key: str
    sentence: str
    hint: str | None = None

    def __str__(self) -> str:
        parts = [str(self.origin), self.key, self.sentence + (f" ({self.hint})" if self.hint else "")]
        return ": ".join(part for part in parts if part)

    def as_json(self) -> dict[str, Any]:
        return {"origin": self.origin.as_json(), "key": self.key, "problem": self.sentence, "hint": self.hint}


def display_key(key: str) -> str:
    """Quote a key unless it is an ordinary name."""
    return key if re.fullmatch(r"[\w.-]{1,100}", key) else quoted(key)
