"""The commands of `goqueue spark-inspect` that print an inspection: each is derived from its declaration."""

import inspect
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.commands.inspect.request import InspectRequest, with_request
from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.formatting import format_age, format_rate, format_size_rate
from goqueue.console.rows import Column, Row, render_cell, visible_columns, write_rows
from goqueue.console.table import text_width
from goqueue.drawing.bars import bar
from goqueue.drawing.plot import as_png, as_svg, bar_plot, line_plot
from goqueue.quantities import format_count, format_duration, format_size, format_time, quoted
from goqueue.spark.inspections.catalog import INSPECTIONS
from goqueue.spark.inspections.inspection import (
    KEY_LIST,
    TEXT,
    TIME,
    Chart,
    Field,
    FieldType,
    Inspection,
    InspectionContext,
    Option,
    Report,
    Table,
    format_key,
    format_percent,
)

if TYPE_CHECKING:
    from goqueue.spark.reading.plan import ReadPlan
    from goqueue.spark.session import SparkSession

PlotFlag = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Also draw the result, into FILE.svg or FILE.png.")
]

_BAR = "bar"
_CELLS_MIN, _CELLS_MAX = 8, 60
_CELLS = 40  # where the width of a line is unknown
_GAP = 2
_TOPICS_SHOWN = 3  # in the title of a plot


_FORMATS: dict[str, Callable[[Any], str]] = {
    "": str,
    "age": format_age,
    "code": lambda code: str(code).replace("_", " "),
    "count": format_count,
    "day": lambda time: str(time)[:10],
    "duration": format_duration,
    "hours": lambda hours: format_duration(hours * 3600),
    "hundredths": lambda number: f"{number:.2f}",
    "mean_size": lambda size: format_size(round(size)),
    "millisecond": lambda time: str(time)[:23].replace("T", " "),
    "minute": lambda time: str(time)[:16].replace("T", " "),
    "percent": format_percent,
    "rate": format_rate,
    "second": lambda time: f"{time[:19]}Z".replace("T", " "),
    "share": lambda share: f"{share:.1%}",
    "size": format_size,
    "size_rate": format_size_rate,
    "tenths": lambda number: f"{number:.1f}",
    "text": str,
    "words": " ".join,
    "yes_no": lambda flag: "yes" if flag else "no",
}


def print_report(request: InspectRequest, inspection: Inspection, report: Report) -> None:
    fields = {one.name: one for one in inspection.fields}
    found: Sequence[Row] = report.rows
    if report.sources is not None:
        found = [{name: row[source] for name, source in report.sources.items()} for row in found]
    rows, columns = _rendered(Table(found, report.fields or inspection.table), fields, report.formats)
    if report.bar is not None and request.for_people:
        rows, columns = _with_bars(rows, columns, report.bar, request.flags.output)
    request.write(rows, columns)
    if request.for_people:
        for table in report.more:
            rows, columns = _rendered(table, fields, {})
            if table.bar is not None:
                rows, columns = _with_bars(rows, columns, table.bar, request.flags.output)
            terminal.write("\n")
            write_rows(rows, columns, request.flags.output, headers=not request.flags.no_headers)
        if report.plan is not None:
            request.print_plan(report.plan)
        terminal.say(*report.notes)
    terminal.say(*report.warnings)


def _rendered(
    table: Table, fields: Mapping[str, Field], formats: Mapping[str, Callable[[Any], str]]
) -> tuple[Sequence[Row], list[Column]]:
    """Return the rows with times and keys as text, and the columns of the table."""
    columns = []
    for name in table.fields:
        field = fields.get(name.removeprefix("-"), Field(name.removeprefix("-"), TEXT))
        title = field.name.upper() if field.title is None else field.title
        show = formats.get(field.name) or _FORMATS[field.format or field.type.format]
        columns.append(Column("" if name.startswith("-") else title, field.name, show, field.wide, field.style))
    types = {one.name: one.type for one in fields.values()}
    return [{name: _as_text(value, types.get(name)) for name, value in row.items()} for row in table.rows], columns


