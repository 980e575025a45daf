"""Aborting transactions whose producers hang: those that were shown, and never the ones behind them."""

from collections.abc import Mapping, Sequence
from typing import Any

from textual.content import Content

from goqueue.console.terminal import visible
from goqueue.console.transactions import OPERATOR, consequences, verb
from goqueue.errors import GoQueueError, ProducerNotFound
from goqueue.limits import REASON_CHARACTERS_MAX
from goqueue.quantities import format_count
from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.questions import question
from goqueue_admin.dashboard.screens.action import ActionScreen, Field, Plan, more

_LINES = 12
_UNSURE = {"broker_unreachable", "request_timed_out", "broker_stopping"}
"""Refusals after which the next one would meet the same."""
_UNDER_WAY = {"transaction_pending", "request_timed_out"}
_MUTED = "$foreground 62%"

Told = Mapping[str, Any]


class AbortScreen(ActionScreen):
    """Producer and epoch name one transaction: what is open by now under another epoch is left alone."""

    def __init__(self, shown: Sequence[Told]) -> None:
        names = [str(one["transactional_id"]) for one in shown]
        what = f"{shown[0]['transaction_id']} of {names[0]}" if len(shown) == 1 else _counted(len(shown))
        reason = Field("reason", "reason", "", f"{OPERATOR}; its producer is told")
        super().__init__(f"Abort {what}", " ".join(names), [reason])
        self._shown = shown
        self._planned: list[Told] = []

    async def plan(self, values: Mapping[str, str]) -> Plan:
        if len(values["reason"]) > REASON_CHARACTERS_MAX:
            raise ValueError(
                f"the reason has {len(values['reason']):,} characters: {REASON_CHARACTERS_MAX} are the most"
            )
        self._planned, blocks, problems = [], [], []
        for number, one in enumerate(self._shown, 1):
            told, problem = await self._look(one)
            if problem:
                problems.append(Content.styled(visible(problem), "$warning"))
            else:
                self._planned.append(told)
                blocks += [Content(visible(line)) for line in consequences(told)]
            if number % 50 == 0:
                self.tell(f"looked at {number:,} …", place="plan")
        lines = [*more(blocks, _LINES, "lines"), *more(problems, 3, "that are not open any more")]
        if not self._planned:
            return Plan([*lines, Content.styled("there is nothing to abort", "$warning")])
        return Plan([*lines, Content.styled("Nothing undoes it.", _MUTED)], f"abort {self._what()} for good")

    async def _look(self, shown: Told) -> tuple[Told, str]:
        """How it stands now, or why there is nothing to abort any more."""
        try:
            told = await self.dashboard.service.do(question("transaction", shown["transactional_id"]))
        except ProducerNotFound as error:
            return shown, error.sentence
        return told, _problem(shown, told)

    def _what(self) -> str:
        if len(self._planned) > 1:
            return _counted(len(self._planned))
        return f"{self._planned[0]['transaction_id']} of {self._planned[0]['transactional_id']}"

    async def carry_out(self, values: Mapping[str, str]) -> Sequence[Content]:
        """One that is refused does not keep the others from being aborted."""
        reason, done, problems = values["reason"] or OPERATOR, [], []
        for told in self._planned:
            if self.is_stopped:
                break
            try:
                await self._abort(told, reason)
            except GoQueueError as error:
                problems.append(Content.styled(visible(_refusal(told, error)), "$error"))
                if error.code in _UNSURE:
                    break
            else:
                done.append(told)
                self.tell(f"{len(done):,} of {len(self._planned):,} aborted")
        return [*self._outcome(done, reason), *more(problems, 3, "problems")]

    async def _abort(self, told: Told, reason: str) -> None:
        names = ("transactional_id", "producer_id", "epoch")
        await self.dashboard.service.do(question("abort_transaction", *(told[name] for name in names), reason))

    def _outcome(self, done: Sequence[Told], reason: str) -> list[Content]:
        lines = []
        if len(done) == 1:
            name = f"{done[0]['transaction_id']} of {done[0]['transactional_id']}"
            lines.append(Content.styled(f"{name} is aborted, and its producer is told: {visible(reason)}", "$success"))
        elif done:
            lines.append(Content.styled(f"{_counted(len(done))} aborted: {visible(reason)}", "$success"))
        if self.is_stopped and len(done) < len(self._planned):
            lines.append(Content.styled(f"{_counted(len(self._planned) - len(done))} left as they were", "$warning"))
        return lines

    def command(self, values: Mapping[str, str]) -> str:
        names = [str(one["transactional_id"]) for one in self._shown]
        which = ("--transaction", str(self._shown[0]["transaction_id"])) if len(names) == 1 else ()
        why = ("--reason", values["reason"]) if values["reason"] else ()
        server = self.dashboard.service.address
        return commands.line("goqueue-cli", "transaction", "abort", *names, *which, *why, "--dry-run", server=server)


def _problem(shown: Told, told: Told) -> str:
    """Why there is nothing to abort any more."""
    name, wanted, state = shown["transactional_id"], shown["transaction_id"], told["state"]
    last = told["last"]
    if told["transaction_id"] != wanted:
        ended = verb(last) if last and last["transaction_id"] == wanted else "over"
        return f"{wanted} of {name} is {ended} already"
    if state == "ongoing":
        return ""
    if state == "prepare_commit":
        return f"{wanted} of {name} is being committed: what is decided stays so"
    return (
        f"{wanted} of {name} is being aborted already" if state == "prepare_abort" else f"nothing is open under {name}"
    )


def _refusal(told: Told, error: GoQueueError) -> str:
    sentence = f"{told['transaction_id']} of {told['transactional_id']}: {error.sentence}"
    return f"{sentence}; its screen says what that waits for" if error.code in _UNDER_WAY else sentence


def _counted(count: int) -> str:
    return format_count(count, "transaction")
