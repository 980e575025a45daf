"""Changes of the schema registry: compatibility levels, soft deletion, and registering a deleted version again."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content

from goqueue.console.schemas import LEVELS
from goqueue.console.terminal import escape_unprintable
from goqueue.errors import GoQueueError
from goqueue.nearest import nearest
from goqueue.quantities import format_count, quoted
from goqueue_admin.dashboard.broker.service import broker_call
from goqueue_admin.dashboard.screens.base import MUTED
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan, first_lines

if TYPE_CHECKING:
    from goqueue.client import RegisteredSchema, SchemaConfig, SchemaInfo, SchemaSubjectDetails
    from goqueue.client.schema_requests import SchemaVersionInfo

_LINES = 10
_SOFT = (
    "They are not listed any more. Messages with their ids stay readable; registering a schema again brings it back."
)


def _named(subjects: Sequence[str]) -> str:
    return subjects[0] if len(subjects) == 1 else format_count(len(subjects), "subject")


class LevelDialog(ActionDialog):
    """Changes the compatibility level of subjects; without any, the level of all that have none of their own."""

    def __init__(self, subjects: Sequence[str], level: str = "") -> None:
        hint = f"{', '.join(LEVELS).lower()}{'; empty: that of all subjects' if subjects else ''}"
        super().__init__(
            "Change compatibility", " ".join(subjects) or "all", [DialogField("level", "level", level, hint)]
        )
        self._subjects = subjects

    @property
    def _level(self) -> str | None:
        """The chosen level. None: that of all subjects. Raises ValueError."""
        text = self.values["level"]
        if not text and self._subjects:
            return None
        if text.upper() not in LEVELS:
            guess = nearest(text.upper(), LEVELS)
            told = f"did you mean {guess.lower()}?" if guess else f"there are {', '.join(LEVELS).lower()}"
            raise ValueError(f"{quoted(text)} is not a compatibility level: {told}")
        return text.upper()

    async def plan(self) -> DialogPlan:
        level = self._level
        whole: SchemaConfig = await self.dashboard.service.do(broker_call("schema_config"))
        lines = []
        for subject in self._subjects or [""]:
            now: SchemaConfig = await self.dashboard.service.do(broker_call("schema_config", subject))
            name = escape_unprintable(subject) or "all subjects without a level of their own"
            after = level or f"{whole.compatibility_level}, that of all subjects"
            lines.append(Content.assemble(name, (f"  {now.compatibility_level} → ", MUTED), after))
        if level == "NONE":
            lines.append(Content.styled("Versions will not be compared: any schema can be registered.", "$warning"))
        lines.append(Content.styled("Versions that exist are not compared again.", MUTED))
        what = escape_unprintable(_named(self._subjects)) if self._subjects else "all subjects"
        question = f"set the level of {what} to {level}" if level else f"delete the level of {what}"
        return DialogPlan(list(first_lines(lines, _LINES, "lines")), question)

    async def carry_out(self) -> Sequence[Content]:
        level = self._level

        async def change(subject: str) -> None:
            if level is None:
                await self.dashboard.service.do(broker_call("delete_schema_config", subject))
            else:
                await self.dashboard.service.do(broker_call("set_schema_config", subject, compatibility=level))

        done, problems = await self.change_each(self._subjects or [""], change, _problem, "changed")
        told = f"the level is {level}" if level else "it has no level of its own any more"
        lines = [Content.styled(f"{escape_unprintable(one) or 'all subjects'}: {told}", "$success") for one in done]
        return [*first_lines(lines, _LINES, "subjects"), *problems]

    def command(self) -> str:
        level = self.values["level"].lower()
        change = ("--compatibility", level) if level else ("--reset",)
        subject = self._subjects[:1]
        return self.dashboard.shell_command("goqueue-cli", "schema", "config", *subject, *change, "--dry-run")


def _problem(name: object, error: GoQueueError) -> str:
    return f"{name}: {error.sentence}" if name else error.sentence


class DeleteSubjectsDialog(ActionDialog):
    """Deletes all versions of subjects softly."""

    def __init__(self, subjects: Sequence[str]) -> None:
        title = "Delete a subject softly" if len(subjects) == 1 else "Delete subjects softly"
        super().__init__(title, " ".join(subjects))
        self._subjects = subjects
        self._planned: list[str] = []

    async def plan(self) -> DialogPlan:
        lines: list[Content] = []
        self._planned = []
        for name in self._subjects:
            told: SchemaSubjectDetails = await self.dashboard.service.do(broker_call("schema_subject", name))
            live = [one for one in told.versions if not one.deleted]
            if live:
                self._planned.append(name)
                lines.append(Content.assemble(escape_unprintable(name), (f"  {_ids(live)}", MUTED)))
                lines += _users(live, name)
            else:
                lines.append(Content.styled(f"{escape_unprintable(name)} is deleted already", MUTED))
        lines = list(first_lines(lines, _LINES, "lines"))
        if not self._planned:
            hint = "goqueue-cli schema delete SUBJECT --permanent deletes it for ever"
            return DialogPlan([*lines, Content.styled(hint, MUTED)])
        lines.append(Content.styled(_SOFT, MUTED))
        return DialogPlan(lines, f"delete {escape_unprintable(_named(self._planned))} softly")

    async def carry_out(self) -> Sequence[Content]:
        done, problems = await self.change_each(
            self._planned,
            lambda name: self.dashboard.service.do(broker_call("delete_schema_subject", name)),
            _problem,
            "deleted",
        )
        lines = [Content.styled(f"{escape_unprintable(name)} is deleted", "$success") for name in done]
        return [*first_lines(lines, _LINES, "subjects"), *problems]

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "schema", "delete", self._subjects[0], "--dry-run")


def _ids(versions: "Sequence[SchemaVersionInfo]") -> str:
    ids = ", ".join(str(one.id) for one in versions[:_LINES])
    more = f" and {len(versions) - _LINES:,} more" if len(versions) > _LINES else ""
    return f"{format_count(len(versions), 'version')}, {'id' if len(versions) == 1 else 'ids'} {ids}{more}"


def _users(versions: "Sequence[SchemaVersionInfo]", subject: str) -> Iterator[Content]:
    """Yield a line for each version of another subject that refers to one of these: the broker will refuse."""
    for one in versions:
        for user in one.referenced_by:
            if user.subject != subject:
                told = f"  version {user.version} of {user.subject} refers to version {one.version}: delete that first"
                yield Content.styled(escape_unprintable(told), "$warning")


class DeleteVersionsDialog(ActionDialog):
    """Deletes versions of a subject softly."""

    def __init__(self, subject: str, versions: "Sequence[SchemaVersionInfo]") -> None:
        super().__init__(f"Delete versions of {escape_unprintable(subject)} softly", subject)
        self._subject = subject
        self._versions = versions

    async def plan(self) -> DialogPlan:
        live = [one for one in self._versions if not one.deleted]
        lines = [Content(f"version {one.version}, id {one.id}") for one in live]
        lines += _users(live, self._subject)
        if not live:
            told = "It is deleted already; `a` registers its schema again."
            return DialogPlan([Content.styled(told, "$warning")])
        what = f"version {live[0].version}" if len(live) == 1 else format_count(len(live), "version")
        lines = [*first_lines(lines, _LINES, "lines"), Content.styled(_SOFT, MUTED)]
        return DialogPlan(lines, f"delete {what} of {escape_unprintable(self._subject)} softly")

    async def carry_out(self) -> Sequence[Content]:
        numbers = [one.version for one in self._versions if not one.deleted]
        delete: Callable[[int], Awaitable[Any]] = lambda number: self.dashboard.service.do(  # noqa: E731
            broker_call("delete_schema_version", self._subject, number)
        )
        done, problems = await self.change_each(
            numbers, delete, lambda number, error: f"version {number}: {error.sentence}", "deleted"
        )
        return [*(Content.styled(f"version {number} is deleted", "$success") for number in done), *problems]

    def command(self) -> str:
        words = ("--version", str(self._versions[0].version), "--dry-run")
        return self.dashboard.shell_command("goqueue-cli", "schema", "delete", self._subject, *words)


class RegisterAgainDialog(ActionDialog):
    """Registers the schema of a deleted version as the next version; it gets its id again."""

    def __init__(self, subject: str, version: "SchemaVersionInfo") -> None:
        super().__init__(f"Register version {version.version} again", subject)
        self._subject = subject
        self._version = version
        self._schema: SchemaInfo | None = None

    async def plan(self) -> DialogPlan:
        number = self._version.version
        if not self._version.deleted:
            return DialogPlan([Content.styled(f"version {number} is not deleted", "$warning")])
        found = await self.dashboard.service.do(broker_call("schema", self._subject, number, deleted=True))
        self._schema = found
        lines = [Content(f"version {number}, id {self._version.id}, as the next version of {self._subject}")]
        lines.append(Content.styled("Messages with this id stay as they are.", MUTED))
        return DialogPlan(lines, f"register version {number} again")

    async def carry_out(self) -> Sequence[Content]:
        one = self._schema
        assert one is not None, "nothing is carried out before it was planned"
        call = broker_call(
            "register_schema", self._subject, one.schema, one.schema_type, references=one.references,
            metadata=one.metadata, rule_set=one.rule_set,
        )  # fmt: skip
        done: RegisteredSchema = await self.dashboard.service.do(call)
        return [Content.styled(f"it is version {done.version}, id {done.id}", "$success")]

    def command(self) -> str:
        words = ("--version", str(self._version.version))
        return self.dashboard.shell_command("goqueue-cli", "schema", "describe", self._subject, *words, "--deleted")
