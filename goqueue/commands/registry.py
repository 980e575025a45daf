"""Every command of `goqueue`. To add one, add its line: nothing else needs to know.

Help and suggestions are made from this table alone; the function behind a command is imported when
the command is used, so what it needs is no burden on the others.
"""

from goqueue.console.command import Command, Program

_CONFIG = """Check, show and start a configuration.

\b
  goqueue config template > goqueue.yaml
  goqueue config check goqueue.yaml
  goqueue config show goqueue.yaml -o yaml
"""

_SPARK = """Ask logs with Spark: of a data directory, a copy of one, or a broker at work.

\b
  goqueue spark-inspect summary ./goqueue-data
  goqueue spark-inspect timeline --url http://127.0.0.1:8080 orders
  goqueue spark-inspect sql ./goqueue-data "SELECT count(*) FROM orders"

`pip install 'goqueue[spark]'` brings Spark, and a Java runtime where the machine has none.
"""

GROUPS = {"config": _CONFIG, "spark-inspect": _SPARK}

COMMANDS = (
    Command(
        "completion",
        "goqueue.console.completion.command:completion",
        "Write what completes this program in a shell.",
        "read",
    ),
    Command("config check", "goqueue.commands.config:check", "Find every problem in a configuration file.", "read"),
    Command("config show", "goqueue.commands.config:show", "Show the settings in effect and their origin.", "read"),
    Command("config template", "goqueue.commands.config:template", "Write a complete configuration file.", "read"),
    Command("demo", "goqueue.commands.demo:demo", "Start a broker with lively traffic to try things on.", "write"),
    Command(
        "fsck",
        "goqueue.commands.fsck:fsck",
        "Check every frame, its order and every index of a data directory.",
        "danger",
    ),
    Command(
        "serve", "goqueue.commands.serve:serve", "Start the broker, and stop it cleanly on ^C or SIGTERM.", "write"
    ),
    Command(
        "spark-inspect compaction",
        "goqueue.commands.inspect.compaction:compaction",
        "Tell what compaction would gain, and which keys are superseded most.",
        "read",
    ),
    Command(
        "spark-inspect dlq",
        "goqueue.commands.inspect.dlq:dlq",
        "Tell why messages became dead letters, and what was sent back.",
        "read",
    ),
    Command(
        "spark-inspect export",
        "goqueue.commands.inspect.export:export",
        "Write topics as Parquet, lines of JSON or CSV.",
        "write",
    ),
    Command(
        "spark-inspect forecast",
        "goqueue.commands.inspect.forecast:forecast",
        "Tell how topics grow, and when the disk will be full.",
        "read",
    ),
    Command(
        "spark-inspect gaps",
        "goqueue.commands.inspect.gaps:gaps",
        "Find missing offsets, broken order and what was published twice.",
        "read",
    ),
    Command(
        "spark-inspect keys",
        "goqueue.commands.inspect.keys:keys",
        "Tell which keys there are, and which are hot.",
        "read",
    ),
    Command(
        "spark-inspect lag",
        "goqueue.commands.inspect.lag:lag",
        "Tell how far behind groups are, and when retention overtakes them.",
        "read",
    ),
    Command(
        "spark-inspect latency",
        "goqueue.commands.inspect.latency:latency",
        "Tell how long messages take: to the log, and until they are acknowledged.",
        "read",
    ),
    Command(
        "spark-inspect package",
        "goqueue.commands.inspect.package:package",
        "Pack what executors of a cluster need to read logs.",
        "write",
    ),
    Command(
        "spark-inspect replay",
        "goqueue.commands.inspect.replay:replay",
        "Publish messages of a log, or the rows of a query, into a topic.",
        "danger",
    ),
    Command(
        "spark-inspect run",
        "goqueue.commands.inspect.run:run",
        "Run a pipeline that a file declares, or find all that is wrong with it.",
        "write",
    ),
    Command(
        "spark-inspect sizes",
        "goqueue.commands.inspect.sizes:sizes",
        "Tell how large messages are: percentiles, histogram, the largest.",
        "read",
    ),
    Command(
        "spark-inspect skew",
        "goqueue.commands.inspect.skew:skew",
        "Tell how unevenly messages lie over partitions, and why.",
        "read",
    ),
    Command(
        "spark-inspect sql",
        "goqueue.commands.inspect.sql:sql",
        "Ask topics in SQL: each is a table of its name.",
        "read",
    ),
    Command(
        "spark-inspect stream",
        "goqueue.commands.inspect.stream:stream",
        "Copy topics as they grow: into files, or into another topic.",
        "write",
    ),
    Command(
        "spark-inspect summary",
        "goqueue.commands.inspect.summary:summary",
        "Tell what topics hold, every frame verified.",
        "read",
    ),
    Command(
        "spark-inspect timeline",
        "goqueue.commands.inspect.timeline:timeline",
        "Tell when messages came, the peak and the silences.",
        "read",
    ),
    Command(
        "spark-inspect usage",
        "goqueue.commands.inspect.usage:usage",
        "Tell who writes and reads how much.",
        "read",
    ),
    Command(
        "spark-inspect verify",
        "goqueue.commands.inspect.verify:verify",
        "Check every frame and its order, and name what is damaged.",
        "read",
    ),
    Command("version", "goqueue.commands.root:version", "Print the version.", "read"),
)

PROGRAM = Program("goqueue", "goqueue.commands.root:goqueue", COMMANDS, GROUPS, {})
