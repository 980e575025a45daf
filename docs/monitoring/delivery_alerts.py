"""Alerts about groups, delivery and transactions, and those of the service level."""

from docs.monitoring.alert import BY, Alert, fast, p99, slow

_LAG = 'goqueue_group_lag_messages{@, group="billing", topic="orders"}'
_MEMBERS = 'goqueue_group_members{@, group="billing"}'
_SETTLED = 'goqueue_group_settled_messages_total{@, group="billing"}'
_GROUP_LAG = "sum by (job, instance, group) (goqueue_group_lag_messages)"
_BILLING = {"group": "billing"}

GROUPS = (
    Alert(
        name="HighConsumerLag",
        when="a group has 10,000 messages unfinished for ten minutes",
        expr=f"{_GROUP_LAG} > 10000",
        hold="10m",
        severity="warning",
        summary="group {{ $labels.group }} is {{ $value | humanize }} messages behind",
        finding="group_falling_behind",
        fires={_LAG: "20000x60"},
        quiet={_LAG: "500x60"},
        says="group billing is 20k messages behind",
        labels=_BILLING,
    ),
    Alert(
        name="CriticalConsumerLag",
        when="a group has 100,000 messages unfinished for ten minutes",
        expr=f"{_GROUP_LAG} > 100000",
        hold="10m",
        severity="critical",
        summary="group {{ $labels.group }} is {{ $value | humanize }} messages behind",
        finding="group_falling_behind",
        fires={_LAG: "200000x60"},
        quiet={_LAG: "20000x60"},
        says="group billing is 200k messages behind",
        labels=_BILLING,
    ),
    Alert(
        name="NoOffsetCommits",
        when="a group with members and unfinished messages has finished none for ten minutes",
        expr=(
            f"{_GROUP_LAG} > 0 and on (job, instance, group) goqueue_group_members > 0 "
            "and on (job, instance, group) increase(goqueue_group_settled_messages_total[10m]) == 0"
        ),
        hold="5m",
        severity="warning",
        summary="group {{ $labels.group }} finishes nothing: {{ $value | humanize }} messages wait",
        finding="group_stuck",
        fires={_LAG: "50x60", _MEMBERS: "2x60", _SETTLED: "1000x60"},
        quiet={_LAG: "50x60", _MEMBERS: "2x60", _SETTLED: "0+10x60"},
        says="group billing finishes nothing: 50 messages wait",
        labels=_BILLING,
    ),
    Alert(
        name="GroupWithoutMembers",
        when="messages wait for a group that has no members",
        expr=f"{_GROUP_LAG} > 0 and on (job, instance, group) goqueue_group_members == 0",
        hold="30m",
        severity="warning",
        summary="group {{ $labels.group }} has no members: {{ $value | humanize }} messages wait",
        finding="group_abandoned",
        fires={_LAG: "50x60", _MEMBERS: "0x60"},
        quiet={_LAG: "50x60", _MEMBERS: "0x20 1x40"},
        at="45m",
        says="group billing has no members: 50 messages wait",
        labels=_BILLING,
    ),
    Alert(
        name="FrequentRebalances",
        when="more than ten rebalances within a quarter of an hour",
        expr=f"sum {BY} (increase(goqueue_rebalances_total[15m])) > 10",
        hold="5m",
        severity="warning",
        summary="{{ $value | humanize }} rebalances on {{ $labels.instance }} within 15 minutes",
        finding="group_rebalancing_long",
        fires={'goqueue_rebalances_total{@, reason="session_expired"}': "0+2x60"},
        quiet={'goqueue_rebalances_total{@, reason="join"}': "0x20 4x60"},
        says="30 rebalances on queue:8080 within 15 minutes",
    ),
    Alert(
        name="RevocationTimeouts",
        when="a member did not give up its partitions in time; others waited",
        expr="increase(goqueue_revocation_timeouts_total[1h]) > 0",
        hold="1m",
        severity="warning",
        summary="members of groups on {{ $labels.instance }} kept partitions too long, {{ $value | humanize }} times",
        finding="group_rebalancing_long",
        fires={"goqueue_revocation_timeouts_total{@}": "0x5 3x60"},
        quiet={"goqueue_revocation_timeouts_total{@}": "3x60"},
        at="1h",
        says="members of groups on queue:8080 kept partitions too long, 3 times",
    ),
    Alert(
        name="MessagesLost",
        when="retention deleted messages before a group received them",
        expr="increase(goqueue_group_lost_messages_total[1h]) > 0",
        hold="1m",
        severity="warning",
        summary="retention deleted {{ $value | humanize }} messages before group {{ $labels.group }} received them",
        finding="messages_lost_to_retention",
        fires={'goqueue_group_lost_messages_total{@, group="billing"}': "0x5 100x60"},
        quiet={'goqueue_group_lost_messages_total{@, group="billing"}': "100x60"},
        at="1h",
        says="retention deleted 100 messages before group billing received them",
        labels=_BILLING,
    ),
)

