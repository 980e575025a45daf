"""Decisions of the controller: topics with replicas, changes of the ISR, fences, elections."""

from typing import ClassVar, cast

import msgspec
import pytest
from msgspec import convert

from goqueue.broker.core.catalog import TopicAltered, TopicCreated, TopicDeleted
from goqueue.broker.core.splits import Split
from goqueue.broker.core.topic import TopicSettings, TopicSpec
from goqueue.cluster.controller import Controller, ControllerSettings
from goqueue.cluster.controller_requests import (
    AdoptTopics,
    AlterTopic,
    CreateTopic,
    DecideSplits,
    DeleteTopic,
    ElectLeader,
    ScaleTopic,
    StopNode,
)
from goqueue.cluster.level_checks import refuse_later
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.metadata import (
    CatalogChanged,
    ClusterCreated,
    ClusterRecord,
    FeatureLevelRaised,
    NodeFenced,
    NodeRegistered,
    PartitionsChanged,
)
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.replication_messages import IsrChange, RaiseEpoch, ResignLeadership
from goqueue.cluster.shared_logs import InternalTopic
from goqueue.errors import (
    ClusterChangeRefused,
    ControllerUnavailable,
    ElectionRefused,
    GoQueueError,
    IsrChangeRefused,
    KeysWouldMove,
    NodeNotFound,
    RequestInvalid,
    TopicExists,
    TopicNotFound,
)
from tests.cluster.deciding_cluster import NODES, Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(*NODES)


# --- topics ---


def test_created_topic_spreads_its_leaders_over_the_nodes(cluster: Cluster) -> None:
    cluster.create(partitions=6)
    states = list(cluster.state.partitions.values())
    assert sorted(state.leader for state in states) == ["n1", "n1", "n2", "n2", "n3", "n3"]
    assert {(frozenset(one.isr), one.leader == one.replicas[0], one.min_isr) for one in states} == {
        (frozenset(NODES), True, 2)
    }


def test_one_topic_goes_on_where_the_last_one_ended(cluster: Cluster) -> None:
    leaders = [cluster.state.partitions[cluster.create(f"t{number}")].leader for number in range(6)]
    assert sorted(leaders) == ["n1", "n1", "n2", "n2", "n3", "n3"]


def test_replicas_are_on_different_racks() -> None:
    cluster = Cluster()
    for number, rack in enumerate("aabbcc"):
        cluster.start(f"n{number}", rack=rack)
    cluster.create(partitions=12)
    racks = {node: registered.rack for node, (registered, _) in cluster.state.nodes.items()}
    states = cluster.state.partitions.values()
    assert {frozenset(racks[node] for node in state.replicas) for state in states} == {frozenset("abc")}
    assert len({state.leader for state in states}) == 6


def test_absent_node_gets_a_replica_out_of_sync_and_does_not_lead(cluster: Cluster) -> None:
    cluster.fence("n1")
    partition = cluster.create()
    state = cluster.state.partitions[partition]
    assert set(state.replicas) == set(NODES)
    assert "n1" not in (*state.isr, *state.elr, state.leader, state.replicas[0])


def test_topic_ids_differ_although_the_clock_stands(cluster: Cluster) -> None:
    ids = [cluster.create(name).topic_id for name in ("a", "b")]
    cluster.ask(DeleteTopic("b"))
    assert sorted({*ids, cluster.create("b").topic_id}) == [1, 2, 3]


def test_settings_of_replicas_are_those_of_the_topic(cluster: Cluster) -> None:
    state = cluster.state.partitions[cluster.create(replication_factor=2, min_isr=1)]
    assert (len(state.replicas), len(state.isr), state.min_isr) == (2, 2, 1)


def test_default_of_min_isr_is_at_most_all_replicas(cluster: Cluster) -> None:
    assert cluster.state.partitions[cluster.create(replication_factor=1)].min_isr == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"replication_factor": 4}, "needs as many nodes, and the cluster has 3 nodes"),
        ({"min_isr": 4}, "min_isr 4 is more than 3 replicas"),
        ({"min_isr": 3, "replication_factor": 2}, "min_isr 3 is more than 2 replicas"),
    ],
)
def test_settings_that_the_nodes_cannot_keep_are_refused(
    cluster: Cluster, settings: dict[str, int], sentence: str
) -> None:
    with pytest.raises(RequestInvalid, match=sentence):
        cluster.ask(CreateTopic("t", 1, convert(settings, TopicSettings)))


