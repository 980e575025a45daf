"""Sending dead letters back: those that fit, as many as wanted, as fast as wanted."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from textual.content import Content

from goqueue.clock import NANOSECONDS
from goqueue.console.redrives import Record
from goqueue.console.terminal import visible
from goqueue.errors import GoQueueError
from goqueue.quantities import format_count, format_duration, parse_time
from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.questions import question
from goqueue_admin.dashboard.screens.action import ActionScreen, Field, Plan, more
from goqueue_admin.dashboard.views import chart
from goqueue_admin.dashboard.views.letters import UNSAID, own_name
from goqueue_admin.dashboard.views.redrives import Outcome, Wishes, parse_wishes

_LINES = 6
_PLANNED_AT_ONCE = 2_000
_MOVED_AT_ONCE = 200
"""Of a request without a rate: a stop that is asked for is heard after it."""


class RedriveScreen(ActionScreen):
    """Only what lay there when it was planned goes, so what fails again and comes back stays."""

    def __init__(self, topic: str, *, error: str = "", group: str = "", key: str = "") -> None:
        fields = (
            Field("error", "error", error, "all; a part of why they failed"),
            Field("group", "group", group, "all; the group that gave them up"),
            Field("key", "key", key, "all"),
            Field("limit", "limit", "", "no limit; 100"),
            Field("rate", "rate", "", "as fast as it goes; 50 a second"),
            Field("target", "target", "", "where each came from"),
        )
        super().__init__(f"Send back dead letters of {topic.removesuffix('.dlq')}", own_name(topic), fields)
        self._topic = own_name(topic)
        self._wishes = Wishes({}, None, None)
        self._planned = 0

    # --- what would go ---

    async def plan(self, values: Mapping[str, str]) -> Plan:
        wishes = parse_wishes(values)
        health = await self.dashboard.service.do(question("health"))
        now = parse_time(health["timestamp"])  # of the broker: the clock of this machine may be another
        self._wishes = wishes._replace(chosen={**wishes.chosen, "to_time": now})
        counts, scanned = await self._count()
        self._planned = sum(count for (_, _, problem), count in counts.items() if not problem)
        lines = list(more([_line(*what, count) for what, count in counts.most_common()], _LINES, "reasons"))
        if not self._planned:
            return Plan([*lines, Content.styled(f"nothing to send back: {scanned:,} looked at", "$warning")])
        told = f"{self._planned:,} of {scanned:,} that were looked at would be new messages at the end of their topic"
        return Plan([*lines, Content(told)], f"send {format_count(self._planned)} back")

    async def _count(self) -> tuple[Counter[tuple[str, str, str]], int]:
        """By reason, target and what is wrong."""
        counts: Counter[tuple[str, str, str]] = Counter()
        scanned, left, start = 0, self._wishes.limit, None
        while left is None or left > 0:
            most = _PLANNED_AT_ONCE if left is None else min(left, _PLANNED_AT_ONCE)
            answer = await self._ask(limit=most, start=start, dry_run=True)
            scanned, start = scanned + answer["scanned"], answer["next"]
            for one in answer["results"]:
                problem = one.get("error")
                counts[one["reason"], one["target_topic"], problem["error"] if problem else ""] += 1
                left = left if left is None or problem else left - 1
            if answer["complete"]:
                break
            self.tell(f"looked at {scanned:,} …", place="plan")
        return counts, scanned

    async def _ask(self, *, start: Mapping[str, int] | None, **options: Any) -> Any:
        call = question("redrive", self._topic, **self._wishes.chosen, **options, **({"start": start} if start else {}))
        return await self.dashboard.service.do(call)

    # --- sending ---

    async def carry_out(self, values: Mapping[str, str]) -> Sequence[Content]:
        del values
        record = await asyncio.to_thread(Record, self._topic, self.dashboard.service.address)
        outcome = Outcome(self._wishes.limit)
        try:
            await self._send(record, outcome)
        except GoQueueError:
            sent = f"at least {format_count(outcome.moved, 'dead letter')} had been sent back"
            self.tell(sent, *self._recorded(record), "the same again goes on with the rest", place="plan")
            raise
        return [*_outcome(outcome), *self._recorded(record)]

    async def _send(self, record: Record, outcome: Outcome) -> None:
        clock, rate, start = self.dashboard.service.clock, self._wishes.rate, None
        # The broker waits within a request. With less than one a second it is waited for here, between two of them.
        paced = {"rate": rate} if rate is not None and rate >= 1 else {}
        began_ns = clock.monotonic_ns()
        while not outcome.is_over and not self.is_stopped:
            most = outcome.left(_MOVED_AT_ONCE if rate is None else max(1, min(_MOVED_AT_ONCE, int(rate))))
            answer = await self._ask(limit=most, start=start, dry_run=False, **paced)
            start = answer["next"]
            outcome.add(answer)
            await asyncio.to_thread(record.add, self._topic, answer["results"])
            self._progress(outcome, (clock.monotonic_ns() - began_ns) / NANOSECONDS)
            if rate and not outcome.is_over:
                await self._pause(outcome.moved / rate - (clock.monotonic_ns() - began_ns) / NANOSECONDS)

    async def _pause(self, seconds: float) -> None:
        """Between two requests, as the rate wants it; a stop is heard within it."""
        while seconds > 0 and not self.is_stopped:
            await asyncio.sleep(min(seconds, 0.2))
            seconds -= 0.2

    def _recorded(self, record: Record) -> Iterator[Content]:
        path = record.close()
        if path is not None:
            told = commands.line("goqueue-cli", "undo", str(path), server=self.dashboard.service.address)
            yield Content.assemble(("which went where  ", "$foreground 62%"), told)

    def _progress(self, outcome: Outcome, seconds: float) -> None:
        total = max(self._planned, outcome.moved)
        rate = outcome.moved / max(seconds, 0.001)
        left = total - outcome.moved
        ahead = f", {format_duration(left / rate)} left" if rate and left else ""
        bar = chart.bar(outcome.moved / total if total else 1.0, 24)
        stopping = " · stopping after this request" if self.is_stopped else ""
        told = f" {format_count(outcome.moved)} of {format_count(total)}, {rate:,.0f}/s{ahead}{stopping}"
        self.tell(Content.assemble((bar, "$primary on $foreground 10%"), told))

    # --- the same in a shell ---

    def command(self, values: Mapping[str, str]) -> str:
        return commands.line(*self._words(values), "--dry-run", server=self.dashboard.service.address)

    def _words(self, values: Mapping[str, str]) -> Iterator[str]:
        yield from ("goqueue-cli", "dlq", "redrive", self._topic.removesuffix(".dlq"))
        for name, text in values.items():
            if text:
                yield from (
                    f"--{name}",
                    text.replace(",", "").removesuffix("/s") if name in {"limit", "rate"} else text,
                )


def _line(reason: str, target: str, problem: str, count: int) -> Content:
    what = Content.assemble((f"{count:>9,}  ", "bold"), visible(reason) or UNSAID)
    if problem:
        return what + Content.styled(f"  cannot go: {visible(problem)}", "$error")
    return what + Content.styled(f"  → {target}", "$foreground 62%")


def _outcome(outcome: Outcome) -> Iterator[Content]:
    style = "$success" if outcome.is_complete else "$warning"
    stopped = "" if outcome.is_over else ", then stopped"
    yield Content.styled(f"{format_count(outcome.moved, 'dead letter')} sent back{stopped}", style)
    for reason, count in outcome.failures.most_common(3):
        yield Content.styled(f"{format_count(count)} could not go: {visible(reason)}", "$error")
