"""Where a program begins and ends: from the words of the command line to the code of the exit.

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
"""New objects before the collector looks: a start makes many and no cycles."""

_INTERRUPTED = 130


def main(name: str, registry: str, words: list[str]) -> int:
    """Run the program whose `PROGRAM` is in the module `registry`."""
    code = _ended(name, registry, words)
    if code != _INTERRUPTED:
        return code
    from goqueue.console import ending  # noqa: PLC0415 - none of this before the version is answered

    return ending.interrupted_code()


def _ended(name: str, registry: str, words: list[str]) -> int:
    try:
        if words == ["version"] or [word for word in words if word != "--debug"][:1] == ["--version"]:
            tell_version(name)
            return 0
        if words[:1] == ["__complete"]:
            from goqueue.console.completion import live  # noqa: PLC0415

            live.answer(words[1:])
            return 0
        return _run(registry, words)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return _leave_quietly()
    except OSError as error:
        from goqueue.console import failure  # noqa: PLC0415

        return failure.explain(error, debug="--debug" in words)


def tell_version(name: str) -> None:
    if sys.stdout is not None:
        sys.stdout.write(f"{name} {__version__}\n")
        sys.stdout.flush()


def leave(code: int) -> "NoReturn":
    """End the process without taking apart what ends with it: a tenth of the time that a short command takes."""
    import os  # noqa: PLC0415

    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            continue  # it was told already when it was written, or nobody listens
    os._exit(code)


def _run(registry: str, words: list[str]) -> int:
    import gc  # noqa: PLC0415 - none of this before the version is answered
    from importlib import import_module  # noqa: PLC0415

    from goqueue.console import ending, failure, groups  # noqa: PLC0415

    gc.set_threshold(_GARBAGE_THRESHOLD)
    ending.as_interruption()
    debug, words = _take_debug(words)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    try:
        program = import_module(registry).PROGRAM
        with groups.root(program).make_context(program.name, words) as context:
            context.command.invoke(context)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        return failure.explain(error, debug=debug)
    return 0


def _take_debug(words: list[str]) -> tuple[bool, list[str]]:
    """`--debug` counts anywhere, so that a failed command is repeated with one word added at its end."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[:end] if word != "--debug"] + words[end:]
    return len(rest) < len(words), rest


def _interrupted() -> int:
    from goqueue.console import terminal  # noqa: PLC0415

    terminal.say("interrupted")
    return _INTERRUPTED


def _leave_quietly() -> int:
    """Whoever read our output has seen enough; Python must not complain about it at its own end."""
    import os  # noqa: PLC0415

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0
