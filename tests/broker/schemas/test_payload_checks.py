"""Which messages a topic with validation takes: ids, subjects, forms, all three formats, and the cache behind it."""

import json
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from goqueue import compression
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.core.validation_settings import validation_rules
from goqueue.broker.core.work import Work, run_work
from goqueue.broker.schemas import limits, payload_checks
from goqueue.broker.schemas.compiled_schemas import CompiledSchemas
from goqueue.broker.schemas.records import ReferenceRecord, SchemaContent, VersionRecord
from goqueue.errors import CallerError, RequestTooLarge, SchemaViolation
from goqueue.schemas.framing import encode_prefix
from goqueue.storage import frame
from goqueue.storage.frame import COMPRESSED, HAS_HEADERS, TOMBSTONE, FrameContent
from goqueue.testing.disk import Crashed
from tests.broker.brokers import KEEPS, Running

JSON_ORDER = '{"title":"Order","type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}'
AVRO_ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
PROTOBUF_ORDERS = """
syntax = "proto3";
package shop;
message Order { int64 id = 1; message Line { string sku = 1; } }
message Refund { int64 id = 1; }
"""


class Shop:
    """A registry, and messages for the topic `orders`."""

    def __init__(self) -> None:
        self.running = Running()
        self.registry = self.running.broker.schemas

    def do(self, work: Work[Any]) -> Any:
        return run_work(work, self.running.flush)

    def register(self, subject: str, text: str, kind: str = "JSON") -> int:
        record: VersionRecord = self.do(self.registry.register(subject, SchemaContent(kind=kind, text=text)))
        return record.id

    def refusal(self, *messages: FrameContent, **settings: Any) -> SchemaViolation | None:
        return checked(self.running, settings, *messages)

    def problem(self, *messages: FrameContent, **settings: Any) -> str:
        """The problem of the first bad message, empty if there is none."""
        refusal = self.refusal(*messages, **settings)
        return "" if refusal is None else str(refusal.details["problems"][0]["problem"])


def checked(
    running: Running, settings: dict[str, Any], *messages: FrameContent, prefix: str = ""
) -> SchemaViolation | None:
    checker = running.broker.schemas.checker
    batch = checker.begin("orders", validation_rules(TopicSettings(**settings)), prefix)
    for index, message in enumerate(messages):
        while (needed := batch.check(index, message)) is not None:
            run_work(checker.load(needed), running.flush)
    return batch.refusal("messages[{}]")


def message(value: bytes, key: bytes | None = None, flags: int = 0, **headers: str) -> FrameContent:
    encoded = frame.encode_headers({name.replace("_", "-"): text.encode() for name, text in headers.items()})
    return FrameContent(flags | (HAS_HEADERS if headers else 0), key, value, encoded)


PAYLOAD: dict[str, Any] = {"value_validation": "payload"}
ID = {"value_validation": "id"}
GOOD, BAD = b'{"id":1}', b'{"id":"x"}'


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_value_without_an_id_must_match_the_latest_version_of_its_subject(shop: Shop) -> None:
    assert "'orders-value' has no schema" in shop.problem(message(GOOD), **PAYLOAD)
    shop.register("orders-value", JSON_ORDER)
    assert shop.problem(message(GOOD), **PAYLOAD) == ""
    assert shop.problem(message(b""), **PAYLOAD).startswith("not JSON")
    shop.do(shop.registry.set_config("orders-value", "NONE"))
    shop.register("orders-value", '{"type":"string"}')
    assert "is not of type" in shop.problem(message(GOOD), **PAYLOAD), "the next batch sees a new version"
    shop.do(shop.registry.delete_version("orders-value", "2"))
    assert shop.problem(message(GOOD), **PAYLOAD) == "", "and a deletion"
    assert shop.problem(message(BAD)) == "", "without the setting nothing is checked"


def test_deletions_of_a_value_and_missing_keys_pass(shop: Shop) -> None:
    everything = {"value_validation": "payload", "key_validation": "id"}
    number = shop.register("orders-key", '{"type":"string"}')
    assert shop.problem(message(b"", b"k", TOMBSTONE, key_schema_id=str(number)), **everything) == ""
    assert "has no schema id" in shop.problem(message(b"", b"k", TOMBSTONE), **everything)
    shop.register("orders-value", JSON_ORDER)
    assert shop.problem(message(GOOD), **everything) == ""