def test_taken_name_is_refused(cluster: Cluster) -> None:
    cluster.create("t")
    with pytest.raises(TopicExists):
        cluster.create("t")


def test_altered_settings_are_recorded_with_their_types(cluster: Cluster) -> None:
    cluster.create()
    (record,) = cluster.ask(AlterTopic("t", {"lane_weights": [5, 4, 3, 2, 1], "cleanup": "compact"}))
    assert isinstance(record, CatalogChanged)
    assert isinstance(record.change, TopicAltered)
    assert (record.change.settings.lane_weights, record.change.settings.cleanup) == ((5, 4, 3, 2, 1), "compact")


def test_lower_min_isr_takes_replicas_from_the_elr(cluster: Cluster) -> None:
    partition = cluster.create()
    leader, *others = cluster.state.partitions[partition].replicas
    cluster.change_isr(partition, leader)
    assert set(cluster.state.partitions[partition].elr) == set(others)
    moved, settings = cluster.ask(AlterTopic("t", {"min_isr": 1}))
    assert isinstance(moved, PartitionsChanged)  # before the settings: the high watermark moves on by it
    assert isinstance(settings, CatalogChanged)
    assert cluster.state.partitions[partition].elr == ()


def test_added_partitions_get_replicas_and_later_their_split_offsets(cluster: Cluster) -> None:
    partition = cluster.create(partitions=2)
    cluster.ask(ScaleTopic("t", 4, accept_key_moves=False, is_empty=False))
    assert len(cluster.state.partitions) == 4
    assert cluster.state.topics["t"].splits == {2: Split(0), 3: Split(1)}
    cluster.ask(DecideSplits(partition.topic_id, {2: Split(0, 7)}))
    cluster.ask(DecideSplits(partition.topic_id, {2: Split(0, 9), 3: Split(1, 8)}))  # the first one counts
    assert cluster.state.topics["t"].splits == {2: Split(0, 7), 3: Split(1, 8)}
    assert cluster.ask(DecideSplits(99, {2: Split(0, 7)})) == []


def test_partitions_that_would_move_keys_are_refused(cluster: Cluster) -> None:
    cluster.create(partitions=2)
    with pytest.raises(KeysWouldMove):
        cluster.ask(ScaleTopic("t", 3, accept_key_moves=False, is_empty=False))


def test_deleted_topic_is_gone_with_its_partitions(cluster: Cluster) -> None:
    partition = cluster.create()
    assert cluster.ask(DeleteTopic("t")) == [CatalogChanged(TopicDeleted("t"))]
    assert cluster.state.partitions == {}
    with pytest.raises(TopicNotFound):
        cluster.ask(DeleteTopic("t"))
    assert cluster.create().topic_id > partition.topic_id


def test_topics_of_a_node_are_adopted_unless_known_deleted_or_of_a_taken_name(cluster: Cluster) -> None:
    known = cluster.create("known", now_ns=100).topic_id
    deleted = cluster.create("deleted").topic_id
    cluster.ask(DeleteTopic("deleted"))
    settings = TopicSettings()
    offered = (
        TopicAltered("orders", 2, settings, 50, ends={"0": 7}),
        TopicCreated("known", 1, settings, known),
        TopicCreated("deleted", 1, settings, deleted),
        TopicCreated("known", 1, settings, 51),
    )
    cluster.ask(AdoptTopics("n2", offered))
    assert cluster.state.topics["orders"] == TopicCreated("orders", 2, settings, 50)
    assert set(cluster.state.topics) == {"known", "orders"}
    assert cluster.state.partitions[PartitionId(50, 1)] == PartitionState(("n2",), "n2", 1, 1, ("n2",))
    assert cluster.ask(AdoptTopics("n2", offered)) == []


def test_partition_that_an_adopted_topic_lacks_is_offline(cluster: Cluster) -> None:
    """The node was restored from a backup of one that had only some replicas."""
    cluster.ask(AdoptTopics("n2", (TopicCreated("orders", 2, TopicSettings(), 7, replicas_here=(1,)),)))
    assert cluster.state.topics["orders"].replicas_here is None
    assert cluster.state.partitions[PartitionId(7, 0)] == PartitionState(("n2",), "", 1, 1, ())
    assert cluster.state.partitions[PartitionId(7, 1)] == PartitionState(("n2",), "n2", 1, 1, ("n2",))
    assert cluster.controller.complete(1) == []


