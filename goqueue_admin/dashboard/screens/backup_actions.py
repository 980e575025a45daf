"""The dialogs that make, verify, delete and prune backups, and restore a topic of one."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textual.content import Content

from goqueue.client import Nanoseconds
from goqueue.console.backups import ACTIVITIES, NO_TARGET, parse_end_offset
from goqueue.console.formatting import format_to_second
from goqueue.console.terminal import escape_unprintable
from goqueue.errors import GoQueueError
from goqueue.quantities import format_count, format_size, format_time
from goqueue_admin.dashboard.broker.service import broker_call
from goqueue_admin.dashboard.screens.base import MUTED
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan, first_lines
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.backups import STORED_STATES, is_verified, running_backup

if TYPE_CHECKING:
    from goqueue.client import BackupInfo, BackupOverview, BackupsPruned, TopicRestoreResult

BACKUPS = broker_call("backups")
_LINES = 10


def _busy(found: "BackupOverview") -> list[Content]:
    """Return a line with what keeps the broker from doing anything else with backups."""
    running = running_backup(found)
    if running is None or running.progress is None:
        return []
    told = f"the broker is {ACTIVITIES[running.progress.activity]} {running.id}: wait for its end"
    return [Content.styled(told, "$warning")]


class CreateBackupDialog(ActionDialog):
    """Starts a backup; the screen shows how far it is."""

    def __init__(self) -> None:
        super().__init__("Make a backup", "backup")

    async def plan(self) -> DialogPlan:
        found: BackupOverview = await self.dashboard.service.do(BACKUPS)
        if found.target is None:
            return DialogPlan([Content.styled(NO_TARGET, "$warning")])
        busy = _busy(found)
        if busy:
            return DialogPlan(busy)
        newest = next((one for one in found.backups if one.state in {"complete", "incomplete"}), None)
        told = "everything is copied" if newest is None else f"what {newest.id} has is not copied again"
        lines = [Content(f"a backup of all logs, of this moment, in {escape_unprintable(found.target)}")]
        return DialogPlan([*lines, Content.styled(f"{told}; the broker goes on", MUTED)], "make a backup")

    async def carry_out(self) -> Sequence[Content]:
        made: BackupInfo = await self.dashboard.service.do(broker_call("create_backup"))
        return [Content.styled(f"{made.id} is {made.state}; esc shows how far it is", "$success")]

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "backup", "create")


class VerifyBackupDialog(ActionDialog):
    """Starts to read a backup again."""

    def __init__(self, name: str) -> None:
        super().__init__("Verify a backup", name)
        self._backup = name

    async def plan(self) -> DialogPlan:
        busy = _busy(await self.dashboard.service.do(BACKUPS))
        if busy:
            return DialogPlan(busy)
        told: BackupInfo = await self.dashboard.service.do(broker_call("backup", self._backup))
        if told.state not in STORED_STATES:
            return DialogPlan(
                [Content.styled(f"there is nothing to verify in {self._backup}: {told.state}", "$warning")]
            )
        before = told.verification
        last = "it was never verified" if before is None else f"last at {format_to_second(before.verified_at)}"
        lines = [Content(f"{self._backup}  {format_size(told.bytes)}, {format_count(told.logs, 'log')}")]
        lines.append(Content.styled(f"every hash and every frame is read again; {last}", MUTED))
        return DialogPlan(lines, f"verify {self._backup}")

    async def carry_out(self) -> Sequence[Content]:
        await self.dashboard.service.do(broker_call("verify_backup", self._backup))
        return [Content.styled(f"{self._backup} is being verified; esc shows how far it is", "$success")]

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "backup", "verify", self._backup)


class DeleteBackupsDialog(ActionDialog):
    """Deletes backups, and cancels one that is being made."""

    def __init__(self, shown: "Sequence[BackupInfo]") -> None:
        names = [one.id for one in shown]
        title = "Cancel a backup" if [one.state for one in shown] == ["running"] else "Delete backups"
        super().__init__(title, " ".join(names))
        self._names = names

    async def plan(self) -> DialogPlan:
        found: BackupOverview = await self.dashboard.service.do(BACKUPS)
        planned = [one for one in found.backups if one.id in self._names]
        gone = [Content.styled(f"there is no {name} any more", MUTED) for name in self._names if name not in
                {one.id for one in planned}]  # fmt: skip
        self._names = [one.id for one in planned]
        lines = [*first_lines([_deletion(one) for one in planned], _LINES, "backups"), *gone[:_LINES]]
        if not planned:
            return DialogPlan(lines)
        lines += _losses(found, self._names)
        lines.append(Content.styled("What other backups need stays. Nothing undoes it.", MUTED))
        verb = "cancel" if all(one.state == "running" for one in planned) else "delete"
        what = self._names[0] if len(planned) == 1 else format_count(len(planned), "backup")
        return DialogPlan(lines, f"{verb} {what}")

    async def carry_out(self) -> Sequence[Content]:
        results: dict[str, Any] = {}

        async def delete(name: str) -> None:
            results[name] = await self.dashboard.service.do(broker_call("delete_backup", name))

        done, problems = await self.change_each(self._names, delete, _problem, "deleted")
        lines = [Content.styled(f"{name} is {results[name]['result']}", "$success") for name in done]
        return [*first_lines(lines, _LINES, "backups"), *first_lines(problems, 3, "problems")]

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "backup", "delete", *self._names, "--dry-run")


def _deletion(one: "BackupInfo") -> Content:
    told = {
        "running": "is cancelled; the next one continues with what it has copied",
        "failed": "failed: it is only removed from the list",
        "cancelled": "was cancelled: it is only removed from the list",
    }.get(one.state, f"{format_size(one.bytes)}, {format_size(one.new_bytes)} new")
    return Content.assemble(one.id, (f"  {told}", MUTED))


def _losses(found: "BackupOverview", names: Sequence[str]) -> list[Content]:
    """Return a warning where no backup, or no verified one, is left."""
    whole = [one for one in found.backups if one.state == "complete"]
    left = [one for one in whole if one.id not in names]
    if whole and not left:
        return [Content.styled("No complete backup is left.", "$warning")]
    if any(map(is_verified, whole)) and not any(map(is_verified, left)):
        return [Content.styled("No verified backup is left.", "$warning")]
    return []


def _problem(name: str, error: GoQueueError) -> str:
    return f"{name}: {error.sentence}"


class PruneBackupsDialog(ActionDialog):
    """Deletes the backups that retention does not keep."""

    def __init__(self) -> None:
        super().__init__("Prune backups", "backups")

    async def plan(self) -> DialogPlan:
        found: BackupsPruned = await self.dashboard.service.do(broker_call("prune_backups", dry_run=True))
        kept = Content.styled(f"{format_count(len(found.kept), 'backup')} kept", MUTED)
        if not found.deleted:
            return DialogPlan([Content("retention keeps all backups: there is nothing to delete"), kept])
        lines = [Content(f"{name} is deleted") for name in found.deleted]
        question = f"delete {format_count(len(found.deleted), 'backup')}"
        return DialogPlan([*first_lines(lines, _LINES, "backups"), kept], question)

    async def carry_out(self) -> Sequence[Content]:
        found: BackupsPruned = await self.dashboard.service.do(broker_call("prune_backups"))
        told = f"{format_count(len(found.deleted), 'backup')} deleted, {format_count(len(found.kept))} kept"
        return [Content.styled(told, "$success")]

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "backup", "prune", "--dry-run")


class RestoreTopicDialog(ActionDialog):
    """Restores one topic of a backup as a new topic."""

    def __init__(self, backup: str, topic: str = "") -> None:
        fields = (
            DialogField("topic", "topic", topic, "a topic of the backup"),
            DialogField("as", "as", "", "name of the new topic; empty: the same"),
            DialogField("until", "until", "", "-1h   14:05   2026-03-01T12:00:00Z; empty: all"),
            DialogField("offsets", "offsets", "", "0=1200 1=1180: only messages below; empty: all"),
        )
        super().__init__(f"Restore a topic of {backup}", backup, fields)
        self._backup = backup
        self._call: dict[str, Any] = {}

    async def plan(self) -> DialogPlan:
        values = self.values
        if not values["topic"]:
            raise ValueError("name a topic of the backup")
        self._call = {
            "topic": values["topic"],
            "name": values["as"] or None,
            "until": self._until,
            "offsets": dict(map(parse_end_offset, values["offsets"].replace(",", " ").split())),
        }
        found = await self._ask(dry_run=True)
        is_cut = bool(self._call["until"] is not None or self._call["offsets"])
        size = f"{format_size(found.bytes)}{' before it is cut' if is_cut else ''}"
        partitions = format_count(found.partitions, "partition")
        lines = [Content.assemble(found.topic, (" → ", MUTED), f"{found.name}  {partitions}, {size}")]
        if self._call["until"] is not None:
            told = format_time(self._call["until"])
            lines.append(Content(f"only messages that were appended before {format_to_second(told)}"))
        lines += [Content(f"partition {number}: only messages below {end:,}")
                  for number, end in sorted(self._call["offsets"].items())]  # fmt: skip
        told = "Groups are not restored. Delayed messages that are pending are delivered, open transactions aborted."
        lines.append(Content.styled(told, MUTED))
        return DialogPlan(lines, f"restore {found.name}", found.name)

    @property
    def _until(self) -> Nanoseconds | None:
        """The time in the field, made absolute, so that the change equals the plan. Raises ValueError."""
        text = self.values["until"]
        return Nanoseconds(formats.parse_moment(text, self.dashboard.service.clock.now_ns())) if text else None

    async def _ask(self, *, dry_run: bool) -> "TopicRestoreResult":
        found: TopicRestoreResult = await self.dashboard.service.do(
            broker_call("restore_topic", self._backup, dry_run=dry_run, **self._call)
        )
        return found

    async def carry_out(self) -> Sequence[Content]:
        found = await self._ask(dry_run=False)
        return [Content.styled(f"{found.name} is being restored; esc shows how far it is", "$success")]

    def command(self) -> str:
        values = self.values
        words = ["goqueue-admin", "backup", "restore", self._backup, "--topic", values["topic"]]
        words += ["--as", values["as"]] if values["as"] else []
        with suppress(ValueError):
            moment = self._until
            words += [] if moment is None else ["--until", format_time(moment)]
        for text in values["offsets"].replace(",", " ").split():
            words += ["--offset", text]
        return self.dashboard.shell_command(*words, "--dry-run")
