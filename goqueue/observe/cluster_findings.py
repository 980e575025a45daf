"""Findings about the cluster that the broker is a node of."""

from goqueue import limits
from goqueue.observe.facts import BrokerFacts
from goqueue.observe.finding import Finding, FindingStream, finding_rule
from goqueue.observe.tls_findings import about, expiry_severity
from goqueue.quantities import format_count, format_duration, format_size

_WITHOUT_CONTROLLER_SECONDS = 10.0
"""Longer than any election takes while a majority is connected."""
_NAMED = 5
_LOOK = "look at `goqueue-cli cluster nodes`"


@finding_rule("critical")
def controller_missing(facts: BrokerFacts) -> FindingStream:
    cluster = facts.cluster
    if cluster is None or cluster.seconds_without_controller < _WITHOUT_CONTROLLER_SECONDS:
        return
    waiting = ", ".join(cluster.waiting_for)
    why = f"the first formation waits for {waiting}" if waiting else "no majority of the voters is connected"
    yield Finding(
        cluster.node,
        f"the cluster has had no controller for {format_duration(round(cluster.seconds_without_controller))}: {why}",
        f"start the nodes that are missing, or find out why they are not reached: {_LOOK}",
        {"waiting_for": list(cluster.waiting_for)},
    )


@finding_rule("critical")
def node_failed(facts: BrokerFacts) -> FindingStream:
    if facts.cluster is not None and facts.cluster.failure is not None:
        yield Finding(
            facts.cluster.node,
            f"this node takes no part in its cluster any more: {facts.cluster.failure}",
            "check the device, then restart the broker",
        )
    for node, reason in () if facts.cluster is None else facts.cluster.failed:
        yield Finding(
            node,
            f"the node is alive and takes no part in the cluster any more: {reason}",
            "check its device, then restart its broker; until then the cluster survives one loss less",
        )


@finding_rule("warning")
def node_dead(facts: BrokerFacts) -> FindingStream:
    for node in () if facts.cluster is None else facts.cluster.dead:
        yield Finding(node, "the node is dead: nothing was heard of it", f"start it again, or {_LOOK}")


@finding_rule("warning")
def node_refused(facts: BrokerFacts) -> FindingStream:
    for node, problem in () if facts.cluster is None else facts.cluster.problems:
        yield Finding(node, f"there is no connection with the node: {problem}", "correct its settings and restart it")


@finding_rule("warning")
def topic_not_followed(facts: BrokerFacts) -> FindingStream:
    for topic, problem in () if facts.cluster is None else facts.cluster.unserved:
        yield Finding(
            topic,
            f"the topic is not here as the cluster has it: {problem}",
            "if this node had another topic of the name, copy its messages from a broker alone on this directory",
        )


@finding_rule("warning")
def record_not_adopted(facts: BrokerFacts) -> FindingStream:
    for path, problem in () if facts.cluster is None else facts.cluster.unadopted:
        yield Finding(
            path,
            f"the cluster did not take all that this node had before it: {problem}",
            "what was not taken is kept in this file: make it again under other names, then remove the file and"
            " restart the broker",
        )


@finding_rule("warning")
def vote_missing(facts: BrokerFacts) -> FindingStream:
    for node in () if facts.cluster is None else facts.cluster.without_vote:
        yield Finding(
            node,
            "the node is one of `cluster.peers` and has no vote: its data directory is not the one that votes",
            "restore the directory that it had, or if that is lost `goqueue-admin cluster replace-voter`;"
            " until then the cluster survives one loss less",
        )


@finding_rule("critical", "warning", "note")
def node_certificate_expiring(facts: BrokerFacts) -> FindingStream:
    found = None if facts.cluster is None else facts.cluster.certificate
    if found is not None and found.seconds_left < limits.TLS_EXPIRY_NOTE_SECONDS:
        left = found.seconds_left
        when = "has expired: the other nodes" if left <= 0 else f"expires in {about(left)}: then the other nodes"
        yield Finding(
            found.path,
            f"the certificate of this node {when} refuse new connections with it",
            "write a new certificate and its key into the files: they count from the next connection on",
            {"seconds_left": round(left)},
            severity=expiry_severity(left),
        )


@finding_rule("warning")
def node_certificate_not_loaded(facts: BrokerFacts) -> FindingStream:
    found = None if facts.cluster is None else facts.cluster.certificate
    if found is not None and found.error is not None:
        yield Finding(
            found.path,
            f"the files of TLS between nodes have changed and cannot be used: {found.error}",
            "correct the files; until then the former certificate stays in use",
        )