@pytest.mark.parametrize("form", ["prefix", "header"])
def test_id_must_be_one_of_the_subject(shop: Shop, form: str) -> None:
    mine, other = shop.register("orders-value", JSON_ORDER), shop.register("refunds-value", '{"type":"string"}')

    def of(number: int, value: bytes) -> FrameContent:
        return message(encode_prefix(number) + value) if form == "prefix" else message(value, schema_id=str(number))

    for number in (other, 9, 2**31 - 1):
        for settings in (ID, PAYLOAD):
            assert f"has the schema id {number}, which" in shop.problem(of(number, GOOD), **settings)
    assert shop.problem(of(mine, BAD), **ID) == "", "an id is all that is checked"
    assert "is not of type" in shop.problem(of(mine, BAD), **PAYLOAD)
    assert shop.problem(of(mine, GOOD), **PAYLOAD) == ""
    shop.do(shop.registry.delete_version("orders-value", "1"))
    assert "which no version" in shop.problem(of(mine, GOOD), **ID), "a soft-deleted version does not count"
    assert "has no schema id" in shop.problem(message(GOOD), **ID)


def test_unreadable_headers_and_compression_are_refused(shop: Shop) -> None:
    number = shop.register("orders-value", JSON_ORDER)
    assert "is no schema id" in shop.problem(message(GOOD, schema_id="one"), **PAYLOAD)
    headers = frame.encode_headers([("schema-id", b"%d" % number)] * 2)
    twice = FrameContent(HAS_HEADERS, None, GOOD, headers)
    assert shop.problem(twice, **PAYLOAD) == "has 2 headers schema-id"
    assert "a compressed value" in shop.problem(message(b"not zstd", flags=COMPRESSED), **PAYLOAD)
    packed = compression.compress(b'{"note":"' + b"x" * 500 + b'"}')
    assert packed is not None
    assert "is a required property" in shop.problem(message(packed, flags=COMPRESSED), **PAYLOAD)


def test_small_batch_that_is_huge_without_compression_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.register("orders-value", "true")
    monkeypatch.setattr(payload_checks, "CHECK_BYTES_MAX", 1_000)
    packed = compression.compress(json.dumps("x" * 600).encode())
    assert packed is not None
    assert shop.problem(message(packed, flags=COMPRESSED), **PAYLOAD) == ""
    with pytest.raises(RequestTooLarge):
        shop.problem(*[message(packed, flags=COMPRESSED)] * 2, **PAYLOAD)


def test_large_invalid_payloads_are_explained_up_to_a_limit_and_schemas_are_limited(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_checks, "CHECK_EXPLAINED_BYTES_MAX", 100)
    monkeypatch.setattr(payload_checks, "CHECK_SCHEMAS_MAX", 2)
    numbers = [shop.register("orders-value", f'{{"type":"integer","maximum":{most}}}') for most in (1, 2, 3)]
    large = message(b'"%b"' % (b"x" * 200))
    refusal = shop.refusal(large, large, **PAYLOAD)
    assert refusal is not None
    assert ["is not of type" in one["problem"] for one in refusal.details["problems"]] == [True, False]
    each = [message(b"1", schema_id=str(number)) for number in numbers]
    assert shop.problem(*each[:2], **PAYLOAD) == ""
    with pytest.raises(RequestTooLarge):
        shop.problem(*each, **PAYLOAD)


