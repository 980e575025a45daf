"""A file that an API key is written to, for its owner alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from goqueue.errors import PathInvalid


@contextmanager
def new_key_file(name: str, flag: str, *, may_be_empty: bool = False) -> Iterator[TextIO]:
    """Open the file before the key is made, so that the key is not lost; remove the file if there is no key.

    A file with content is never overwritten.
    """
    path = os.path.expanduser(name)
    try:
        file = _create(path, may_be_empty=may_be_empty)
    except OSError as error:
        raise PathInvalid(f"{name} cannot be created: {error.strerror}", hint=f"{flag} names a new file") from None
    with file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(path)
            raise


def _create(path: str, *, may_be_empty: bool) -> TextIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    if may_be_empty and has_content(path) is False:
        descriptor = os.open(path, flags, 0o600)
        os.fchmod(descriptor, 0o600)
    else:
        descriptor = os.open(path, flags | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "w", encoding="ascii")


def has_content(path: str) -> bool | None:
    """Return whether a file has content, or None if there is none."""
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return None
