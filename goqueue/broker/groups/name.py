"""How a group may be called: as a topic, and by the same rules."""

import re

from goqueue.errors import GroupNameInvalid
from goqueue.limits import TOPIC_NAME_CHARACTERS_MAX
from goqueue.quantities import quoted

_NAME = re.compile(r"[A-Za-z0-9._-]+")
INTERNAL_PREFIX = "__"


def check_group_name(name: str) -> None:
    """Refuse what no group may be called."""
    if len(name) > TOPIC_NAME_CHARACTERS_MAX or not _NAME.fullmatch(name) or name in (".", ".."):
        raise GroupNameInvalid(
            f"{quoted(name[:TOPIC_NAME_CHARACTERS_MAX])} cannot be the name of a group",
            hint=f"1 to {TOPIC_NAME_CHARACTERS_MAX} of A-Z a-z 0-9 . _ -, not . or ..",
        )


def check_new_group_name(name: str) -> None:
    """Refuse what a client may not call its group."""
    check_group_name(name)
    if is_internal(name):
        raise GroupNameInvalid(f"{quoted(name)} begins with __, which is kept for the broker", hint="leave it out")


def is_internal(name: str) -> bool:
    return name.startswith(INTERNAL_PREFIX)
