"""Copying, in whatever way this machine offers.

A terminal that does not know OSC 52 drops it without a word, so the platform's own command is asked as well.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from shutil import which

_SECONDS_MAX = 2.0


def commands(environment: Mapping[str, str], platform: str) -> list[list[str]]:
    """Those that could work here, the best first."""
    if platform == "darwin":
        return [["pbcopy"]]
    found = []
    if environment.get("WAYLAND_DISPLAY"):
        found.append(["wl-copy"])
    if environment.get("DISPLAY"):
        found += [["xclip", "-selection", "clipboard", "-in"], ["xsel", "--clipboard", "--input"]]
    return found


def copy(text: str) -> str | None:
    """Give a text to the first command that takes it, and say which that was."""
    for command in commands(os.environ, sys.platform):
        if which(command[0]) and _given(command, text):
            return command[0]
    return None


def _given(command: list[str], text: str) -> bool:
    try:
        done = subprocess.run(
            command,
            input=text.encode(errors="surrogateescape"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