def _as_text(value: Any, kind: FieldType | None) -> Any:
    if isinstance(value, bytes):
        return format_key(value)
    if kind is KEY_LIST:
        return ", ".join(map(format_key, value)) or None
    return format_time(value) if kind is TIME and value is not None else value


def _with_bars(
    rows: Sequence[Row], columns: list[Column], field: str, output: str
) -> tuple[Sequence[Row], list[Column]]:
    """Add a last column with a bar for the value of a field."""
    most = max((row[field] or 0 for row in rows), default=0)
    width = _bar_cells(rows, visible_columns(columns, output))
    blocks = _can_draw_blocks()
    drawn = [{**row, _BAR: bar(row[field] or 0, most, width, blocks=blocks)} for row in rows]
    return drawn, [*columns, Column(" ", _BAR, style=lambda _: "label")]


def _can_draw_blocks() -> bool:
    """Test if stdout can write block characters; bars are made of `#` where it cannot."""
    try:
        "▏▎▍▌▋▊▉█".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _bar_cells(rows: Sequence[Row], columns: Sequence[Column]) -> int:
    """Return the cells that the other columns leave of a line."""
    room = terminal.width()
    if room is None:
        return _CELLS
    taken = sum(
        max(map(text_width, [column.title, *(render_cell(row, column).text for row in rows)])) for column in columns
    )
    return max(_CELLS_MIN, min(_CELLS_MAX, room - taken - _GAP * len(columns)))


# --- plots ---


def check_plot(path: str | None) -> None:
    """Refuse a file that could not be written, before anything takes time."""
    if path is None:
        return
    if not path.lower().endswith((".svg", ".png")):
        raise UsageInvalid(f"--plot: {quoted(path)} is neither .svg nor .png", hint="write it as in --plot chart.svg")
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory):
        raise UsageInvalid(f"--plot: there is no directory {quoted(directory)}", hint="create it first")
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else directory, os.W_OK):
        raise UsageInvalid(f"--plot: {quoted(path)} cannot be written", hint="name another file")


def write_plot(path: str, chart: Chart, topics: Sequence[str]) -> None:
    """Draw lines over time where the values are series by name, and bars otherwise."""
    title = f"{chart.title}: {_shown_topics(topics)}"
    if isinstance(chart.values, Mapping):
        picture = line_plot(f"{title} (times in UTC)", chart.labels, chart.values, chart.unit)
    else:
        picture = bar_plot(title, chart.labels, chart.values, chart.unit)
    content = as_png(picture) if path.lower().endswith(".png") else as_svg(picture)
    try:
        with open(path, "wb") as file:
            file.write(content)
    except OSError as error:
        raise UsageInvalid(f"--plot: {quoted(path)} cannot be written: {error.strerror}") from None


