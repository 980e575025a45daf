"""All commands of `goqueue-cli`. A new command needs one row here."""

from goqueue.console.command_tree import COMPLETION, CONFIG, CONFIG_COMMANDS, Command, Program

_TOPIC = """Create, list, watch, edit, scale, compact and delete topics.

\b
  goqueue-cli topic create orders --partitions 3
  goqueue-cli topic list
  goqueue-cli topic describe orders
  goqueue-cli topic edit orders --set retention_hours=24
  goqueue-cli topic delete orders
"""

_BENCH = """Measure the performance of a broker, and compare results.

\b
  goqueue-cli bench publish
  goqueue-cli bench consume --group
  goqueue-cli bench latency --rate 5000 --duration 30s --save after.json
  goqueue-cli bench compare before.json after.json
"""

_CLUSTER = """Show the nodes of a cluster, and its controller.

\b
  goqueue-cli cluster status
  goqueue-cli cluster nodes
  goqueue-cli cluster partitions --under-replicated

`goqueue cluster dev` starts a cluster on this machine for trying.
"""

_DELAYED = """List, cancel, reschedule and deliver delayed messages.

\b
  goqueue-cli delayed list orders --to +10m
  goqueue-cli delayed timeline orders
  goqueue-cli delayed cancel orders 0@17
  goqueue-cli delayed reschedule orders --where key=tea --shift +1h --dry-run

`publish --delay 5m` creates a delayed message, which readers cannot see before it is due.
"""

_GROUP = """Show the lag of groups, change how they retry, and reset their offsets.

\b
  goqueue-cli group list
  goqueue-cli group describe billing
  goqueue-cli group wait billing --for lag=0 --timeout 5m
  goqueue-cli group edit billing --set max_retries=5
  goqueue-cli group reset billing --topic orders --to -1h --dry-run
"""

_DLQ = """Find dead letters, see why they failed, and redrive them.

\b
  goqueue-cli dlq list
  goqueue-cli dlq errors orders
  goqueue-cli dlq sample orders --error timeout
  goqueue-cli dlq redrive orders --error timeout --dry-run

A dead letter is a message that was rejected or failed too often. Those of topic orders are in topic orders.dlq,
unless a setting names another one.
"""

_TRACE = """Show what happened to messages.

\b
  goqueue-cli trace get orders/0@17
  goqueue-cli trace get 0af7651916cd43dd8448eb211c80319c
  goqueue-cli trace search --status error --from -1h
  goqueue-cli trace follow --topic orders

A trace follows a message through redeliveries, delay, dead-letter queue, redrive and transactions.
"""

_TRANSACTION = """List open transactions and what they hold back, and abort them.

\b
  goqueue-cli transaction list
  goqueue-cli transaction describe orders-1
  goqueue-cli transaction abort orders-1 --dry-run

Producers begin and end transactions; so does `publish --transactional-id`. Until one ends, readers see neither its
messages nor those of others behind them.
"""

_SCHEMA = """Register, compare and delete the schemas of messages.

\b
  goqueue-cli schema register orders-value orders.avsc
  goqueue-cli schema list
  goqueue-cli schema check orders-value orders.avsc
  goqueue-cli schema config orders-value --compatibility full

The values of topic orders have the subject orders-value, the keys orders-key.
"""

_HELP = """Publish, consume and manage the topics of a GoQueue broker.

\b
  goqueue-cli topic create orders --partitions 3
  goqueue-cli publish orders '{"id": 17}' --key customer-4
  goqueue-cli consume orders --follow

Data goes to stdout, everything else to stderr. `COMMAND --help` shows examples of each.
"""

