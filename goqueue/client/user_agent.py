"""The name under which a program reports itself to the broker, which records who changed something."""

import os
import sys
from contextlib import suppress
from functools import cache


@cache
def user_agent() -> str:
    """Name the program, the user and the machine."""
    program = sys.argv[0] if sys.argv else ""
    directory, _, name = program.rpartition("/")
    name = directory.rpartition("/")[2] if name == "__main__.py" else name
    text = f"{name or 'python'} {_user()}@{os.uname().nodename if hasattr(os, 'uname') else 'unknown'}"
    return "".join(one if " " <= one <= "~" else "?" for one in text)


def _user() -> str:
    """Return the user's name; services and containers have no variable with it."""
    named = os.environ.get("USER") or os.environ.get("LOGNAME")
    if not named:
        with suppress(ImportError, KeyError):  # Windows has no such module; the user may have no name
            import pwd  # noqa: PLC0415

            named = pwd.getpwuid(os.getuid()).pw_name
    return named or "unknown"
