"""Having a group read on from elsewhere."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from textual.content import Content

from goqueue.console import resets
from goqueue.console.undo import write_undo
from goqueue.errors import GoQueueError
from goqueue.quantities import format_count
from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.questions import question
from goqueue_admin.dashboard.screens.action import ActionScreen, Field, Plan, more
from goqueue_admin.dashboard.views.resets import PLACES, Target, parse_partitions, parse_target

_LINES = 12
_UNSURE = {"broker_unreachable", "request_timed_out"}
"""Refusals after which nobody knows whether it was done."""


class ResetScreen(ActionScreen):
    """What would undo it is on the disk before it is asked for."""

    def __init__(self, group: str, topic: str = "", partition: str = "") -> None:
        fields = (
            Field("to", "to", "", PLACES),
            Field("topic", "topic", topic, "all that it reads"),
            Field("partitions", "partitions", partition, "all; 0,2"),
        )
        super().__init__(f"Reset {group}", group, fields)
        self._group = group
        self._target = Target("", {}, ())

    async def plan(self, values: Mapping[str, str]) -> Plan:
        self._target = parse_target(values["to"], self.dashboard.service.clock.now_ns())
        rows, members = await self._look(values)
        if not rows:
            return Plan([Content.styled("there is nothing to move", "$warning")])
        lines = [*more([_line(row) for row in rows], _LINES, "partitions"), Content(resets.summary(rows))]
        if members:
            about = "is" if members == 1 else "are"
            told = f"{format_count(members, 'member')} {about} at work: what is in hand is handed out again"
            lines.append(Content.styled(told, "$warning"))
        return Plan(lines, f"reset {self._group}")

    async def _look(self, values: Mapping[str, str]) -> tuple[list[resets.Row], int]:
        """What would be moved, and how many members there are."""
        service = self.dashboard.service
        group = await service.do(question("group", self._group))
        rows = []
        for topic in self._topics(values, group):
            answer = await self._ask(topic, values, dry_run=True)
            rows += [resets.row_of(self._group, topic, found, group["lag"]) for found in answer["partitions"]]
        return rows, len(group["members"])

    def _topics(self, values: Mapping[str, str], group: Mapping[str, Any]) -> list[str]:
        """The one that was named, or what it has read or is about to."""
        if values["topic"]:
            return [values["topic"]]
        return sorted({*group["lag"], *(topic for member in group["members"] for topic in member["topics"])})

    async def _ask(self, topic: str, values: Mapping[str, str], *, dry_run: bool) -> Any:
        partitions = parse_partitions(values["partitions"])
        wishes = self._target.wishes | ({"partitions": tuple(partitions)} if partitions else {})
        return await self.dashboard.service.do(
            question("reset_offsets", self._group, topic, self._target.to, dry_run=dry_run, **wishes)
        )

    async def carry_out(self, values: Mapping[str, str]) -> Sequence[Content]:
        rows, _ = await self._look(values)  # again: a group at work has gone on since it was planned
        document = resets.document(self.dashboard.service.address, rows)
        path = await asyncio.to_thread(write_undo, resets.KIND, self._group, document)
        undoing = commands.line("goqueue-cli", "undo", str(path), server=self.dashboard.service.address)
        done = False
        try:
            for topic in dict.fromkeys(row["topic"] for row in rows):
                await self._ask(topic, values, dry_run=False)
                done = True
        except GoQueueError as error:
            if done or error.code in _UNSURE:
                self.tell(f"{undoing} undoes what was done until then", place="plan")
            else:
                with suppress(OSError):
                    path.unlink()
            raise
        return [
            Content.styled(f"{self._group} is reset: {resets.summary(rows)}", "$success"),
            Content.assemble(("to undo it  ", "$foreground 62%"), undoing),
        ]

    def command(self, values: Mapping[str, str]) -> str:
        return commands.line(*self._words(values), "--dry-run", server=self.dashboard.service.address)

    def _words(self, values: Mapping[str, str]) -> Iterator[str]:
        yield from ("goqueue-cli", "group", "reset", self._group)
        with suppress(ValueError):
            yield from parse_target(values["to"], self.dashboard.service.clock.now_ns()).words
        if values["topic"]:
            yield from ("--topic", values["topic"])
        with suppress(ValueError):
            for number in parse_partitions(values["partitions"]) or ():
                yield from ("--partition", str(number))


def _line(row: resets.Row) -> Content:
    before = "-" if row["before"] is None else format_count(row["before"])
    place = f"{row['topic']}/{row['partition']}"
    told = "".join(f"   {format_count(row[word])} {noun}" for word, noun in _COSTS if row[word])
    return Content.assemble(f"{place:<18} {before:>10} → {format_count(row['after']):<10}", (told, "$warning"))


_COSTS = (("again", "again"), ("skipped", "skipped"))
