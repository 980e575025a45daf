"""The start and the end of a program: from the arguments to the exit code.

The version, and the names that a shell asks for, are answered before anything else is imported. Everything else
passes `_run`, the one place where an exception becomes a message and a code, so that no traceback reaches a
person unasked.
"""

import sys

from goqueue import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_GARBAGE_THRESHOLD = 50_000
"""New objects between two garbage collections: a start creates many objects and no cycles."""

_INTERRUPTED = 130


def main(name: str, registry: str, words: list[str]) -> int:
    """Run the `PROGRAM` of the module `registry`."""
    code = _ended(name, registry, words)
    if code != _INTERRUPTED:
        return code
    from goqueue.console import interruption  # noqa: PLC0415 - none of this before the version is answered

    return interruption.interrupt_exit_code()


def _ended(name: str, registry: str, words: list[str]) -> int:
    try:
        if words == ["version"] or [word for word in words if word != "--debug"][:1] == ["--version"]:
            print_version(name)
            return 0
        if words[:1] == ["__complete"]:
            from goqueue.console import completion  # noqa: PLC0415

            completion.answer(registry, *words[1:2])
            return 0
        return _run(registry, words)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return _leave_quietly()
    except OSError as error:
        from goqueue.console import failure  # noqa: PLC0415

        return failure.report_error(error, debug="--debug" in words)


def print_version(name: str) -> None:
    if sys.stdout is not None:
        sys.stdout.write(f"{name} {__version__}\n")
        sys.stdout.flush()


def exit_process(code: int) -> "NoReturn":
    """End the process without a teardown, which would take a tenth of a short command's time."""
    import os  # noqa: PLC0415

    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            continue  # already reported, or the stream is closed
    os._exit(code)


def _run(registry: str, words: list[str]) -> int:
    import gc  # noqa: PLC0415 - none of this before the version is answered
    from importlib import import_module  # noqa: PLC0415

    from goqueue.console import command_tree, failure, interruption  # noqa: PLC0415

    gc.set_threshold(_GARBAGE_THRESHOLD)
    interruption.treat_sigterm_as_interrupt()
    debug, words = _take_debug(words)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # for terminals without Unicode
    try:
        program = import_module(registry).PROGRAM
        with command_tree.root_command(program).make_context(program.name, words) as context:
            context.command.invoke(context)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        return failure.report_error(error, debug=debug)
    return 0


def _take_debug(words: list[str]) -> tuple[bool, list[str]]:
    """Remove `--debug`, which is valid in any position, so that it can be added at the end of a failed command."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[:end] if word != "--debug"] + words[end:]
    return len(rest) < len(words), rest


def _interrupted() -> int:
    from goqueue.console import terminal  # noqa: PLC0415

    terminal.say("interrupted")
    return _INTERRUPTED


def _leave_quietly() -> int:
    """End quietly after the reader closed the pipe; Python must not report it either."""
    import os  # noqa: PLC0415

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0
