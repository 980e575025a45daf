"""Windows in which it is decided what becomes of delayed messages: cancelled, delivered later, or delivered now."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from textual.content import Content

from goqueue.console.terminal import visible
from goqueue.errors import GoQueueError
from goqueue.quantities import format_count, format_time, parse_time
from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.questions import question
from goqueue_admin.dashboard.screens.action import ActionScreen, Field, Plan, more
from goqueue_admin.dashboard.views import content
from goqueue_admin.dashboard.views import delayed as views
from goqueue_admin.dashboard.views.decisions import DUES, WHENS, Choice, Deed, When, parse_choice, parse_when
from goqueue_admin.dashboard.views.letters import moment

_LINES = 8
_SAMPLE = 5
_UNSURE = {"broker_unreachable", "request_timed_out", "broker_stopping"}
"""Refusals after which the next one would meet the same."""
_GONE = {"delayed_not_found", "delayed_not_pending"}
_MUTED = "$foreground 62%"


class DecideScreen(ActionScreen):
    """What both have: the deed, and when, where that is to be said."""

    def __init__(self, topic: str, deed: Deed, what: str, fields: Sequence[Field] = ()) -> None:
        when = [Field("when", "when", "", WHENS)] if deed.verb == "reschedule" else []
        super().__init__(f"{deed.title}: {what}", topic, [*when, *fields])
        self.topic = topic
        self.deed = deed
        self.when = When()

    @property
    def now_ns(self) -> int:
        return self.dashboard.service.clock.now_ns()

    def read_when(self, values: Mapping[str, str]) -> None:
        """A time is made absolute here, so that what is done is what was planned."""
        if "when" in values:
            self.when = parse_when(values["when"], self.now_ns)

    def line(self, told: Mapping[str, Any]) -> Content:
        """One of those that are meant, and what would become of it."""
        place = views.place_text((told["partition"], told["offset"]))
        due_ns = parse_time(told["deliver_at"])
        parts = Content.assemble(f"{place:<9} ", (moment(told["deliver_at"]), _MUTED))
        if self.deed.verb == "reschedule":
            new_ns = self.when.due_ns(due_ns, self.now_ns)
            parts += Content(f" → {moment(format_time(new_ns)) if new_ns > self.now_ns else 'at once':<19}")
        key = content.key(told)
        return parts + Content.styled(f"  {visible(key)}", "$primary") if key else parts

    @abstractmethod
    def words(self, values: Mapping[str, str]) -> Iterator[str]:
        """Which ones, for the command."""

    def command(self, values: Mapping[str, str]) -> str:
        when: tuple[str, ...] = ()
        with suppress(ValueError):
            when = parse_when(values["when"], self.now_ns).words if "when" in values else ()
        words = ("goqueue-cli", "delayed", self.deed.verb, self.topic, *self.words(values), *when)
        return commands.line(*words, "--dry-run", server=self.dashboard.service.address)


class PlacesScreen(DecideScreen):
    """Of the line under the cursor, or of those that are marked. Where there is nothing to fill in, it asks at once."""

    def __init__(self, topic: str, deed: Deed, places: Sequence[str]) -> None:
        what = f"{topic} {places[0]}" if len(places) == 1 else f"{views.counted(len(places))} of {topic}"
        super().__init__(topic, deed, what)
        self._places = places
        self._planned: list[Mapping[str, Any]] = []

    async def plan(self, values: Mapping[str, str]) -> Plan:
        self.read_when(values)
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
        told_lines = list(more(lines, _LINES, "messages"))
        if not self._planned:
            return Plan([*told_lines, Content.styled("there is nothing left to be decided", "$warning")])
        count = len(self._planned)
        one = views.place_text((self._planned[0]["partition"], self._planned[0]["offset"]))
        what = one if count == 1 else views.counted(count)
        return Plan([*told_lines, *_consequence(self.deed, count)], f"{self.deed.verb} {what}")

    async def _look(self, place: str) -> tuple[Mapping[str, Any] | None, str]:
        """What the broker says of it now, or why there is nothing to be done about it."""
        try:
            told = await self.dashboard.service.do(question("delayed_message", self.topic, *views.place_of(place)))
        except GoQueueError as error:
            if error.code not in _GONE:
                raise
            return None, error.sentence
        kept = {name: told.get(name) for name in ("partition", "offset", "deliver_at", "state", "key", "key_encoding")}
        return (kept, "") if told["state"] == "pending" else (None, f"is {told['state']} already")

    async def carry_out(self, values: Mapping[str, str]) -> Sequence[Content]:
        """One that is refused does not keep the others from being done."""
        del values
        done, problems = 0, []
        for told in self._planned:
            if self.is_stopped:
                break
            try:
                await self._do(told)
            except GoQueueError as error:
                place = views.place_text((told["partition"], told["offset"]))
                problems.append(Content.styled(f"{place}: {error.sentence}", "$error"))
                if error.code in _UNSURE:
                    break
            else:
                done += 1
                self.tell(f"{done:,} of {len(self._planned):,} {self.deed.done}")
        return [*_outcome(self.deed, done, is_all=done == len(self._planned)), *more(problems, 3, "problems")]

    async def _do(self, told: Mapping[str, Any]) -> None:
        when = self.when.of_one(parse_time(told["deliver_at"])) if self.deed.verb == "reschedule" else {}
        place = (self.topic, told["partition"], told["offset"])
        await self.dashboard.service.do(question(f"{self.deed.verb}_delayed", *place, **when))

    def words(self, values: Mapping[str, str]) -> Iterator[str]:
        del values
        yield from self._places


class FittingScreen(DecideScreen):
    """Of all that fit. No more are changed than were counted, those that are due next first."""

    def __init__(self, topic: str, deed: Deed, values: Mapping[str, str] | None = None) -> None:
        given = values or {}
        fields = (
            Field("filter", "filter", given.get("filter", ""), "all; json.total>40   key=a   header.source=shop"),
            Field("partition", "partition", "", "all; 0"),
            Field("from", "due from", given.get("from", ""), f"the first; {DUES}"),
            Field("to", "due before", "", f"the last; {DUES}"),
            Field("limit", "limit", "", "no limit; 100, the next due first"),
        )
        super().__init__(topic, deed, f"delayed messages of {topic}", fields)
        self._choice = Choice()
        self._limit: int | None = None
        self._repeats = deed.repeats

    async def plan(self, values: Mapping[str, str]) -> Plan:
        self.read_when(values)
        self._choice = parse_choice(values, self.now_ns)
        found = await self._ask(limit=self._choice.limit, dry_run=True)
        matched, scanned = found["matched"], found["scanned"]
        self._limit = matched if found["complete"] else self._choice.limit
        least = "" if found["complete"] else "at least "
        if not matched:
            return Plan([Content.styled(f"nothing to {self.deed.verb}: {scanned:,} looked at", "$warning")])
        lines = [self.line(told) for told in await self._sample()]
        if matched > len(lines):
            lines.append(Content.styled(f"and {least}{matched - len(lines):,} more", _MUTED))
        lines.append(Content(f"{least}{matched:,} of {scanned:,} that were looked at"))
        what = f"{self.deed.verb} {least}{views.counted(matched)}"
        return Plan([*lines, *_consequence(self.deed, matched)], what)

    async def _sample(self) -> Sequence[Mapping[str, Any]]:
        """Those that are due next."""
        most = min(_SAMPLE, self._limit or _SAMPLE)
        wishes = {**dict(self._choice.wishes), "filters": self._choice.filters}
        answer = await self.dashboard.service.do(question("delayed", self.topic, most, **wishes))
        found: Sequence[Mapping[str, Any]] = answer["messages"]
        return found

    async def _ask(self, **options: Any) -> Any:
        when = self.when.of_many() if self.deed.verb == "reschedule" else {}
        wishes = {**dict(self._choice.wishes), **when, **options}
        call = question(f"{self.deed.verb}_delayed_where", self.topic, self._choice.filters, **wishes)
        return await self.dashboard.service.do(call)

    async def carry_out(self, values: Mapping[str, str]) -> Sequence[Content]:
        del values
        done = 0
        try:
            while not self.is_stopped:
                left = None if self._limit is None else self._limit - done
                answer = await self._ask(limit=left, dry_run=False)
                done += answer["changed"]
                self.tell(f"{done:,} {self.deed.done} so far")
                is_over = bool(answer["complete"]) or done == self._limit
                if is_over or not self.deed.repeats or not answer["changed"]:
                    return _outcome(self.deed, done, is_all=is_over)
        except GoQueueError:
            self.tell(f"at least {done:,} had been {self.deed.done}", place="plan")
            raise
        return _outcome(self.deed, done, is_all=False)

    def words(self, values: Mapping[str, str]) -> Iterator[str]:
        with suppress(ValueError):
            yield from parse_choice(values, self.now_ns).words


def _consequence(deed: Deed, count: int) -> Iterator[Content]:
    if deed.verb == "cancel":
        it = "it is" if count == 1 else "they are"
        yield Content.styled(
            f"{it} never delivered, and nothing brings {'it' if count == 1 else 'them'} back", "$warning"
        )
    elif deed.verb == "deliver":
        yield Content("groups and readers see it at once" if count == 1 else "groups and readers see them at once")


def _outcome(deed: Deed, done: int, *, is_all: bool) -> list[Content]:
    told = f"{format_count(done, 'delayed message')} {deed.done}"
    rest = "" if is_all else "; the rest was left"
    return [Content.styled(f"{told}{rest}", "$success" if is_all else "$warning")]
