"""Dialogs that cancel, reschedule or deliver delayed messages: selected ones, or all that match."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from textual.content import Content

from goqueue.clock import NANOSECONDS
from goqueue.console.due_changes import DueChange
from goqueue.console.terminal import escape_unprintable
from goqueue.errors import GoQueueError
from goqueue.limits import DELAY_SECONDS_MAX
from goqueue.quantities import format_count, format_duration, format_time, parse_duration, parse_time, quoted
from goqueue_admin.dashboard.broker.service import broker_call
from goqueue_admin.dashboard.screens.base import MUTED
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan, first_lines
from goqueue_admin.dashboard.screens.redrive import parse_limit
from goqueue_admin.dashboard.views import delayed as views
from goqueue_admin.dashboard.views import formats, message
from goqueue_admin.dashboard.views.dead_letters import format_moment

DUE_TIME_EXAMPLES = "5m   14:05   2026-03-01   2026-03-01T12:00:00Z   shift +1h   shift -10m"
DUE_FROM_EXAMPLES = "+1h   14:05   2026-03-01   2026-03-01T12:00:00Z"

_SHIFT = re.compile(r"shift\s*([+-]?)\s*(\S+)")
_DURATION = re.compile(r"\+?([0-9.]+[a-z][0-9.a-z]*)")


class DelayedAction(NamedTuple):
    """An action on delayed messages; `done` is the participle of `verb`.

    One that `repeats` may be asked for again until all is done; what was only moved may fit again.
    """

    verb: str
    title: str
    done: str
    repeats: bool = True


DELAYED_ACTIONS = {
    "cancel": DelayedAction("cancel", "Cancel", "cancelled"),
    "reschedule": DelayedAction("reschedule", "Reschedule", "rescheduled", repeats=False),
    "deliver": DelayedAction("deliver", "Deliver now", "delivered"),
}


# --- when ---


def parse_due_time(text: str, now_ns: int) -> DueChange:
    if not text:
        raise ValueError(f"say when: {DUE_TIME_EXAMPLES}")
    if found := _SHIFT.fullmatch(text):
        seconds = _check_ahead(parse_duration(found[2]), text)
        return DueChange(shift=-seconds if found[1] == "-" else seconds)
    if found := _DURATION.fullmatch(text):
        return DueChange(delay=_check_ahead(parse_duration(found[1]), text))
    if text.startswith("-"):
        raise ValueError(f"{quoted(text)} has passed: `shift {text}` makes each so much earlier")
    if text.lstrip("+").isdecimal():
        raise ValueError(f"{quoted(text)} has no unit: write {text}s for seconds")
    time_ns = formats.parse_due_moment(text, now_ns)
    _check_ahead((time_ns - now_ns) / NANOSECONDS, text)
    return DueChange(time_ns=time_ns)


def _check_ahead(seconds: float, text: str) -> float:
    if seconds > DELAY_SECONDS_MAX:
        raise ValueError(f"{quoted(text)} is too far ahead: {format_duration(DELAY_SECONDS_MAX)} are the most")
    return seconds


# --- which ---


class DelayedMatch(NamedTuple):
    """Conditions on delayed messages, as request options and as command-line flags."""

    filters: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    limit: int | None = None
    words: tuple[str, ...] = ()


def parse_match(values: Mapping[str, str], now_ns: int) -> DelayedMatch:
    """Parse the fields filter, partition, from, to and limit; empty ones match all."""
    filters = tuple(formats.parse_filters(values.get("filter", "")))
    words = [word for one in filters for word in ("--where", one)]
    options: dict[str, Any] = {}
    if text := values.get("partition", ""):
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise ValueError(f"the partition is {quoted(text)}: write a number, as in 0")
        options["partition"] = int(text)
        words += ["--partition", str(int(text))]
    for name in ("from", "to"):
        if text := values.get(name, ""):
            options[f"due_{name}"] = time = format_time(formats.parse_due_moment(text, now_ns))
            words += [f"--{name}", text if text == "now" or text[0] in "+-" else time]
    limit = parse_limit(values.get("limit", ""))
    if not words:
        words.append("--all")
    if limit is not None:
        words += ["--limit", str(limit)]
    return DelayedMatch(filters, tuple(options.items()), limit, tuple(words))


_LINES = 8
_SAMPLE = 5
_SETTLED_CODES = {"delayed_not_found", "delayed_not_pending"}


class DelayedDialog(ActionDialog):
    """Base of the dialogs on delayed messages: the action and the new due time."""

    def __init__(self, topic: str, deed: DelayedAction, what: str, fields: Sequence[DialogField] = ()) -> None:
        when = [DialogField("when", "when", "", DUE_TIME_EXAMPLES)] if deed.verb == "reschedule" else []
        super().__init__(f"{deed.title}: {what}", topic, [*when, *fields])
        self.topic = topic
        self.deed = deed
        self.when = DueChange()

    @property
    def now_ns(self) -> int:
        return self.dashboard.service.clock.now_ns()

    def read_when(self) -> None:
        """Make times absolute, so that the change equals the plan."""
        if self.deed.verb == "reschedule":
            self.when = parse_due_time(self.values["when"], self.now_ns)

    def line(self, told: Mapping[str, Any]) -> Content:
        """Return a line with a message and its planned change."""
        place = views.place_text((told["partition"], told["offset"]))
        due_ns = parse_time(told["deliver_at"])
        parts = Content.assemble(f"{place:<9} ", (format_moment(told["deliver_at"]), MUTED))
        if self.deed.verb == "reschedule":
            new_ns = self.when.due_ns(due_ns, self.now_ns)
            parts += Content(f" → {format_moment(format_time(new_ns)) if new_ns > self.now_ns else 'at once':<19}")
        key = message.key_text(told)
        return parts + Content.styled(f"  {escape_unprintable(key)}", "$primary") if key else parts

    @abstractmethod
    def words(self) -> Iterator[str]:
        """Return command-line words that select the messages."""

    def command(self) -> str:
        words = ["goqueue-cli", "delayed", self.deed.verb, self.topic, *self.words()]
        if self.deed.verb == "reschedule":
            with suppress(ValueError):
                words += parse_due_time(self.values["when"], self.now_ns).words
        return self.dashboard.shell_command(*words, "--dry-run")


class SelectedDelayedDialog(DelayedDialog):
    """Acts on the marked rows or the one under the cursor."""

    def __init__(self, topic: str, deed: DelayedAction, places: Sequence[str]) -> None:
        what = f"{topic} {places[0]}" if len(places) == 1 else f"{views.format_delayed_count(len(places))} of {topic}"
        super().__init__(topic, deed, what)
        self._places = places
        self._planned: list[Mapping[str, Any]] = []

    async def plan(self) -> DialogPlan:
        self.read_when()
        self._planned, lines = [], []
        for number, place in enumerate(self._places, 1):
            told, problem = await self._look(place)
            if told is None:
                lines.append(Content.assemble(f"{place:<9} ", (problem, "$warning")))
            else:
                self._planned.append(told)
                lines.append(self.line(told))
            if number % 50 == 0:
                self.tell(f"looked at {number:,} …", place="plan")
        told_lines = list(first_lines(lines, _LINES, "messages"))
        if not self._planned:
            return DialogPlan([*told_lines, Content.styled("there is nothing left to be decided", "$warning")])
        count = len(self._planned)
        one = views.place_text((self._planned[0]["partition"], self._planned[0]["offset"]))
        what = one if count == 1 else views.format_delayed_count(count)
        return DialogPlan([*told_lines, *_consequence_line(self.deed, count)], f"{self.deed.verb} {what}")

    async def _look(self, place: str) -> tuple[Mapping[str, Any] | None, str]:
        """Return the current message, or why it cannot be changed."""
        try:
            told = await self.dashboard.service.do(broker_call("delayed_message", self.topic, *views.place_of(place)))
        except GoQueueError as error:
            if error.code not in _SETTLED_CODES:
                raise
            return None, error.sentence
        kept = {name: told.get(name) for name in ("partition", "offset", "deliver_at", "state", "key", "key_encoding")}
        return (kept, "") if told["state"] == "pending" else (None, f"is {told['state']} already")

    async def carry_out(self) -> Sequence[Content]:
        done, problems = await self.change_each(self._planned, self._do, _error_sentence, self.deed.done)
        is_all = len(done) == len(self._planned)
        return [*_result_line(self.deed, len(done), is_all=is_all), *first_lines(problems, 3, "problems")]

    async def _do(self, told: Mapping[str, Any]) -> None:
        when = self.when.of_one(parse_time(told["deliver_at"])) if self.deed.verb == "reschedule" else {}
        place = (self.topic, told["partition"], told["offset"])
        await self.dashboard.service.do(broker_call(f"{self.deed.verb}_delayed", *place, **when))

    def words(self) -> Iterator[str]:
        yield from self._places


class MatchingDelayedDialog(DelayedDialog):
    """Acts on all matching messages: at most as many as were counted, the next due first."""

    def __init__(self, topic: str, deed: DelayedAction, values: Mapping[str, str] | None = None) -> None:
        given = values or {}
        fields = (
            DialogField("filter", "filter", given.get("filter", ""), "all; json.total>40   key=a   header.source=shop"),
            DialogField("partition", "partition", "", "all; 0"),
            DialogField("from", "due from", given.get("from", ""), f"the first; {DUE_FROM_EXAMPLES}"),
            DialogField("to", "due before", "", f"the last; {DUE_FROM_EXAMPLES}"),
            DialogField("limit", "limit", "", "no limit; 100, the next due first"),
        )
        super().__init__(topic, deed, f"delayed messages of {topic}", fields)
        self._choice = DelayedMatch()
        self._limit: int | None = None

    async def plan(self) -> DialogPlan:
        self.read_when()
        self._choice = parse_match(self.values, self.now_ns)
        found = await self._ask(limit=self._choice.limit, dry_run=True)
        matched, scanned = found["matched"], found["scanned"]
        self._limit = matched if found["complete"] else self._choice.limit
        least = "" if found["complete"] else "at least "
        if not matched:
            return DialogPlan([Content.styled(f"nothing to {self.deed.verb}: {scanned:,} looked at", "$warning")])
        lines = [self.line(told) for told in await self._sample()]
        if matched > len(lines):
            lines.append(Content.styled(f"and {least}{matched - len(lines):,} more", MUTED))
        lines.append(Content(f"{least}{matched:,} of {scanned:,} that were looked at"))
        what = f"{self.deed.verb} {least}{views.format_delayed_count(matched)}"
        return DialogPlan([*lines, *_consequence_line(self.deed, matched)], what)

    async def _sample(self) -> Sequence[Mapping[str, Any]]:
        """Return the next due messages."""
        most = min(_SAMPLE, self._limit or _SAMPLE)
        options = {**dict(self._choice.options), "filters": self._choice.filters}
        answer = await self.dashboard.service.do(broker_call("delayed", self.topic, most, **options))
        found: Sequence[Mapping[str, Any]] = answer["messages"]
        return found

    async def _ask(self, **options: Any) -> Any:
        when = self.when.of_many() if self.deed.verb == "reschedule" else {}
        options = {**dict(self._choice.options), **when, **options}
        call = broker_call(f"{self.deed.verb}_delayed_where", self.topic, self._choice.filters, **options)
        return await self.dashboard.service.do(call)

    async def carry_out(self) -> Sequence[Content]:
        done = 0
        try:
            while not self.is_stopped:
                left = None if self._limit is None else self._limit - done
                answer = await self._ask(limit=left, dry_run=False)
                done += answer["changed"]
                self.tell(f"{done:,} {self.deed.done} so far")
                is_over = bool(answer["complete"]) or done == self._limit
                if is_over or not self.deed.repeats or not answer["changed"]:
                    return _result_line(self.deed, done, is_all=is_over)
        except GoQueueError:
            self.tell(f"at least {done:,} had been {self.deed.done}", place="plan")
            raise
        return _result_line(self.deed, done, is_all=False)

    def words(self) -> Iterator[str]:
        with suppress(ValueError):
            yield from parse_match(self.values, self.now_ns).words


def _error_sentence(told: Mapping[str, Any], error: GoQueueError) -> str:
    return f"{views.place_text((told['partition'], told['offset']))}: {error.sentence}"


def _consequence_line(deed: DelayedAction, count: int) -> Iterator[Content]:
    if deed.verb == "cancel":
        it = "it is" if count == 1 else "they are"
        yield Content.styled(
            f"{it} never delivered, and nothing brings {'it' if count == 1 else 'them'} back", "$warning"
        )
    elif deed.verb == "deliver":
        yield Content("groups and readers see it at once" if count == 1 else "groups and readers see them at once")


def _result_line(deed: DelayedAction, done: int, *, is_all: bool) -> list[Content]:
    told = f"{format_count(done, 'delayed message')} {deed.done}"
    rest = "" if is_all else "; the rest was left"
    return [Content.styled(f"{told}{rest}", "$success" if is_all else "$warning")]
