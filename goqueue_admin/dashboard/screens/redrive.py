"""The dialog that redrives dead letters: matching ones, up to a limit, at a rate."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from textual.content import Content

from goqueue.clock import NANOSECONDS
from goqueue.console.dead_letters import RedriveTotals, error_text
from goqueue.console.terminal import escape_unprintable
from goqueue.drawing.bars import bar
from goqueue.errors import GoQueueError
from goqueue.limits import REDRIVE_RATE_MIN
from goqueue.quantities import format_count, format_duration, parse_time, quoted
from goqueue_admin.dashboard.broker.service import broker_call
from goqueue_admin.dashboard.screens.base import MUTED
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan, first_lines

_RATE_MAX = 1e6
_LIMIT_MAX = 10**12


class RedriveForm(NamedTuple):
    """Parsed fields: conditions, a limit, and a rate per second."""

    chosen: dict[str, Any]
    limit: int | None
    rate: float | None


def parse_redrive_options(values: Mapping[str, str]) -> RedriveForm:
    chosen = {name: values[name] for name in ("error", "group", "key", "target") if values.get(name)}
    return RedriveForm(chosen, parse_limit(values.get("limit", "")), _parse_rate(values.get("rate", "")))


def parse_limit(text: str) -> int | None:
    if not text:
        return None
    digits = text.replace(",", "")
    if not (digits.isascii() and digits.isdecimal() and 0 < int(digits[:15]) <= _LIMIT_MAX):
        raise ValueError(f"the limit is {quoted(text)}: write a number, as in 100")
    return int(digits[:15])


def _parse_rate(text: str) -> float | None:
    if not text:
        return None
    try:
        rate = float(text.removesuffix("/s"))
    except ValueError:
        raise ValueError(f"the rate is {quoted(text)}: write how many go in a second, as in 50") from None
    if not REDRIVE_RATE_MIN <= rate <= _RATE_MAX:
        raise ValueError(f"the rate is {quoted(text)}, and must be from {REDRIVE_RATE_MIN:g} to {_RATE_MAX:,.0f}")
    return rate


_LINES = 6
_PLANNED_AT_ONCE = 2_000
_MOVED_AT_ONCE = 200
"""Messages per request without a rate: a stop takes effect after one request."""


class RedriveDialog(ActionDialog):
    """Redrives only messages that existed when it was planned, so that returning ones stay."""

    def __init__(self, topic: str, *, error: str = "", group: str = "", key: str = "") -> None:
        fields = (
            DialogField("error", "error", error, "all; a part of why they failed"),
            DialogField("group", "group", group, "all; the group that gave them up"),
            DialogField("key", "key", key, "all"),
            DialogField("limit", "limit", "", "no limit; 100"),
            DialogField("rate", "rate", "", "as fast as it goes; 50 a second"),
            DialogField("target", "target", "", "where each came from"),
        )
        super().__init__(f"Send back dead letters of {topic.removesuffix('.dlq')}", topic, fields)
        self._topic = topic
        self._options = RedriveForm({}, None, None)
        self._planned = 0

    # --- what would go ---

    async def plan(self) -> DialogPlan:
        options = parse_redrive_options(self.values)
        health = await self.dashboard.service.do(broker_call("health"))
        now = parse_time(health["timestamp"])  # of the broker: the clock of this machine may be another
        self._options = options._replace(chosen={**options.chosen, "to_time": now})
        counts, scanned = await self._count()
        self._planned = sum(count for (_, _, problem), count in counts.items() if not problem)
        lines = list(
            first_lines([_reason_line(*what, count) for what, count in counts.most_common()], _LINES, "reasons")
        )
        if not self._planned:
            return DialogPlan([*lines, Content.styled(f"nothing to send back: {scanned:,} looked at", "$warning")])
        told = f"{self._planned:,} of {scanned:,} that were looked at would be new messages at the end of their topic"
        return DialogPlan([*lines, Content(told)], f"send {format_count(self._planned)} back")

    async def _count(self) -> tuple[Counter[tuple[str, str, str]], int]:
        """Count by error, target and problem."""
        counts: Counter[tuple[str, str, str]] = Counter()
        scanned, left, start = 0, self._options.limit, None
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
        call = broker_call(
            "redrive", self._topic, **self._options.chosen, **options, **({"start": start} if start else {})
        )
        return await self.dashboard.service.do(call)

    # --- sending ---

    async def carry_out(self) -> Sequence[Content]:
        outcome = RedriveTotals(self._options.limit)
        try:
            await self._send(outcome)
        except GoQueueError:
            sent = f"at least {format_count(outcome.moved, 'dead letter')} had been sent back"
            self.tell(sent, *self._recorded(outcome), "the same again goes on with the rest", place="plan")
            raise
        return [*_result_lines(outcome), *self._recorded(outcome)]

    async def _send(self, outcome: RedriveTotals) -> None:
        clock, rate, start = self.dashboard.service.clock, self._options.rate, None
        # The broker waits within a request. With less than one a second it is waited for here, between two of them.
        paced = {"rate": rate} if rate is not None and rate >= 1 else {}
        began_ns = clock.monotonic_ns()
        while not outcome.is_over and not self.is_stopped:
            most = outcome.next_count(_MOVED_AT_ONCE, rate)
            known = {} if outcome.operation is None else {"operation": outcome.operation}
            answer = await self._ask(limit=most, start=start, dry_run=False, **paced, **known)
            start = answer["next"]
            outcome.add(answer)
            self._progress(outcome, (clock.monotonic_ns() - began_ns) / NANOSECONDS)
            if rate and not outcome.is_over:
                await self._pause(outcome.moved / rate - (clock.monotonic_ns() - began_ns) / NANOSECONDS)

    async def _pause(self, seconds: float) -> None:
        """Wait between two requests; ends early on a stop."""
        while seconds > 0 and not self.is_stopped:
            await asyncio.sleep(min(seconds, 0.2))
            seconds -= 0.2

    def _recorded(self, outcome: RedriveTotals) -> Iterator[Content]:
        if outcome.operation is not None:
            told = self.dashboard.shell_command("goqueue-cli", "undo", str(outcome.operation))
            yield Content.assemble(("which went where  ", MUTED), told)

    def _progress(self, outcome: RedriveTotals, seconds: float) -> None:
        total = max(self._planned, outcome.moved)
        rate = outcome.moved / max(seconds, 0.001)
        left = total - outcome.moved
        ahead = f", {format_duration(left / rate)} left" if rate and left else ""
        done = bar(outcome.moved, total, 24) if total else bar(1, 1, 24)
        stopping = " · stopping after this request" if self.is_stopped else ""
        told = f" {format_count(outcome.moved)} of {format_count(total)}, {rate:,.0f}/s{ahead}{stopping}"
        self.tell(Content.assemble((f"{done:<24}", "$primary on $foreground 10%"), told))

    # --- the same in a shell ---

    def command(self) -> str:
        words = ["goqueue-cli", "dlq", "redrive", self._topic.removesuffix(".dlq")]
        for name, text in self.values.items():
            if text:
                is_number = name in {"limit", "rate"}
                words += [f"--{name}", text.replace(",", "").removesuffix("/s") if is_number else text]
        return self.dashboard.shell_command(*words, "--dry-run")


def _reason_line(reason: str, target: str, problem: str, count: int) -> Content:
    what = Content.assemble((f"{count:>9,}  ", "bold"), escape_unprintable(error_text(reason)))
    if problem:
        return what + Content.styled(f"  cannot go: {escape_unprintable(problem)}", "$error")
    return what + Content.styled(f"  → {target}", MUTED)


def _result_lines(outcome: RedriveTotals) -> Iterator[Content]:
    style = "$success" if outcome.is_done else "$warning"
    stopped = "" if outcome.is_over else ", then stopped"
    yield Content.styled(f"{format_count(outcome.moved, 'dead letter')} sent back{stopped}", style)
    for reason, count in outcome.failures.most_common(3):
        yield Content.styled(f"{format_count(count)} could not go: {escape_unprintable(reason)}", "$error")