def test_avro_and_protobuf_are_checked_in_each_form(shop: Shop) -> None:
    avro = shop.register("orders-value", AVRO_ORDER, "AVRO")
    assert shop.problem(message(encode_prefix(avro) + b"\x02"), **PAYLOAD) == ""
    assert "ends inside" in shop.problem(message(encode_prefix(avro)), **PAYLOAD)
    assert shop.problem(message(b"\x02", schema_id=str(avro)), message(b"\x02"), **PAYLOAD) == ""
    protobuf = shop.register("orders-key", PROTOBUF_ORDERS, "PROTOBUF")
    keys = {"key_validation": "payload"}
    for key in (
        encode_prefix(protobuf, [1]) + b"\x08\x01",
        encode_prefix(protobuf, [0, 0]) + b"\x0a\x01a",
        b"\x08\x01",
    ):
        assert shop.problem(message(b"", key), **keys) == ""
    assert "does not begin" in shop.problem(message(b"", encode_prefix(protobuf)), **keys)
    for stated in (f"{protobuf}", f"{protobuf}:1"):
        assert shop.problem(message(b"", b"\x08\x01", key_schema_id=stated), **keys) == ""
    assert "not a message of shop.Order.Line" in shop.problem(
        message(b"", b"\x0a\xff", key_schema_id=f"{protobuf}:0,0"), **keys
    )


@pytest.mark.parametrize(("naming", "begin"), [("record", ""), ("topic-record", "orders-")])
def test_subject_may_be_named_after_the_record(shop: Shop, naming: str, begin: str) -> None:
    names = (
        ("shop.Order", AVRO_ORDER, "AVRO"),
        ("Order", JSON_ORDER, "JSON"),
        ("shop.Refund", PROTOBUF_ORDERS, "PROTOBUF"),
    )
    avro, as_json, protobuf = (shop.register(begin + name, text, kind) for name, text, kind in names)
    for validation in ("id", "payload"):
        rule = {"value_validation": validation, "value_subject": naming}
        good = [
            message(encode_prefix(avro) + b"\x02"),
            message(GOOD, schema_id=str(as_json)),
            message(encode_prefix(protobuf, [1]) + b"\x08\x01"),
            message(b"\x08\x01", schema_id=f"{protobuf}:1"),
        ]
        assert shop.problem(*good, **rule) == ""
        assert "has no schema id" in shop.problem(message(GOOD), **rule)
        for wrong in (encode_prefix(protobuf, [0]), encode_prefix(protobuf, [0, 0]), encode_prefix(protobuf, [7])):
            assert "no subject has" in shop.problem(message(wrong), **rule), (
                "the file is not in the subject of this one"
            )
        assert "message indexes" in shop.problem(message(encode_prefix(protobuf)), **rule)
        assert "no subject has" in shop.problem(message(GOOD, schema_id="99"), **rule)


def test_record_in_a_topic_of_a_tenant_has_a_subject_of_the_tenant(shop: Shop) -> None:
    settings = {"value_validation": "payload", "value_subject": "record"}
    number = shop.register("Order", JSON_ORDER)
    order = message(GOOD, schema_id=str(number))
    assert checked(shop.running, settings, order) is None
    assert checked(shop.running, settings, order, prefix="team-a.") is not None
    assert shop.register("team-a.Order", JSON_ORDER) == number
    assert checked(shop.running, settings, order, prefix="team-a.") is None


def test_refusal_names_the_first_bad_messages_and_counts_all(shop: Shop) -> None:
    number = shop.register("orders-value", JSON_ORDER)
    refusal = shop.refusal(message(GOOD), *[message(BAD)] * 50, message(GOOD), **PAYLOAD)
    assert refusal is not None
    assert refusal.sentence == (
        'the value of message 1 at /id: "x" is not of type "integer"; 49 more of 52 messages are invalid'
    )
    problems = refusal.details.pop("problems")
    assert refusal.details.pop("invalid_indexes") == list(range(1, 51))
    assert refusal.details == {"topic": "orders", "messages": 52, "invalid": 50}
    assert [one["index"] for one in problems] == list(range(1, 1 + limits.CHECK_PROBLEMS_MAX))
    assert problems[0] == {
        "index": 1,
        "place": "messages[1].value",
        "path": "/id",
        "problem": '"x" is not of type "integer"',
        "schema_id": number,
    }
    assert refusal.hint == "`goqueue-cli schema describe orders-value` shows the schema"
    assert shop.registry.checker.checked == 52
    assert shop.registry.checker.refused["payload"] == 50


