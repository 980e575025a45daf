"""Decisions of the registry: what interleaved requests, references and limits do to them."""

from typing import Any

import pytest

from goqueue.broker.core.work import Promise, Work, run_work
from goqueue.broker.schemas.records import ReferenceRecord, SchemaContent, VersionRecord
from goqueue.errors import SchemaChangeRefused, SchemaIncompatible, SchemaInvalid
from tests.broker.brokers import Running, before_each_job


def _record(name: str, *fields: str, references: tuple[ReferenceRecord, ...] = ()) -> SchemaContent:
    listed = ",".join(f'{{"name":"{one}","type":"long"}}' for one in fields)
    text = f'{{"type":"record","name":"{name}","fields":[{listed}]}}'
    return SchemaContent(kind="AVRO", text=text, references=references)


def _do(running: Running, work: Work[Any]) -> Any:
    return run_work(work, running.flush)


def test_equal_schemas_that_are_registered_at_once_get_one_version() -> None:
    running = Running()
    registry, content = running.broker.schemas, _record("A", "x")
    made: list[VersionRecord] = []

    def another() -> None:
        if not made:
            made.append(_do(running, registry.register("a", content)))

    assert _do(running, before_each_job(registry.register("a", content), another)) == made[0]
    assert [one.version for one in registry.queries.versions("a")] == [1]


def test_registration_is_compared_with_what_came_meanwhile() -> None:
    running = Running()
    registry = running.broker.schemas
    _do(running, registry.register("a", _record("A", "x")))
    number, text = (
        SchemaContent(kind="AVRO", text=f'{{"type":"record","name":"A","fields":[{field}]}}')
        for field in ('{"name":"y","type":"long","default":0}', '{"name":"y","type":"string","default":""}')
    )
    jobs = 0

    def another() -> None:
        nonlocal jobs
        jobs += 1
        if jobs == 2:  # the comparison, which was given the versions of before
            _do(running, registry.register("a", text))

    with pytest.raises(SchemaIncompatible):
        _do(running, before_each_job(registry.register("a", number), another))
    assert jobs == 3


def test_new_version_is_compared_with_the_reference_of_now_where_it_was_registered_anew() -> None:
    running = Running()
    registry = running.broker.schemas

    def register(subject: str, text: str) -> VersionRecord:
        references = (ReferenceRecord("amount", "amount", 1),) if subject == "a" else ()
        content = SchemaContent(kind="JSON", text=text, references=references)
        record: VersionRecord = _do(running, registry.register(subject, content))
        return record

    old, new = '{"$ref":"amount"}', '{"$ref":"amount","title":"new"}'
    register("amount", '{"type":"integer"}')
    first = register("a", old)
    register("a", new)
    for subject in ("a", "amount"):
        for permanent in (False, True):
            _do(running, registry.delete_subject(subject, permanent=permanent))
    register("amount", '{"type":"string"}')
    assert register("a", old).id == first.id, "its text, and the names of its references are the same"
    register("a", new)


def test_reference_that_is_deleted_meanwhile_is_refused() -> None:
    running = Running()
    registry = running.broker.schemas
    _do(running, registry.register("a", _record("A", "x")))
    text = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    content = SchemaContent(kind="AVRO", text=text, references=(ReferenceRecord("A", "a", 1),))

    def delete() -> None:
        if registry.queries.subjects(shown="all"):
            _do(running, registry.delete_subject("a"))
            _do(running, registry.delete_subject("a", permanent=True))

    with pytest.raises(SchemaInvalid, match="no schema has the subject 'a'"):
        _do(running, before_each_job(registry.register("b", content), delete))


def test_version_is_hidden_until_it_is_committed() -> None:
    running = Running()
    registry = running.broker.schemas
    work = registry.register("a", _record("A", "x"))
    job = next(work)
    while not isinstance(job, Promise):
        job = work.send(job())
    assert registry.queries.subjects() == []
    running.flush()
    assert registry.queries.subjects() == ["a"]


def test_imported_id_never_replaces_another_schema() -> None:
    running = Running()
    registry = running.broker.schemas
    first = _do(running, registry.register("a", _record("A", "x")))
    for permanent in (False, True):
        _do(running, registry.delete_subject("a", permanent=permanent))
    _do(running, registry.set_mode("b", "IMPORT"))
    with pytest.raises(SchemaChangeRefused, match="Overwrite new schema with id 1"):
        _do(running, registry.register("b", _record("B"), number=first.id))
    assert _do(running, registry.register("b", _record("A", "x"), number=first.id)).id == first.id
    assert _do(running, registry.register("b", _record("A", "x"), number=90, version=5)).version == 5
    assert _do(running, registry.register("c", _record("A", "x"))).id == first.id, "the lowest of its ids"


def test_transitive_level_compares_with_all_versions() -> None:
    running = Running()
    registry = running.broker.schemas
    _do(running, registry.set_config("a", "NONE"))
    for content in (_record("A", "x"), _record("B", "x"), _record("A")):
        _do(running, registry.register("a", content))
    for level, allowed in (("FORWARD", True), ("FORWARD_TRANSITIVE", False)):
        _do(running, registry.set_config("a", level))
        reasons = _do(running, registry.test_compatibility("a", None, _record("A", "y")))
        assert (not reasons) is allowed
