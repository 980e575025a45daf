"""A message as something to read: its facts, its headers, its value."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from goqueue.console.terminal import visible
from goqueue_admin.dashboard.views import message as views

if TYPE_CHECKING:
    from goqueue.client import Message

Fact = tuple[str, str, str]
"""A name, a text, and a tone."""
STYLES = {
    "": "",
    "muted": "$foreground 62%",
    "title": "$primary",
    "good": "$success",
    "accent": "$accent",
    "second": "$secondary",
    "warn": "$warning",
    "bad": "$error",
}


def of_message(message: "Message", *, is_narrow: bool = False) -> tuple[Content, str]:
    """What is shown, and the value as it is copied."""
    value = views.value(message.value, 8 if is_narrow else 16)
    return written([(*fact, "") for fact in views.facts(message)], value, "goqueue-cli consume"), value.plain


def written(found: Sequence[Fact], value: views.Value, command: str) -> Content:
    """A value below what is known besides it; `command` shows what is left out."""
    lines = [*facts(found), Content(""), Content.styled(value.kind, STYLES["muted"])]
    lines += [Content.assemble(*((span.text, STYLES[span.tone]) for span in line)) for line in value.lines]
    if value.is_cut:
        lines.append(Content.styled(f"… there is more; {command} shows all of it", STYLES["warn"]))
    return Content("\n").join(lines)


def facts(found: Sequence[Fact]) -> list[Content]:
    """A line for each."""
    wide = max((len(name) for name, _, _ in found), default=0)
    return [
        Content.assemble((f"{visible(name):<{wide}}  ", STYLES["muted"]), (visible(text), STYLES[tone]))
        for name, text, tone in found
    ]
