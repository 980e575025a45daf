"""`goqueue config`: check a configuration file, show the settings in effect, write a new file."""

import json
import os
from typing import Annotated, Any, Literal

import typer

from goqueue.commands import settings_reference
from goqueue.commands.setting_flags import setting_flags
from goqueue.config import SETTINGS, Config, Problem, load
from goqueue.console import exit_codes, terminal
from goqueue.errors import ConfigInvalid
from goqueue.quantities import format_count

_Output = typer.Option("--output", "-o", help="Output format.")


def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The YAML file.")],
    output: Annotated[Literal["table", "json"], _Output] = "table",
) -> None:
    """Find every problem in a configuration file.

    \b
      goqueue config check goqueue.yaml
      goqueue config check goqueue.yaml -o json

    Environment variables apply as for the broker. Without problems the command prints the settings in effect; with
    problems it prints one line for each, and the exit code is 2.
    """
    try:
        config = load(file, os.environ)
    except ConfigInvalid as error:
        _print_problems(error.details["problems"], output)
        raise typer.Exit(exit_codes.USAGE) from error
    if output == "json":
        _print_json({"valid": True, "problems": [], "settings": _rows(config)})
    else:
        _print_table(config)
        terminal.say(f"{file} is valid")


@setting_flags
def show(
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="The YAML file.")] = None,
    output: Annotated[Literal["table", "json", "yaml"], _Output] = "table",
    *,
    flags: dict[str, str | None],
) -> None:
    """Show the settings in effect and their origin.

    \b
      goqueue config show
      goqueue config show goqueue.yaml --storage-flush interval
      goqueue config show goqueue.yaml -o yaml

    A flag takes precedence over the environment, the environment over the file, the file over the default.
    """
    config = load(file, os.environ, flags)
    if output == "json":
        _print_json(_rows(config))
    elif output == "yaml":
        terminal.write(settings_reference.settings_yaml(config))
    else:
        _print_table(config)


def template(
    purpose: Annotated[
        Literal["default", "dev", "production"],
        typer.Option("--for", help="Kind of use, which decides the values."),
    ] = "default",
) -> None:
    """Write a complete configuration file.

    \b
      goqueue config template > goqueue.yaml
      goqueue config template --for production > goqueue.yaml

    It has every setting with its description, bounds and variable.
    """
    terminal.write(settings_reference.template(purpose))


def _print_problems(problems: tuple[Problem, ...], output: str) -> None:
    if output == "json":
        _print_json({"valid": False, "problems": [problem.as_json() for problem in problems], "settings": []})
    else:
        terminal.write_lines(map(str, problems))
        terminal.say(f"found {format_count(len(problems), 'problem')}")


def _print_table(config: Config) -> None:
    rows = [(setting.key, setting.format(config.value(setting)), str(config.origin(setting))) for setting in SETTINGS]
    terminal.write_table(("SETTING", "VALUE", "ORIGIN"), rows)


def _rows(config: Config) -> list[dict[str, Any]]:
    return [
        {
            "key": setting.key,
            "value": config.value(setting),
            "text": setting.format(config.value(setting)),
            "origin": config.origin(setting).as_json(),
        }
        for setting in SETTINGS
    ]


def _print_json(value: Any) -> None:
    terminal.write(json.dumps(value, indent=2) + "\n")
