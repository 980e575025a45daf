"""`goqueue-cli` before any command."""

from goqueue.console.session import root_flags


@root_flags
def goqueue_cli() -> None:
    """Use the topics of a GoQueue broker.

    \b
      goqueue-cli topic create orders --partitions 3
      goqueue-cli publish orders '{"id": 17}' --key customer-4
      goqueue-cli consume orders --follow

    Data goes to stdout, everything else to stderr. `COMMAND --help` shows examples of each.
    """
