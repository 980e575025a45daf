"""The records of `__schemas`: their bytes, and the state that they make."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.schemas.records import (
    ConfigDeleted,
    ConfigRecord,
    ModeDeleted,
    ModeRecord,
    ReferenceRecord,
    RegistryRecord,
    SchemaContent,
    SchemaIdRetired,
    VersionDeleted,
    VersionRecord,
    decode_registry_record,
    encode_registry_record,
)
from goqueue.broker.schemas.state import RegistryState
from goqueue.storage import frame

_CONTENT = SchemaContent(kind="AVRO", text='"x.A"', references=(ReferenceRecord("x.A", "a", 1),))
_GOLDEN: list[tuple[RegistryRecord, bytes, str]] = [
    (
        VersionRecord(subject="b", version=2, id=7, digest=b"\xff\x00", content=_CONTENT, deleted=True),
        b"version:2:b",
        '{"record":"version","subject":"b","version":2,"id":7,"digest":"/wA=","content":{"kind":"AVRO",'
        '"text":"\\"x.A\\"","references":[{"name":"x.A","subject":"a","version":1}]},"deleted":true}',
    ),
    (VersionDeleted("b", 2), b"version:2:b", '{"record":"version_deleted","subject":"b","version":2}'),
    (SchemaIdRetired(7, b"\xff"), b"id:7", '{"record":"id_retired","id":7,"digest":"/w=="}'),
    (ConfigRecord(level="FULL", normalize=True), b"config:", '{"record":"config","level":"FULL","normalize":true}'),
    (ConfigDeleted("b"), b"config:b", '{"record":"config_deleted","subject":"b"}'),
    (ModeRecord(subject="b", mode="IMPORT"), b"mode:b", '{"record":"mode","subject":"b","mode":"IMPORT"}'),
    (ModeDeleted(""), b"mode:", '{"record":"mode_deleted","subject":""}'),
]
_TEXTS = tuple(SchemaContent(kind="JSON", text=text) for text in ("true", "false", "{}"))


@pytest.mark.parametrize(("record", "key", "text"), _GOLDEN)
def test_record_has_the_documented_bytes(record: RegistryRecord, key: bytes, text: str) -> None:
    message = frame.decode(encode_registry_record(record), 0)
    assert (message.key, bytes(message.value).decode()) == (key, text)
    assert bool(message.flags & frame.TOMBSTONE) == isinstance(record, VersionDeleted | ConfigDeleted | ModeDeleted)
    assert decode_registry_record(message) == record


def test_digest_of_a_schema_stays_the_same() -> None:
    assert _CONTENT.digest().hex() == "3d0e063d89491ba9f76e25f6649d108a2a11bd463f014662f697ec4e58b0d16f"


def _version(subject: str, version: int, number: int, *, deleted: bool) -> VersionRecord:
    content = _TEXTS[number % 3]  # an id has one schema; several ids may have the same one
    return VersionRecord(
        subject=subject, version=version, id=number, digest=content.digest(), content=content, deleted=deleted
    )


_SUBJECTS = st.sampled_from("ab")
_RECORDS = st.lists(
    st.one_of(
        st.builds(_version, _SUBJECTS, st.integers(1, 3), st.integers(1, 6), deleted=st.booleans()),
        st.builds(VersionDeleted, _SUBJECTS, st.integers(1, 3)),
        st.integers(1, 6).map(lambda number: SchemaIdRetired(number, _TEXTS[number % 3].digest())),
        st.builds(ConfigRecord, subject=_SUBJECTS, level=st.just("FULL")),
        st.builds(ModeDeleted, _SUBJECTS),
    ),
    max_size=20,
)


def _content(state: RegistryState) -> tuple[Any, ...]:
    users = {number: {(one.subject, one.version) for one in state.users(number)} for number in state.uses}
    counts = state.held_bytes, state.last_id
    return state.subjects, users, state.ids, state.retired, state.configs, state.modes, state.referrers, counts


@given(_RECORDS)
def test_records_of_a_state_rebuild_it(records: list[RegistryRecord]) -> None:
    state, again = RegistryState(), RegistryState()
    for record in records:
        state.apply(record)
    for record in state.records():
        again.apply(record)
    assert _content(again) == _content(state)
    copied = RegistryState()
    copied.copy_from(state)
    assert _content(copied) == _content(state)


@given(_RECORDS, _RECORDS)
def test_copy_of_a_state_changes_alone(records: list[RegistryRecord], later: list[RegistryRecord]) -> None:
    state, copied, expected = RegistryState(), RegistryState(), RegistryState()
    for record in records:
        state.apply(record)
        expected.apply(record)
    copied.copy_from(state)
    for record in later:
        copied.apply(record)
    assert _content(state) == _content(expected)


@given(_RECORDS)
def test_every_id_has_one_schema_and_stays_known(records: list[RegistryRecord]) -> None:
    state, seen = RegistryState(), dict[int, bytes]()
    for record in records:
        state.apply(record)
        if isinstance(record, VersionRecord | SchemaIdRetired):
            seen[record.id] = record.digest
    assert all(state.last_id >= number and state.ids[digest] <= number for number, digest in seen.items())
    known = {number: state.users(number)[0].digest for number in state.uses} | state.retired
    assert known == seen
