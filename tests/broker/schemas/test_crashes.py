"""The registry on a disk that crashes: an id never stands for two schemas, and what was answered stays."""

from random import Random
from typing import Any

import pytest

from goqueue.broker.core.work import Work, run_work
from goqueue.broker.schemas.records import SchemaContent, VersionRecord
from goqueue.errors import CallerError, GoQueueError, LogFenced
from goqueue.testing.disk import Crashed
from tests.broker.brokers import KEEPS, Running

_SUBJECTS = ("a", "b", "c")
_TEXTS = tuple(f'{{"type":"enum","name":"E{number}","symbols":["X"]}}' for number in range(8))


class _Model:
    """The answers that callers got, and what must be true of every registry after them."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        """The text of each id that a caller has seen."""
        self.versions: dict[tuple[str, int], tuple[int, bool]] = {}
        """Id of each version, and whether it is soft-deleted, as far as it is certain."""
        self.unsure: set[str] = set()
        """Subjects of requests that a crash interrupted."""

    def note(self, record: VersionRecord) -> None:
        assert self.texts.setdefault(record.id, record.content.text) == record.content.text

    def check(self, running: Running) -> None:
        state = running.broker.schemas.queries.state
        found: dict[tuple[str, int], tuple[int, bool]] = {}
        for subject, versions in state.subjects.items():
            for number, record in versions.items():
                self.note(record)
                assert record.digest == record.content.digest()
                assert state.ids[record.digest] <= record.id <= state.last_id
                found[subject, number] = record.id, record.deleted
        assert len({one.digest for uses in map(state.users, state.uses) for one in uses}) == len(state.uses)
        sure = {key: value for key, value in found.items() if key[0] not in self.unsure}
        assert sure == {key: value for key, value in self.versions.items() if key[0] not in self.unsure}
        self.versions, self.unsure = found, set()


def _next_version(model: _Model, subject: str) -> int:
    return max((number for name, number in model.versions if name == subject), default=0) + 1


def _register(model: _Model, running: Running, subject: str, text: str) -> None:
    registry, live = (
        running.broker.schemas,
        {key: number for key, (number, deleted) in model.versions.items() if key[0] == subject and not deleted},
    )
    record = run_work(registry.register(subject, SchemaContent(kind="AVRO", text=text)), running.flush)
    model.note(record)
    if (subject, record.version) not in live:
        assert record.version == _next_version(model, subject), "numbers continue after soft deletions"
        model.versions[subject, record.version] = record.id, False


def _change(model: _Model, running: Running, chance: Random) -> None:
    registry, subject, permanent = running.broker.schemas, chance.choice(_SUBJECTS), chance.random() < 0.4
    what = chance.choice(("register", "register", "register", "version", "subject"))
    model.unsure.add(subject)
    try:
        if what == "register":
            _register(model, running, subject, chance.choice(_TEXTS))
        elif what == "version":
            number = str(chance.randint(1, 4))
            gone = [run_work(registry.delete_version(subject, number, permanent=permanent), running.flush)]
            _forget(model, gone, permanent=permanent)
        else:
            _forget(model, run_work(registry.delete_subject(subject, permanent=permanent), running.flush), permanent)
    except CallerError:
        pass  # it is not there, or not soft-deleted
    model.unsure.discard(subject)


def _forget(model: _Model, gone: list[VersionRecord], permanent: bool) -> None:
    for one in gone:
        if permanent:
            del model.versions[one.subject, one.version]
        else:
            model.versions[one.subject, one.version] = one.id, True


@pytest.mark.parametrize("seed", range(6))
def test_ids_are_unique_and_stable_over_crashes_and_deletions(seed: int) -> None:
    chance, model, running = Random(seed), _Model(), Running()
    run_work(running.broker.schemas.set_config("", "NONE"), running.flush)
    for _ in range(12):
        running.disk.crash_at(running.disk.operations + chance.randint(5, 60))
        try:
            while True:
                _change(model, running, chance)
        except Crashed:
            pass
        running = running.crash(chance.choice(KEEPS))
        model.check(running)


def _registered(running: Running, subject: str, text: str) -> VersionRecord:
    content = SchemaContent(kind="AVRO", text=text)
    return run_work(running.broker.schemas.register(subject, content), running.flush)


def test_refused_write_takes_the_id_back_before_anyone_has_seen_it() -> None:
    running = Running()
    first = _registered(running, "a", _TEXTS[0])
    running.refuse_writes()
    work: Work[Any] = running.broker.schemas.register("b", SchemaContent(kind="AVRO", text=_TEXTS[1]))
    with pytest.raises(GoQueueError) as refused:
        run_work(work, running.flush)
    assert refused.value.code == "disk_full"
    assert running.broker.schemas.queries.subjects() == ["a"]
    second = _registered(running, "b", _TEXTS[2])
    assert (first.id, second.id) == (1, 2)


def test_compaction_keeps_ids_of_deleted_schemas() -> None:
    running = Running()
    registry = running.broker.schemas
    gone = _registered(running, "a", _TEXTS[0])
    for permanent in (False, True):
        run_work(registry.delete_subject("a", permanent=permanent), running.flush)
    running.roll("__schemas")
    running.compact("__schemas")
    again = running.restart()
    other, same = _registered(again, "b", _TEXTS[1]), _registered(again, "a", _TEXTS[0])
    assert (gone.id, other.id, same.id, same.version) == (1, 2, 1, 1)


def test_registry_without_its_log_answers_that_instead_of_not_found() -> None:
    running = Running()
    _registered(running, "a", _TEXTS[0])
    running.broker.close()
    running.store.close()
    disk = running.disk.crash("everything")
    for path in [path for path in disk.paths() if "/__schemas/" in path]:
        disk.remove(path)
    lost = Running(disk).broker.schemas
    with pytest.raises(LogFenced):
        lost.queries.subjects()
    with pytest.raises(LogFenced):
        run_work(lost.register("a", SchemaContent(kind="AVRO", text=_TEXTS[0])))
