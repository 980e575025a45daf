"""`${name}` in the values of a pipeline."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from goqueue.config.problem import nearest
from goqueue.quantities import quoted

_REFERENCE = re.compile(r"(\$?)\$\{([^{}\n]*)\}")
_ENVIRONMENT = "env:"


class Variables:
    """What names stand for: given ones, days of the run, and with `env:` the environment.

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
        """What a name stands for unless it was given; names declared above may be in it. A ValueError as of `fill`."""
        if name not in self._given:
            self._values[name] = ""  # it is known, even where what it stands for is not
            self._values[name] = self.fill(text)

    def fill(self, text: str) -> str:
        """`text` with values in the place of names, or a ValueError."""
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
