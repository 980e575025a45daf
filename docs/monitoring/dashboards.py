"""The dashboards of `configs/grafana/`, described by their panels.

In expressions `@` stands for the chosen brokers, and `$rate` for an interval that Grafana chooses.
"""

from docs.monitoring.panel import Dashboard, Panel, Row, quantiles, rate, top

_SECONDS = "s"
_FREE = "goqueue_disk_free_bytes{@} / goqueue_disk_size_bytes{@}"

OVERVIEW = Dashboard(
    "overview",
    "Overview",
    (
        Row(
            "Now",
            (
                Panel("Brokers up", {"": "sum(up{@})"}, kind="stat", width=3),
                Panel("Published", {"": rate("goqueue_messages_published_total")}, "mps", "stat", width=3),
                Panel("Read", {"": rate("goqueue_messages_read_total")}, "mps", "stat", width=3),
                Panel("Lag of all groups", {"": "sum(goqueue_group_lag_messages{@})"}, kind="stat", width=3),
                Panel("Disk free", {"": f"min({_FREE})"}, "percentunit", "stat", width=3),
                Panel(
                    "Logs that accept nothing",
                    {"": "sum(goqueue_logs_fenced{@}) + sum(goqueue_logs_refused{@})"},
                    kind="stat",
                    width=3,
                ),
                Panel("Uptime", {"": "time() - max(process_start_time_seconds{@})"}, _SECONDS, "stat", width=3),
                Panel("Version", {"{{version}}": "goqueue_build_info{@}"}, kind="stat", width=3),
            ),
        ),
        Row(
            "Traffic",
            (
                Panel(
                    "Messages",
                    {
                        "published": rate("goqueue_messages_published_total"),
                        "read": rate("goqueue_messages_read_total"),
                    },
                    "mps",
                ),
                Panel(
                    "Bytes",
                    {"published": rate("goqueue_bytes_published_total"), "read": rate("goqueue_bytes_read_total")},
                    "Bps",
                ),
                Panel("Requests", {"{{status}}": rate("goqueue_http_requests_total", "status")}, "reqps"),
            ),
        ),
        Row(
            "Latency",
            (
                Panel("Publish, until durable", quantiles("goqueue_publish_seconds"), _SECONDS, has_exemplars=True),
                Panel("Read, without waiting", quantiles("goqueue_fetch_seconds"), _SECONDS),
                Panel(
                    "Event loop", quantiles("goqueue_loop_delay_seconds"), _SECONDS, help="Time until it runs due work."
                ),
            ),
        ),
        Row(
            "Service level",
            (
                Panel(
                    "Failed requests",
                    {
                        "5 minutes": "goqueue:http_requests:error_ratio_5m{@}",
                        "1 hour": "goqueue:http_requests:error_ratio_1h{@}",
                    },
                    "percentunit",
                    help="From the recording rules in configs/prometheus. The objective is 0.1 %.",
                ),
                Panel(
                    "Publishes slower than 100 ms",
                    {"5 minutes": "goqueue:publishes:slow_ratio_5m{@}", "1 hour": "goqueue:publishes:slow_ratio_1h{@}"},
                    "percentunit",
                    help="From the recording rules in configs/prometheus. The objective is 0.1 %.",
                ),
                Panel("Alerts", {"{{alertname}}": 'count by (alertname) (ALERTS{@, alertstate="firing"})'}),
            ),
        ),
        Row(
            "Process",
            (
                Panel("CPU", {"{{instance}}": "rate(process_cpu_seconds_total{@}[$rate])"}, help="Cores."),
                Panel(
                    "Memory",
                    {
                        "process": "sum(process_resident_memory_bytes{@})",
                        "tail": "sum(goqueue_tail_bytes{@})",
                        "in flight": "sum(goqueue_in_flight_bytes{@})",
                    },
                    "bytes",
                ),
                Panel(
                    "Connections and files",
                    {
                        "connections": "sum(goqueue_connections_open{@})",
                        "files": "sum(process_open_fds{@})",
                        "accepted per second": rate("goqueue_connections_total"),
                    },
                ),
            ),
        ),
    ),
)

TOPICS = Dashboard(
    "topics",
    "Topics",
    (
        Row(
            "Traffic",
            tuple(
                Panel(title, {"{{topic}}": top(rate(metric, "topic", '@, topic=~"$topic"'))}, unit, width=12)
                for title, metric, unit in (
                    ("Published messages", "goqueue_messages_published_total", "mps"),
                    ("Read messages", "goqueue_messages_read_total", "mps"),
                    ("Published bytes", "goqueue_bytes_published_total", "Bps"),
                    ("Read bytes", "goqueue_bytes_read_total", "Bps"),
                )
            ),
        ),
        Row(
            "Contents",
            (
                Panel(
                    "Bytes on disk",
                    {"{{topic}}": top('sum by (topic) (goqueue_log_size_bytes{@, topic=~"$topic"})')},
                    "bytes",
                ),
                Panel(
                    "Growth of the last hour",
                    {"{{topic}}": top('sum by (topic) (delta(goqueue_log_size_bytes{@, topic=~"$topic"}[1h]))')},
                    "bytes",
                ),
                Panel(
                    "Lag of all groups",
                    {"{{topic}}": top('sum by (topic) (goqueue_group_lag_messages{@, topic=~"$topic"})')},
                ),
            ),
        ),
    ),
    (("topic", "goqueue_log_size_bytes"),),
)

