"""How an exception is told to the person who typed the command, and to the shell."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.exceptions import TyperException

from goqueue.console import exits, terminal
from goqueue.errors import GoQueueError
from goqueue.quantities import quoted


class Refusal(Exception):
    """What a command set out to do, and the error in its way."""

    def __init__(self, what: str, error: GoQueueError) -> None:
        super().__init__(what)
        self.what = what
        self.error = error

    @property
    def exit_code(self) -> int:
        return exits.exit_code(self.error)

    def as_json(self) -> dict[str, Any]:
        told = {"error": self.error.sentence, "code": self.error.code, "hint": self.hint}
        return {name: text for name, text in told.items() if text is not None}

    @property
    def hint(self) -> str | None:
        return self.error.hint or _COMMANDS.get(self.error.code)


# What can be run next where the broker names nothing better.
_COMMANDS = {
    "message_too_large": "send less, or a reference to it: `goqueue-cli topic describe` shows max_message_bytes",
    "partition_not_found": "`goqueue-cli topic describe` shows the partitions",
    "request_timed_out": "`--timeout 2m` waits longer",
    "range_damaged": "`goqueue fsck` says what is damaged, `goqueue-cli consume --skip-damage` reads around it",
    "topic_exists": "`goqueue-cli topic list` shows the topics",
    "topic_not_found": "`goqueue-cli topic list` shows the topics",
}


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Whatever is refused inside is told as a refusal of `what`."""
    try:
        yield
    except GoQueueError as error:
        raise Refusal(what, error) from error


def explain(error: Exception, *, debug: bool) -> int:
    """Say on stderr what went wrong, and return the exit code."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if debug:
        terminal.say(*"".join(traceback.format_exception(error)).splitlines())
    if isinstance(error, TyperException):
        return _explain_usage(error)
    if isinstance(error, Refusal):
        return explain_refusal(error)
    if isinstance(error, GoQueueError):
        return _explain_ours(error)
    if isinstance(error, typer.Abort):  # a prompt was answered with the end of input
        terminal.say("aborted")
        return exits.FAILED
    if isinstance(error, OSError):
        return _explain_system(error)
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return _explain_bytes(error)
    return _explain_bug(error, debug=debug)


def _explain_system(error: OSError) -> int:
    """What the operating system refused outside of storage: mostly to write the output."""
    place = f" {error.filename}" if error.filename else ""
    terminal.say_error(f"the operating system refused{place}: {error.strerror or error}")
    return exits.FAILED


def _explain_bytes(error: UnicodeEncodeError) -> int:
    """An argument that is no text: Python keeps its bytes as surrogates, which nothing but a value may have."""
    terminal.say_error(
        f"{quoted(error.object)} is not text in UTF-8", hint="names and flags are; a message may be any bytes"
    )
    return exits.USAGE


def explain_refusal(refusal: Refusal) -> int:
    """Say what could not be done and why, in the words of whoever refused it."""
    error = refusal.error
    problems = error.details.get("problems", ())
    terminal.say_error(
        f"could not {refusal.what}",
        cause=f"{error.code}: {error.sentence}",
        details=[_problem_line(problem) for problem in problems] if len(problems) > 1 else (),
        hint=refusal.hint,
    )
    return refusal.exit_code


def _problem_line(problem: Any) -> str:
    if not isinstance(problem, dict):
        return str(problem)
    return ": ".join(str(problem[part]) for part in ("place", "problem", "hint") if problem.get(part))


def _explain_ours(error: GoQueueError) -> int:
    problems = error.details.get("problems", ())
    sentence = error.sentence
    if len(problems) > 1:
        sentence = f"the configuration has {len(problems)} problems"
    cause = error.__cause__
    terminal.say_error(
        sentence,
        details=map(str, problems) if len(problems) > 1 else (),
        cause=f"{cause.code}: {cause.sentence}" if isinstance(cause, GoQueueError) else None,
        hint=error.hint,
    )
    return exits.exit_code(error)


def _explain_usage(error: TyperException) -> int:
    """A command line that is wrong: Typer's complaints and ours, in one shape."""
    if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands alone: its message is its help
        terminal.say(*error.message.splitlines())
        return exits.USAGE
    from goqueue.console import usage  # noqa: PLC0415 - not before something is wrong

    sentence, hint = usage.told(error)
    terminal.say_error(sentence, hint=hint)
    return exits.USAGE


def _explain_bug(error: Exception, *, debug: bool) -> int:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    advice = "" if debug else " (--debug shows where)"
    terminal.say_error(f"this is a bug of GoQueue, please report it: {what}{advice}")
    return exits.OUR_BUG
