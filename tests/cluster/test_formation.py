"""The first formation of a cluster, and what is refused."""

from goqueue.cluster.formation import ClusterNote, form, join, refuse_hello
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.peer_messages import PROTOCOL, Hello

PEERS = ("n1", "n2", "n3")


def identity(node: str, directory: str = "a") -> NodeIdentity:
    return NodeIdentity(node, directory)


def hello(node: str, cluster_id: str = "", directory: str = "a", peers: tuple[str, ...] = PEERS) -> Hello:
    return Hello(PROTOCOL, identity(node, directory), cluster_id, peers)


def hellos(*found: Hello) -> dict[str, Hello]:
    return {one.identity.node: one for one in found}


FRESH = ClusterNote(identity("n1"))
FORMED = ClusterNote(identity("n1"), "c1", tuple(map(identity, PEERS)))


def test_first_node_forms_the_cluster_when_all_are_there_and_fresh() -> None:
    note = form(FRESH, PEERS, hellos(hello("n2"), hello("n3", directory="b")), lambda: "c1")

    assert note == ClusterNote(identity("n1"), "c1", (identity("n1"), identity("n2"), identity("n3", "b")))


def test_cluster_is_not_formed_while_a_peer_is_missing() -> None:
    assert form(FRESH, PEERS, hellos(hello("n2")), lambda: "c1") is None


def test_cluster_is_not_formed_by_another_node_than_the_first() -> None:
    note = ClusterNote(identity("n2"))

    assert form(note, PEERS, hellos(hello("n1"), hello("n3")), lambda: "c1") is None


def test_wiped_nodes_form_no_second_cluster_while_one_remembers_the_first() -> None:
    assert form(FRESH, PEERS, hellos(hello("n2"), hello("n3", "c1")), lambda: "c2") is None


def test_single_node_is_a_cluster_at_once() -> None:
    note = form(FRESH, ("n1",), {}, lambda: "c1")

    assert note is not None
    assert note.voters == (identity("n1"),)


def test_wiped_node_joins_without_a_vote() -> None:
    note = join(ClusterNote(identity("n1", "new")), "c1", FORMED.voters)

    assert note is not None
    assert note.is_formed
    assert note.me not in note.voters


def test_formed_node_joins_no_other_cluster() -> None:
    assert join(FORMED, "c2", (identity("n9"),)) is None


def test_node_of_another_cluster_is_refused() -> None:
    assert refuse_hello(FORMED, PEERS, hello("n2", "c1")) is None
    assert "belongs to cluster c2" in str(refuse_hello(FORMED, PEERS, hello("n2", "c2")))


def test_node_with_other_peers_or_with_the_same_id_is_refused() -> None:
    assert "cluster.peers" in str(refuse_hello(FORMED, PEERS, hello("n2", peers=("n1", "n2", "n4"))))
    assert "cluster.node_id" in str(refuse_hello(FORMED, PEERS, hello("n1", directory="b")))
