"""What was probably meant by a word that is none of those that are known."""

from collections.abc import Iterable

_CHARACTERS_MAX = 100  # a longer word is compared by its beginning: it would take long, and be near to nothing


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one that it begins, or that resembles it; capitals count for nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - not before something is wrong

    typed = word.lower()[:_CHARACTERS_MAX]
    plain = {one.lower(): one for one in known}
    begun = [one for one in plain if typed and one.startswith(typed)]
    found = begun if len(begun) == 1 else get_close_matches(typed, plain, n=1)
    return plain[found[0]] if found else None
