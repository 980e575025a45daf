"""The catalog: decisions change nothing, records change everything, and any way to the state is the same state."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.catalog import (
    Catalog,
    CatalogRecord,
    ProducerIdsReserved,
    TopicCreated,
    decode_catalog_record,
    encode_catalog_record,
)
from goqueue.broker.core.delivery_settings import NOTHING_SET
from goqueue.broker.core.topic import TopicSettings, TopicSpec
from goqueue.errors import TopicExists, TopicNameInvalid, TopicNotFound
from goqueue.limits import CLIENT_PRODUCER_ID_MIN
from goqueue.storage import frame

ORDERS = TopicSpec(name="orders", partitions=2)


def facts(catalog: Catalog) -> tuple[object, ...]:
    return catalog.topics, catalog.deleted, catalog.producer_ids_below, catalog.producer_blocks


def test_create_decision_changes_nothing_until_applied() -> None:
    catalog = Catalog()
    record = catalog.create_topic(ORDERS, now_ns=5)
    assert catalog.topics == {}
    catalog.apply(record)
    assert catalog.topics["orders"].partitions == 2


def test_existing_topic_name_is_refused() -> None:
    catalog = Catalog()
    catalog.apply(catalog.create_topic(ORDERS, 5))
    with pytest.raises(TopicExists):
        catalog.create_topic(ORDERS, 6)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 256, "__mine"])
def test_invalid_topic_name_is_refused(name: str) -> None:
    with pytest.raises(TopicNameInvalid):
        Catalog().create_topic(TopicSpec(name=name), 5)


def test_altering_or_deleting_unknown_topic_is_refused() -> None:
    with pytest.raises(TopicNotFound):
        Catalog().alter_topic("orders", {})
    with pytest.raises(TopicNotFound):
        Catalog().delete_topic("orders")


def test_alter_record_contains_the_complete_topic() -> None:
    catalog = Catalog()
    catalog.apply(catalog.create_topic(ORDERS, 5))
    catalog.apply(catalog.alter_topic("orders", {"retention_hours": 2.0}))
    topic = catalog.topics["orders"]
    assert (topic.partitions, topic.created_ns, topic.settings.retention_hours) == (2, 5, 2.0)


def test_producer_id_blocks_are_never_reserved_twice() -> None:
    catalog = Catalog()
    drawn = iter([5, 5, 9])
    for block in (5, 9):
        record = catalog.reserve_producer_ids(lambda _: next(drawn))
        assert not any(map(catalog.has_given, record.ids))
        catalog.apply(record)
        assert (record.block, all(map(catalog.has_given, record.ids))) == (block, True)
        assert not any(map(catalog.has_given, (record.ids.start - 1, record.ids.stop)))


def test_producer_ids_of_earlier_format_stay_reserved() -> None:
    catalog = Catalog()
    catalog.apply(ProducerIdsReserved(3_000))
    drawn = iter([0, 2, 3])
    assert [catalog.has_given(one) for one in (0, 2_999, 3_000)] == [True, True, False]
    assert catalog.reserve_producer_ids(lambda _: next(drawn)).block == 3


def test_client_chosen_producer_ids_are_accepted() -> None:
    assert [Catalog().has_given(one) for one in (CLIENT_PRODUCER_ID_MIN - 1, CLIENT_PRODUCER_ID_MIN)] == [False, True]


steps = st.lists(
    st.tuples(st.sampled_from(["create", "alter", "delete", "reserve"]), st.sampled_from("abc"), st.floats(0, 100)),
    max_size=30,
)


def decide(catalog: Catalog, step: tuple[str, str, float]) -> CatalogRecord | None:
    action, name, hours = step
    try:
        match action:
            case "create":
                return catalog.create_topic(TopicSpec(name=name, settings=TopicSettings(retention_hours=hours)), 5)
            case "alter":
                return catalog.alter_topic(name, {"retention_hours": hours})
            case "delete":
                return catalog.delete_topic(name)
            case _:
                return catalog.reserve_producer_ids(Random(hours).getrandbits)
    except (TopicExists, TopicNotFound):
        return None


@given(steps)
def test_log_compacted_log_and_snapshot_restore_the_same_state(
    taken: list[tuple[str, str, float]],
) -> None:
    catalog = Catalog()
    log = []
    for step in taken:
        if (record := decide(catalog, step)) is not None:
            catalog.apply(record)
            log.append(frame.decode(encode_catalog_record(record)))
    latest = list({message.key: message for message in log}.values())
    for history in (log, latest):
        replayed = Catalog()
        for message in history:
            replayed.apply(decode_catalog_record(message))
        assert facts(replayed) == facts(catalog)
    restored = Catalog()
    for record in catalog.records():
        restored.apply(record)
    assert facts(restored) == facts(catalog)


def test_record_without_delivery_settings_is_decoded() -> None:
    old = (
        b'{"record":"topic_created","name":"orders","partitions":1,"settings":{"retention_hours":168.0,'
        b'"retention_bytes":null,"cleanup":"delete","max_message_bytes":1048576,"partitioner":"murmur3"},"created_ns":5}'
    )
    record = decode_catalog_record(frame.decode(frame.encode(old, b"orders")))
    assert isinstance(record, TopicCreated)
    assert (record.settings, record.settings.delivery()) == (TopicSettings(max_message_bytes=1048576), NOTHING_SET)
