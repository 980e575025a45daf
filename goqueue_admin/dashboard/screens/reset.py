"""The dialog that resets the offsets of a group."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from textual.content import Content

from goqueue.console import consumer_groups
from goqueue.errors import GoQueueError
from goqueue.limits import OFFSET_MAX
from goqueue.quantities import format_count, format_time, quoted
from goqueue_admin.dashboard.broker.service import broker_call
from goqueue_admin.dashboard.screens.base import MUTED
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan, first_lines
from goqueue_admin.dashboard.views import formats

TARGET_EXAMPLES = "earliest   latest   -1h   14:05   2026-03-01   @1200   shift -100"

_SHIFT = re.compile(r"shift\s*([+-]?[0-9]{1,18})")
_OFFSET = re.compile(r"@?([0-9]{1,19})")
_BARE = re.compile(r"[+-][0-9]+")


class ResetDestination(NamedTuple):
    """A parsed target: `to`, request options and command-line words."""

    to: str
    options: dict[str, Any]
    words: tuple[str, ...]


def parse_target(text: str, now_ns: int) -> ResetDestination:
    """Make times absolute, so that the change equals the plan."""
    if not text:
        raise ValueError(f"say where to: {TARGET_EXAMPLES}")
    if text in {"earliest", "latest"}:
        return ResetDestination(text, {}, ("--to", text))
    if found := _SHIFT.fullmatch(text):
        return _shift(int(found[1]))
    if found := _OFFSET.fullmatch(text):
        offset = int(found[1])
        if offset > OFFSET_MAX:
            raise ValueError(f"{quoted(text)} is larger than any offset")
        return ResetDestination("offset", {"offset": offset}, ("--to", str(offset)))
    if _BARE.fullmatch(text):
        raise ValueError(f"{quoted(text)} has no unit: `shift {text}` counts messages, `{text}s` seconds")
    try:
        time_ns = formats.parse_moment(text, now_ns)
    except ValueError as error:
        raise ValueError(f"{error}; or write one of: {TARGET_EXAMPLES}") from None
    return ResetDestination("time", {"time": time_ns}, ("--to", text if text.startswith("-") else format_time(time_ns)))


def _shift(count: int) -> ResetDestination:
    if not count:
        raise ValueError("shift 0 moves nothing")
    return ResetDestination("shift", {"shift": count}, ("--shift", str(count)))


def parse_partitions(text: str) -> list[int] | None:
    """Parse `0 2,5`; empty means all."""
    numbers = text.replace(",", " ").split()
    if not all(number.isascii() and number.isdecimal() and len(number) < 10 for number in numbers):
        raise ValueError(f"{quoted(text)} is no list of partitions: write it as in 0,2")
    return sorted({int(number) for number in numbers}) or None


_LINES = 12


class ResetDialog(ActionDialog):
    """Resets topic by topic, as one operation."""

    def __init__(self, group: str, topic: str = "", partition: str = "") -> None:
        fields = (
            DialogField("to", "to", "", TARGET_EXAMPLES),
            DialogField("topic", "topic", topic, "all that it reads"),
            DialogField("partitions", "partitions", partition, "all; 0,2"),
        )
        super().__init__(f"Reset {group}", group, fields)
        self._group = group
        self._target = ResetDestination("", {}, ())

    async def plan(self) -> DialogPlan:
        self._target = parse_target(self.values["to"], self.dashboard.service.clock.now_ns())
        rows, members = await self._look()
        if not rows:
            return DialogPlan([Content.styled("there is nothing to move", "$warning")])
        lines = [
            *first_lines([_reset_line(row) for row in rows], _LINES, "partitions"),
            Content(consumer_groups.reset_summary(rows)),
        ]
        if members:
            about = "is" if members == 1 else "are"
            told = f"{format_count(members, 'member')} {about} at work: what is in hand is handed out again"
            lines.append(Content.styled(told, "$warning"))
        return DialogPlan(lines, f"reset {self._group}")

    async def _look(self) -> tuple[list[consumer_groups.Row], int]:
        """Return the planned changes and the number of members."""
        service = self.dashboard.service
        group = await service.do(broker_call("group", self._group))
        rows = []
        for topic in self._topics(group):
            answer = await self._ask(topic, dry_run=True)
            rows += [
                consumer_groups.reset_row(self._group, topic, found, group["lag"]) for found in answer["partitions"]
            ]
        return rows, len(group["members"])

    def _topics(self, group: Mapping[str, Any]) -> list[str]:
        """Return the given topic, or all topics of the group."""
        if self.values["topic"]:
            return [self.values["topic"]]
        return consumer_groups.topics_of(group)

    async def _ask(self, topic: str, *, dry_run: bool, operation: int | None = None) -> Any:
        partitions = parse_partitions(self.values["partitions"])
        options = self._target.options | ({"partitions": tuple(partitions)} if partitions else {})
        options |= {} if operation is None else {"operation": operation}
        return await self.dashboard.service.do(
            broker_call("reset_offsets", self._group, topic, self._target.to, dry_run=dry_run, **options)
        )

    async def carry_out(self) -> Sequence[Content]:
        rows, _ = await self._look()  # again: a group at work has gone on since it was planned
        number: int | None = None
        try:
            for topic in dict.fromkeys(row["topic"] for row in rows):
                number = (await self._ask(topic, dry_run=False, operation=number))["operation"]
        except GoQueueError as error:
            if consumer_groups.may_be_done(error):
                listing = self.dashboard.shell_command("goqueue-cli", "undo", "--subject", self._group)
                self.tell(f"{listing} shows whether it was done", place="plan")
            elif number is not None:
                self.tell(f"{self._undoing(number)} undoes what was done until then", place="plan")
            raise
        return [
            Content.styled(f"{self._group} is reset: {consumer_groups.reset_summary(rows)}", "$success"),
            *([] if number is None else [Content.assemble(("to undo it  ", MUTED), self._undoing(number))]),
        ]

    def _undoing(self, number: int) -> str:
        return self.dashboard.shell_command("goqueue-cli", "undo", str(number))

    def command(self) -> str:
        return self.dashboard.shell_command(*self._words(self.values), "--dry-run")

    def _words(self, values: Mapping[str, str]) -> Iterator[str]:
        yield from ("goqueue-cli", "group", "reset", self._group)
        with suppress(ValueError):
            yield from parse_target(values["to"], self.dashboard.service.clock.now_ns()).words
        if values["topic"]:
            yield from ("--topic", values["topic"])
        with suppress(ValueError):
            for number in parse_partitions(values["partitions"]) or ():
                yield from ("--partition", str(number))


def _reset_line(row: consumer_groups.Row) -> Content:
    before = "-" if row["before"] is None else format_count(row["before"])
    place = f"{row['topic']}/{row['partition']}"
    told = "".join(f"   {format_count(row[word])} {word}" for word in ("again", "skipped") if row[word])
    return Content.assemble(f"{place:<18} {before:>10} → {format_count(row['after']):<10}", (told, "$warning"))