_GROUP = '@, group=~"$group"'
_LAG = f"sum by (group) (goqueue_group_lag_messages{{{_GROUP}}})"
_SETTLED = rate("goqueue_group_settled_messages_total", "group", _GROUP)

GROUPS = Dashboard(
    "groups",
    "Groups and lag",
    (
        Row(
            "Lag",
            (
                Panel("Lag", {"{{group}}": top(_LAG)}, width=12, help="Offsets that the group has not finished."),
                Panel(
                    "Lag by topic",
                    {"{{group}} {{topic}}": top(f"sum by (group, topic) (goqueue_group_lag_messages{{{_GROUP}}})", 20)},
                    width=12,
                ),
                Panel(
                    "Time to drain without new messages",
                    {"{{group}}": top(f"{_LAG} / ({_SETTLED} > 0)")},
                    _SECONDS,
                    width=12,
                    help="Lag divided by the rate of the group. A group that finishes nothing is missing.",
                ),
                Panel("Finished messages", {"{{group}}": top(_SETTLED)}, "mps", width=12),
            ),
        ),
        Row(
            "Members",
            (
                Panel("Members", {"{{group}}": top(f"sum by (group) (goqueue_group_members{{{_GROUP}}})")}),
                Panel(
                    "In flight",
                    {"{{group}}": top(f"sum by (group) (goqueue_group_in_flight_messages{{{_GROUP}}})")},
                ),
                Panel("Groups by state", {"{{state}}": "sum by (state) (goqueue_groups{@})"}),
                Panel("Rebalances", {"{{reason}}": rate("goqueue_rebalances_total", "reason")}, "ops"),
                Panel("Time of a rebalance", quantiles("goqueue_rebalance_seconds"), _SECONDS),
                Panel(
                    "Lost to retention",
                    {
                        "{{group}}": f"sum by (group) (increase(goqueue_group_lost_messages_total{{{_GROUP}}}[1h]))",
                        "revocations that timed out": "sum(increase(goqueue_revocation_timeouts_total{@}[1h]))",
                    },
                    help="Within an hour.",
                ),
            ),
        ),
    ),
    (("group", "goqueue_group_members"),),
)

DELIVERY = Dashboard(
    "delivery",
    "Delivery and dead letters",
    (
        Row(
            "Outcomes",
            (
                Panel(
                    "Settled messages",
                    {"{{outcome}}": rate("goqueue_messages_settled_total", "outcome")},
                    "mps",
                    width=12,
                ),
                Panel(
                    "Failures of an hour",
                    {
                        "{{outcome}}": "sum by (outcome) (increase(goqueue_messages_settled_total"
                        '{@, outcome=~"dead_lettered|dropped|expired|rejected"}[1h]))'
                    },
                    width=12,
                ),
            ),
        ),
        Row(
            "Priorities",
            (
                Panel(
                    "Delivered",
                    {"{{priority}}": rate("goqueue_priority_delivered_messages_total", "priority")},
                    "mps",
                    width=12,
                ),
                Panel(
                    "Wait of a lease's first message",
                    {
                        "{{priority}}": f"{rate('goqueue_priority_wait_seconds_total', 'priority')} / "
                        f"({rate('goqueue_priority_leases_total', 'priority')} > 0)"
                    },
                    _SECONDS,
                    width=12,
                ),
            ),
        ),
        Row(
            "Delayed messages",
            (
                Panel("Pending", {"{{topic}}": top("sum by (topic) (goqueue_delayed_pending_messages{@})")}),
                Panel("Ended", {"{{outcome}}": rate("goqueue_delayed_messages_total", "outcome")}, "mps"),
                Panel("Delay behind the due time", quantiles("goqueue_delayed_late_seconds"), _SECONDS),
            ),
        ),
        Row(
            "Transactions",
            (
                Panel(
                    "Open",
                    {"{{state}}": "sum by (state) (goqueue_transactions_open{@})"},
                    width=6,
                ),
                Panel("Age of the oldest", {"": "max(goqueue_transaction_oldest_seconds{@})"}, _SECONDS, width=6),
                Panel(
                    "Ended",
                    {
                        "committed": rate("goqueue_transactions_committed_total"),
                        "aborted: {{reason}}": rate("goqueue_transactions_aborted_total", "reason"),
                    },
                    "ops",
                    width=6,
                ),
                Panel("Duration", quantiles("goqueue_transaction_seconds"), _SECONDS, width=6),
                Panel(
                    "Held back",
                    {"{{topic}}": "sum by (topic) (goqueue_transaction_held_back_messages{@})"},
                    width=24,
                    help="Offsets that readers cannot see behind open transactions.",
                ),
            ),
        ),
    ),
)

