"""Rules for Prometheus, their tests for promtool, and the table of alerts in docs/monitoring.md."""

import re
from typing import Any

import yaml

from docs.monitoring import broker_alerts, cluster_alerts, delivery_alerts, tenant_alerts
from docs.monitoring.alert import Alert

GROUPS = {
    "goqueue-process": broker_alerts.PROCESS,
    "goqueue-storage": broker_alerts.STORAGE,
    "goqueue-groups": delivery_alerts.GROUPS,
    "goqueue-delivery": delivery_alerts.DELIVERY,
    "goqueue-cluster": cluster_alerts.CLUSTER,
    "goqueue-tenants": tenant_alerts.TENANTS,
    "goqueue-service-level": delivery_alerts.SERVICE_LEVEL,
}
ALERTS: tuple[Alert, ...] = tuple(alert for group in GROUPS.values() for alert in group)
_RECORDINGS = "goqueue-ratios"
_INSTANCE = "queue:8080"
_NOTE = "# Made by `make docs` from docs/monitoring/. docs/monitoring.md describes the alerts.\n"
_WIDTH = 1000  # lines of YAML are not wrapped


def rules() -> str:
    recorded = [{"record": name, "expr": expr} for name, expr in delivery_alerts.recordings().items()]
    alerting = [{"name": name, "rules": [_rule(one) for one in group]} for name, group in GROUPS.items()]
    return _yaml({"groups": [{"name": _RECORDINGS, "rules": recorded}, *alerting]})


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.hold,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook_url": runbook(alert)},
    }


def runbook(alert: Alert) -> str:
    """Return where it stands what to do, as a path in this project."""
    return "docs/monitoring.md#alerts" if alert.finding is None else f"docs/doctor.md#{alert.finding}"


def rule_tests() -> str:
    """Return a test of each alert: it fires, and it is quiet."""
    cases = [_case(alert, fires=fires) for alert in ALERTS for fires in (True, False)]
    return _yaml({"rule_files": ["../rules/goqueue.yml"], "evaluation_interval": "1m", "tests": cases})


def _case(alert: Alert, *, fires: bool) -> dict[str, Any]:
    series = alert.fires if fires else alert.quiet
    where = {"instance": _INSTANCE, "job": "goqueue"}
    text = ", ".join(f'{name}="{value}"' for name, value in where.items())
    expected = {
        "exp_labels": {"severity": alert.severity, **where, **alert.labels},
        "exp_annotations": {"summary": alert.says, "runbook_url": runbook(alert)},
    }
    return {
        "name": f"{alert.name} {'fires' if fires else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": name.replace("@", text), "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": alert.at, "alertname": alert.name, "exp_alerts": [expected] if fires else []}
        ],
    }


def _yaml(content: object) -> str:
    return _NOTE + yaml.safe_dump(content, sort_keys=False, width=_WIDTH)


# --- the page ---

_BLOCK = re.compile(r"(?<=<!-- alerts -->\n).*?(?=<!-- /alerts -->)", re.DOTALL)


def renewed_page(page: str) -> str:
    """Return docs/monitoring.md with the current table of alerts."""
    rows = [
        "| Alert | Severity | When | For | What to do |",
        "| --- | --- | --- | --- | --- |",
        *(f"| `{one.name}` | {one.severity} | {one.when} | {one.hold} | {_finding(one)} |" for one in ALERTS),
    ]
    return _BLOCK.sub(lambda _: "\n".join(["", *rows, "", ""]), page)


def _finding(alert: Alert) -> str:
    if alert.finding is None:
        return alert.advice
    return f"[`{alert.finding}`](doctor.md#{alert.finding})"
