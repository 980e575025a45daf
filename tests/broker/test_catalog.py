"""The catalog: decisions change nothing, records change everything, and any way to the state is the same state."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.catalog import Catalog, ProducerIdsReserved, Record, decode_record, encode_record
from goqueue.broker.topic import TopicSettings, TopicSpec
from goqueue.errors import TopicExists, TopicNameInvalid, TopicNotFound
from goqueue.limits import PRODUCER_IDS_CHOSEN
from goqueue.storage import frame

ORDERS = TopicSpec(name="orders", partitions=2)


def facts(catalog: Catalog) -> tuple[object, ...]:
    return catalog.topics, catalog.deleted, catalog.producer_ids_below, catalog.producer_blocks


def test_a_decision_changes_nothing_until_it_is_applied() -> None:
    catalog = Catalog()
    record = catalog.create_topic(ORDERS, now_ns=5)
    assert catalog.topics == {}
    catalog.apply(record)
    assert catalog.topics["orders"].partitions == 2


def test_a_name_is_taken_once() -> None:
    catalog = Catalog()
    catalog.apply(catalog.create_topic(ORDERS, 5))
    with pytest.raises(TopicExists):
        catalog.create_topic(ORDERS, 6)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 256, "__mine"])
def test_names_that_no_topic_may_have_are_refused(name: str) -> None:
    with pytest.raises(TopicNameInvalid):
        Catalog().create_topic(TopicSpec(name=name), 5)


def test_what_is_not_there_can_neither_be_changed_nor_deleted() -> None:
    with pytest.raises(TopicNotFound):
        Catalog().alter_topic("orders", {})
    with pytest.raises(TopicNotFound):
        Catalog().delete_topic("orders")


def test_a_change_tells_the_whole_topic() -> None:
    catalog = Catalog()
    catalog.apply(catalog.create_topic(ORDERS, 5))
    catalog.apply(catalog.alter_topic("orders", {"retention_hours": 2.0}))
    topic = catalog.topics["orders"]
    assert (topic.partitions, topic.created_ns, topic.settings.retention_hours) == (2, 5, 2.0)


def test_producer_ids_are_reserved_in_blocks_that_were_never_taken() -> None:
    catalog = Catalog()
    drawn = iter([5, 5, 9])
    for block in (5, 9):
        record = catalog.reserve_producer_ids(lambda _: next(drawn))
        assert not any(map(catalog.has_given, record.ids))
        catalog.apply(record)
        assert (record.block, all(map(catalog.has_given, record.ids))) == (block, True)
        assert not any(map(catalog.has_given, (record.ids.start - 1, record.ids.stop)))


def test_the_ids_of_a_directory_of_a_former_version_stay_known_and_taken() -> None:
    catalog = Catalog()
    catalog.apply(ProducerIdsReserved(3_000))
    drawn = iter([0, 2, 3])
    assert [catalog.has_given(one) for one in (0, 2_999, 3_000)] == [True, True, False]
    assert catalog.reserve_producer_ids(lambda _: next(drawn)).block == 3


def test_ids_that_clients_choose_are_known() -> None:
    assert [Catalog().has_given(one) for one in (PRODUCER_IDS_CHOSEN - 1, PRODUCER_IDS_CHOSEN)] == [False, True]


def test_a_deletion_is_a_tombstone_in_the_log() -> None:
    message = frame.decode(encode_record(catalog_with("orders").delete_topic("orders")))
    assert message.is_tombstone
    assert message.key == b"orders"


def catalog_with(name: str) -> Catalog:
    catalog = Catalog()
    catalog.apply(catalog.create_topic(TopicSpec(name=name), 5))
    return catalog


steps = st.lists(
    st.tuples(st.sampled_from(["create", "alter", "delete", "reserve"]), st.sampled_from("abc"), st.floats(0, 100)),
    max_size=30,
)


def decide(catalog: Catalog, step: tuple[str, str, float]) -> Record | None:
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
def test_all_records_the_latest_of_each_key_and_those_of_a_snapshot_make_the_same_state(
    taken: list[tuple[str, str, float]],
) -> None:
    catalog = Catalog()
    log = []
    for step in taken:
        if (record := decide(catalog, step)) is not None:
            catalog.apply(record)
            log.append(frame.decode(encode_record(record)))
    latest = list({message.key: message for message in log}.values())
    for history in (log, latest):
        replayed = Catalog()
        for message in history:
            replayed.apply(decode_record(message))
        assert facts(replayed) == facts(catalog)
    restored = Catalog()
    for record in catalog.records():
        restored.apply(record)
    assert facts(restored) == facts(catalog)
