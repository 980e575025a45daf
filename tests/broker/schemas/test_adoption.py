"""Schemas that a registry takes of what another one had before."""

from goqueue.broker.schemas.adoption import adoptable
from goqueue.broker.schemas.records import (
    ConfigRecord,
    ReferenceRecord,
    RegistryRecord,
    SchemaContent,
    SchemaIdRetired,
    VersionRecord,
)
from goqueue.broker.schemas.state import RegistryState


def version(subject: str, number: int, schema_id: int, text: str, *refers_to: tuple[str, int]) -> VersionRecord:
    references = tuple(ReferenceRecord(name, name, of) for name, of in refers_to)
    content = SchemaContent(kind="JSON", text=text, references=references)
    return VersionRecord(subject=subject, version=number, id=schema_id, digest=content.digest(), content=content)


def state(*records: RegistryRecord) -> RegistryState:
    made = RegistryState()
    for record in records:
        made.apply(record)
    return made


def test_equal_and_new_versions_are_taken_once() -> None:
    known = state(version("orders", 1, 1, "a"))
    offered = [version("orders", 1, 1, "a"), version("refunds", 1, 1, "a"), version("orders", 2, 2, "b")]
    taken, clashes = adoptable(known, offered)
    assert (taken, clashes) == (offered[1:], [])
    assert adoptable(state(version("orders", 1, 1, "a"), *taken), offered) == ([], [])


def test_id_of_another_schema_is_never_taken() -> None:
    known = state(version("orders", 1, 1, "a"), SchemaIdRetired(2, version("x", 1, 2, "gone").digest))
    taken, clashes = adoptable(known, [version("refunds", 1, 1, "b"), version("refunds", 2, 2, "c")])
    assert taken == []
    assert clashes == [
        (0, "the cluster has another schema with the id 1 of version 1 of refunds"),
        (1, "the cluster has another schema with the id 2 of version 2 of refunds"),
    ]


def test_two_offered_schemas_never_get_one_id() -> None:
    _, clashes = adoptable(state(), [version("orders", 1, 1, "a"), version("refunds", 1, 1, "b")])
    assert [index for index, _ in clashes] == [1]


def test_version_of_the_cluster_stays() -> None:
    known = state(version("orders", 1, 7, "a"), ConfigRecord(subject="orders", level="FULL"))
    offered: list[RegistryRecord] = [version("orders", 1, 1, "b"), ConfigRecord(subject="orders", level="NONE")]
    assert adoptable(known, offered) == (
        [],
        [
            (0, "the cluster has another schema as version 1 of orders, with the id 7"),
            (1, "the cluster has another compatibility level of orders"),
        ],
    )


def test_schema_is_taken_after_what_it_refers_to_or_not_at_all() -> None:
    offered = [version("orders", 1, 2, "a", ("money", 1)), version("money", 1, 1, "m")]
    assert adoptable(state(), offered) == ([offered[1], offered[0]], [])
    known = state(version("other", 1, 1, "z"))
    assert adoptable(known, offered)[1] == [
        (0, "version 1 of orders refers to a version that is not taken"),
        (1, "the cluster has another schema with the id 1 of version 1 of money"),
    ]


def test_ids_that_were_given_out_are_not_given_out_again() -> None:
    taken, _ = adoptable(state(), [SchemaIdRetired(40)])
    assert state(*taken).last_id == 40
