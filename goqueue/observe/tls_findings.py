"""Findings about the certificate of the broker."""

from goqueue import limits
from goqueue.observe.facts import BrokerFacts
from goqueue.observe.finding import Finding, FindingStream, Severity, finding_rule
from goqueue.quantities import format_duration, format_time

_HOUR = 3600


@finding_rule("critical", "warning", "note")
def certificate_expiring(facts: BrokerFacts) -> FindingStream:
    tls = facts.tls
    if tls is None or tls.seconds_left >= limits.TLS_EXPIRY_NOTE_SECONDS:
        return
    left, at = tls.seconds_left, format_time(tls.expires_ns)
    yield Finding(
        tls.path,
        f"the TLS certificate expired at {at}: clients refuse the broker"
        if left <= 0
        else f"the TLS certificate expires in {about(left)}, at {at}; then clients refuse the broker",
        "write a new certificate and its key into the files: the broker takes them within seconds, or with "
        "`goqueue-admin tls reload`",
        {"seconds_left": round(left), "expires_at": at, "fingerprint": tls.fingerprint},
        severity=expiry_severity(left),
    )


def expiry_severity(seconds_left: float) -> Severity:
    if seconds_left < limits.TLS_EXPIRY_CRITICAL_SECONDS:
        return "critical"
    return "warning" if seconds_left < limits.TLS_EXPIRY_WARNING_SECONDS else "note"


def about(seconds: float) -> str:
    """Return a duration in whole hours, or below one exactly."""
    return format_duration(round(seconds / _HOUR) * _HOUR if seconds >= _HOUR else round(seconds))


@finding_rule("warning")
def certificate_not_loaded(facts: BrokerFacts) -> FindingStream:
    tls = facts.tls
    if tls is not None and tls.error is not None:
        yield Finding(
            tls.path,
            f"the files of TLS have changed and cannot be used, so the former certificate stays in use: {tls.error}",
            "correct the files: the broker tries again when they change, or with `goqueue-admin tls reload`",
            {"fingerprint": tls.fingerprint},
        )
