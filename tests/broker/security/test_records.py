"""The records of `__security`: their bytes, and the state that they make."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.security.records import (
    AccessRuleDeleted,
    AccessRuleRecord,
    KeyRecord,
    KeyRevoked,
    RoleDeleted,
    RoleRecord,
    SecurityRecord,
    SecurityState,
    decode_security_record,
    encode_security_record,
)
from goqueue.security.rules import Rule
from goqueue.storage import frame

_RULE = Rule(kind="topic", pattern="orders", actions=("read", "write"))
_RULE_JSON = '{"kind":"topic","pattern":"orders","actions":["read","write"],"match":"literal","effect":"allow"}'
_GOLDEN: list[tuple[SecurityRecord, bytes, str]] = [
    (
        KeyRecord(id="a1", name="till", digest="ff", roles=("consumer",), created_ns=5, expires_ns=9),
        b"key:a1",
        '{"record":"key","id":"a1","name":"till","digest":"ff","roles":["consumer"],"created_ns":5,"expires_ns":9}',
    ),
    (KeyRevoked("a1"), b"key:a1", '{"record":"key_revoked","id":"a1"}'),
    (
        RoleRecord(name="team", rules=(_RULE,), created_by="key:root"),
        b"role:team",
        f'{{"record":"role","name":"team","rules":[{_RULE_JSON}],"created_by":"key:root"}}',
    ),
    (RoleDeleted("team"), b"role:team", '{"record":"role_deleted","name":"team"}'),
    (
        AccessRuleRecord(id=7, principal="*", rule=_RULE),
        b"rule:7",
        f'{{"record":"rule","id":7,"principal":"*","rule":{_RULE_JSON}}}',
    ),
    (AccessRuleDeleted(7), b"rule:7", '{"record":"rule_deleted","id":7}'),
]
_IDS, _NAMES = st.sampled_from("abc"), st.sampled_from(["x", "y"])
_RECORDS = st.lists(
    st.one_of(
        st.builds(KeyRecord, id=_IDS, name=_IDS, digest=st.just("ff")),
        _IDS.map(KeyRevoked),
        st.builds(RoleRecord, name=_NAMES, rules=st.just((_RULE,))),
        _NAMES.map(RoleDeleted),
        st.builds(AccessRuleRecord, id=st.integers(1, 4), principal=st.just("*"), rule=st.just(_RULE)),
        st.integers(1, 4).map(AccessRuleDeleted),
    ),
    max_size=20,
)


@pytest.mark.parametrize(("record", "key", "text"), _GOLDEN)
def test_record_has_the_documented_bytes(record: SecurityRecord, key: bytes, text: str) -> None:
    message = frame.decode(encode_security_record(record), 0)
    assert (message.key, bytes(message.value).decode()) == (key, text)
    assert bool(message.flags & frame.TOMBSTONE) == isinstance(record, KeyRevoked | RoleDeleted | AccessRuleDeleted)
    assert decode_security_record(message) == record


def test_fields_of_later_versions_are_passed_over() -> None:
    content = frame.encode(b'{"record":"key_revoked","id":"a1","why":"leaked"}', b"key:a1")
    assert decode_security_record(frame.decode(content, 0)) == KeyRevoked("a1")


def _content(state: SecurityState) -> tuple[Any, ...]:
    return state.keys, state.names, state.roles, state.rules, state.last_rule


@given(_RECORDS)
def test_records_of_a_state_rebuild_it(records: list[SecurityRecord]) -> None:
    state, again = SecurityState(), SecurityState()
    for record in records:
        if not isinstance(record, KeyRecord) or state.names.get(record.name, record.id) == record.id:
            state.apply(record)  # names are unique among keys
    for record in state.records():
        again.apply(record)
    assert _content(again) == _content(state)


@given(_RECORDS)
def test_every_name_is_that_of_a_valid_key(records: list[SecurityRecord]) -> None:
    state = SecurityState()
    for record in records:
        state.apply(record)
    assert set(state.names.values()) <= state.keys.keys()
