"""A message as something to read: its facts, its headers, its value."""

from typing import TYPE_CHECKING

from textual.content import Content

from goqueue_admin.dashboard.views import message as views

if TYPE_CHECKING:
    from goqueue.client import Message

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
    facts = views.facts(message)
    wide = max(len(name) for name, _ in facts)
    lines = [Content.assemble((f"{name:<{wide}}  ", STYLES["muted"]), text) for name, text in facts]
    lines += [Content(""), Content.styled(value.kind, STYLES["muted"])]
    lines += [Content.assemble(*((span.text, STYLES[span.tone]) for span in line)) for line in value.lines]
    if value.is_cut:
        lines.append(Content.styled("… there is more; goqueue-cli consume shows all of it", STYLES["warn"]))
    return Content("\n").join(lines), value.plain
