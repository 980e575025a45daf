"""Every command of `goqueue-cli`. To add one, add its line: nothing else needs to know."""

from goqueue.console.command import Command, Program

_TOPIC = """Create, list, describe and delete topics.

\b
  goqueue-cli topic create orders --partitions 3
  goqueue-cli topic list
  goqueue-cli topic describe orders
  goqueue-cli topic delete orders
"""

PROGRAM = Program(
    name="goqueue-cli",
    root="goqueue_cli.root:goqueue_cli",
    commands=(
        Command("consume", "goqueue_cli.consume:consume", "Read the messages of a topic.", "read"),
        Command("publish", "goqueue_cli.publish:publish", "Publish messages to a topic.", "write"),
        Command("topic create", "goqueue_cli.topics:create", "Create topics.", "write"),
        Command("topic delete", "goqueue_cli.topics:delete", "Delete topics and all of their messages.", "danger"),
        Command("topic describe", "goqueue_cli.topics:describe", "Show all about topics.", "read"),
        Command("topic list", "goqueue_cli.topics:list_topics", "List the topics.", "read"),
    ),
    groups={"topic": _TOPIC},
    aliases={"produce": "publish"},
)
