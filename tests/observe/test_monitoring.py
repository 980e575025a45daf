"""Rules and dashboards: each expression parses and fits what a busy broker reports, and each alert is whole.

`busy_scrape.txt` is what `/metrics` of `goqueue demo --rate 300` said after a minute. promtool runs the tests of
`configs/prometheus/tests/`.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import yaml
from prometheus_client.parser import text_string_to_metric_families

from docs.monitoring.grafana_files import CHOSEN
from goqueue.observe.metrics import METRICS

ROOT = Path(__file__).resolve().parent.parent.parent
BOARDS = sorted((ROOT / "configs/grafana/dashboards").glob("*.json"))
WHERE = {"job": "goqueue", "instance": "demo"}
ANYTHING = {"$__rate_interval": "5m", CHOSEN: 'job="goqueue", instance="demo"', "$topic": ".*", "$group": ".*"}
Labels = dict[str, str]

MISSING_IN_DEMO: dict[str, Labels] = {
    "goqueue_backup_failures_total": {},
    "goqueue_backup_verified_timestamp_seconds": {},
    "goqueue_connections_refused_total": {"reason": "too_many"},
    "goqueue_trace_spans_dropped_total": {"target": "otlp"},
    "goqueue_trace_spans_failed_total": {"target": "otlp"},
    "goqueue_cluster_has_controller": {},
    "goqueue_cluster_offline_partitions": {},
    "goqueue_cluster_under_min_isr_partitions": {},
    "goqueue_cluster_under_replicated_partitions": {},
    "goqueue_cluster_unclean_elections_total": {},
    "goqueue_tenant_quota_percent": {"tenant": "team-a", "quota": "max_storage_bytes"},
    "goqueue_tenant_quota_violations_total": {"tenant": "team-a", "quota": "publish_rate_limit"},
    "goqueue_tls_certificate_expiry_timestamp_seconds": {},
    "goqueue_transaction_held_back_messages": {"topic": "invoices", "partition": "0"},
}
"""Series that appear when something goes wrong, or with tenants."""
FAILED = {"endpoint": "/topics/{topic}/messages", "method": "POST", "status": "503"}


@cache
def content(path: str) -> Any:
    """Return what a file of Prometheus says; to parse them takes long for a module that only few workers need."""
    return yaml.safe_load((ROOT / "configs/prometheus" / path).read_text())


@cache
def series() -> dict[str, list[Labels]]:
    """Return the labels of each sample by its name: the recorded ones, and those that Prometheus adds."""
    found: dict[str, list[Labels]] = {"up": [WHERE], "ALERTS": [WHERE | {"alertname": "x", "alertstate": "firing"}]}
    for family in text_string_to_metric_families((ROOT / "tests/observe/busy_scrape.txt").read_text()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(WHERE | sample.labels)
    found |= {rule["record"]: [WHERE] for rule in rules() if "record" in rule}
    found |= {name: [WHERE | labels] for name, labels in MISSING_IN_DEMO.items()}
    found["goqueue_http_requests_total"].append(WHERE | FAILED)
    return found


def rules() -> Iterator[dict[str, Any]]:
    for group in content("rules/goqueue.yml")["groups"]:
        yield from group["rules"]


def targets() -> Iterator[tuple[str, str, str]]:
    """Yield the panel, the expression and the legend of each query of the dashboards."""
    for path in BOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                expr = target["expr"]
                for name, value in ANYTHING.items():
                    expr = expr.replace(name, value)
                yield f"{path.name}: {panel['title']}", expr, target["legendFormat"]


def selected(selector: promql_parser.VectorSelector) -> list[Labels]:
    known = series().get(selector.name or "", [])
    return [labels for labels in known if all(matches(labels, one) for one in selector.matchers.matchers)]


def matches(labels: Labels, matcher: promql_parser.Matcher) -> bool:
    value, wanted, op = labels.get(matcher.name, ""), matcher.value, promql_parser.MatchOp
    if matcher.op in (op.Re, op.NotRe):
        return (re.fullmatch(wanted, value) is not None) is bool(matcher.op == op.Re)
    return (value == wanted) is bool(matcher.op == op.Equal)


def result_labels(where: str, expr: promql_parser.Expr) -> set[str]:
    """Return the labels that an expression's result has; fail for what no series has."""
    match expr:
        case promql_parser.VectorSelector():
            found = selected(expr)
            assert found, f"{where}: no series is selected by {expr.prettify()}"
            return {name for labels in found for name in labels}
        case promql_parser.MatrixSelector():
            return result_labels(where, expr.vector_selector)
        case promql_parser.AggregateExpr():
            known = result_labels(where, expr.expr)
            if str(expr.op) == "topk":
                return known
            kept = set(expr.modifier.labels) if expr.modifier is not None else set()
            assert kept <= known, f"{where}: {kept - known} are no labels of {expr.expr.prettify()}"
            return kept
        case promql_parser.BinaryExpr():
            sides = [result_labels(where, one) for one in (expr.lhs, expr.rhs)]
            on = expr.modifier.matching.labels if expr.modifier and expr.modifier.matching else ()
            assert all(set(on) <= side for side in sides), f"{where}: {on} are not labels of both sides"
            return sides[0] or sides[1]
        case promql_parser.Call():
            parts = [result_labels(where, one) for one in expr.args]
            labels = set().union(*parts)
            if expr.func.name == "histogram_quantile":
                assert "le" in labels, f"{where}: {expr.prettify()} is not of a histogram"
                labels -= {"le"}
            return labels
        case promql_parser.ParenExpr() | promql_parser.UnaryExpr():
            return result_labels(where, expr.expr)
        case _:
            return set()