def test_leader_begins_above_the_epochs_that_its_log_has(cluster: Cluster) -> None:
    partition = cluster.create()
    ahead = RaiseEpoch(partition, "n1", 1, 7)
    cluster.ask(ahead)
    assert cluster.shown(partition) == "n1 in 8: n1,n2,n3"
    assert cluster.ask(ahead) == []
    assert cluster.ask(RaiseEpoch(partition, "n1", 8, 7)) == []


def test_next_controller_completes_a_topic_whose_replicas_were_not_recorded(cluster: Cluster) -> None:
    records = cluster.controller.decide(CreateTopic("t", 3, TopicSettings()), 1)
    cluster.apply(records[:1])
    assert cluster.state.partitions == {}
    cluster.apply(cluster.controller.complete(1))
    assert len(cluster.state.partitions) == 3
    assert cluster.controller.complete(1) == []


# --- changes of the ISR ---


def test_isr_shrinks_and_grows_by_its_leader(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.change_isr(partition, "n1", "n2")
    assert cluster.shown(partition) == "n1 in 1: n1,n2"
    cluster.change_isr(partition, *NODES)
    assert cluster.shown(partition) == "n1 in 1: n1,n2,n3"
    assert cluster.state.partitions[partition].partition_epoch == 3


def test_same_isr_needs_no_record(cluster: Cluster) -> None:
    assert cluster.change_isr(cluster.create(), *NODES) == []


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"leader": "n2"}, "leader_epoch"),
        ({"leader_epoch": 0}, "leader_epoch"),
        ({"leader_epoch": 2}, "leader_epoch"),
        ({"partition_epoch": 1}, "partition_epoch"),
        ({"isr": (("n2", 2),)}, "leader"),
        ({"isr": (("n1", 1), ("n4", 4))}, "replica"),
        ({"isr": (("n1", 1), ("n2", 2), ("n3", 3))}, "fenced"),
        ({"isr": (("n1", 1), ("n2", 1))}, "broker_epoch"),
        ({"isr": (("n1", 1), ("n2", 0))}, "broker_epoch"),
    ],
)
def test_isr_change_that_does_not_fit_is_refused(cluster: Cluster, other: dict[str, object], reason: str) -> None:
    partition = cluster.create()
    cluster.fence("n3")
    cluster.change_isr(partition, "n1")
    with pytest.raises(IsrChangeRefused) as refused:
        cluster.change_isr(partition, "n1", "n2", **other)
    assert refused.value.details["reason"] == reason
    cluster.change_isr(partition, "n1", "n2")


def test_isr_of_an_unknown_partition_is_refused(cluster: Cluster) -> None:
    with pytest.raises(TopicNotFound):
        cluster.ask(IsrChange(PartitionId(9, 0), "n1", 1, 1, (("n1", 1),), "test"))


