"""The client's methods for alerts that the broker sends itself."""

from typing import Any

import msgspec

from goqueue.client.address import quote
from goqueue.client.api_request import ApiRequest, json_request, operation


class AlertInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An alert: a finding of the doctor that lasts."""

    status: str
    """pending, firing or resolved."""
    code: str
    subject: str
    severity: str
    sentence: str
    hint: str = ""
    since: str = ""
    sent_at: str | None = None
    resolved_at: str | None = None
    silenced_until: str | None = None


class SilenceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Until when nothing is sent about some alerts. `code` and `subject` may be patterns."""

    id: int
    code: str
    subject: str
    until: str
    created_at: str = ""
    created_by: str = ""
    reason: str = ""


class AlertDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries to the webhook."""

    last_at: str | None = None
    failures: int = 0
    problem: str | None = None


class AlertOverview(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts, silences and deliveries of a broker."""

    enabled: bool
    """False without a webhook: nothing is looked for and sent."""
    format: str | None = None
    alerts: list[AlertInfo] = []
    silences: list[SilenceInfo] = []
    delivery: AlertDelivery = AlertDelivery()


class AlertTest(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test message."""

    delivered: bool
    problem: str | None = None


_TEST_SECONDS = 30.0
_UNSURE = "it may have been made: list the alerts before you send it again"


class AlertAdmin:
    """Alerts and silences."""

    @operation
    def alerts(self) -> ApiRequest[AlertOverview]:
        """Return the alerts that the broker sends itself, silences, and how deliveries went."""
        return json_request("GET", "/admin/alerts", AlertOverview)

    @operation
    def test_alerts(self) -> ApiRequest[AlertTest]:
        """Send a test message to the webhook, and return whether it was accepted."""
        return json_request("POST", "/admin/alerts/test", AlertTest, patience=_TEST_SECONDS, idempotent=False)

    @operation
    def silence_alerts(
        self, code: str, duration: str | float, subject: str = "*", reason: str = ""
    ) -> ApiRequest[SilenceInfo]:
        """Send nothing about alerts of this code and subject for a time such as "2h". Both may have `*` and `?`."""
        body = {"code": code, "subject": subject, "duration": duration, "reason": reason}
        return json_request("POST", "/admin/alerts/silences", SilenceInfo, body, idempotent=False, unsure_hint=_UNSURE)

    @operation
    def end_silence(self, silence: int | str) -> ApiRequest[dict[str, Any]]:
        """End a silence by its id."""
        return json_request("DELETE", f"/admin/alerts/silences/{quote(str(silence))}", dict[str, Any], idempotent=False)