_OUTCOME = 'goqueue_messages_settled_total{{@, outcome="{}"}}'


def _settled(outcome: str, window: str) -> str:
    return f'increase(goqueue_messages_settled_total{{outcome="{outcome}"}}[{window}])'


DELIVERY = (
    Alert(
        name="DeadLettersGrowing",
        when="more than 100 messages became dead letters within an hour",
        expr=f"{_settled('dead_lettered', '1h')} > 100",
        hold="5m",
        severity="warning",
        summary="{{ $value | humanize }} messages on {{ $labels.instance }} became dead letters within an hour",
        finding="dead_letters_waiting",
        fires={_OUTCOME.format("dead_lettered"): "0+10x90"},
        quiet={_OUTCOME.format("dead_lettered"): "0+1x90"},
        at="90m",
        says="600 messages on queue:8080 became dead letters within an hour",
        labels={"outcome": "dead_lettered"},
    ),
    Alert(
        name="MessagesDropped",
        when="messages failed for the last time where `dead_letter_topic` is `none`",
        expr=f"{_settled('dropped', '1h')} > 0",
        hold="1m",
        severity="warning",
        summary="{{ $value | humanize }} messages on {{ $labels.instance }} were dropped within an hour",
        finding="poison_message",
        fires={_OUTCOME.format("dropped"): "0x5 4x60"},
        quiet={_OUTCOME.format("dropped"): "4x60"},
        at="1h",
        says="4 messages on queue:8080 were dropped within an hour",
        labels={"outcome": "dropped"},
    ),
    Alert(
        name="LeasesExpire",
        when="5 % of what is settled has an expired lease: consumers crash, or take too long",
        expr=(
            f'sum {BY} (rate(goqueue_messages_settled_total{{outcome="expired"}}[15m])) / '
            f'sum {BY} (rate(goqueue_messages_settled_total{{outcome=~"acked|nacked|rejected|expired"}}[15m])) > 0.05'
        ),
        hold="15m",
        severity="warning",
        summary="{{ $value | humanizePercentage }} of the leases on {{ $labels.instance }} expire",
        finding="group_stuck",
        fires={_OUTCOME.format("acked"): "0+80x60", _OUTCOME.format("expired"): "0+20x60"},
        quiet={_OUTCOME.format("acked"): "0+99x60", _OUTCOME.format("expired"): "0+1x60"},
        at="45m",
        says="20% of the leases on queue:8080 expire",
    ),
    Alert(
        name="DelayedMessagesLate",
        when="1 % of the delayed messages are delivered 10 s late or later",
        expr=f"{p99('goqueue_delayed_late_seconds')} > 10",
        hold="5m",
        severity="warning",
        summary="delayed messages on {{ $labels.instance }} are {{ $value | humanizeDuration }} late (p99)",
        finding="delayed_late",
        fires=slow("goqueue_delayed_late_seconds", "30.0", "60.0"),
        quiet=fast("goqueue_delayed_late_seconds"),
        says="delayed messages on queue:8080 are 59.7s late (p99)",
    ),
    Alert(
        name="DelayedMessagesOverdue",
        when="a delayed message is pending 30 s after it was due, mostly because the disk is full",
        expr="goqueue_delayed_overdue_seconds > 30",
        hold="1m",
        severity="warning",
        summary="a delayed message on {{ $labels.instance }} is overdue by {{ $value | humanizeDuration }}",
        finding="delayed_late",
        fires={"goqueue_delayed_overdue_seconds{@}": "0+60x60"},
        quiet={"goqueue_delayed_overdue_seconds{@}": "0 5 0x60"},
        says="a delayed message on queue:8080 is overdue by 30m 0s",
    ),
    Alert(
        name="TransactionOpenLong",
        when="a transaction is open for more than two minutes, and readers wait behind it",
        expr="goqueue_transaction_oldest_seconds > 120",
        hold="1m",
        severity="warning",
        summary="the oldest transaction on {{ $labels.instance }} is open for {{ $value | humanizeDuration }}",
        finding="transaction_hung",
        fires={"goqueue_transaction_oldest_seconds{@}": "0+60x60"},
        quiet={"goqueue_transaction_oldest_seconds{@}": "10x60"},
        says="the oldest transaction on queue:8080 is open for 30m 0s",
    ),
    Alert(
        name="TransactionStuck",
        when="the end of a transaction is decided and cannot be written",
        expr=f'sum {BY} (goqueue_transactions_open{{state=~"prepare_.*"}}) > 0',
        hold="2m",
        severity="critical",
        summary="{{ $value }} transactions on {{ $labels.instance }} cannot end",
        finding="transaction_stuck",
        fires={'goqueue_transactions_open{@, state="prepare_commit"}': "1x60"},
        quiet={
            'goqueue_transactions_open{@, state="prepare_commit"}': "0x60",
            'goqueue_transactions_open{@, state="ongoing"}': "7x60",
        },
        says="1 transactions on queue:8080 cannot end",
    ),
    Alert(
        name="TransactionsTimeOut",
        when="more than five transactions were aborted by their timeout within a quarter of an hour",
        expr='increase(goqueue_transactions_aborted_total{reason="timeout"}[15m]) > 5',
        hold="1m",
        severity="warning",
        summary="{{ $value | humanize }} transactions on {{ $labels.instance }} timed out within 15 minutes",
        finding="transaction_hung",
        fires={'goqueue_transactions_aborted_total{@, reason="timeout"}': "0+1x60"},
        quiet={'goqueue_transactions_aborted_total{@, reason="timeout"}': "9x60"},
        says="15 transactions on queue:8080 timed out within 15 minutes",
        labels={"reason": "timeout"},
    ),
)


