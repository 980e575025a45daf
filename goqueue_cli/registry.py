"""Every command of `goqueue-cli`. To add one, add its line: nothing else needs to know."""

from goqueue.console.command import Command, Program
from goqueue.console.context_registry import CONFIG, CONFIG_COMMANDS

_TOPIC = """Create, list, watch, edit, compact and delete topics.

\b
  goqueue-cli topic create orders --partitions 3
  goqueue-cli topic list
  goqueue-cli topic describe orders
  goqueue-cli topic edit orders --set retention_hours=24
  goqueue-cli topic delete orders
"""

_BENCH = """Measure what a broker does under load, and compare.

\b
  goqueue-cli bench publish
  goqueue-cli bench consume --group
  goqueue-cli bench latency --rate 5000 --duration 30s --save after.json
  goqueue-cli bench compare before.json after.json
"""

_DELAYED = """See which messages wait for their time, and change that.

\b
  goqueue-cli delayed list orders --to +10m
  goqueue-cli delayed timeline orders
  goqueue-cli delayed cancel orders 0@17
  goqueue-cli delayed reschedule orders --where key=tea --shift +1h --dry-run

`publish --delay 5m` makes a delayed message. It is kept beside its topic until it is due, and nobody reads it before.
"""

_GROUP = """See how far behind groups are, and have them read on from elsewhere.

\b
  goqueue-cli group list
  goqueue-cli group describe billing
  goqueue-cli group wait billing --for lag=0 --timeout 5m
  goqueue-cli group reset billing --topic orders --to -1h --dry-run
"""

_DLQ = """Find dead letters, see why they failed, and send them back.

\b
  goqueue-cli dlq list
  goqueue-cli dlq errors orders
  goqueue-cli dlq sample orders --error timeout
  goqueue-cli dlq redrive orders --error timeout --dry-run

A dead letter is a message that a group has given up. Those of topic orders lie in topic orders.dlq.
"""

_TRANSACTION = """See which transactions are open, what they hold back, and end those that hang.

\b
  goqueue-cli transaction list
  goqueue-cli transaction describe orders-1
  goqueue-cli transaction abort orders-1 --dry-run

Producers begin and end transactions; `publish --transactional-id` does so as well. Until one has ended, nobody who
reads sees its messages, nor what others have published behind them.
"""

