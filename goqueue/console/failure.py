"""Errors as a command reports them: the message on stderr and the exit code."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer
from typer.exceptions import TyperException

from goqueue.console import exit_codes, terminal
from goqueue.errors import (
    GoQueueError,
    ProducerNotFound,
    SchemaDeletionRefused,
    SchemaIncompatible,
    SubjectNotFound,
    TopicNotFound,
)
from goqueue.nearest import nearest
from goqueue.quantities import quoted

if TYPE_CHECKING:
    from goqueue.client import Client


class UsageInvalid(TyperException):
    """A command line that is wrong in any circumstances."""

    exit_code = exit_codes.USAGE

    def __init__(self, sentence: str, *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.hint = hint


class ActionFailed(Exception):
    """The failure of what a command set out to do, with the error that caused it."""

    def __init__(self, what: str, error: GoQueueError) -> None:
        super().__init__(what)
        self.what = what
        self.error = error

    @property
    def exit_code(self) -> int:
        return exit_codes.exit_code(self.error)

    def as_json(self) -> dict[str, Any]:
        fields = {"error": command_sentence(self.error), "code": self.error.code, "hint": self.hint}
        return {name: text for name, text in fields.items() if text is not None}

    @property
    def hint(self) -> str | None:
        return command_hint(self.error)


def command_sentence(error: GoQueueError) -> str:
    """Return the sentence of an error without what Confluent's registry has in it for programs."""
    if isinstance(error, SchemaIncompatible):  # the reasons are lines of their own
        return error.sentence.partition(", details: ")[0]
    if isinstance(error, SchemaDeletionRefused):
        return error.sentence.partition(". Set permanent=true")[0]
    return error.sentence


def command_hint(error: GoQueueError) -> str | None:
    """Return the next step in the words of the command line: the client's own hints are written for Python."""
    from goqueue.client.hints import hint_of  # noqa: PLC0415 - only after a failure

    hint, code = error.hint, error.code
    if isinstance(error, SchemaDeletionRefused):
        is_first = str(error.details.get("reason", "")).endswith("_not_deleted")
        return "run it without `--permanent` first" if is_first else "`--permanent` deletes it for ever"
    if code in _COMMAND_HINTS and not (hint or "").startswith(("did you mean", "`goqueue")):
        return _COMMAND_HINTS[code].format(**{"topic": "TOPIC", "partitions": [0], **error.details})
    if not hint or hint == hint_of(error):
        return _FALLBACK_HINTS.get(code)
    for phrase, command in _COMMAND_PHRASES.items():
        hint = hint.replace(phrase, command)
    return hint


_COMMAND_HINTS = {
    "delayed_ambiguous": "name the partition as well, as in {partitions[0]}@OFFSET",
    "delayed_not_found": "`goqueue-cli delayed list {topic}` shows the pending messages",
    "group_not_found": "`goqueue-cli group list` shows the groups",
    "key_not_found": "`goqueue-admin key list` shows the API keys",
    "node_not_found": "`goqueue-cli cluster nodes` lists the nodes",
    "producer_not_found": "`goqueue-cli transaction list --all` shows the transactional ids",
    "role_not_found": "`goqueue-admin role list` shows the roles",
    "rule_not_found": "`goqueue-admin acl list` shows the rules",
    "schema_incompatible": (
        "change the schema, or the level: `goqueue-cli schema config SUBJECT --compatibility LEVEL`"
    ),
    "schema_version_not_found": "`goqueue-cli schema list SUBJECT --all-versions` shows the versions",
    "silence_not_found": "`goqueue-admin alert list` shows the silences",
    "subject_not_found": "`goqueue-cli schema list` shows the subjects",
    "tenant_being_deleted": "wait until `goqueue-admin tenant list` does not show it",
    "tenant_not_found": "`goqueue-admin tenant list` shows the tenants",
}
_COMMAND_PHRASES = {
    "PUT /mode or /mode/SUBJECT with READWRITE": "`goqueue-cli schema config [SUBJECT] --mode readwrite`",
    "adopt=true": "`--adopt`",
    "send another id": "choose another id with `--id`",
    "the header x-tenant": "`--tenant`",
}
"""Parts of hints that are requests over HTTP, and what a command has instead."""
_FALLBACK_HINTS = {
    "backup_not_found": "`goqueue-admin backup list` shows the backups",
    "broker_unreachable": "is it running, and is this its address? `--server URL` names another",
    "endpoint_not_found": "is the broker older than this command? `goqueue-admin broker` shows its version",
    "generation_stale": "the group has other members now: run it again",
    "member_unknown": "the group has removed this member: run it again",
    "message_too_large": "send less, or a reference to it: `goqueue-cli topic describe` shows max_message_bytes",
    "operation_not_found": "`goqueue-cli undo` lists the operations",
    "operation_outdated": "`--force` undoes it all the same",
    "partition_not_found": "`goqueue-cli topic describe` shows the partitions",
    "partition_not_owned": "`goqueue-cli group describe` shows who has it",
    "producer_fenced": "another producer with this transactional id has taken over",
    "request_timed_out": "`--timeout 2m` waits longer",
    "range_damaged": "`goqueue fsck` shows what is damaged, `goqueue-cli consume --skip-damage` skips it",
    "topic_exists": "use it, or choose another name",
    "unauthenticated": "--api-key-file FILE or GOQUEUE_API_KEY_FILE sends a key; `goqueue-admin key create` makes one",
    "topic_not_found": "`goqueue-cli topic list` shows the topics",
    "transaction_not_open": "`goqueue-cli transaction describe` shows how the last one ended",
    "unknown_producer": "the broker's data directory was made anew or restored: run it again",
}


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Report every error raised in the block as a failure to do `what`."""
    try:
        yield
    except GoQueueError as error:
        raise ActionFailed(what, error) from error


def report_error(error: Exception, *, debug: bool) -> int:
    """Write to stderr what went wrong, and return the exit code."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if debug:
        terminal.say(*"".join(traceback.format_exception(error)).splitlines())
    if isinstance(error, TyperException):
        return _report_usage_error(error)
    if isinstance(error, ActionFailed):
        return report_failed_action(error)
    if isinstance(error, GoQueueError):
        return _report_goqueue_error(error)
    if isinstance(error, typer.Abort):  # a prompt was answered with the end of input
        terminal.say("aborted")
        return exit_codes.FAILED
    if isinstance(error, OSError):
        place = f" {error.filename}" if error.filename else ""
        terminal.say_error(f"the operating system refused{place}: {error.strerror or error}")
        return exit_codes.FAILED
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:  # an argument that is not text
        hint = "names and flags must be text; a message may be any bytes"
        terminal.say_error(f"{quoted(error.object)} is not text in UTF-8", hint=hint)
        return exit_codes.USAGE
    return _report_bug(error, debug=debug)


