"""Findings about the cluster that a broker is a node of."""

from typing import Any

from goqueue.observe.doctor import examine
from goqueue.observe.facts import BrokerFacts, ClusterCondition, NodeCertificate
from goqueue.observe.finding import Finding


def findings(**changes: Any) -> dict[str, Finding]:
    facts = BrokerFacts(uptime_seconds=60.0, cluster=ClusterCondition(node="n1", **changes))
    return {one.code: one for one in examine(facts).findings}


def test_node_of_a_healthy_cluster_has_no_finding() -> None:
    assert findings() == {}


def test_election_is_no_finding_and_a_lasting_lack_of_a_controller_is_critical() -> None:
    assert findings(seconds_without_controller=3.0) == {}
    found = findings(seconds_without_controller=30.0)["controller_missing"]
    assert found.severity == "critical"
    assert found.sentence == ("the cluster has had no controller for 30s: no majority of the voters is connected")


def test_first_formation_names_the_nodes_that_it_waits_for() -> None:
    found = findings(seconds_without_controller=30.0, waiting_for=("n2", "n3"))["controller_missing"]
    assert found.sentence.endswith("the first formation waits for n2, n3")


def test_each_dead_or_refused_node_is_a_finding() -> None:
    found = findings(dead=("n2",), problems=(("n3", "it has another secret"),))
    assert (found["node_dead"].subject, found["node_refused"].subject) == ("n2", "n3")


def test_node_that_lost_its_vote_or_its_disk_says_so() -> None:
    found = findings(without_vote=("n2",), failure="log __cluster_metadata/0 is fenced")
    assert (found["vote_missing"].subject, found["vote_missing"].severity) == ("n2", "warning")
    assert found["node_failed"].severity == "critical"


def test_node_whose_disk_failed_is_a_finding_at_the_other_nodes() -> None:
    found = findings(failed=(("n3", "the disk is full"),))
    assert (found["node_failed"].subject, found["node_failed"].severity) == ("n3", "critical")
    assert found["node_failed"].sentence.endswith("takes no part in the cluster any more: the disk is full")


def test_certificate_of_a_node_is_a_finding_before_it_expires_and_when_its_files_are_broken() -> None:
    day = 86_400
    assert findings(certificate=NodeCertificate("n1.pem", 60 * day)) == {}
    found = findings(certificate=NodeCertificate("n1.pem", 5 * day, "the key does not fit"))
    assert found["node_certificate_expiring"].severity == "warning"
    assert found["node_certificate_expiring"].sentence == (
        "the certificate of this node expires in 5d: then the other nodes refuse new connections with it"
    )
    assert found["node_certificate_not_loaded"].sentence.endswith("cannot be used: the key does not fit")
    assert findings(certificate=NodeCertificate("n1.pem", -1))["node_certificate_expiring"].severity == "critical"


def test_move_that_does_not_go_on_says_why() -> None:
    found = findings(stalled_moves=(("orders/0", "n4 is not there"),))["move_stalled"]
    assert (found.subject, found.severity) == ("orders/0", "warning")
    assert found.sentence.endswith("that does not go on: n4 is not there")


def test_partitions_that_need_attention_are_named_in_one_finding_each() -> None:
    many = tuple(f"orders/{number}" for number in range(8))
    found = findings(offline=("orders/0",), under_min_isr=many, under_replicated=many[:2], unclean=many[:1])
    assert found["partition_offline"].severity == found["partition_under_min_isr"].severity == "critical"
    assert found["partition_offline"].sentence.startswith("orders/0 has no leader")
    assert "orders/4 and 3 more have fewer replicas in sync" in found["partition_under_min_isr"].sentence
    assert found["partition_under_replicated"].sentence.startswith("orders/0, orders/1 have replicas")
    assert found["election_unclean"].subject == "orders/0"
    assert findings(away=many)["leader_away"].severity == "note"


def test_node_that_lags_far_behind_is_a_finding() -> None:
    assert findings(lags=(("n2", 99_999),)) == {}
    assert findings(lags=(("n2", 200_000),))["replica_lagging"].sentence.startswith("the node lacks 200,000 messages")


def test_damaged_replica_is_a_finding_while_it_is_repaired_and_afterwards() -> None:
    found = findings(damaged=(("orders/0", "n2: it is not connected"), ("orders/1", "")))
    assert found["replica_damaged"].severity == "warning"
    assert found["replica_damaged"].subject == "orders/1"
    repaired = findings(repaired=(("orders/0", 2, 4096),))["damage_repaired"]
    assert repaired.sentence.startswith("2 damaged ranges (4KiB) of the replica on this node were repaired")
