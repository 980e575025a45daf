"""Usage errors of Typer in the style of this program; imported only after a mistake."""

import re
from collections.abc import Callable
from typing import Any

from typer.exceptions import TyperException

from goqueue.nearest import nearest


def describe_usage_error(error: TyperException) -> tuple[str, str | None]:
    """Return a sentence with the wrong value, and a hint."""
    found: Any = error
    context = getattr(found, "ctx", None)
    hint: str | None = getattr(found, "hint", None)
    for kind, tell in _TOLD.items():
        if type(found).__name__ == kind:
            return tell(found, context)
    if extra := re.fullmatch(r"Got unexpected extra argument\(s\) \((.*)\)", error.message):
        return _extra(extra[1], context)
    return (_plain(error.format_message()) if context is not None else error.message), hint or _usage(context)


def _extra(words: str, context: Any) -> tuple[str, str | None]:
    """Describe an argument too many; the hint guesses that a file is the configuration."""
    first = words.split(" ", maxsplit=1)[0]
    hint = f"did you mean `--config {first}`?" if "--config" in _options(context) else _usage(context)
    known = any(param.param_type_name == "argument" for param in context.command.params)
    return f"{context.command_path} takes no {'further ' if known else ''}argument, and was given {words}", hint


def _no_option(found: Any, context: Any) -> tuple[str, str | None]:
    """Suggest the nearest flag; for --server-port that is --port, since the given one ends with it."""
    given, names = found.option_name, {flag.removeprefix("--"): flag for flag in _options(context)}
    tails = [flag for flag in names.values() if given.endswith(flag.removeprefix("-"))]
    name = nearest(given.removeprefix("--"), names, cutoff=0.7) if given.startswith("--") else None
    near = tails[0] if tails else names.get(name or "")
    return f"no such option: {given}", f"did you mean {near}?" if near else _usage(context)


def _bad_option(found: Any, context: Any) -> tuple[str, str | None]:
    if "requires an argument" in found.message:
        return f"{found.option_name} needs a value", _usage(context)
    return _plain(found.message), _usage(context)


def _missing(found: Any, context: Any) -> tuple[str, str | None]:
    return _plain(found.format_message()).rstrip(". "), _usage(context)


def _bad_value(found: Any, context: Any) -> tuple[str, str | None]:
    """Describe a value of the wrong type or out of bounds."""
    name = _name(found.param, context)
    text = found.message.removesuffix(".")
    if other := re.fullmatch(r"(.*) is not a valid int(?:eger)?(?: range)?", text):
        return f"{name}: {other[1]} is not a whole number", _usage(context)
    if other := re.fullmatch(r"(.*) is not in the range .*", text):
        return f"{name} is {other[1]}, and must be {_bounds(found.param.type)}", _usage(context)
    if other := re.fullmatch(r"(.*) is not one of (.*)", text):
        choices = other[2].replace("'", "").rstrip(".").split(", ")
        near = nearest(other[1].strip("'"), choices)
        hint = f"did you mean {near}?" if near else f"write one of {', '.join(choices)}"
        return f"{name}: there is no {other[1]}", hint
    return f"{name}: {text}", _usage(context)


_TOLD: dict[str, Callable[[Any, Any], tuple[str, str | None]]] = {
    "NoSuchOption": _no_option,
    "BadOptionUsage": _bad_option,
    "MissingParameter": _missing,
    "BadParameter": _bad_value,
}


def _bounds(kind: Any) -> str:
    if kind.max is None:
        return f"at least {kind.min}"
    return f"at most {kind.max}" if kind.min is None else f"{kind.min} to {kind.max}"


def _name(param: Any, context: Any) -> str:
    """Return the long name of a flag, or an argument as the usage shows it."""
    flags = [flag for flag in param.opts if flag.startswith("--")]
    return flags[0] if flags else str(param.make_metavar(ctx=context))


def _options(context: Any) -> list[str]:
    """Return the long flags of a command."""
    return [flag for param in context.command.params for flag in param.opts if flag.startswith("--")] if context else []


def _plain(text: str) -> str:
    return text[:1].lower() + text[1:].removesuffix(".")


def _usage(context: Any) -> str | None:
    return f"`{context.command_path} --help` shows how it is used" if context is not None else None
