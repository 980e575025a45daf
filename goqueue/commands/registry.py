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

GROUPS = {"config": _CONFIG}

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
    Command("version", "goqueue.commands.root:version", "Print the version.", "read"),
)

PROGRAM = Program("goqueue", "goqueue.commands.root:goqueue", COMMANDS, GROUPS, {})
