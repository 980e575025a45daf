"""When a finding of the doctor becomes an alert, when it is resolved, and what has to be sent.

Pure: a caller passes findings and the time, sends what is due, and says what was delivered. An alert is one code and
one subject. What must stay true: an alert is sent once, and again only when it is worse or was sent long ago; a
resolution is sent only for what was sent; of a silenced alert only the resolution is sent.
"""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from goqueue.limits import ALERT_SILENCES_MAX
from goqueue.observe.finding import SEVERITIES, Finding, Severity

AlertStatus = Literal["pending", "firing", "resolved", "test"]


class AlertSettings(Struct, frozen=True):
    after_ns: int
    """How long a finding must last, and then be absent."""
    repeat_ns: int
    severity: Severity = "warning"
    """The lowest severity that is sent."""


class Alert(Struct, kw_only=True):
    """A finding that lasts."""

    code: str
    subject: str
    severity: Severity
    sentence: str
    hint: str
    since_ns: int
    found_ns: int
    """When it was last found."""
    sent_ns: int | None = None
    """When it was last delivered as firing."""
    sent_severity: Severity | None = None
    resolved_ns: int | None = None

    @property
    def key(self) -> str:
        """The same for as long as the problem lasts, and after a restart."""
        return f"{self.code}:{self.subject}"


class Silence(Struct, frozen=True, kw_only=True):
    """Until when nothing is sent about some alerts."""

    id: int
    code: str
    """A pattern with `*` and `?`, as is the subject."""
    subject: str
    until_ns: int
    created_ns: int
    created_by: str = ""
    reason: str = ""

    def covers(self, alert: Alert) -> bool:
        return fnmatchcase(alert.code, self.code) and fnmatchcase(alert.subject, self.subject)


class Notification(Struct, frozen=True):
    """A message to send about an alert."""

    status: AlertStatus
    alert: Alert


class AlertState(Struct):
    """The part of a book that survives a restart."""

    alerts: list[Alert] = []
    silences: list[Silence] = []
    next_silence: int = 1


class AlertBook:
    """The alerts and silences of a broker."""

    def __init__(self, settings: AlertSettings, state: AlertState | None = None) -> None:
        self._settings = settings
        state = state or AlertState()
        self._alerts = {alert.key: alert for alert in state.alerts}
        self._silences = {silence.id: silence for silence in state.silences}
        self._next_silence = state.next_silence

    @property
    def state(self) -> AlertState:
        """The state to keep: of alerts only those that were sent."""
        sent = [alert for alert in self._alerts.values() if alert.sent_ns is not None]
        return AlertState(sent, list(self._silences.values()), self._next_silence)

    # --- findings ---

    def update(self, findings: Iterable[Finding], now_ns: int) -> None:
        """Take the findings of one examination."""
        for finding in findings:
            if self._counts(finding):
                self._found(finding, now_ns)
        for key, alert in list(self._alerts.items()):
            if alert.found_ns != now_ns and alert.resolved_ns is None:
                self._missed(key, alert, now_ns)
        self._silences = {one.id: one for one in self._silences.values() if one.until_ns > now_ns}

    def _counts(self, finding: Finding) -> bool:
        """Leave out notes, and the line that only counts further findings."""
        is_severe = SEVERITIES.index(finding.severity) <= SEVERITIES.index(self._settings.severity)
        return is_severe and "more" not in finding.details

    def _found(self, finding: Finding, now_ns: int) -> None:
        alert = self._alerts.get(f"{finding.code}:{finding.subject}")
        if alert is None:
            alert = Alert(
                code=finding.code, subject=finding.subject, severity=finding.severity, sentence="", hint="",
                since_ns=now_ns, found_ns=now_ns,
            )  # fmt: skip
            self._alerts[alert.key] = alert
        alert.severity, alert.sentence, alert.hint = finding.severity, finding.sentence, finding.hint
        alert.found_ns, alert.resolved_ns = now_ns, None
        alert.since_ns = min(alert.since_ns, now_ns)

    def _missed(self, key: str, alert: Alert, now_ns: int) -> None:
        """Forget what was not sent; resolve what has been absent for long enough."""
        if alert.sent_ns is None:
            del self._alerts[key]
        elif not 0 <= now_ns - alert.found_ns < self._settings.after_ns:
            alert.resolved_ns = now_ns

    def status(self, alert: Alert) -> AlertStatus:
        if alert.resolved_ns is not None:
            return "resolved"
        is_old = alert.found_ns - alert.since_ns >= self._settings.after_ns
        return "firing" if is_old or alert.sent_ns is not None else "pending"

    def alerts(self) -> list[Alert]:
        """Return all alerts, the worst and oldest first."""
        return sorted(self._alerts.values(), key=lambda one: (SEVERITIES.index(one.severity), one.since_ns, one.key))

    # --- messages ---

    def due(self, now_ns: int) -> list[Notification]:
        """Return what has to be sent now."""
        return [Notification(status, alert) for alert in self.alerts() if (status := self._due(alert, now_ns))]

    def _due(self, alert: Alert, now_ns: int) -> AlertStatus | None:
        status = self.status(alert)
        if status == "resolved":
            return status
        if status == "pending" or self.silence_of(alert, now_ns) is not None:
            return None
        if alert.sent_ns is None or alert.sent_severity is None:
            return status
        is_worse = SEVERITIES.index(alert.severity) < SEVERITIES.index(alert.sent_severity)
        return status if is_worse or now_ns - alert.sent_ns >= self._settings.repeat_ns else None

    def delivered(self, notifications: Sequence[Notification], now_ns: int) -> None:
        for one in notifications:
            alert = self._alerts.get(one.alert.key)
            if alert is None:
                continue
            if one.status == "firing":
                alert.sent_ns, alert.sent_severity = now_ns, one.alert.severity
            elif alert.resolved_ns is not None:
                del self._alerts[alert.key]
            else:  # it came back while its resolution was on its way
                alert.sent_ns = alert.sent_severity = None

    # --- silences ---

    def silences(self) -> list[Silence]:
        return sorted(self._silences.values(), key=lambda one: one.until_ns)

    def silence_of(self, alert: Alert, now_ns: int) -> Silence | None:
        return next((one for one in self._silences.values() if one.until_ns > now_ns and one.covers(alert)), None)

    @property
    def has_room(self) -> bool:
        return len(self._silences) < ALERT_SILENCES_MAX

    def add_silence(
        self, code: str, subject: str, *, until_ns: int, now_ns: int, created_by: str = "", reason: str = ""
    ) -> Silence:
        silence = Silence(
            id=self._next_silence, code=code, subject=subject, until_ns=until_ns, created_ns=now_ns,
            created_by=created_by, reason=reason,
        )  # fmt: skip
        self._next_silence += 1
        self._silences[silence.id] = silence
        return silence

    def remove_silence(self, number: int) -> Silence | None:
        return self._silences.pop(number, None)

    def restore_silence(self, silence: Silence) -> None:
        """Undo a removal that could not be stored."""
        self._silences[silence.id] = silence


def firing_counts(book: AlertBook) -> dict[Severity, int]:
    """Return the number of firing alerts of each severity that can be sent."""
    firing = [alert.severity for alert in book.alerts() if book.status(alert) == "firing"]
    return {severity: firing.count(severity) for severity in _sendable()}


def _sendable() -> Iterator[Severity]:
    yield from SEVERITIES[: SEVERITIES.index("note")]
