"""The fields of a message to publish, as people write them."""

import os

from goqueue.console.failure import UsageInvalid
from goqueue.quantities import quoted

Header = tuple[str, bytes]


def parse_header(text: str) -> Header:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageInvalid(f"--header {quoted(text)} is not a header", hint="use --header source=shop")
    name.encode()  # raises if the argument is not text
    return name, os.fsencode(value)


def parse_priority(text: str | None) -> int | str | None:
    """Parse the name or number of a priority, which the client checks."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else text
