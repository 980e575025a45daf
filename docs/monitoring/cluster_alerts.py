"""Alerts about clusters."""

from dataclasses import replace

from docs.monitoring.alert import Alert


def _gauge(name: str) -> str:
    return f"goqueue_cluster_{name}{{@}}"


def _partitions(name: str, gauge: str, *, when: str, what: str, finding: str) -> Alert:
    """An alert about any partition in a state."""
    return Alert(
        name=name,
        when=when,
        expr=f"goqueue_cluster_{gauge} > 0",
        hold="1m",
        severity="critical",
        summary=f"{{{{ $value }}}} partitions {what}, as {{{{ $labels.instance }}}} knows",
        finding=finding,
        fires={_gauge(gauge): "3x60"},
        quiet={_gauge(gauge): "0x60"},
        says=f"3 partitions {what}, as queue:8080 knows",
    )


CLUSTER = (
    Alert(
        name="ClusterWithoutController",
        when="a node knows no controller of its cluster: no topic changes, and no lost leader is replaced",
        expr="goqueue_cluster_has_controller == 0",
        hold="1m",
        severity="critical",
        summary="{{ $labels.instance }} knows {{ $value }} controllers of its cluster",
        finding="controller_missing",
        fires={_gauge("has_controller"): "1x5 0x60"},
        quiet={_gauge("has_controller"): "1x60"},
        says="queue:8080 knows 0 controllers of its cluster",
    ),
    _partitions(
        "ClusterPartitionsOffline",
        "offline_partitions",
        when="partitions have no leader: they can be neither written nor read",
        what="have no leader",
        finding="partition_offline",
    ),
    _partitions(
        "ClusterUnderMinIsr",
        "under_min_isr_partitions",
        when="partitions have too few replicas in sync: publishes with acks=all are refused",
        what="refuse publishes with acks=all",
        finding="partition_under_min_isr",
    ),
    replace(
        _partitions(
            "ClusterUnderReplicated",
            "under_replicated_partitions",
            when="partitions lack replicas in sync for longer than a restart takes",
            what="have replicas that are not in sync",
            finding="partition_under_replicated",
        ),
        hold="10m",
        severity="warning",
        quiet={_gauge("under_replicated_partitions"): "3x5 0x60"},  # as long as a restart takes
    ),
    Alert(
        name="ClusterUncleanElection",
        when="a leader was elected that may lack committed messages",
        expr="increase(goqueue_cluster_unclean_elections_total[1h]) > 0",
        hold="1m",
        severity="warning",
        summary="{{ $value | humanize }} unclean elections within an hour, as {{ $labels.instance }} knows",
        finding="election_unclean",
        fires={"goqueue_cluster_unclean_elections_total{@}": "0+2x60"},
        quiet={"goqueue_cluster_unclean_elections_total{@}": "2x60"},
        says="60 unclean elections within an hour, as queue:8080 knows",
    ),
)
