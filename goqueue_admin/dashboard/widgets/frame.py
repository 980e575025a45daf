"""The lines around a screen: header, breadcrumbs, status line, key bar, and bars of numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.timer import Timer

from goqueue.clock import NANOSECONDS
from goqueue.console.terminal import escape_unprintable
from goqueue.drawing.bars import sparkline
from goqueue.quantities import format_count, format_duration
from goqueue_admin.dashboard.broker.service import ConnectionStatus
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.groups import condition_numbers
from goqueue_admin.dashboard.widgets.tones import TonedWidget

_HEALTH_MARKS = {"ok": ("●", "good"), "warning": ("▲", "warn"), "critical": ("◆", "bad")}
"""Shapes besides the colors, for terminals and users without color."""


class HealthBadge(NamedTuple):
    """A word with a mark and a tone."""

    mark: str
    word: str
    tone: str


class HeaderRate(NamedTuple):
    """A current number and its history."""

    title: str
    text: str
    points: Sequence[float]


def health_badge(link: ConnectionStatus, doctor: Mapping[str, Any]) -> HealthBadge:
    """Return the status of the doctor, or of the connection if it is not established."""
    if link.state == "away":
        return HealthBadge("◆", "away", "bad")
    if link.state == "asking":
        return HealthBadge("○", "asking", "muted")
    status = str(doctor.get("status", ""))
    if status not in _HEALTH_MARKS:
        return HealthBadge("●", "here", "good")
    mark, tone = _HEALTH_MARKS[status]
    count = len([one for one in doctor.get("findings", ()) if one.get("severity") != "note"])
    if status != "ok":
        return HealthBadge(mark, format_count(count, "alert"), tone)
    troubled = [one for one in condition_numbers(doctor) if one.tone not in {"", "good"}]
    if not troubled:
        return HealthBadge(mark, status, tone)
    return HealthBadge("▲", ", ".join([_labeled(troubled[0]), *map(_labeled_briefly, troubled[1:])]), "warn")


def _labeled(one: LabeledNumber) -> str:
    return f"{one.text} {one.noun}"


def _labeled_briefly(one: LabeledNumber) -> str:
    """Leave out the word for what is counted."""
    return f"{one.text.split()[0]} {one.noun}"


def header_rates(stats: Mapping[str, Any], history: Mapping[str, Any]) -> list[HeaderRate]:
    """Return the rates of the header, the most important first."""
    rates, series = stats.get("rates") or {}, history.get("series") or {}
    if not rates:
        return []
    latency = (series.get("publish_p99_ms") or [None])[-1]
    found = [
        HeaderRate("in", formats.rate(rates.get("published_per_second", 0)), series.get("published", ())),
        HeaderRate("out", formats.rate(rates.get("read_per_second", 0)), series.get("read", ())),
    ]
    if latency is not None:
        text = formats.milliseconds(latency) if latency else "-"  # nothing was published
        found.append(HeaderRate("p99", text, series.get("publish_p99_ms", ())))
    found += [
        HeaderRate(
            "written", formats.size_rate(rates.get("published_bytes_per_second", 0)), series.get("published_bytes", ())
        ),
        HeaderRate("settled", formats.rate(rates.get("settled_per_second", 0)), series.get("settled", ())),
        HeaderRate("requests", formats.rate(rates.get("requests_per_second", 0)), series.get("requests", ())),
    ]
    return found


def broker_summary(stats: Mapping[str, Any], version: Mapping[str, Any]) -> list[str]:
    """Return node id, version and uptime."""
    found = []
    if "node_id" in stats:
        found.append(f"node {stats['node_id']}")
    if version.get("version"):
        found.append(str(version["version"]))
    if "uptime" in stats:
        found.append(f"up {format_duration(stats['uptime'])}")
    return found


def connection_trouble(link: ConnectionStatus, address: str, now_ns: int) -> str:
    """Return the lasting line while the broker does not answer."""
    if link.state == "asking":
        return f"asking {address}"
    if link.state == "here":
        return ""
    left = max(0, -(-(link.retry_ns - now_ns) // NANOSECONDS))
    when = f"trying again in {left} s" if left else "trying again"
    return f"broker is away since {formats.format_clock(link.since_ns)}, {when}"


_SPARK_CELLS = 12
_SPARK_CELLS_MAX = 24
_RATE_GAP = 3


class HeaderBar(TonedWidget):
    """Two lines: identity and health of the broker, and its rates."""

    def __init__(self) -> None:
        super().__init__()
        self._address = ""
        self._named = ""
        self._is_protected = False
        self._about: Sequence[str] = ()
        self._health = HealthBadge("○", "asking", "muted")
        self._meters: Sequence[HeaderRate] = ()

    def place(self, address: str, context: str, *, is_protected: bool) -> None:
        """Set the address and the context; a protected one is marked."""
        self._address, self._named, self._is_protected = address, context, is_protected
        self.refresh()

    def show(self, health: HealthBadge, about: Sequence[str], meters: Sequence[HeaderRate]) -> None:
        self._health, self._about, self._meters = health, about, meters
        self.refresh()

    def render(self) -> Text:
        width = self.content_size.width
        return Text("\n").join((self._first(width), self._second(width)))

    def _first(self, width: int) -> Text:
        mark, word, tone = self._health
        line = Text("GoQueue", self.tone("title") + Style(bold=True), no_wrap=True)
        line.append(f"  {mark} {word}", self.tone(tone) + Style(bold=True))
        context = Text(no_wrap=True)
        if self._named:
            context.append(f"  {escape_unprintable(self._named)}", self.tone("accent"))
        if self._is_protected:
            context.append("  ◆ protected", self.tone("warn") + Style(bold=True))
        address = Text(f"  {escape_unprintable(self._address)}")
        address.truncate(max(0, width - line.cell_len - context.cell_len), overflow="ellipsis")
        line.append_text(address)
        line.append_text(context)
        right = Text("  ".join(self._about), self.tone("muted"))
        space = width - line.cell_len - right.cell_len
        if space >= 2:
            line.append(" " * space)
            line.append_text(right)
        line.truncate(width, overflow="ellipsis")
        return line

    def _second(self, width: int) -> Text:
        line = Text(no_wrap=True)
        if not self._meters:
            return line
        wide = _SPARK_CELLS if width < 140 else _SPARK_CELLS_MAX
        for meter in self._meters:
            piece = Text(f"{meter.title} ", self.tone("muted"))
            piece.append(f"{meter.text:>7} ", Style(bold=True))
            piece.append(sparkline(meter.points, wide), self.tone("spark"))
            gap = _RATE_GAP if line.cell_len else 0
            if line.cell_len + gap + piece.cell_len > width:
                break
            line.append(" " * gap)
            line.append_text(piece)
        return line


class ScreenBar(TonedWidget):
    """All screens with their keys, that of this screen marked; a click opens one. Small terminals leave it out."""

    class Chosen(Message):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, screens: Sequence[tuple[str, str]], current: str) -> None:
        super().__init__()
        self._screens = screens
        self._current = current

    def render(self) -> Text:
        line = Text(no_wrap=True)
        for index, (key, name) in enumerate(self._screens):
            line.append(" " * self._gap if index else "")
            line.append(key, self.tone("title") + Style(bold=True))
            style = Style(bold=True) if name == self._current else self.tone("muted")
            line.append(f" {name}", style)
        line.truncate(self.content_size.width, overflow="ellipsis")
        return line

    @property
    def _gap(self) -> int:
        """The space between two screens: one cell if two do not fit."""
        used = sum(len(key) + 1 + len(name) for key, name in self._screens) + 2 * (len(self._screens) - 1)
        return 2 if used <= self.content_size.width else 1

    def on_click(self, event: events.Click) -> None:
        x = event.x - self.styles.padding.left
        for key, name in self._screens:
            x -= len(key) + 1 + len(name)
            if x < 0:
                self.post_message(self.Chosen(name))
                return
            x -= self._gap


_ARROW = " › "


class Breadcrumbs(TonedWidget):
    """The path to this screen; a click opens a part of it."""

    class Chosen(Message):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self._titles: Sequence[str] = ()
        self._note = ""

    def show(self, titles: Sequence[str]) -> None:
        self._titles = [escape_unprintable(title) for title in titles]
        self.refresh()

    def note(self, text: str) -> None:
        """Show the text at the right: rows, filter, order."""
        if text != self._note:
            self._note = text
            self.refresh()

    def render(self) -> Text:
        width = self.content_size.width
        line = Text(no_wrap=True)
        for index, title in enumerate(self._shown()):
            line.append(_ARROW if index else "", self.tone("line"))
            is_last = index == len(self._titles) - 1
            line.append(title, Style(bold=True) + self.tone("title") if is_last else self.tone("muted"))
        note = Text(escape_unprintable(self._note), self.tone("muted"))
        note.truncate(max(0, width - line.cell_len - 2), overflow="ellipsis")
        line.append(" " * max(0, width - line.cell_len - note.cell_len))
        line.append_text(note)
        line.truncate(width, overflow="ellipsis")
        return line

    def _shown(self) -> list[str]:
        """Return the titles; the first are shortened if space is short."""
        titles, width = list(self._titles), self.content_size.width - len(self._note) - 2
        for index in range(len(titles) - 1):
            if sum(map(len, titles)) + len(_ARROW) * (len(titles) - 1) <= width:
                break
            titles[index] = "…"
        return titles

    def on_click(self, event: events.Click) -> None:
        end = self.styles.padding.left
        for index, title in enumerate(self._shown()):
            end += len(title) + (len(_ARROW) if index else 0)
            if event.x < end:
                self.post_message(self.Chosen(index))
                return


class StatusLine(TonedWidget):
    """Shows an event for some seconds, otherwise the lasting condition; a long one takes more than one line."""

    SECONDS = 6.0

    def __init__(self) -> None:
        super().__init__()
        self._lasting = ("", "")
        self._passing = ("", "")
        self._timer: Timer | None = None

    def last(self, text: str, tone: str = "bad") -> None:
        if (text, tone) != self._lasting:
            self._lasting = (text, tone)
            self._draw()

    def say(self, text: str, tone: str = "") -> None:
        self._passing = (text, tone)
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(self.SECONDS, self.clear, name="flash")
        self._draw()

    def clear(self) -> None:
        self._passing = ("", "")
        self._draw()

    @property
    def text(self) -> str:
        return (self._passing if self._passing[0] else self._lasting)[0]

    def _draw(self) -> None:
        self.set_class(self._lasting[1] == "bad" and not self._passing[0], "-away")
        self.refresh(layout=True)

    def render(self) -> Text:
        text, tone = self._passing if self._passing[0] else self._lasting
        return Text(escape_unprintable(text), self.tone(tone), overflow="fold")


_KEY_GAP = 2
_LEAST = {"sort", "mark"}
"""Actions of every table, whose keys are left out first."""


class PlacedKey(NamedTuple):
    """A key of the bar: where it begins and ends, its line, and the key to press."""

    begin: int
    end: int
    line: int
    key: str


class KeyBar(TonedWidget):
    """Keys of the screen at the left, keys of every screen at the right; a click presses one.

    If space is short, the keys that sort and mark are left out; then the keys of the screen get a line of their own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: Sequence[PlacedKey] = ()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh(layout=True))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines that the keys need."""
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Text:
        width = self.content_size.width
        found, placed = [], list[PlacedKey]()
        for number, (left, right) in enumerate(self._lines(width)):
            line = Text(no_wrap=True)
            for index, one in enumerate([*left, *right]):
                is_first_right = index == len(left)
                gap = width - line.cell_len - self._width(right) if is_first_right else _KEY_GAP if index else 0
                line.append(" " * max(0, gap))
                begin = line.cell_len
                line.append_text(self._piece(one))
                placed.append(PlacedKey(begin, line.cell_len, number, one.key))
            line.truncate(width)
            found.append(line)
        self._shown = placed
        return Text("\n").join(found)

    def _lines(self, width: int) -> list[tuple[list[Binding], list[Binding]]]:
        """Return for each line its keys at the left and at the right."""
        own, everywhere = self._keys()
        fewer = [one for one in own if one.action not in _LEAST]
        for kept in (own, fewer):
            if self._width([*kept, *everywhere]) <= width:
                return [(kept, everywhere)]
        lines: list[list[Binding]] = [[]]
        for one in own:
            if lines[-1] and self._width([*lines[-1], one]) > width:
                lines.append([])
            lines[-1].append(one)
        if self._width([*lines[-1], *everywhere]) > width:
            lines.append([])
        return [(line, everywhere if line is lines[-1] else []) for line in lines]

    def _keys(self) -> tuple[list[Binding], list[Binding]]:
        """Return the keys of the screen and its widgets, and those of every screen."""
        found = {
            (one.binding.action, one.binding.description): (one.node, one.binding)
            for one in self.screen.active_bindings.values()
            if one.binding.show and one.enabled
        }
        own = [binding for node, binding in found.values() if node is not self.app]
        return own, [binding for node, binding in found.values() if node is self.app]

    def _piece(self, binding: Binding) -> Text:
        key = (self.app.get_key_display(binding), self.tone("title") + Style(bold=True))
        return Text.assemble(key, (f" {binding.description}", self.tone("muted")))

    def _width(self, bindings: Sequence[Binding]) -> int:
        return sum(self._piece(one).cell_len for one in bindings) + _KEY_GAP * max(0, len(bindings) - 1)

    def on_click(self, event: events.Click) -> None:
        x = event.x - self.styles.padding.left
        for one in self._shown:
            if one.line == event.y and one.begin <= x < one.end:
                self.app.simulate_key(one.key)


_NUMBER_GAP = 3


class NumbersBar(TonedWidget):
    """A line of labeled numbers; those that do not fit are omitted."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._figures: Sequence[LabeledNumber] = ()

    def show(self, figures: Sequence[LabeledNumber]) -> None:
        if figures != self._figures:
            self._figures = figures
            self.refresh()

    def render(self) -> Text:
        line = Text(no_wrap=True)
        for text, noun, tone in self._figures:
            piece = Text.assemble(
                (text, self.tone(tone) + Style(bold=True)), (f" {noun}" if noun else "", self.tone("muted"))
            )
            gap = _NUMBER_GAP if line.cell_len else 0
            if line.cell_len + gap + piece.cell_len > self.content_size.width:
                break
            line.append(" " * gap)
            line.append_text(piece)
        return line
