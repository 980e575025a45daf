"""Loads the configuration from flags, environment and file.

Flags override the environment, which overrides the file; all of them are validated, so a mistake in the file is
reported even if a flag hides it. All problems are collected before the error is raised.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.config import settings
from goqueue.config.conflicts import conflicts
from goqueue.config.problem import Origin, Problem, display_key
from goqueue.config.settings import SETTINGS, Config, Setting
from goqueue.config.value_types import SettingValue
from goqueue.errors import ConfigInvalid
from goqueue.limits import CONFIG_PROBLEMS_MAX
from goqueue.nearest import nearest
from goqueue.quantities import quoted

if TYPE_CHECKING:
    from goqueue.config.document import DocumentEntry

PREFIX = "GOQUEUE_"
CLIENT_VARIABLES = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("SERVER", "CONTEXT", "API_KEY", "API_KEY_FILE", "CA_FILE", "CLIENT_CERT", "CLIENT_KEY", "TIMEOUT", "OUTPUT"),
        *("CONFIG", "GRPC_ADDRESS", "TENANT"),
        *("BUILD_COMMIT", "BUILD_TIME"),
    )
)  # used by the client programs and the clients in other languages; the last two by `/version`

_BY_KEY = {setting.key: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}


def load(
    path: str | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str | None] | None = None,
) -> Config:
    """Load the configuration, or raise `ConfigInvalid` with all problems.

    `flags` maps the keys of settings to values; None means that the flag was not given.
    """
    gathered = _LoadedSettings()
    if path is not None:
        _read_file(path, gathered)
    _read_environment(environment or {}, gathered)
    _read_flags(flags or {}, gathered)
    if not gathered.problems:
        gathered.check_together()
    if gathered.problems:
        raise _invalid(gathered.problems)
    return settings.build(gathered.values, gathered.origins)


def _invalid(problems: list[Problem]) -> ConfigInvalid:
    ordered = sorted(problems, key=_reading_order)
    if len(ordered) > CONFIG_PROBLEMS_MAX:
        last = Problem(Origin(ordered[-1].origin.kind, ordered[-1].origin.name), "", "more problems follow")
        ordered[CONFIG_PROBLEMS_MAX:] = [last]
    if len(ordered) == 1:
        return ConfigInvalid(f"the configuration has a problem: {ordered[0]}", problems=tuple(ordered))
    sentence = f"the configuration has {len(ordered)} problems, the first of them: {ordered[0]}"
    return ConfigInvalid(sentence, problems=tuple(ordered))


def _reading_order(problem: Problem) -> tuple[int, int, int, str]:
    """Sort by source, the file first, then by position."""
    origin = problem.origin
    rank = ("file", "environment", "flag", "default").index(origin.kind)
    return rank, origin.line or 0, origin.column or 0, origin.name


@dataclass
class _LoadedSettings:
    """Values and problems read so far; later sources override earlier ones."""

    values: dict[str, SettingValue] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def take(self, setting: Setting, text: str, origin: Origin) -> None:
        try:
            self.values[setting.key] = setting.parse(text)
            self.origins[setting.key] = origin
        except ValueError as error:
            self.problems.append(Problem(origin, setting.key, str(error)))

    def refuse(self, origin: Origin, key: str, sentence: str, hint: str | None = None) -> None:
        self.problems.append(Problem(origin, key, sentence, hint))

    def check_together(self) -> None:
        for key, sentence in conflicts(self.values):
            self.refuse(self.origins.get(key, Origin()), key, sentence)


def _read_flags(flags: Mapping[str, str | None], gathered: _LoadedSettings) -> None:
    for key, text in flags.items():
        if text is not None:
            gathered.take(_BY_KEY[key], text, Origin("flag", _BY_KEY[key].flag))


def _read_environment(environment: Mapping[str, str], gathered: _LoadedSettings) -> None:
    for name in sorted(environment):
        origin = Origin("environment", name)
        setting = _BY_VARIABLE.get(name)
        if setting is None:
            if name.startswith(PREFIX) and name not in CLIENT_VARIABLES:
                _check_unknown_variable(origin, environment[name], gathered)
        elif environment[name] == "":
            gathered.refuse(origin, setting.key, "is empty", "unset the variable to use the default")
        else:
            gathered.take(setting, environment[name], origin)


def _check_unknown_variable(origin: Origin, value: str, gathered: _LoadedSettings) -> None:
    """Report an unknown variable that names a section or resembles a setting.

    Other unknown names are accepted: Kubernetes sets variables named after services, such as GOQUEUE_PORT.
    """
    rest = origin.name.removeprefix(PREFIX)
    if "://" in value:
        return
    suffixes = {
        setting.name.upper(): setting.variable for setting in reversed(SETTINGS)
    }  # the first one of a name counts
    suffixes |= {setting.variable.removeprefix(PREFIX): setting.variable for setting in SETTINGS}
    guess = nearest(rest, list(suffixes), cutoff=0.75)
    section = rest.upper().startswith(tuple(f"{section.upper().replace('.', '_')}_" for section in settings.SECTIONS))
    if section or guess:
        known = guess or nearest(rest, list(suffixes))
        gathered.refuse(origin, "", "is not a setting", f"did you mean {suffixes[known]}?" if known else None)


def _read_file(path: str, gathered: _LoadedSettings) -> None:
    from goqueue.config import document  # noqa: PLC0415 - loading YAML takes 20 ms

    found = document.read(path)
    gathered.problems += found.problems
    _read_entries(found.entries, "", gathered)


def _read_entries(entries: Iterable["DocumentEntry"], section: str, gathered: _LoadedSettings) -> None:
    for entry in entries:
        if len(gathered.problems) > CONFIG_PROBLEMS_MAX:
            return
        key = f"{section}.{entry.key}" if section else entry.key
        if "." in entry.key or (key not in _BY_KEY and key not in settings.SECTIONS):
            gathered.refuse(entry.key_origin, display_key(key), "is not a setting", _unknown_hint(entry.key, section))
        elif key in settings.SECTIONS:
            _read_section(entry, key, gathered)
        elif entry.shape == "text":
            gathered.take(_BY_KEY[key], entry.text, entry.origin)
        elif entry.shape == "nothing":
            hint = f"the default is {_BY_KEY[key].format(_BY_KEY[key].default)}"
            gathered.refuse(entry.key_origin, key, "has no value", hint)
        elif entry.shape != "refused":
            gathered.refuse(entry.origin, key, f"is a {entry.shape}, not a single value")


def _read_section(entry: "DocumentEntry", key: str, gathered: _LoadedSettings) -> None:
    """Read a section. It may be empty: its settings may be commented out."""
    if entry.shape == "section":
        _read_entries(entry.entries, key, gathered)
    elif entry.shape in ("text", "list"):
        what = "a list" if entry.shape == "list" else quoted(entry.text)
        gathered.refuse(entry.origin, key, f"is {what}, not a section", "indent its settings below it")


def _unknown_hint(name: str, section: str) -> str | None:
    """Suggest the nearest name in the section, or else in any section."""
    prefix = f"{section}." if section else ""
    beside = [key.removeprefix(prefix) for key in (*_BY_KEY, *settings.SECTIONS) if key.rpartition(".")[0] == section]
    guess = nearest(name, beside) if "." not in name else None
    if guess:
        return f"did you mean {prefix}{guess}?"
    names = {setting.name: setting for setting in SETTINGS} | {setting.key: setting for setting in SETTINGS}
    guess = nearest(name, list(names))
    if guess is None:
        return None
    meant = names[guess]
    return (
        f"did you mean {meant.name} in the section {meant.section}?" if meant.section else f"did you mean {meant.key}?"
    )