def _shown_topics(topics: Sequence[str]) -> str:
    if not topics:
        return "all topics"
    more = len(topics) - _TOPICS_SHOWN
    return ", ".join(topics[:_TOPICS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def __getattr__(name: str) -> Callable[..., None]:
    """Return the command of the inspection of this name, which the registry of commands refers to."""
    if name not in INSPECTIONS:
        raise AttributeError(name)
    return _command(INSPECTIONS[name])


def _command(inspection: Inspection) -> Callable[..., None]:
    def command(*, request: InspectRequest, plot: str | None = None, **given: Any) -> None:
        _check(inspection, request, plot, given)
        with _CommandContext(request, inspection) as context:
            report = inspection.run(context, _values(inspection, given, context.now_ns))
        print_report(request, inspection, report)
        if plot is not None and report.chart is not None:
            write_plot(plot, report.chart, context.topics)
        if report.is_failure:
            raise typer.Exit(exit_codes.FAILED)

    parameters = [_parameter(option) for option in inspection.options]
    if inspection.has_plot:
        parameters.append(inspect.Parameter("plot", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=PlotFlag))
    parameters.append(inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__doc__ = f"{inspection.summary}\n{textwrap.dedent(inspection.help)}"
    return with_request(command)


def _parameter(option: Option) -> inspect.Parameter:
    kind: Any = str
    if option.choices:
        kind = Literal[option.choices + option.command_choices]
    elif option.is_switch:
        kind = bool
    elif option.number_max is not None:
        kind = int
    elif option.is_list:
        kind = list[str]
    default: Any = False if option.is_switch else option.default
    annotation: Any = kind if default is not None else kind | None
    limits: dict[str, Any] = {} if option.number_max is None else {"min": 1, "max": option.number_max}
    flags = [option.flag, *([option.short] if option.short else [])]
    flag = typer.Option(*flags, metavar=option.metavar, help=option.help, **limits)
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, flag]
    )


def _check(inspection: Inspection, request: InspectRequest, plot: str | None, given: Mapping[str, Any]) -> None:
    conflict = inspection.conflict(given)
    if conflict is not None:
        raise UsageInvalid(f"--{conflict.option} {conflict.sentence}", hint=conflict.hint)
    _values(inspection, given, time.time_ns())
    if request.path is None and (wrong := [name for name in inspection.file_options if given[name]]):
        what = "a broker" if request.backup is None else "a backup"
        raise UsageInvalid(f"--{wrong[0]} compares files, and {what} is read", hint="name a data directory instead")
    if not inspection.has_range and (request.flags.first or request.flags.last):
        raise UsageInvalid("--from and --to have no effect here", hint="--at chooses the time to measure at")
    check_plot(plot)
    if plot is not None and inspection.plot_needs is not None and not given[inspection.plot_needs]:
        raise UsageInvalid("--plot draws over time", hint=f"choose the steps: --{inspection.plot_needs} 1m")


def _values(inspection: Inspection, given: Mapping[str, Any], now_ns: int) -> dict[str, Any]:
    return {option.name: _value(option, given[option.name], now_ns) for option in inspection.options}


def _value(option: Option, given: Any, now_ns: int) -> Any:
    if option.choices or option.is_switch or option.number_max is not None:  # Typer has checked these
        return given
    try:
        if option.is_list:
            return tuple(option.read(text, now_ns) for text in given or ())
        return None if given is None else option.read(given, now_ns)
    except ValueError as error:
        raise UsageInvalid(f"{option.flag}: {error}") from None


class _CommandContext(InspectionContext):
    """The selection of a command. Its Spark session starts when it is needed, and ends with the inspection."""

    def __init__(self, request: InspectRequest, inspection: Inspection) -> None:
        self._request = request
        self._owned = ExitStack()
        self._spark: SparkSession | None = None
        self.now_ns = time.time_ns()
        self.logs = request.logs(all_frames=inspection.reads_all_frames)
        self._owned.callback(self.logs.close)
        self.topics = request.selection(self.logs).names

    def __enter__(self) -> "_CommandContext":
        return self

    def __exit__(self, *error: Any) -> None:
        self._owned.__exit__(*error)

    @cached_property
    def plan(self) -> "ReadPlan":
        return self.plan_of(self.topics)

    def plan_of(self, topics: tuple[str, ...]) -> "ReadPlan":
        return self._request.plan(self.logs, topics)

    @property
    def time_range(self) -> tuple[int | None, int | None]:
        return self._request.time_range()

    @contextmanager
    def session(self, plan: "ReadPlan", *, is_brief: bool = True, action: str = "reading") -> "Iterator[SparkSession]":
        if self._spark is None:
            self._spark = self._owned.enter_context(self._request.spark(is_brief=is_brief))
        with self._request.progress(self._spark, plan, action):
            yield self._spark
