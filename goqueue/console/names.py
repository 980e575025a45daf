"""Names as they come from the command line and stand in sentences."""

from goqueue.console.groups import UsageInvalid

_SHOWN = 80


def refuse_empty(*names: str, noun: str = "topic") -> None:
    """A name that nobody would see is told before anybody is asked for it: most likely a variable is not set."""
    if "" in names:
        raise UsageInvalid(f"'' is not the name of a {noun}", hint=f"name one, as `goqueue-cli {noun} list` shows them")


def short(name: str) -> str:
    """As much of a name as a sentence bears; whoever refuses it says what is wrong with it."""
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 3]}..."
