"""Every command of `goqueue-admin`. To add one, add its line: nothing else needs to know."""

from goqueue.console.command import Command, Program
from goqueue.console.context_registry import CONFIG, CONFIG_COMMANDS

_BROKER = """See what a broker is, what it has and how fast it goes.

\b
  goqueue-admin broker describe
  goqueue-admin broker watch
"""

_REBALANCE = """See how groups share their partitions, and what a rebalance waits for.

\b
  goqueue-admin rebalance list
  goqueue-admin rebalance describe billing
  goqueue-admin rebalance watch
"""

PROGRAM = Program(
    name="goqueue-admin",
    root="goqueue_admin.root:goqueue_admin",
    commands=(
        Command("broker describe", "goqueue_admin.broker:describe", "Show what a broker is and has.", "read"),
        Command("broker watch", "goqueue_admin.broker:watch_broker", "Watch how fast a broker goes.", "read"),
        Command(
            "completion",
            "goqueue.console.completion.command:completion",
            "Write what completes this program in a shell.",
            "read",
        ),
        *CONFIG_COMMANDS,
        Command(
            "dashboard",
            "goqueue_admin.dashboard.command:dashboard",
            "Show the broker on a screen that is always current.",
            "read",
        ),
        Command("doctor", "goqueue_admin.doctor:doctor", "Find what is wrong, and say what to do about it.", "read"),
        Command(
            "rebalance describe",
            "goqueue_admin.rebalances:describe",
            "Show who has what in a group, and what is to be given up.",
            "read",
        ),
        Command(
            "rebalance list", "goqueue_admin.rebalances:list_groups", "List how the groups were rebalanced.", "read"
        ),
        Command(
            "rebalance watch", "goqueue_admin.rebalances:watch_groups", "Watch the rebalances of all groups.", "read"
        ),
    ),
    groups={"broker": _BROKER, "config": CONFIG, "rebalance": _REBALANCE},
    aliases={},
)
