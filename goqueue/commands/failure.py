"""How an exception is told to the person who typed the command, and to the shell."""

import traceback
from typing import Any

import typer
from typer.exceptions import TyperException

from goqueue.commands import exits, terminal
from goqueue.errors import GoQueueError


def explain(error: Exception, *, debug: bool) -> int:
    """Say on stderr what went wrong, and return the exit code."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if debug:
        terminal.say(*"".join(traceback.format_exception(error)).splitlines())
    if isinstance(error, TyperException):
        return _explain_usage(error)
    if isinstance(error, GoQueueError):
        return _explain_ours(error)
    if isinstance(error, typer.Abort):  # a prompt was answered with the end of input
        terminal.say("aborted")
        return exits.FAILED
    if isinstance(error, OSError):
        return _explain_refusal(error)
    return _explain_bug(error, debug=debug)


def _explain_refusal(error: OSError) -> int:
    """What the operating system refused outside of storage: mostly to write the output."""
    place = f" {error.filename}" if error.filename else ""
    terminal.say_error(f"the operating system refused{place}: {error.strerror or error}")
    return exits.FAILED


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
    """Typer's own complaints, in the words and the shape of ours."""
    found: Any = error
    context = getattr(found, "ctx", None)
    if type(found).__name__ == "NoArgsIsHelpError":  # a group of commands alone: its message is its help
        terminal.say(*error.message.splitlines())
        return exits.USAGE
    hint = getattr(found, "hint", None)
    possible = getattr(found, "possibilities", None)
    if possible:
        hint = f"did you mean {possible[0]}?"
    elif hint is None and context is not None:
        hint = f"`{context.command_path} --help` shows how it is used"
    sentence = error.message if possible else error.format_message()
    terminal.say_error(sentence[:1].lower() + sentence[1:].removesuffix("."), hint=hint)
    return exits.USAGE


def _explain_bug(error: Exception, *, debug: bool) -> int:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    advice = "" if debug else " (--debug shows where)"
    terminal.say_error(f"this is a bug of GoQueue, please report it: {what}{advice}")
    return exits.OUR_BUG
