"""`goqueue-cli` before any command."""

import typer

from goqueue.console.groups import Debug, Version
from goqueue.console.session import NoHeadersFlag, OutputFlag, ServerFlag, TimeoutFlag, remember


def goqueue_cli(
    context: typer.Context,
    *,
    server: ServerFlag = None,
    output: OutputFlag = None,
    no_headers: NoHeadersFlag = False,
    timeout: TimeoutFlag = None,
    version: Version = False,
    debug: Debug = False,
) -> None:
    """Use the topics of a GoQueue broker.

    \b
      goqueue-cli topic create orders --partitions 3
      goqueue-cli publish orders '{"id": 17}' --key customer-4
      goqueue-cli consume orders --follow

    Data goes to stdout, everything else to stderr. `COMMAND --help` shows examples of each.
    """
    del version, debug  # both are answered before Typer is loaded, and are here to be listed
    remember(context, server=server, output=output, no_headers=no_headers, timeout=timeout)
