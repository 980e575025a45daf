"""Alerts about clusters."""

from docs.monitoring.alert import Alert


def _gauge(name: str) -> str:
    return f"goqueue_cluster_{name}{{@}}"


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
    Alert(
        name="ClusterPartitionsOffline",
        when="partitions have no leader: they can be neither written nor read",
        expr="goqueue_cluster_offline_partitions > 0",
        hold="1m",
        severity="critical",
        summary="{{ $value }} partitions have no leader, as {{ $labels.instance }} knows",
        finding="partition_offline",
        fires={_gauge("offline_partitions"): "3x60"},
        quiet={_gauge("offline_partitions"): "0x60"},
        says="3 partitions have no leader, as queue:8080 knows",
    ),
    Alert(
        name="ClusterUnderMinIsr",
        when="partitions have too few replicas in sync: publishes with acks=all are refused",
        expr="goqueue_cluster_under_min_isr_partitions > 0",
        hold="1m",
        severity="critical",
        summary="{{ $value }} partitions refuse publishes with acks=all, as {{ $labels.instance }} knows",
        finding="partition_under_min_isr",
        fires={_gauge("under_min_isr_partitions"): "3x60"},
        quiet={_gauge("under_min_isr_partitions"): "0x60"},
        says="3 partitions refuse publishes with acks=all, as queue:8080 knows",
    ),
    Alert(
        name="ClusterUnderReplicated",
        when="partitions lack replicas in sync for longer than a restart takes",
        expr="goqueue_cluster_under_replicated_partitions > 0",
        hold="10m",
        severity="warning",
        summary="{{ $value }} partitions have replicas that are not in sync, as {{ $labels.instance }} knows",
        finding="partition_under_replicated",
        fires={_gauge("under_replicated_partitions"): "3x60"},
        quiet={_gauge("under_replicated_partitions"): "3x5 0x60"},
        says="3 partitions have replicas that are not in sync, as queue:8080 knows",
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
