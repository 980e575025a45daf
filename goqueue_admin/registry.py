"""All commands of `goqueue-admin`, one line each."""

from goqueue.console.command_tree import COMPLETION, CONFIG, CONFIG_COMMANDS, Command, Program

_BROKER = """Show the version, health, contents, rates and log of a broker.

\b
  goqueue-admin broker describe
  goqueue-admin broker logs --level warning
  goqueue-admin broker watch
"""

_REBALANCE = """Show assignments of consumer groups and running rebalances.

\b
  goqueue-admin rebalance list
  goqueue-admin rebalance describe billing
  goqueue-admin rebalance watch
"""

_HELP = """Operate a GoQueue broker: check its state, and find what needs attention.

\b
  goqueue-admin doctor
  goqueue-admin broker describe
  goqueue-admin rebalance list

Data goes to stdout, everything else to stderr. `COMMAND --help` shows examples of each.
"""

PROGRAM = Program(
    name="goqueue-admin",
    package="goqueue_admin",
    help=_HELP,
    commands=(
        Command("broker describe", ".broker:describe", "Show version, health and contents of a broker."),
        Command("broker logs", ".broker:logs", "Show the last lines of the broker's log."),
        Command("broker watch", ".broker:watch_broker", "Watch the rates of a broker."),
        COMPLETION,
        *CONFIG_COMMANDS,
        Command("dashboard", ".dashboard.command:dashboard", "Show the broker in a live terminal dashboard."),
        Command("doctor", ".doctor:doctor", "Find problems of a broker and how to solve them."),
        Command(
            "rebalance describe", ".rebalances:describe", "Show the assignment of a group and pending revocations."
        ),
        Command("rebalance list", ".rebalances:list_groups", "List the rebalances of all groups."),
        Command("rebalance watch", ".rebalances:watch_groups", "Watch the rebalances of all groups."),
    ),
    groups={"broker": _BROKER, "config": CONFIG, "rebalance": _REBALANCE},
    aliases={},
)
