"""Settings as flags: a command with a parameter `flags` gets one for each setting."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from goqueue.config import SETTINGS
from goqueue.console.flags import with_parameters


def setting_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `flags` by `--data-dir`, `--storage-flush` and so on, as Typer reads a signature."""
    names = {setting.key.replace(".", "_"): setting for setting in SETTINGS}
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(setting.flag, metavar=setting.rule.kind.metavar, help=setting.summary),
            ],
        )
        for name, setting in names.items()
    ]

    def convert(given: dict[str, Any]) -> dict[str, Any]:
        flags = {setting.key: given.pop(name) for name, setting in names.items()}
        return {**given, "flags": flags}

    return with_parameters(command, added, convert, replaced="flags")
