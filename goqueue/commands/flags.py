"""Settings as flags: a command that takes `flags` gets one for each row of the table of settings."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from goqueue.config import SETTINGS


def setting_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `flags` by `--data-dir`, `--storage-flush` and so on, as Typer reads a signature."""
    names = {setting.key.replace(".", "_"): setting for setting in SETTINGS}
    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "flags"]
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

    @wraps(command)
    def with_flags(**given: Any) -> None:
        flags = {setting.key: given.pop(name) for name, setting in names.items()}
        command(**given, flags=flags)

    with_flags.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    return with_flags
