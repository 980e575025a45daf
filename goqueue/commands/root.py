"""`goqueue` before any command, and its version."""

from goqueue.console import entry
from goqueue.console.groups import Debug, Version


def goqueue(version: Version = False, debug: Debug = False) -> None:
    """Run a GoQueue broker on this machine, and look after its configuration and data."""
    del version, debug  # both are answered before Typer is loaded, and are here to be listed


def version() -> None:
    """Print the version."""
    entry.tell_version("goqueue")
