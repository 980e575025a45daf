"""The parts of an inspection's declaration: fields, options, the context it runs in and the report it returns.

Loads neither numpy nor pyarrow: help and flag errors of `goqueue spark-inspect` need this module only.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from goqueue.clock import NANOSECONDS
from goqueue.quantities import parse_duration, parse_size, parse_time, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.spark.logs.port import LogSource
    from goqueue.spark.logs.splits import Split
    from goqueue.spark.reading.plan import ReadPlan

T = TypeVar("T")
Row = dict[str, Any]
"""Values as they are: a time is a number of nanoseconds, a key is bytes. The field says which it is."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


# --- fields ---


class FieldType(NamedTuple):
    """The Arrow type of a field, and the name of the format that a table shows it in."""

    arrow: str
    format: str = ""


TEXT = FieldType("string")
KEY = FieldType("binary")
KEY_LIST = FieldType("list<binary>")
TEXT_LIST = FieldType("list<string>", "words")
TIME = FieldType("timestamp", "second")
FLAG = FieldType("bool", "yes_no")
INT32 = FieldType("int32")
INT = FieldType("int64")
COUNT = FieldType("int64", "count")
SIZE = FieldType("int64", "size")
WHOLE_SECONDS = FieldType("int64", "duration")
FLOAT = FieldType("float64")
SHARE = FieldType("float64", "share")
SECONDS = FieldType("float64", "duration")
RATE = FieldType("float64", "rate")


class Field(NamedTuple):
    """A field of the rows. A pipeline step has it as a column; a command prints it under its title."""

    name: str
    type: FieldType
    title: str | None = None
    """The name in capitals where it is None."""
    wide: bool = False
    """Shown with `-o wide` only."""
    format: str | None = None
    """Another format than that of the type."""
    style: Callable[[Mapping[str, Any]], str] | None = None
    is_stored: bool = True
    """False for what only the command prints: it repeats other fields in another form."""


# --- options ---


class Option(NamedTuple):
    """An option of an inspection: `--name` of its command, `name:` of a pipeline step."""

    name: str
    help: str
    read: Callable[[str, int], Any] = lambda text, _: text
    """Parses a text, given the present time in nanoseconds; a ValueError says what is wrong."""
    metavar: str | None = None
    default: str | int | None = None
    choices: tuple[str, ...] = ()
    command_choices: tuple[str, ...] = ()
    """Further choices that the command has, and a pipeline step does not."""
    number_max: int | None = None
    is_switch: bool = False
    is_list: bool = False
    short: str | None = None

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def default_value(self) -> Any:
        if self.is_switch:
            return False
        if self.is_list:
            return ()
        return self.read(self.default, 0) if isinstance(self.default, str) else self.default


def switch(name: str, about: str) -> Option:
    def read(given: str, _: int) -> bool:
        from goqueue.config.value_types import BOOLEAN  # noqa: PLC0415 - help does not need it

        return bool(BOOLEAN.parse(given))

    return Option(name, about, read, is_switch=True)


def number(name: str, most: int, about: str, default: int | None = None) -> Option:
    def read(given: str, _: int) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", given) or not int(given):
            raise ValueError(f"{quoted(given)} is not a number above 0")
        if int(given) > most:
            raise ValueError(f"{quoted(given)} is too large: the maximum is {most:,}")
        return int(given)

    return Option(name, about, read, "NUMBER", default, number_max=most)


def choice(
    name: str,
    choices: tuple[str, ...],
    about: str,
    default: str | None = None,
    command_choices: tuple[str, ...] = (),
) -> Option:
    def read(given: str, _: int) -> str:
        if given not in choices:
            raise ValueError(f"{quoted(given)} is not one of {', '.join(choices)}")
        return given

    return Option(name, about, read, default=default, choices=choices, command_choices=command_choices)


def read_text(given: str, _: int) -> str:
    if not given.strip():
        raise ValueError("is empty")
    return given


def read_json_path(given: str, _: int) -> str:
    if not all(given.split(".")):
        raise ValueError(f"{quoted(given)} is not a path: write names with dots between them, as in order.created")
    return given


def read_size(given: str, _: int) -> int:
    return parse_size(given)


def read_seconds(given: str, _: int) -> float:
    found = parse_duration(given)
    if not found:
        raise ValueError(f"{quoted(given)} must be longer than 0")
    return found


def read_bucket(given: str, _: int) -> int:
    """Return the length of a time bucket in nanoseconds; a millisecond is the shortest."""
    found = round(read_seconds(given, 0) * NANOSECONDS)
    if found < NANOSECONDS // 1000:
        raise ValueError(f"{quoted(given)} is too short: the minimum is 1ms")
    return found


def read_time(given: str, now_ns: int) -> int:
    """Return a time, the start of a day, or a time so long ago, in nanoseconds."""
    if given.startswith("-"):
        return max(0, now_ns - round(parse_duration(given[1:]) * NANOSECONDS))
    return parse_time(f"{given}T00:00:00Z" if _DAY.fullmatch(given) else given)


class OptionConflict(NamedTuple):
    """An option that cannot be combined with the others that were given."""

    option: str
    sentence: str
    hint: str


