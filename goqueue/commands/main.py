"""Where `goqueue` begins and ends: from the words of the command line to the code of the exit.

The version is answered before anything is imported. Everything else passes `_run`, the one place
where an exception becomes a message and a code, so that no traceback reaches a person unasked.
"""

import sys

from goqueue import __version__


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words == ["version"] or [word for word in words if word != "--debug"][:1] == ["--version"]:
            version()
            return 0
        return _run(words)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return _leave_quietly()
    except OSError as error:
        from goqueue.commands import failure  # noqa: PLC0415

        return failure.explain(error, debug="--debug" in words)


def version() -> None:
    """Print the version."""
    print(f"goqueue {__version__}", flush=True)


def _run(words: list[str]) -> int:
    from goqueue.commands import failure, groups  # noqa: PLC0415 - not before the version is answered

    debug, words = _take_debug(words)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    try:
        with groups.root().make_context("goqueue", words) as context:
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
    from goqueue.commands import exits, terminal  # noqa: PLC0415

    terminal.say("interrupted")
    return exits.INTERRUPTED


def _leave_quietly() -> int:
    """Whoever read our output has seen enough; Python must not complain about it at its own end."""
    import os  # noqa: PLC0415

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