_COMMANDS = (
    Command("bench compare", ".bench.results:compare", "Compare two results of a benchmark."),
    Command("bench consume", ".bench.consume:consume", "Measure how fast messages are read.", "danger"),
    Command(
        "bench latency",
        ".bench.latency:latency",
        "Measure how long messages take from being sent to being received.",
        "danger",
    ),
    Command("bench publish", ".bench.publish:publish", "Measure how fast messages are published.", "danger"),
    Command("cluster nodes", ".cluster:nodes", "List the nodes of the cluster."),
    Command(
        "cluster partitions",
        ".cluster:partitions",
        "List the partitions of the cluster with their leaders and replicas.",
    ),
    Command("cluster status", ".cluster:status", "Show whether the cluster has a controller and a majority."),
    Command("consume", ".consuming.command:consume", "Read the messages of a topic."),
    Command(
        "delayed cancel",
        ".delayed.changes:cancel",
        "Cancel delayed messages, so that they are never delivered.",
        "danger",
    ),
    Command("delayed deliver", ".delayed.changes:deliver", "Deliver delayed messages now.", "danger"),
    Command("delayed describe", ".delayed.browse:describe", "Show delayed messages in full."),
    Command(
        "delayed list", ".delayed.browse:list_messages", "List the delayed messages of a topic, the next due first."
    ),
    Command("delayed reschedule", ".delayed.changes:reschedule", "Change the due time of delayed messages.", "danger"),
    Command("delayed stats", ".delayed.browse:stats", "Show statistics of delayed messages in all topics."),
    Command("delayed timeline", ".delayed.browse:timeline", "Count delayed messages by due time."),
    Command("dlq browse", ".dead_letters.browse:browse", "List the dead letters of a topic that were not redriven."),
    Command("dlq describe", ".dead_letters.browse:describe", "Show dead letters in full."),
    Command("dlq errors", ".dead_letters.browse:errors", "Count the dead letters of a topic by error."),
    Command(
        "dlq list", ".dead_letters.browse:list_topics", "List the topics with dead letters, and how many each has."
    ),
    Command("dlq redrive", ".dead_letters.redrive:redrive", "Redrive dead letters to their original topics.", "danger"),
    Command("dlq sample", ".dead_letters.browse:sample", "Show some of the newest dead letters in full."),
    Command("group delete", ".groups.listing:delete", "Delete groups without members, and their offsets.", "danger"),
    Command("group describe", ".groups.listing:describe", "Show all details of groups: settings, members and lag."),
    Command(
        "group edit",
        ".groups.settings:edit",
        "Change how groups retry messages, lease them and give them up.",
        "danger",
    ),
    Command("group lag", ".groups.listing:lag", "Show the lag of groups, partition by partition."),
    Command("group list", ".groups.listing:list_groups", "List the groups with their lag."),
    Command("group reset", ".groups.reset:reset", "Reset the offsets of a group.", "danger"),
    Command("group wait", ".groups.wait:wait_for", "Wait until groups meet conditions."),
    Command("group watch", ".groups.listing:watch_groups", "Watch all groups, or the lag of one."),
    Command("publish", ".publishing.command:publish", "Publish messages to a topic.", "write"),
    Command("schema check", ".schemas.changes:check", "Check whether a schema could be registered."),
    Command(
        "schema config",
        ".schemas.changes:config",
        "Show or change the compatibility level and mode of a subject, or of all.",
        "danger",
    ),
    Command("schema delete", ".schemas.changes:delete", "Delete a subject or one of its versions.", "danger"),
    Command("schema describe", ".schemas.listing:describe", "Show a schema with its text."),
    Command("schema diff", ".schemas.listing:diff", "Show how two versions of a schema differ, line by line."),
    Command("schema list", ".schemas.listing:list_schemas", "List subjects with their latest schemas."),
    Command(
        "schema register", ".schemas.changes:register", "Register a schema as the next version of a subject.", "write"
    ),
    Command("sql", ".sql:sql", "Answer a question about topics in SQL; each topic is a table."),
    Command(
        "topic compact",
        ".topics.changes:compact",
        "Compact topics now: of messages with the same key only the latest stays.",
        "write",
    ),
    Command("topic create", ".topics.changes:create", "Create topics.", "write"),
    Command("topic delete", ".topics.changes:delete", "Delete topics and all of their messages.", "danger"),
    Command("topic describe", ".topics.listing:describe", "Show all details of topics."),
    Command("topic edit", ".topics.changes:edit", "Change settings of topics.", "danger"),
    Command("topic list", ".topics.listing:list_topics", "List the topics, with their sizes and rates."),
    Command(
        "topic priorities",
        ".topics.listing:priorities",
        "Show what is ready, in flight and was delivered of each priority.",
    ),
    Command("topic scale", ".topics.scaling:scale", "Add partitions to topics while they are used.", "danger"),
    Command("topic watch", ".topics.listing:watch_topics", "Watch the topics: their rates and how they grow."),
    Command("trace follow", ".traces.listing:follow", "Print traces as they change, until ^C."),
    Command("trace get", ".traces.show:get", "Show what happened to messages, as a waterfall."),
    Command("trace list", ".traces.listing:list_traces", "List traces, the newest first."),
    Command("trace search", ".traces.listing:search", "Search traces, the newest first."),
    Command("trace stats", ".traces.listing:stats", "Show statistics of traces."),
    Command(
        "transaction abort", ".transactions:abort", "Abort open transactions and discard their messages.", "danger"
    ),
    Command(
        "transaction describe", ".transactions:describe", "Show all details of transactions, and what happens next."
    ),
    Command("transaction list", ".transactions:list_transactions", "List the open transactions, the oldest first."),
    Command("undo", ".undo:undo", "Undo a change, or list what was changed.", "danger"),
    Command("worker", ".worker:worker", "Run the handlers and schedules of a worker until ^C or SIGTERM.", "write"),
)

PROGRAM = Program(
    name="goqueue-cli",
    package="goqueue_cli",
    help=_HELP,
    commands=(COMPLETION, *CONFIG_COMMANDS, *_COMMANDS),
    groups={
        "bench": _BENCH,
        "cluster": _CLUSTER,
        "config": CONFIG,
        "delayed": _DELAYED,
        "dlq": _DLQ,
        "group": _GROUP,
        "schema": _SCHEMA,
        "topic": _TOPIC,
        "trace": _TRACE,
        "transaction": _TRANSACTION,
    },
    aliases={
        "dlq show": "dlq browse",
        "group alter": "group edit",
        "group set": "group edit",
        "produce": "publish",
        "send": "publish",
        "subscribe": "consume",
        "topic alter": "topic edit",
    },
)