PROGRAM = Program(
    name="goqueue-cli",
    root="goqueue_cli.root:goqueue_cli",
    commands=(
        Command(
            "completion",
            "goqueue.console.completion.command:completion",
            "Write what completes this program in a shell.",
            "read",
        ),
        *CONFIG_COMMANDS,
        Command("bench compare", "goqueue_cli.bench.compare:compare", "Compare two results of a benchmark.", "read"),
        Command("bench consume", "goqueue_cli.bench.consume:consume", "Measure how fast messages are read.", "danger"),
        Command(
            "bench latency",
            "goqueue_cli.bench.latency:latency",
            "Measure how long messages take from being sent to being received.",
            "danger",
        ),
        Command(
            "bench publish", "goqueue_cli.bench.publish:publish", "Measure how fast messages are published.", "danger"
        ),
        Command("consume", "goqueue_cli.consuming.command:consume", "Read the messages of a topic.", "read"),
        Command(
            "delayed cancel",
            "goqueue_cli.delayed.changes:cancel",
            "Cancel delayed messages: they are never delivered.",
            "danger",
        ),
        Command("delayed deliver", "goqueue_cli.delayed.changes:deliver", "Deliver delayed messages now.", "danger"),
        Command("delayed describe", "goqueue_cli.delayed.browse:describe", "Show delayed messages in full.", "read"),
        Command(
            "delayed list",
            "goqueue_cli.delayed.browse:list_messages",
            "List the delayed messages of a topic, the next due first.",
            "read",
        ),
        Command(
            "delayed reschedule",
            "goqueue_cli.delayed.changes:reschedule",
            "Deliver delayed messages at another time.",
            "danger",
        ),
        Command(
            "delayed stats",
            "goqueue_cli.delayed.numbers:stats",
            "Show what waits in all topics, and how late the others were.",
            "read",
        ),
        Command(
            "delayed timeline",
            "goqueue_cli.delayed.numbers:timeline",
            "Show how many delayed messages are due when.",
            "read",
        ),
        Command(
            "dlq browse",
            "goqueue_cli.deadletters.browse:browse",
            "Show the dead letters of a topic that were not sent back.",
            "read",
        ),
        Command("dlq describe", "goqueue_cli.deadletters.browse:describe", "Show dead letters in full.", "read"),
        Command(
            "dlq errors",
            "goqueue_cli.deadletters.counts:errors",
            "Show why the dead letters of a topic have failed, and how many.",
            "read",
        ),
        Command(
            "dlq list",
            "goqueue_cli.deadletters.counts:list_topics",
            "List the topics with dead letters, and how many each has.",
            "read",
        ),
        Command(
            "dlq redrive",
            "goqueue_cli.deadletters.redrive:redrive",
            "Send dead letters back to where they came from.",
            "danger",
        ),
        Command(
            "dlq sample",
            "goqueue_cli.deadletters.browse:sample",
            "Show some of the newest dead letters in full.",
            "read",
        ),
        Command(
            "group delete",
            "goqueue_cli.groups.listing:delete",
            "Delete groups without members, and what they have read.",
            "danger",
        ),
        Command(
            "group describe",
            "goqueue_cli.groups.listing:describe",
            "Show all about groups: their settings, members and lag.",
            "read",
        ),
        Command("group lag", "goqueue_cli.groups.lag:lag", "Show how far behind groups are.", "read"),
        Command(
            "group list",
            "goqueue_cli.groups.listing:list_groups",
            "List the groups, with how far behind each is.",
            "read",
        ),
        Command("group reset", "goqueue_cli.groups.reset:reset", "Have a group read on from elsewhere.", "danger"),
        Command(
            "group wait", "goqueue_cli.groups.wait:wait_for", "Wait until groups are where they should be.", "read"
        ),
        Command(
            "group watch", "goqueue_cli.groups.listing:watch_groups", "Watch all groups, or the lag of one.", "read"
        ),
        Command("publish", "goqueue_cli.publishing.command:publish", "Publish messages to a topic.", "write"),
        Command(
            "topic compact",
            "goqueue_cli.topics.changes:compact",
            "Compact topics now: of messages with the same key only the latest stays.",
            "write",
        ),
        Command("topic create", "goqueue_cli.topics.changes:create", "Create topics.", "write"),
        Command(
            "topic delete", "goqueue_cli.topics.changes:delete", "Delete topics and all of their messages.", "danger"
        ),
        Command("topic describe", "goqueue_cli.topics.listing:describe", "Show all about topics.", "read"),
        Command("topic edit", "goqueue_cli.topics.changes:edit", "Change settings of topics.", "danger"),
        Command(
            "topic list",
            "goqueue_cli.topics.listing:list_topics",
            "List the topics, with their sizes and rates.",
            "read",
        ),
        Command(
            "topic priorities",
            "goqueue_cli.topics.priorities:priorities",
            "Show what is ready, in hand and was handed out of each priority.",
            "read",
        ),
        Command(
            "topic watch",
            "goqueue_cli.topics.listing:watch_topics",
            "Watch the topics: what comes in, and how they grow.",
            "read",
        ),
        Command(
            "transaction abort",
            "goqueue_cli.transactions.abort:abort",
            "Abort open transactions: nobody ever sees anything of them.",
            "danger",
        ),
        Command(
            "transaction describe",
            "goqueue_cli.transactions.listing:describe",
            "Show all about transactions, and what happens next.",
            "read",
        ),
        Command(
            "transaction list",
            "goqueue_cli.transactions.listing:list_transactions",
            "List the open transactions, the oldest first.",
            "read",
        ),
        Command("undo", "goqueue_cli.undo:undo", "Undo a reset, or list what can be undone.", "danger"),
    ),
    groups={
        "bench": _BENCH,
        "config": CONFIG,
        "delayed": _DELAYED,
        "dlq": _DLQ,
        "group": _GROUP,
        "topic": _TOPIC,
        "transaction": _TRANSACTION,
    },
    aliases={"dlq show": "dlq browse", "produce": "publish", "topic alter": "topic edit"},
)
