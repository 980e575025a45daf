"""`goqueue-admin` before any command."""

from goqueue.console.session import root_flags


@root_flags
def goqueue_admin() -> None:
    """Run a GoQueue broker: see how it does, and what to do about it.

    \b
      goqueue-admin doctor
      goqueue-admin broker describe
      goqueue-admin rebalance list

    Data goes to stdout, everything else to stderr. `COMMAND --help` shows examples of each.
    """
