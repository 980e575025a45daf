"""`goqueue` before any command, and its version."""

from goqueue.console import entry
from goqueue.console.groups import Debug, Version


def goqueue(version: Version = False, debug: Debug = False) -> None:
    """Run a GoQueue broker on this machine, and look after its configuration and data.

    \b
      goqueue demo
      goqueue serve --data-dir ./goqueue-data
      goqueue config template > goqueue.yaml
      goqueue fsck ./goqueue-data

    `goqueue COMMAND --help` shows examples of each; `goqueue-cli` uses what runs here.
    """
    del version, debug  # both are answered before Typer is loaded, and are here to be listed


def version() -> None:
    """Print the version.

    \b
      goqueue version
    """
    entry.tell_version("goqueue")