@finding_rule("critical")
def partition_offline(facts: BrokerFacts) -> FindingStream:
    if facts.cluster is not None and (found := facts.cluster.offline):
        yield Finding(
            found[0],
            f"{_partitions(found)} no leader: no replica that has all committed messages is there",
            "start the nodes that are missing: `goqueue-cli cluster partitions --offline` shows where the replicas are;"
            " if they are lost for good, see docs/cluster.md about unclean elections",
            {"partitions": list(found)},
        )


@finding_rule("critical")
def partition_under_min_isr(facts: BrokerFacts) -> FindingStream:
    if facts.cluster is not None and (found := facts.cluster.under_min_isr):
        yield Finding(
            found[0],
            f"{_partitions(found)} fewer replicas in sync than min_isr: publishes with acks=all are refused",
            f"start the nodes that are missing: {_LOOK}",
            {"partitions": list(found)},
        )


@finding_rule("warning")
def partition_under_replicated(facts: BrokerFacts) -> FindingStream:
    if facts.cluster is not None and (found := facts.cluster.under_replicated):
        yield Finding(
            found[0],
            f"{_partitions(found)} replicas that are not in sync: fewer nodes may be lost",
            "start the nodes that are missing; `goqueue-cli cluster partitions --under-replicated` shows which",
            {"partitions": list(found)},
        )


@finding_rule("warning")
def replica_lagging(facts: BrokerFacts) -> FindingStream:
    for node, lag in () if facts.cluster is None else facts.cluster.lags:
        if lag >= limits.CLUSTER_LAG_MESSAGES:
            yield Finding(
                node,
                f"the node lacks {format_count(lag, 'message')} of partitions that this node leads",
                "wait if it has just returned; else look at its disk and its network",
                {"lag": lag},
            )


@finding_rule("warning")
def election_unclean(facts: BrokerFacts) -> FindingStream:
    if facts.cluster is not None and (found := facts.cluster.unclean):
        yield Finding(
            found[0],
            f"{_partitions(found)} a leader that was elected although it may lack committed messages",
            "compare with what producers and consumers know; the finding ends with the next election",
            {"partitions": list(found)},
        )


@finding_rule("warning")
def replica_damaged(facts: BrokerFacts) -> FindingStream:
    for log, problem in () if facts.cluster is None else facts.cluster.damaged:
        why = f"; that has not succeeded so far: {problem}" if problem else ""
        yield Finding(
            log,
            f"the replica on this node is damaged, and is being repaired from another one{why}",
            "wait, and start the nodes that are missing: the replica is not in sync until it is repaired",
        )


@finding_rule("critical")
def replicas_differ(facts: BrokerFacts) -> FindingStream:
    for log, node, offset in () if facts.cluster is None else facts.cluster.differing:
        yield Finding(
            log,
            f"from offset {offset} on, messages here differ from those of node {node}, and both are sound: "
            "this must never happen, and nothing is overwritten",
            "keep the directories of both nodes and report it; then remove the replica that clients cannot vouch for",
            {"node": node, "offset": offset},
        )


@finding_rule("warning")
def damage_repaired(facts: BrokerFacts) -> FindingStream:
    for log, ranges, size in () if facts.cluster is None else facts.cluster.repaired:
        yield Finding(
            log,
            f"{format_count(ranges, 'damaged range')} ({format_size(size)}) of the replica on this node were repaired "
            "from other replicas since its start; nothing is lost",
            "check the device and the kernel log (`dmesg`): stored bytes have changed",
            {"ranges": ranges, "bytes": size},
        )


@finding_rule("warning")
def move_stalled(facts: BrokerFacts) -> FindingStream:
    for name, problem in () if facts.cluster is None else facts.cluster.stalled_moves:
        yield Finding(
            name,
            f"the partition is to move to other nodes, and that does not go on: {problem}",
            "start the node, or cancel the reassignment: `goqueue-admin reassign list`",
        )


@finding_rule("note")
def leader_away(facts: BrokerFacts) -> FindingStream:
    if facts.cluster is not None and (found := facts.cluster.away):
        yield Finding(
            found[0],
            f"{_partitions(found)} another leader than the preferred one, which is in sync",
            "wait: leaders return when their node has been there for a minute",
            {"partitions": list(found)},
        )


def _partitions(names: tuple[str, ...]) -> str:
    """Return the subject of a sentence, with its verb."""
    more = f" and {format_count(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more} {'has' if len(names) == 1 else 'have'}"
