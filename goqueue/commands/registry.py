"""All commands of `goqueue`. A new command needs one row here.

Help and suggestions use this table only; the function of a command is imported when the command is used.
"""

from goqueue.console.command_tree import COMPLETION, Command, Program
from goqueue.spark.inspections.catalog import INSPECTIONS

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

_KEY = """Create API keys of a data directory whose broker is stopped.

\b
  goqueue key create admin --role admin --data-dir ./goqueue-data
"""

_CERT = """Make certificates for trying TLS.

\b
  goqueue cert dev --dir tls
"""

_BACKUP = """Look at backups in a directory or an object store, without a broker.

\b
  goqueue backup list --from /mnt/backups
  goqueue backup verify --from /mnt/backups
  goqueue restore --from /mnt/backups --data-dir ./goqueue-data

`goqueue-admin backup` makes backups of a running broker.
"""

_BACKUP_KEY = """Make and rotate the keys that backups are encrypted with.

\b
  goqueue backup key new /etc/goqueue/backup.key
  goqueue backup key rotate /etc/goqueue/backup.key
"""

_CLUSTER = """Start a cluster on this machine, or begin a new one with a node that is left.

\b
  goqueue cluster dev
  goqueue cluster dev --nodes 5 --dir ./cluster

`goqueue-cli cluster status` shows the cluster of a broker.
"""

GROUPS = {
    "backup": _BACKUP,
    "backup key": _BACKUP_KEY,
    "cert": _CERT,
    "cluster": _CLUSTER,
    "config": _CONFIG,
    "key": _KEY,
    "spark-inspect": _SPARK,
}

COMMANDS = (
    COMPLETION,
    Command("backup describe", ".backup:describe", "List the logs of a backup with their offsets."),
    Command("backup diff", ".backup:diff", "List the logs that differ in two backups."),
    Command("backup key list", ".backup_key:list_keys", "List the ids of the keys in a file, and never the keys."),
    Command("backup key new", ".backup_key:new", "Make a key file, for its owner alone.", "write"),
    Command("backup key rotate", ".backup_key:rotate", "Add a key to a key file, which encrypts from now on.", "write"),
    Command("backup list", ".backup:list_backups", "List the backups of a target, the newest first."),
    Command("backup verify", ".backup:verify", "Read everything of a backup again: each hash and each frame."),
    Command("cert dev", ".cert:dev", "Make an authority, a server and a client certificate for trying TLS.", "write"),
    Command("cluster dev", ".cluster:dev", "Start the nodes of a cluster on this machine, until ^C.", "write"),
    Command(
        "cluster forget",
        ".cluster_forget:forget",
        "Have a stopped node forget its cluster, to begin a new one with its topics.",
        "danger",
    ),
    Command("config check", ".config:check", "Find every problem in a configuration file."),
    Command("config show", ".config:show", "Show the settings in effect and their origin."),
    Command("config template", ".config:template", "Write a complete configuration file."),
    Command("demo", ".demo:demo", "Start a temporary broker with traffic.", "write"),
    Command("fsck", ".fsck:fsck", "Check every frame, its order and every index of a data directory.", "danger"),
    Command(
        "key create", ".key:create", "Create an API key while the broker is stopped, and print it this once.", "write"
    ),
    Command("restore", ".backup:restore", "Restore a backup into an empty data directory.", "write"),
    Command("serve", ".serve:serve", "Start the broker, and stop it cleanly on ^C or SIGTERM.", "write"),
    Command(
        "spark-inspect export", ".inspect.export:export", "Write topics as Parquet, lines of JSON or CSV.", "write"
    ),
    Command(
        "spark-inspect package",
        ".inspect.package:package",
        "Pack what executors of a cluster need to read logs.",
        "write",
    ),
    Command(
        "spark-inspect replay",
        ".inspect.replay:replay",
        "Publish messages of a log, or the rows of a query, into a topic.",
        "danger",
    ),
    Command(
        "spark-inspect run",
        ".inspect.run:run",
        "Run a pipeline that a file declares, or find all that is wrong with it.",
        "write",
    ),
    Command("spark-inspect sql", ".inspect.sql:sql", "Ask topics in SQL: each is a table of its name."),
    Command(
        "spark-inspect stream",
        ".inspect.stream:stream",
        "Copy topics as they grow: into files, or into another topic.",
        "write",
    ),
    *(
        Command(f"spark-inspect {one.name}", f".inspect.inspections:{one.name}", one.summary)
        for one in INSPECTIONS.values()
    ),
    Command("version", ".main:version", "Print the version."),
)

_HELP = """Run a GoQueue broker on this machine, and manage its configuration and data.

\b
  goqueue demo
  goqueue serve --data-dir ./goqueue-data
  goqueue config template > goqueue.yaml
  goqueue fsck ./goqueue-data

`goqueue COMMAND --help` shows examples of each; `goqueue-cli` uses the topics of a running broker.
"""

PROGRAM = Program("goqueue", "goqueue.commands", _HELP, COMMANDS, GROUPS, {}, uses_broker=False)