STORAGE = Dashboard(
    "storage",
    "Storage and disk",
    (
        Row(
            "Disk",
            (
                Panel("Free", {"{{instance}}": "goqueue_disk_free_bytes{@}"}, "bytes"),
                Panel("Free share", {"{{instance}}": _FREE}, "percentunit"),
                Panel(
                    "Free in 24 h",
                    {"{{instance}}": "predict_linear(goqueue_disk_free_bytes{@}[6h], 24 * 3600)"},
                    "bytes",
                    help="If the disk keeps filling as in the last six hours.",
                ),
            ),
        ),
        Row(
            "Writing",
            (
                Panel("Write and sync", quantiles("goqueue_flush_seconds"), _SECONDS),
                Panel(
                    "Flushes",
                    {
                        "flushes": rate("goqueue_flush_seconds_count"),
                        "publishes": rate("goqueue_publish_seconds_count"),
                    },
                    "ops",
                    help="The busier the broker, the more publishes one flush makes durable.",
                ),
                Panel("Failed writes and syncs", {"{{instance}}": "increase(goqueue_sync_failures_total{@}[1h])"}),
            ),
        ),
        Row(
            "Logs",
            (
                Panel(
                    "Logs that accept nothing",
                    {"fenced": "sum(goqueue_logs_fenced{@})", "refused": "sum(goqueue_logs_refused{@})"},
                ),
                Panel(
                    "Bytes of all topics", {"{{instance}}": "sum by (instance) (goqueue_log_size_bytes{@})"}, "bytes"
                ),
                Panel(
                    "In flight",
                    {"bytes": "sum(goqueue_in_flight_bytes{@})", "limit": "sum(goqueue_in_flight_limit_bytes{@})"},
                    "bytes",
                ),
            ),
        ),
        Row(
            "Process",
            (
                Panel(
                    "Stalls",
                    {
                        "seconds": "sum(increase(goqueue_stalled_seconds_total{@}[1h]))",
                        "stalls": "sum(increase(goqueue_stalls_total{@}[1h]))",
                    },
                    help="Of an hour.",
                ),
                Panel("Loop latency now", {"{{instance}}": "goqueue_loop_lag_seconds{@}"}, _SECONDS),
                Panel("Refused connections", {"{{reason}}": rate("goqueue_connections_refused_total", "reason")}),
            ),
        ),
    ),
)

_BY_ENDPOINT = rate("goqueue_http_request_seconds_bucket", "le, method, endpoint")
REQUESTS = Dashboard(
    "tracing",
    "Requests and traces",
    (
        Row(
            "Publish latency",
            (
                Panel(
                    "Publish, until durable",
                    quantiles("goqueue_publish_seconds"),
                    _SECONDS,
                    width=12,
                    help="A dot is an exemplar: the trace of one message.",
                    has_exemplars=True,
                ),
                Panel(
                    "Distribution",
                    {"{{le}}": rate("goqueue_publish_seconds_bucket", "le")},
                    _SECONDS,
                    "heatmap",
                    width=12,
                    has_exemplars=True,
                ),
            ),
        ),
        Row(
            "Requests",
            (
                Panel(
                    "Slowest endpoints (p99)",
                    {"{{method}} {{endpoint}}": top(f"histogram_quantile(0.99, {_BY_ENDPOINT})")},
                    _SECONDS,
                    width=12,
                    help="Long polls count with the time that they wait.",
                ),
                Panel(
                    "Busiest endpoints",
                    {"{{method}} {{endpoint}}": top(rate("goqueue_http_requests_total", "method, endpoint"))},
                    "reqps",
                    width=12,
                ),
                Panel(
                    "Refused and failed requests",
                    {
                        "{{status}} {{method}} {{endpoint}}": top(
                            rate("goqueue_http_requests_total", "status, method, endpoint", '@, status=~"[45].."')
                        )
                    },
                    "reqps",
                    width=24,
                ),
            ),
        ),
        Row(
            "Traces",
            (
                Panel("Trace records", {"{{event}}": rate("goqueue_trace_records_total", "event")}, "ops"),
                Panel(
                    "Left out",
                    {
                        "sampled out": rate("goqueue_trace_records_sampled_out_total"),
                        "dropped": rate("goqueue_trace_records_dropped_total"),
                        "not exported to {{target}}": rate("goqueue_trace_spans_dropped_total", "target"),
                    },
                    "ops",
                ),
                Panel("Trace files", {"{{instance}}": "goqueue_trace_file_bytes{@}"}, "bytes"),
            ),
        ),
    ),
)


DASHBOARDS = (OVERVIEW, TOPICS, GROUPS, DELIVERY, STORAGE, REQUESTS)