def test_every_query_of_the_dashboards_fits_the_metrics() -> None:
    found = list(targets())
    assert len(found) > 70
    for where, expr, legend in found:
        labels = result_labels(where, promql_parser.parse(expr))
        assert set(re.findall(r"{{(\w+)}}", legend)) <= labels, f"{where}: {legend} needs more than {labels}"


def test_every_rule_fits_the_metrics() -> None:
    for rule in rules():
        name = str(rule.get("alert", rule.get("record")))
        labels = result_labels(name, promql_parser.parse(rule["expr"]))
        assert set(re.findall(r"\$labels\.(\w+)", str(rule.get("annotations")))) <= labels, name


def test_the_recorded_scrape_has_all_metrics_with_their_labels() -> None:
    """Otherwise record it anew: see above."""
    families = text_string_to_metric_families((ROOT / "tests/observe/busy_scrape.txt").read_text())
    found = {family.name.removesuffix("_info"): family for family in families if family.name.startswith("goqueue")}
    used = {name for _, expr, _ in targets() for name in re.findall(r"goqueue_\w+", expr)}
    used |= {name for rule in rules() for name in re.findall(r"goqueue_\w+", rule["expr"])}
    names = {re.sub(r"_(total|bucket|count|sum|info)$", "", name) for name in used}
    assert names <= METRICS.keys()
    absent = ("goqueue_tenant_", "goqueue_cluster_")  # the demo has no tenants, and runs alone
    for name in sorted(one for one in names if not one.startswith(absent)):
        for sample in found[name].samples:
            assert sample.labels.keys() - {"le"} == set(METRICS[name].labels), name


def test_every_alert_is_whole() -> None:
    cases: dict[str, list[bool]] = {}
    for case in content("tests/alerts.yml")["tests"]:
        for one in case["alert_rule_test"]:
            cases.setdefault(one["alertname"], []).append(bool(one["exp_alerts"]))
    alerts = [rule for rule in rules() if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    for rule in alerts:
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        notes = rule["annotations"]
        assert "$value" in notes["summary"] or rule["alert"] == "NodeDown"
        page, anchor = notes["runbook_url"].split("#")
        text = (ROOT / page).read_text()
        assert f'<a id="{anchor}"></a>' in text or f"# {anchor.capitalize()}\n" in text, rule["alert"]
        assert cases[rule["alert"]] == [True, False], f"{rule['alert']} needs a case that fires and one that does not"


def test_panels_do_not_overlap() -> None:
    for path in BOARDS:
        taken = set[tuple[int, int]]()
        for panel in json.loads(path.read_text())["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, f"{path.name}: {panel['title']}"
            assert max(x for x, _ in cells) < 24
            taken |= cells
