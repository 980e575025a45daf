"""Contexts: groups of subjects whose names begin with the same prefix, as in `:.team:orders-value`.

A context exists as long as it has subjects. Its configuration and mode have the prefix alone as their name, `:.team:`.
Subjects without a prefix are in the default context. Ids are those of the whole registry.
"""

import re

DEFAULT_CONTEXT = "."
NAME_CHARACTERS_MAX = 100  # of a context, so that names of subjects find room behind it
_PREFIX = re.compile(rf":(\.[A-Za-z0-9_.-]{{1,{NAME_CHARACTERS_MAX}}}):")


def context_prefix(subject: str) -> str:
    """Return what the name of a subject begins with: `:.team:`, or nothing in the default context."""
    found = _PREFIX.match(subject)
    return found[0] if found else ""


def context_of(subject: str) -> str:
    return context_prefix(subject)[1:-1] or DEFAULT_CONTEXT


def is_whole_context(name: str) -> bool:
    """Return whether a name is a prefix alone, which stands for all subjects of its context."""
    return name.endswith(":") and context_prefix(name) == name


def is_in(subject: str, wanted: str) -> bool:
    """Return whether a subject is the wanted one, or in the wanted context; nothing wanted means any."""
    return not wanted or subject == wanted or (is_whole_context(wanted) and subject.startswith(wanted))


def context_problem(name: str) -> str:
    """Return what is wrong with the context in the name of a subject, if anything."""
    if name.startswith(":.") and not context_prefix(name):
        return (
            f"a context is named as in :.team:{name.rpartition(':')[2][:100] or 'subject'}, with 1 to "
            f"{NAME_CHARACTERS_MAX} of A-Z a-z 0-9 _ . -; the default context needs no prefix"
        )
    return ""