# --- the service level ---

OBJECTIVE = 0.999
"""The share of requests that succeed, and of publishes that are durable within `PUBLISH_SECONDS`."""
PUBLISH_SECONDS = "0.1"
WINDOWS = ("5m", "30m", "1h", "6h")
ERRORS, SLOW = "goqueue:http_requests:error_ratio_{}", "goqueue:publishes:slow_ratio_{}"


def _burn(name: str, ratio: str, what: str, series: tuple[dict[str, str], dict[str, str]], rate: float) -> Alert:
    long, short, hold, at = ("1h", "5m", "2m", "2h") if rate > 10 else ("6h", "30m", "15m", "8h")
    bound = f"{rate} * {1 - OBJECTIVE:.3f}"
    return Alert(
        name=name,
        when=f"{what} use up the error budget of 30 days {rate} times too fast, for {long} and still within {short}",
        expr=f"{ratio.format(long)} > {bound} and {ratio.format(short)} > {bound}",
        hold=hold,
        severity="critical" if rate > 10 else "warning",
        summary=f"{{{{ $value | humanizePercentage }}}} {what} on {{{{ $labels.instance }}}} within {long}",
        finding="flush_slow" if ratio == SLOW else "writes_refused",
        fires=series[0],
        quiet=series[1],
        at=at,
        says=f"2% {what} on queue:8080 within {long}",
    )


def _requests(failed: int) -> dict[str, str]:
    statuses = {"200": 1000 - failed, "500": failed}
    return {f'goqueue_http_requests_total{{@, status="{one}"}}': f"0+{n}x600" for one, n in statuses.items()}


def _publishes(late: int) -> dict[str, str]:
    return {
        f'goqueue_publish_seconds_bucket{{@, le="{PUBLISH_SECONDS}"}}': f"0+{1000 - late}x600",
        "goqueue_publish_seconds_count{@}": "0+1000x600",
    }


_FAILED, _LATE = (_requests(20), _requests(0)), (_publishes(20), _publishes(0))
SERVICE_LEVEL = (
    _burn("ErrorBudgetBurnsFast", ERRORS, "failed requests", _FAILED, 14.4),
    _burn("ErrorBudgetBurns", ERRORS, "failed requests", _FAILED, 6),
    _burn("LatencyBudgetBurnsFast", SLOW, f"publishes slower than {PUBLISH_SECONDS} s", _LATE, 14.4),
    _burn("LatencyBudgetBurns", SLOW, f"publishes slower than {PUBLISH_SECONDS} s", _LATE, 6),
)


def recordings() -> dict[str, str]:
    """Return the expressions of the ratios by their names."""
    failed, total = 'goqueue_http_requests_total{status=~"5.."}', "goqueue_http_requests_total"
    bucket, count = f'goqueue_publish_seconds_bucket{{le="{PUBLISH_SECONDS}"}}', "goqueue_publish_seconds_count"
    found = {}
    for window in WINDOWS:
        whole = f"sum {BY} (rate({total}[{window}]))"
        found[ERRORS.format(window)] = f"(sum {BY} (rate({failed}[{window}])) or 0 * {whole}) / {whole}"
        found[SLOW.format(window)] = f"1 - sum {BY} (rate({bucket}[{window}])) / sum {BY} (rate({count}[{window}]))"
    return found