def report_failed_action(failed: ActionFailed) -> int:
    error = failed.error
    problems = error.details.get("problems", ())
    details = [_problem_line(problem) for problem in problems] if len(problems) > 1 else ()
    terminal.say_error(
        f"could not {failed.what}",
        cause=f"{error.code}: {command_sentence(error)}",
        details=error.details.get("reasons", ()) if isinstance(error, SchemaIncompatible) else details,
        hint=failed.hint,
    )
    return failed.exit_code


def _problem_line(problem: Any) -> str:
    if not isinstance(problem, dict):
        return str(problem)
    return ": ".join(str(problem[part]) for part in ("place", "problem", "hint") if problem.get(part))


def _report_goqueue_error(error: GoQueueError) -> int:
    problems = error.details.get("problems", ())
    several = len(problems) > 1
    cause = error.__cause__
    terminal.say_error(
        f"the configuration has {len(problems)} problems" if several else error.sentence,
        details=map(str, problems) if several else error.details.get("excerpt", ()),
        cause=f"{cause.code}: {cause.sentence}" if isinstance(cause, GoQueueError) else None,
        hint=command_hint(error),
    )
    return exit_codes.exit_code(error)


def _report_usage_error(error: TyperException) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands alone: its message is its help
        terminal.say(*error.message.splitlines())
        return exit_codes.USAGE
    from goqueue.console import usage_errors  # noqa: PLC0415 - only after a mistake

    sentence, hint = usage_errors.describe_usage_error(error)
    terminal.say_error(sentence, hint=hint)
    return exit_codes.USAGE


def _report_bug(error: Exception, *, debug: bool) -> int:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    advice = "" if debug else " (--debug shows where)"
    terminal.say_error(f"this is a bug of GoQueue, please report it: {what}{advice}")
    return exit_codes.INTERNAL_ERROR


# --- names that do not exist on the broker ---


_TRANSACTIONAL_IDS_MAX = 1_000


@contextmanager
def suggesting(client: "Client", name: str = "", *, otherwise: str | None = None) -> Iterator[None]:
    """Add the nearest existing name to an error about an unknown topic, subject, or transactional id `name`.

    `otherwise` is the hint where no topic is near. The broker itself suggests groups.
    """
    try:
        yield
    except TopicNotFound as error:
        with suppress(GoQueueError):
            guess = nearest(str(error.details.get("topic", "")), client.topics())
            error.hint = f"did you mean {guess}?" if guess else otherwise
        raise
    except SubjectNotFound as error:
        with suppress(GoQueueError):
            if guess := nearest(str(error.details.get("subject") or name), client.subjects()):
                error.hint = f"did you mean {guess}?"
        raise
    except ProducerNotFound as error:
        with suppress(GoQueueError):
            known = [one["transactional_id"] for one in client.transactions("all", limit=_TRANSACTIONAL_IDS_MAX)]
            if guess := nearest(name, known):
                error.hint = f"did you mean {guess}?"
        raise
