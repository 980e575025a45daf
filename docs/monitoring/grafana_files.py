"""Dashboards and provisioning for Grafana."""

import json
import re
from itertools import count
from typing import Any

import yaml

from docs.monitoring.dashboards import DASHBOARDS
from docs.monitoring.panel import Dashboard, Panel

CHOSEN = 'job=~"$job", instance=~"$instance"'
RATE = "$__rate_interval"
_COLUMNS, _HEIGHT, _STAT_HEIGHT = 24, 8, 4
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_NOTE = "# Made by `make docs` from docs/monitoring/.\n"


def files() -> dict[str, str]:
    """Return the content of each file by its path below configs/grafana/."""
    boards = {f"dashboards/goqueue-{one.name}.json": _board(one) for one in DASHBOARDS}
    source = {"name": "Prometheus", "type": "prometheus", "access": "proxy", "url": "http://127.0.0.1:9090"}
    provider = {
        "name": "goqueue",
        "folder": "GoQueue",
        "type": "file",
        "options": {"path": "/etc/grafana/dashboards/goqueue"},
    }
    return {
        **{name: json.dumps(board, indent=1, ensure_ascii=False) + "\n" for name, board in boards.items()},
        "provisioning/datasources/goqueue.yaml": _yaml({"apiVersion": 1, "datasources": [source]}),
        "provisioning/dashboards/goqueue.yaml": _yaml({"apiVersion": 1, "providers": [provider]}),
    }


def _yaml(content: object) -> str:
    return _NOTE + yaml.safe_dump(content, sort_keys=False)


def _board(board: Dashboard) -> dict[str, Any]:
    return {
        "uid": f"goqueue-{board.name}",
        "title": f"GoQueue: {board.title}",
        "tags": ["goqueue"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [
            {"type": "dashboards", "tags": ["goqueue"], "title": "GoQueue", "asDropdown": True, "keepTime": True}
        ],
        "templating": {"list": _variables(board)},
        "panels": _panels(board),
    }


def _variables(board: Dashboard) -> list[dict[str, Any]]:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    labels = [
        ("job", "label_values(goqueue_build_info, job)"),
        ("instance", 'label_values(goqueue_build_info{job=~"$job"}, instance)'),
        *((name, f"label_values({metric}{{{CHOSEN}}}, {name})") for name, metric in board.variables),
    ]
    return [source, *(_choice(name, query) for name, query in labels)]


def _choice(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "label": name.capitalize(),
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels(board: Dashboard) -> list[dict[str, Any]]:
    """Place the panels in lines from left to right, each row under its title."""
    placed: list[dict[str, Any]] = []
    numbers, y = count(1), 0
    for row in board.rows:
        title = {"id": next(numbers), "type": "row", "title": row.title, "collapsed": False, "panels": []}
        placed.append(title | {"gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1}})
        y, x, height = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > _COLUMNS:
                x, y = 0, y + height
            height = _STAT_HEIGHT if panel.kind == "stat" else _HEIGHT
            where = {"x": x, "y": y, "w": panel.width, "h": height}
            placed.append({"id": next(numbers), "gridPos": where, **_panel(panel)})
            x += panel.width
        y += height
    return placed


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [_target(panel, number, legend, expr) for number, (legend, expr) in enumerate(panel.queries.items())]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": None if panel.kind == "stat" else 0}, "overrides": []},
        "options": _options(panel),
        "targets": targets,
    }


def _target(panel: Panel, number: int, legend: str, expr: str) -> dict[str, Any]:
    target = {
        "refId": chr(ord("A") + number),
        "datasource": _SOURCE,
        "expr": expression(expr),
        "legendFormat": legend or panel.title,
        "exemplar": panel.has_exemplars,
    }
    if panel.kind == "heatmap":
        target["format"] = "heatmap"
    return target


def expression(expr: str) -> str:
    """Return an expression as Grafana gets it."""
    return re.sub(r"@", CHOSEN, expr).replace("$rate", RATE)


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        text = "name" if "{{" in "".join(panel.queries) else "value"
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": text, "graphMode": "area"}
    if panel.kind == "heatmap":
        return {"calculate": False, "yAxis": {"unit": panel.unit}, "exemplars": {"color": "rgba(255,0,255,0.7)"}}
    return {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