def test_stopping_node_is_refused_as_a_member(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.ask(StopNode("n3", cluster.epoch("n3")))
    with pytest.raises(IsrChangeRefused, match="fenced, stopping"):
        cluster.change_isr(partition, *NODES)


# --- fences and elections ---


def test_leader_of_a_fenced_node_is_the_next_in_sync(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.change_isr(partition, "n1", "n3")
    cluster.fence("n1")
    assert cluster.shown(partition) == "n3 in 2: n3 elr n1"


def test_fence_moves_partitions_before_it_is_recorded(cluster: Cluster) -> None:
    cluster.create()
    moved, fenced = cluster.apply(cluster.controller.fence("n1"))
    assert isinstance(moved, PartitionsChanged)
    assert fenced == NodeFenced("n1", cluster.epoch("n1"))
    assert cluster.controller.fence("n1") == []


def test_last_replicas_in_sync_stay_eligible(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.fence("n3", "n2", "n1")
    assert cluster.shown(partition) == "none in 2:  elr n1,n2"
    cluster.unfence("n3")  # it has not all that is committed
    assert cluster.shown(partition) == "none in 2:  elr n1,n2"
    cluster.unfence("n2")
    assert cluster.shown(partition) == "n2 in 3: n2 elr n1"


def test_min_isr_of_one_keeps_only_the_last_one_eligible() -> None:
    cluster = Cluster(*NODES, min_isr=1)
    partition = cluster.create()
    cluster.fence("n1", "n2", "n3")
    assert cluster.shown(partition) == "none in 4:  elr n3"


def test_elr_ends_when_enough_are_in_sync_again(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.fence("n2", "n3")
    assert cluster.shown(partition) == "n1 in 1: n1 elr n3"
    cluster.unfence("n2")
    cluster.change_isr(partition, "n1", "n2")
    assert cluster.shown(partition) == "n1 in 1: n1,n2"


def test_restarted_leader_begins_a_new_epoch(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.start("n1")
    assert cluster.shown(partition) == "n1 in 2: n1,n2,n3"


def test_restarted_follower_stays_in_sync(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.start("n2")
    assert cluster.shown(partition) == "n1 in 1: n1,n2,n3"


@pytest.mark.parametrize("lost", ["damaged log", "another disk", "damaged catalog"])
def test_replica_that_lost_something_leaves_isr_and_elr(cluster: Cluster, lost: str) -> None:
    partition = cluster.create()
    cluster.fence("n3", "n2", "n1")
    damaged = (partition,) if lost == "damaged log" else ()
    disk = "new" if lost == "another disk" else ""
    cluster.start("n1", damaged=damaged, disk=disk, is_whole=lost != "damaged catalog")
    assert cluster.shown(partition) == "none in 2:  elr n2"
    cluster.start("n2")
    assert cluster.shown(partition) == "n2 in 3: n2"


def test_restarted_leader_that_lost_something_is_replaced(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.start("n1", damaged=(partition,))
    assert cluster.shown(partition) == "n2 in 2: n2,n3"


@pytest.mark.parametrize(("disk", "shown"), [("", "n1 in 2: n1"), ("new", "none in 2: ")])
def test_only_replica_leads_as_long_as_its_log_is_there(cluster: Cluster, disk: str, shown: str) -> None:
    partition = cluster.create(replication_factor=1)
    cluster.start("n1", damaged=(partition,), disk=disk)
    assert cluster.shown(partition) == shown


def test_stopping_node_gives_everything_away_and_stays_fenced_until_it_starts(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.ask(StopNode("n1", cluster.epoch("n1")))
    assert cluster.shown(partition) == "n2 in 2: n2,n3"
    assert cluster.controller.unfence("n1") == []
    cluster.start("n1")
    assert cluster.controller.is_up("n1")


def test_silent_node_that_stops_afterwards_stays_fenced(cluster: Cluster) -> None:
    cluster.fence("n1")
    cluster.ask(StopNode("n1", cluster.epoch("n1")))
    assert cluster.controller.unfence("n1") == []


def test_former_process_of_a_node_cannot_stop_it(cluster: Cluster) -> None:
    with pytest.raises(NodeNotFound):
        cluster.ask(StopNode("n1", cluster.epoch("n1") - 1))


def test_removed_node_leads_nothing(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.apply(cluster.controller.remove("n1", 5))
    assert (cluster.shown(partition), set(cluster.state.nodes)) == ("n2 in 2: n2,n3", {"n2", "n3"})


def test_leader_with_a_failed_disk_is_replaced_once(cluster: Cluster) -> None:
    partition = cluster.create()
    resign = ResignLeadership(partition, "n1", 1, "disk")
    cluster.ask(resign)
    assert cluster.shown(partition) == "n2 in 2: n2,n3"
    assert cluster.ask(resign) == []


def test_damaged_leader_is_replaced_and_is_not_eligible(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.ask(ResignLeadership(partition, "n1", 1, "damage", is_damaged=True))
    assert cluster.shown(partition) == "n2 in 2: n2,n3"
    cluster.fence("n3")
    cluster.ask(ResignLeadership(partition, "n2", 2, "damage", is_damaged=True))
    assert cluster.shown(partition).startswith("n2 in 2: n2")  # no other one can lead


def test_leaders_return_to_settled_preferred_replicas_a_few_at_a_time(cluster: Cluster) -> None:
    cluster.create(partitions=9)
    cluster.fence("n1")
    cluster.unfence("n1")
    assert cluster.controller.return_leaders(lambda _: True, 2) == []  # not in sync yet
    for partition, state in list(cluster.state.partitions.items()):
        cluster.change_isr(partition, *state.replicas)
    assert cluster.controller.return_leaders(lambda node: node != "n1", 2) == []
    moved = [
        len(record.changes)
        for _ in range(3)
        for record in cluster.apply(cluster.controller.return_leaders(lambda _: True, 2))
        if isinstance(record, PartitionsChanged)
    ]
    assert moved == [2, 1]
    assert all(state.leader == state.replicas[0] for state in cluster.state.partitions.values())


def test_operator_moves_a_leader_to_a_replica_in_sync(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.ask(ElectLeader(partition, "n3"))
    assert cluster.shown(partition) == "n3 in 2: n1,n2,n3"
    cluster.ask(ElectLeader(partition, ""))
    assert cluster.shown(partition) == "n1 in 3: n1,n2,n3"
    assert cluster.ask(ElectLeader(partition, "")) == []


def test_unclean_election_is_refused_unless_it_is_asked_for_and_needed(cluster: Cluster) -> None:
    partition = cluster.create()
    cluster.fence("n3")
    cluster.unfence("n3")
    unclean = ElectLeader(partition, "n3", is_unclean=True)
    for request, sentence in (
        (ElectLeader(partition, "n3"), "not in sync"),
        (unclean, "node n1 leads it"),
        (ElectLeader(partition, "n4"), "no replica"),
    ):
        with pytest.raises(ElectionRefused, match=sentence):
            cluster.ask(request)
    cluster.fence("n2", "n1")
    with pytest.raises(ElectionRefused, match="n1 is not there"):
        cluster.ask(ElectLeader(partition, "n1", is_unclean=True))
    cluster.ask(unclean)
    assert cluster.shown(partition) == "n3 in 3: n3"
    assert cluster.state.partitions[partition].unclean_epoch == 3


# --- the feature level ---


def test_feature_level_rises_when_all_voters_are_registered_and_know_it() -> None:
    cluster = Cluster(*NODES)
    assert cluster.state.feature_level == 1
    young = Cluster()
    young.apply([ClusterCreated("c", tuple(NodeIdentity(node, "d") for node in NODES), 0)])
    for node, level in (("n1", 1), ("n2", 1), ("n3", 0)):
        record = NodeRegistered(node, "d", "p", "a", "b", "1", 0, "", level)
        young.apply(young.controller.register(record, (), is_whole=True))
    assert young.state.feature_level == 0
    record = NodeRegistered("n3", "d", "p2", "a", "b", "2", 0, "", 1)
    assert young.apply(young.controller.register(record, (), is_whole=True))[-1] == FeatureLevelRaised(1)


def test_feature_level_rises_when_the_last_older_node_is_upgraded_or_removed() -> None:
    def registered(node: str, level: int) -> NodeRegistered:
        return NodeRegistered(node, f"disk-{node}", "p", "a", "b", f"0.{level}", 0, "", level)

    cluster = Cluster(*NODES)
    for node in ("n1", "n2"):
        assert not any(
            isinstance(record, FeatureLevelRaised)
            for record in cluster.apply(cluster.controller.register(registered(node, 2), (), is_whole=True))
        )
    cluster.apply(cluster.controller.register(registered("n4", 1), (), is_whole=True))
    cluster.apply(cluster.controller.register(registered("n3", 2), (), is_whole=True))
    assert cluster.state.feature_level == 1
    cluster.apply(cluster.controller.remove("n4", 0))
    assert cluster.apply(cluster.controller.complete(0)) == [FeatureLevelRaised(2)]
    with pytest.raises(ClusterChangeRefused, match=r"node n4 has version 0.1, which knows feature level 1"):
        cluster.controller.register(registered("n4", 1), (), is_whole=True)


class _Later(msgspec.Struct):
    needed_level: ClassVar[int] = 2


def test_record_of_a_later_level_waits_until_all_nodes_know_it() -> None:
    cluster = Cluster(*NODES)
    later = cast(ClusterRecord, _Later())
    with pytest.raises(ClusterChangeRefused, match=r"needs feature level 2.*not yet with n1 \(version 1\), n2"):
        refuse_later(cluster.state, [later])
    refuse_later(cluster.state, [FeatureLevelRaised(2), later])


def test_internal_topic_of_a_later_level_waits_until_all_nodes_know_it(cluster: Cluster) -> None:
    rules = Controller(cluster.state, ControllerSettings(3, 2, (InternalTopic(TopicSpec(name="__later"), 2),)))
    assert rules.complete(0) == []
    cluster.apply([FeatureLevelRaised(2)])
    assert rules.complete(0) != []


def test_refused_request_changes_nothing(cluster: Cluster) -> None:
    partition = cluster.create()
    before = cluster.state.partitions[partition]
    with pytest.raises(GoQueueError):
        cluster.ask(ElectLeader(partition, "n9"))
    assert cluster.state.partitions[partition] is before


def test_internal_topic_is_placed_with_what_one_node_has_of_it(cluster: Cluster) -> None:
    spec = TopicSpec(name="__consumer_offsets", partitions=2)
    rules = Controller(cluster.state, ControllerSettings(3, 2, (InternalTopic(spec),)))
    for owners, replicas in (((), {3}), (("n2",), {3}), (("n2", "n3"), {2})):
        for node in NODES:
            record = NodeRegistered(node, "d", "p", "a", "b", "1", 0, "", 1, has_groups=node in owners)
            cluster.state.apply(record, 50)
        created, placed = rules.complete(9)
        assert isinstance(created, CatalogChanged)
        assert created.change.name == "__consumer_offsets"
        assert isinstance(placed, PartitionsChanged)
        states = [state for _, state in placed.changes]
        assert {len(state.replicas) for state in states} == replicas
        assert {state.leader for state in states} == set(owners[:1]) or not owners
        assert {state.isr for state in states} == {owners[:1]} or not owners
        assert not any("n3" in state.replicas for state in states if len(owners) > 1)


def test_keys_of_the_first_node_that_has_some_are_those_of_the_cluster(cluster: Cluster) -> None:
    keys = InternalTopic(TopicSpec(name="__security", partitions=1), is_followed=True)
    rules = Controller(cluster.state, ControllerSettings(1, 1, (keys,)))
    for node in NODES:
        record = NodeRegistered(node, "d", "p", "a", "b", "1", 0, "", 1, has_keys=node != "n1")
        cluster.state.apply(record, 50)
    _, placed = rules.complete(9)
    assert isinstance(placed, PartitionsChanged)
    ((_, state),) = placed.changes
    assert (state.replicas[0], state.isr, state.leader) == ("n2", ("n2",), "n2")
    assert set(state.replicas) == set(NODES)


def test_followed_topic_has_a_replica_on_every_node_also_on_one_that_comes_later(cluster: Cluster) -> None:
    schemas = InternalTopic(TopicSpec(name="__schemas", partitions=1), 2, is_followed=True)
    rules = Controller(cluster.state, ControllerSettings(1, 1, (schemas,)))
    assert rules.complete(9) == []  # an older node would not know it
    cluster.apply([FeatureLevelRaised(2)])
    record = NodeRegistered("n2", "d", "p", "a", "b", "1", 0, "", 2, brings=("__schemas",))
    cluster.state.apply(record, 50)
    created, placed = cluster.apply(rules.complete(9))
    assert isinstance(created, CatalogChanged)
    assert isinstance(placed, PartitionsChanged)
    ((partition, state),) = placed.changes
    assert (state.leader, state.isr, set(state.replicas)) == ("n2", ("n2",), set(NODES))
    cluster.state.apply(NodeRegistered("n4", "d", "p", "a", "b", "1", 0, "", 2), 51)
    cluster.apply(rules.complete(9))
    grown = cluster.state.partitions[partition]
    assert (set(grown.replicas), grown.isr, grown.leader_epoch) == ({*NODES, "n4"}, ("n2",), 1)
    assert rules.complete(9) == []


def test_topics_of_the_node_whose_groups_are_kept_come_first(cluster: Cluster) -> None:
    for node in ("n2", "n3"):
        record = NodeRegistered(node, "d", "p", "a", "b", "1", 0, "", 1, has_groups=node == "n3")
        cluster.state.apply(record, 50)
    settings = TopicSettings()
    of_two = AdoptTopics("n2", (TopicCreated("orders", 1, settings, 7),))
    with pytest.raises(ControllerUnavailable, match="n3, whose groups are kept, come first"):
        cluster.ask(of_two)
    cluster.ask(AdoptTopics("n3", (TopicCreated("orders", 1, settings, 8),)))
    assert cluster.ask(of_two) == []
    assert cluster.state.topics["orders"].created_ns == 8


def test_node_whose_groups_are_kept_is_not_waited_for_while_it_is_away(cluster: Cluster) -> None:
    cluster.state.apply(NodeRegistered("n3", "d", "p", "a", "b", "1", 0, "", 1, has_groups=True), 50)
    cluster.fence("n3")
    cluster.ask(AdoptTopics("n2", (TopicCreated("orders", 1, TopicSettings(), 7),)))
    assert "orders" in cluster.state.topics
