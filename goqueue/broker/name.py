"""How topics and groups may be called."""

import re

from goqueue.errors import CallerError
from goqueue.limits import TOPIC_NAME_CHARACTERS_MAX
from goqueue.quantities import quoted

_FORM = re.compile(r"[A-Za-z0-9._-]+")
INTERNAL_PREFIX = "__"


def check_name(name: str, noun: str, refusal: type[CallerError]) -> None:
    """Refuse what nothing may be called."""
    if len(name) > TOPIC_NAME_CHARACTERS_MAX or not _FORM.fullmatch(name) or name in (".", ".."):
        raise refusal(
            f"{quoted(name[:TOPIC_NAME_CHARACTERS_MAX])} cannot be the name of a {noun}",
            hint=f"1 to {TOPIC_NAME_CHARACTERS_MAX} of A-Z a-z 0-9 . _ -, not . or ..",
        )


def check_new_name(name: str, noun: str, refusal: type[CallerError]) -> None:
    """Refuse what a client may not call its own."""
    check_name(name, noun, refusal)
    if is_internal(name):
        raise refusal(f"{quoted(name)} begins with __, which is kept for internal {noun}s", hint="leave it out")


def is_internal(name: str) -> bool:
    return name.startswith(INTERNAL_PREFIX)