def test_cache_of_compiled_schemas_keeps_those_that_were_used_last_within_its_bounds(shop: Shop) -> None:
    for name in "abcd":
        shop.register(name, f'{{"title":"{name}"}}')
    records = {name: shop.registry.queries.version(name, "latest") for name in "abcd"}
    state = shop.registry.queries.state
    by_count, by_bytes = CompiledSchemas(count_max=3), CompiledSchemas(bytes_max=3 * limits.COMPILED_BYTES_BASE)
    for cache in (by_count, by_bytes):
        for name in ("a", "b", "a", "c", "d"):
            if cache.get(records[name]) is None:
                run_work(cache.load(state, records[name]))
    assert [name for name in "abcd" if by_count.get(records[name])] == ["a", "c", "d"]
    assert [name for name in "abcd" if by_bytes.get(records[name])] == ["c", "d"]
    assert by_bytes.held_bytes <= 3 * limits.COMPILED_BYTES_BASE


def test_equal_schema_whose_reference_became_another_one_is_compiled_again(shop: Shop) -> None:
    """Its text, its id and the names of its references are the same."""

    def register(kind: str) -> int:
        shop.register("amount", f'{{"type":"{kind}"}}')
        content = SchemaContent(
            kind="JSON", text='{"$ref":"amount"}', references=(ReferenceRecord("amount", "amount", 1),)
        )
        record: VersionRecord = shop.do(shop.registry.register("orders-value", content))
        return record.id

    first = register("integer")
    assert shop.problem(message(b"1"), **PAYLOAD) == ""
    for subject in ("orders-value", "amount"):
        for permanent in (False, True):
            shop.do(shop.registry.delete_subject(subject, permanent=permanent))
    assert register("string") == first
    assert "is not of type" in shop.problem(message(b"1"), **PAYLOAD)


# --- crashes ---

_KINDS = {"integer": b"1", "string": b'"x"', "boolean": b"true", "null": b"null"}
_SUBJECT = "orders-value"


def _naive_is_valid(text: str, body: bytes) -> bool:
    kinds = {"integer": int, "string": str, "boolean": bool, "null": type(None)}
    return type(json.loads(body)) is kinds[json.loads(text)["type"]]


def _live_step(running: Running, chance: Random, texts: dict[int, str]) -> None:
    """Register, delete, or publish a batch that the check has let pass."""
    registry, what = running.broker.schemas, chance.choice(("register", "delete", "publish", "publish", "publish"))
    if what == "register":
        text = json.dumps({"type": chance.choice(list(_KINDS))})
        record = run_work(registry.register(_SUBJECT, SchemaContent(kind="JSON", text=text)), running.flush)
        assert texts.setdefault(record.id, record.content.text) == record.content.text
    elif what == "delete":
        run_work(registry.delete_subject(_SUBJECT, permanent=chance.random() < 0.5), running.flush)
    else:
        bodies = chance.choices(list(_KINDS.values()), k=chance.randint(1, 2))
        values = [encode_prefix(chance.randint(1, len(_KINDS))) + body for body in bodies]
        refusal = checked(running, PAYLOAD, *map(message, values))
        if refusal is None:
            running.publish(b"".join(map(frame.encode, values)))


@pytest.mark.parametrize("seed", range(3))
def test_no_message_in_the_log_breaks_the_schema_of_its_id_over_crashes(seed: int) -> None:
    chance, texts, stored, running = Random(seed), dict[int, str](), 0, Running()
    running.create("orders", 1, **PAYLOAD)
    run_work(running.broker.schemas.set_config("", "NONE"), running.flush)
    for _ in range(10):
        running.disk.crash_at(running.disk.operations + chance.randint(20, 150))
        try:
            while True:
                with suppress(CallerError):  # nothing to delete
                    _live_step(running, chance, texts)
        except Crashed:
            pass
        running = running.crash(chance.choice(KEEPS))
        texts |= {number: users[0].content.text for number, users in _users(running).items()}
        assert running.broker.topics["orders"].validation, "the setting survives"
        content = b"".join(run_work(running.partition().read(0, 2**30)).buffers)
        stored = 0
        for position in frame.walk(content):
            value = frame.decode(content, position).value
            assert _naive_is_valid(texts[int.from_bytes(value[1:5], "big")], value[5:])
            stored += 1
    assert stored


def _users(running: Running) -> dict[int, Any]:
    state = running.broker.schemas.queries.state
    return {number: state.users(number) for number in state.uses}
