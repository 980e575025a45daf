"""The rows of `config`, for the registry of every program that speaks to a broker."""

from goqueue.console.command import Command

_COMMANDS = "goqueue.console.context_commands"

CONFIG = """Choose the broker, and keep how it is spoken to.

\b
  PROGRAM config create local --server http://127.0.0.1:8080
  PROGRAM config use local
  PROGRAM config view --show-origin
"""

CONFIG_COMMANDS = (
    Command("config create", f"{_COMMANDS}:create", "Create a context.", "write"),
    Command("config delete", f"{_COMMANDS}:delete", "Delete contexts, and the keys that they hold.", "danger"),
    Command("config describe", f"{_COMMANDS}:describe", "Show all about contexts.", "read"),
    Command("config edit", f"{_COMMANDS}:edit", "Change a context.", "write"),
    Command("config list", f"{_COMMANDS}:list_contexts", "List the contexts.", "read"),
    Command("config use", f"{_COMMANDS}:use", "Make a context the current one.", "write"),
    Command("config view", f"{_COMMANDS}:view", "Show what is in effect, and where it comes from.", "read"),
)