def at_most_one(first: str, second: str) -> Callable[[Mapping[str, Any]], OptionConflict | None]:
    """Return a check that refuses both of two options."""

    def conflict(given: Mapping[str, Any]) -> OptionConflict | None:
        if given.get(first) and given.get(second):
            return OptionConflict(second, f"cannot be combined with {first}", f"keep one of {first}, {second}")
        return None

    return conflict


# --- running ---


class Chart(NamedTuple):
    """The data of `--plot`: bars for one series of values, lines for several series by name."""

    title: str
    labels: Sequence[str]
    values: Sequence[float] | Mapping[str, Sequence[float]]
    unit: str


class Table(NamedTuple):
    """Rows and the fields that a person sees of them. A field with `-` before its name is printed for programs only."""

    rows: Sequence[Mapping[str, Any]]
    fields: Sequence[str]
    bar: str | None = None


@dataclass(slots=True)
class Report:
    """The result of an inspection."""

    rows: list[Row]
    plan: "ReadPlan | None" = None
    """What was read; None where that is of no interest."""
    fields: Sequence[str] | None = None
    """The fields of the table, where they are not those of the inspection."""
    sources: Mapping[str, str] | None = None
    """For a command, the fields of its rows by name, and the field of `rows` that each comes from."""
    formats: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    """Formats that depend on the options."""
    bar: str | None = None
    """The field that is drawn as a bar beside the table."""
    more: Sequence[Table] = ()
    """Further tables, for people only."""
    notes: list[str] = field(default_factory=list)
    """Sentences below the table, for people only."""
    warnings: list[str] = field(default_factory=list)
    """Sentences on stderr in every form of output."""
    chart: Chart | None = None
    is_failure: bool = False
    """Whether something is wrong with the logs: exit code 1."""


class InspectionContext(Protocol):
    """The logs that an inspection reads, and its Spark session: a command's, or a pipeline's."""

    logs: "LogSource"
    topics: tuple[str, ...]
    """The selected topics; empty for all."""
    now_ns: int

    @property
    @abstractmethod
    def plan(self) -> "ReadPlan":
        """The messages that were selected."""

    @abstractmethod
    def plan_of(self, topics: tuple[str, ...]) -> "ReadPlan":
        """Return the selected messages of these topics."""

    @property
    @abstractmethod
    def time_range(self) -> tuple[int | None, int | None]:
        """The selected times, in nanoseconds; None where there is no limit."""

    @abstractmethod
    def session(
        self, plan: "ReadPlan", *, is_brief: bool = True, action: str = "reading"
    ) -> "AbstractContextManager[SparkSession]":
        """Open a Spark session, with a progress line for a person."""

    def scan(
        self, plan: "ReadPlan", task: "Callable[[Split], T]", *, action: str = "reading"
    ) -> "list[tuple[Split, T]]":
        """Run a task on every split of a plan; Spark is not started where there is none."""
        from goqueue.spark.reading.tasks import run_on_splits  # noqa: PLC0415 - it needs numpy

        splits = plan.splits(self.logs)
        if not splits:
            return []
        with self.session(plan, action=action) as spark:
            return list(zip(splits, run_on_splits(spark, splits, task), strict=True))


@dataclass(frozen=True)
class Inspection:
    """One inspection, from which its command, its pipeline step, its tables and its help are derived."""

    name: str
    summary: str
    help: str
    """Examples and explanations, below the summary."""
    target: str
    """`module:function`, called with a context and all options; it returns a Report."""
    fields: tuple[Field, ...]
    """In the order of a pipeline step's columns."""
    table: tuple[str, ...]
    """The fields that a person sees, in the order of the table; see Table."""
    options: tuple[Option, ...] = ()
    conflict: Callable[[Mapping[str, Any]], OptionConflict | None] = lambda _: None
    has_plot: bool = False
    plot_needs: str | None = None
    """The option without which there is nothing to plot."""
    file_options: frozenset[str] = frozenset()
    """Options that need a data directory."""
    has_range: bool = True
    """Whether --from and --to choose what is read."""
    reads_all_frames: bool = False
    """Whether messages of open and aborted transactions count as well."""

    @property
    def options_by_name(self) -> dict[str, Option]:
        return {option.name: option for option in self.options}

    @property
    def stored_fields(self) -> list[Field]:
        return [one for one in self.fields if one.is_stored]

    def run(self, context: InspectionContext, given: Mapping[str, Any]) -> Report:
        """Run it. Options that are not given have their defaults."""
        values = {option.name: given.get(option.name, option.default_value) for option in self.options}
        module, _, name = self.target.partition(":")
        function: Callable[..., Report] = getattr(import_module(module), name)
        return function(context, **values)


def format_percent(share: float) -> str:
    """Format a share with the digits that are significant."""
    if 0 < share < 0.0001:
        return "<0.01%"
    return f"{share:.1%}" if share >= 0.1 else f"{share:.2%}"


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def format_key(key: bytes) -> str:
    """Return a key as text, or in hexadecimal where it is not printable text."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() else f"0x{key.hex()}"
