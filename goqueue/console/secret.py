"""A secret that a command may need: read when it is needed, and shown to nobody."""

import os
from contextlib import suppress

from goqueue.console.groups import UsageInvalid
from goqueue.errors import AccessDenied, PathInvalid

MASK = "********"
STDIN = "-"

_BYTES_MAX = 16 * 1024  # more is some other file


class Secret:
    """A text, or the file that has it; `-` is stdin."""

    def __init__(self, text: str | None = None, file: str | None = None) -> None:
        self._text = text
        self._file = file

    def read(self) -> str | None:
        """The secret, or None where there is none. Its file is read once."""
        if self._text is None and self._file is not None:
            self._text = _from_stdin() if self._file == STDIN else _from_file(self._file)
        return self._text

    @property
    def shown(self) -> str | None:
        """What may stand on a screen: that there is one, or where it is."""
        return self._file if self._file is not None else None if self._text is None else MASK

    def __repr__(self) -> str:
        return f"<Secret {self.shown}>"


def _from_stdin() -> str:
    """One line, and not a byte behind it: what follows may be messages to publish."""
    line = b""
    with suppress(OSError):
        while len(line) < _BYTES_MAX and (byte := os.read(0, 1)) not in {b"", b"\n"}:
            line += byte
    text = line.decode(errors="replace").strip()
    if not text:
        raise UsageInvalid("stdin has no API key", hint="write it as in `goqueue-cli --api-key-file - ... < key`")
    return text


def _from_file(name: str) -> str:
    path = os.path.expanduser(name)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_BYTES_MAX).strip()
    except PermissionError:
        raise AccessDenied(f"the API key in {name} may not be read", hint="check owner and mode") from None
    except UnicodeDecodeError:
        raise PathInvalid(f"the API key in {name} is not text", hint="the file has the key and nothing else") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PathInvalid(f"the API key in {name} cannot be read: {reason}", hint=_FILE_HINT) from None
    if not text:
        raise PathInvalid(f"{name} is empty, and should have the API key", hint=_FILE_HINT)
    return text


_FILE_HINT = "--api-key-file takes the file that has the key, or - for stdin"
