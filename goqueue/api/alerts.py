"""Alerts that the broker sends itself: list and test them, silence some."""

import re
from typing import Annotated

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Duration
from goqueue.api.problems import invalid
from goqueue.errors import SilenceNotFound
from goqueue.limits import ALERT_SILENCE_SECONDS_MAX
from goqueue.nearest import nearest
from goqueue.observe.alert_messages import WebhookFormat
from goqueue.observe.alerts import Alert, AlertStatus, Silence
from goqueue.observe.doctor import CHECKS
from goqueue.observe.finding import Severity
from goqueue.quantities import format_time, quoted

_CODES = {rule.code for check in CHECKS for rule in check.rules}
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_Pattern = Annotated[str, Meta(min_length=1, max_length=300)]


class SilenceTime(Duration, least=1.0, most=ALERT_SILENCE_SECONDS_MAX):
    noun = "a time of silence"


class SilenceRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    code: Annotated[_Pattern, Meta(description="A code of the doctor, or a pattern with * and ?.")]
    subject: Annotated[_Pattern, Meta(description="A subject, or a pattern with * and ?.")] = "*"
    duration: SilenceTime
    reason: Annotated[str, Meta(max_length=300)] = ""


class AlertJson(Struct, kw_only=True):
    status: Annotated[
        AlertStatus, Meta(description="pending: does not last long enough yet; resolved: its end is not sent yet.")
    ]
    code: str
    subject: str
    severity: Severity
    sentence: str
    hint: str
    since: str
    sent_at: Annotated[str | None, Meta(description="When it was last sent.")]
    resolved_at: str | None
    silenced_until: str | None


class SilenceJson(Struct, kw_only=True):
    id: int
    code: str
    subject: str
    until: str
    created_at: str
    created_by: Annotated[str, Meta(description="The principal; empty without authentication.")]
    reason: str


class DeliveryJson(Struct, kw_only=True):
    last_at: Annotated[str | None, Meta(description="When the webhook last accepted something.")]
    failures: Annotated[int, Meta(description="Failed attempts since then.")]
    problem: Annotated[str | None, Meta(description="Why the last attempt failed.")]


class AlertListResponse(Struct, kw_only=True):
    enabled: Annotated[bool, Meta(description="False without a webhook: nothing is looked for and sent.")]
    format: WebhookFormat | None
    alerts: Annotated[list[AlertJson], Meta(description="Worst first.")]
    silences: list[SilenceJson]
    delivery: DeliveryJson


class AlertTestResponse(Struct):
    delivered: bool
    problem: str | None


class EndSilenceResponse(Struct):
    ended: bool
    id: int


async def list_alerts(call: ApiCall) -> AlertListResponse:
    runner = call.app.alerts
    delivery = runner.delivery
    return AlertListResponse(
        enabled=runner.webhook is not None,
        format=None if runner.webhook is None else runner.webhook.kind,
        alerts=[_alert(call, one) for one in runner.book.alerts()],
        silences=[_silence(one) for one in runner.book.silences() if one.until_ns > call.runtime.clock.now_ns()],
        delivery=DeliveryJson(
            last_at=_time(delivery.delivered_ns), failures=delivery.failures, problem=delivery.problem
        ),
    )


async def test(call: ApiCall) -> AlertTestResponse:
    """Send a test message. A failure is an answer, not an error: the request did what was asked."""
    problem = await call.app.alerts.test(call.access.name)
    return AlertTestResponse(problem is None, problem)


async def silence(call: ApiCall, body: SilenceRequest) -> SilenceJson:
    if not set(body.code) & set("*?[") and body.code not in _CODES:
        guess = nearest(body.code, _CODES)
        hint = f"did you mean {guess}?" if guess else "GET /doctor shows codes; docs/doctor.md lists all"
        raise invalid("code", f"is {quoted(body.code)}, which no finding has", hint)
    made = await call.app.alerts.silence(body.code, body.subject, float(body.duration), call.access.name, body.reason)
    return _silence(made)


async def end_silence(call: ApiCall) -> EndSilenceResponse:
    text = call.parameters["silence"]
    if not _NUMBER.fullmatch(text):
        raise SilenceNotFound(f"{quoted(text[:100])} is not the id of a silence", hint="GET /admin/alerts lists them")
    gone = await call.app.alerts.end_silence(int(text))
    return EndSilenceResponse(True, gone.id)


def _alert(call: ApiCall, one: Alert) -> AlertJson:
    book = call.app.alerts.book
    silenced = book.silence_of(one, call.runtime.clock.now_ns())
    return AlertJson(
        status=book.status(one),
        code=one.code,
        subject=one.subject,
        severity=one.severity,
        sentence=one.sentence,
        hint=one.hint,
        since=format_time(one.since_ns),
        sent_at=_time(one.sent_ns),
        resolved_at=_time(one.resolved_ns),
        silenced_until=None if silenced is None else format_time(silenced.until_ns),
    )


def _silence(one: Silence) -> SilenceJson:
    return SilenceJson(
        id=one.id,
        code=one.code,
        subject=one.subject,
        until=format_time(one.until_ns),
        created_at=format_time(one.created_ns),
        created_by=one.created_by,
        reason=one.reason,
    )


def _time(time_ns: int | None) -> str | None:
    return None if time_ns is None else format_time(time_ns)
