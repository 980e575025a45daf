"""Names of topics and groups."""

import re

from goqueue.errors import CallerError
from goqueue.limits import TOPIC_NAME_CHARACTERS_MAX
from goqueue.quantities import quoted

_FORM = re.compile(r"[A-Za-z0-9._-]+")
INTERNAL_PREFIX = "__"
SECURITY = "__security"


def check_name(name: str, noun: str, refusal: type[CallerError]) -> None:
    if len(name) > TOPIC_NAME_CHARACTERS_MAX or not _FORM.fullmatch(name) or name in (".", ".."):
        raise refusal(
            f"{quoted(name[:TOPIC_NAME_CHARACTERS_MAX])} is not a valid name for a {noun}",
            hint=f"1 to {TOPIC_NAME_CHARACTERS_MAX} of A-Z a-z 0-9 . _ -, not . or ..",
        )


def check_new_name(name: str, noun: str, refusal: type[CallerError]) -> None:
    """Refuse a name that clients may not give to a new topic or group."""
    check_name(name, noun, refusal)
    if is_internal(name):
        raise refusal(
            f"{quoted(name)} begins with __, which is reserved for internal {noun}s", hint="choose another name"
        )


def is_internal(name: str) -> bool:
    return name.startswith(INTERNAL_PREFIX)
