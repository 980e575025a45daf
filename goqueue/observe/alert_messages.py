"""Alerts as the bodies of webhook requests: as JSON, and as Slack and PagerDuty expect them. Pure."""

from collections.abc import Sequence
from typing import Any, Literal

from goqueue.observe.alerts import Alert, Notification
from goqueue.quantities import format_count, format_time

WebhookFormat = Literal["json", "slack", "pagerduty"]

_VERSION = 1
_SLACK_LINES_MAX = 20
_SUMMARY_CHARACTERS_MAX = 1024  # PagerDuty's limit
_KEY_CHARACTERS_MAX = 255  # of PagerDuty's dedup_key
_MARKS = {"critical": ":red_circle:", "warning": ":large_orange_circle:"}


def test_notification(now_ns: int, sent_by: str) -> Notification:
    alert = Alert(
        code="test", subject="the webhook", severity="warning", sentence="this is a test: alerts of this broker arrive",
        hint=f"asked for by {sent_by}" if sent_by else "nothing is to be done", since_ns=now_ns, found_ns=now_ns,
    )  # fmt: skip
    return Notification("test", alert)


def webhook_bodies(
    kind: WebhookFormat, notifications: Sequence[Notification], source: str, secret: str
) -> list[dict[str, Any]]:
    """Return the bodies of the requests that tell of these alerts. `source` names the broker."""
    if kind == "pagerduty":
        return [_pagerduty(one, source, secret) for one in notifications]
    if kind == "slack":
        return [_slack(notifications, source)]
    return [{"version": _VERSION, "broker": source, "alerts": [_json(one) for one in notifications]}]


def _json(one: Notification) -> dict[str, Any]:
    alert = one.alert
    return {
        "status": one.status,
        "key": alert.key,
        "code": alert.code,
        "subject": alert.subject,
        "severity": alert.severity,
        "sentence": alert.sentence,
        "hint": alert.hint,
        "since": format_time(alert.since_ns),
        "resolved_at": None if alert.resolved_ns is None else format_time(alert.resolved_ns),
    }


def _slack(notifications: Sequence[Notification], source: str) -> dict[str, Any]:
    lines = [_slack_line(one, source) for one in notifications[:_SLACK_LINES_MAX]]
    more = len(notifications) - len(lines)
    return {"text": "\n".join([*lines, *([f"and {format_count(more)} more"] if more else [])])}


def _slack_line(one: Notification, source: str) -> str:
    alert = one.alert
    where = f"*{_escaped(source)}* {_escaped(alert.subject)}"
    if one.status == "resolved":
        return f":large_green_circle: {where}: resolved: {_escaped(alert.sentence)} (`{alert.code}`)"
    mark = _MARKS.get(alert.severity, "")
    return f"{mark} {where}: {_escaped(alert.sentence)} (`{alert.code}`)\n> {_escaped(alert.hint)}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _pagerduty(one: Notification, source: str, routing_key: str) -> dict[str, Any]:
    alert = one.alert
    body: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if one.status == "resolved" else "trigger",
        "dedup_key": f"{source}:{alert.key}"[:_KEY_CHARACTERS_MAX],
    }
    if one.status != "resolved":
        body["payload"] = {
            "summary": f"{source}: {alert.subject}: {alert.sentence}"[:_SUMMARY_CHARACTERS_MAX],
            "source": source,
            "severity": alert.severity,
            "component": alert.subject,
            "class": alert.code,
            "custom_details": {"hint": alert.hint, "since": format_time(alert.since_ns)},
        }
    return body
