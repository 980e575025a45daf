"""Findings about the cluster that the broker is a node of."""

from goqueue import limits
from goqueue.observe.facts import BrokerFacts
from goqueue.observe.finding import Finding, FindingStream, finding_rule
from goqueue.observe.tls_findings import about, expiry_severity
from goqueue.quantities import format_duration

_WITHOUT_CONTROLLER_SECONDS = 10.0
"""Longer than any election takes while a majority is connected."""
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


@finding_rule("warning")
def node_dead(facts: BrokerFacts) -> FindingStream:
    for node in () if facts.cluster is None else facts.cluster.dead:
        yield Finding(node, "the node is dead: nothing was heard of it", f"start it again, or {_LOOK}")


@finding_rule("warning")
def node_refused(facts: BrokerFacts) -> FindingStream:
    for node, problem in () if facts.cluster is None else facts.cluster.problems:
        yield Finding(node, f"there is no connection with the node: {problem}", "correct its settings and restart it")


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
