"""Suggest the name that was probably meant by one that is unknown."""

from collections.abc import Iterable

_CHARACTERS_MAX = 100  # longer names are compared by their beginning: comparing them takes long and finds nothing


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name closest to `name`, or None. Case and `-` or `_` make no difference.

    A name that only one known name contains as a word, or begins with, counts as close.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - loaded only after a mistake

    typed = _normalized(name[:_CHARACTERS_MAX])
    candidates = {_normalized(one): one for one in known}
    for matches in (
        [one for one in candidates if typed in one.replace(".", "_").split("_")],
        [one for one in candidates if typed and one.startswith(typed)],
        get_close_matches(typed, candidates, n=1, cutoff=cutoff),
    ):
        if len(matches) == 1:
            return candidates[matches[0]]
    return None


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_")
