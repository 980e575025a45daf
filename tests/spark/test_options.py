"""Options of the data source: what each may say, which one wins, and that all that is wrong is told at once."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from goqueue.errors import RequestInvalid
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.reading.options import READ_OPTIONS, SCHEMA_OPTIONS, ReadOptions, read_options
from goqueue.spark.reading.plan import ReadBound, TimePoint, TopicSelection

MS = 1_000_000


def options(given: Mapping[str, str] | None = None, **more: str) -> ReadOptions:
    return read_options({"path": "/data", **(given or {}), **more})


def problems(given: Mapping[str, str] | None = None, **more: str) -> list[str]:
    with pytest.raises(RequestInvalid) as caught:
        options(given, **more)
    found: list[str] = caught.value.details["problems"]
    assert caught.value.sentence == "the options of format goqueue are wrong: " + "; ".join(found)
    assert caught.value.hint == "docs/spark.md lists all options"
    return found


def problem(**given: str) -> str:
    (found,) = problems(given)
    return found


def test_a_place_is_enough() -> None:
    found = options()
    assert found == ReadOptions(
        path="/data", url=None, token=None, selection=TopicSelection(), is_delayed=False, isolation="read_committed",
        start=None, end=None, columns=None, has_headers=False, fails_on_loss=True, split_bytes=None,
        partitions_least=None,
        offsets_per_trigger=None, offsets_least=None, trigger_delay=900.0, bytes_per_trigger=None, group=None,
    )  # fmt: skip


def test_names_are_read_in_any_case_as_spark_hands_them_over() -> None:
    written = {
        "subscribe": "a", "startingOffsets": "latest", "failOnDataLoss": "FALSE", "includeHeaders": "True",
        "splitBytes": "64MiB", "minPartitions": "7", "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2",
        "maxTriggerDelay": "5m", "maxBytesPerTrigger": "1GiB", "columns": "key, value", "groupId": "g",
        "isolation": "read_uncommitted", "delayed": "True",
    }  # fmt: skip
    for given in (written, {name.lower(): value for name, value in written.items()},
                  {name.upper(): value for name, value in written.items()}):  # fmt: skip
        found = options(given)
        assert found == ReadOptions(
            path="/data", url=None, token=None, selection=TopicSelection(("a",)), is_delayed=True,
            isolation="read_uncommitted", start=ReadBound("latest"), end=None, columns=("key", "value"),
            has_headers=True, fails_on_loss=False, split_bytes=64 << 20, partitions_least=7, offsets_per_trigger=5,
            offsets_least=2,
            trigger_delay=300.0, bytes_per_trigger=1 << 30, group="g",
        )  # fmt: skip


def test_all_that_is_wrong_is_told_at_once() -> None:
    given = {
        "subscribe": "t",
        "assign": '{"t": [0]}',
        "splitBytes": "0",
        "minPartitions": "many",
        "sunshine": "3",
    }
    assert sorted(problems(given)) == [
        "'sunshine' is no option",
        "minPartitions: 'many' is not a number above 0",
        "splitBytes: '0' is no size to read in",
        "subscribe and assign exclude each other: give one of them",
    ]


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("subscripe", "subscribe"), ("startingOffset", "startingOffsets"), ("goqueue.uri", "goqueue.url"),
     ("failondatalos", "failOnDataLoss"), ("minpartition", "minPartitions"), ("url", "goqueue.url"),
     ("topic", "subscribe"), ("kafka.bootstrap.servers", "goqueue.url")],
)  # fmt: skip
def test_what_was_probably_meant_is_named(wrong: str, meant: str) -> None:
    assert problems({wrong: "x"}) == [f"'{wrong}' is no option (did you mean {meant}?)"]


def test_one_place_is_needed_and_not_two() -> None:
    with pytest.raises(RequestInvalid, match=r"one of path, backup and goqueue[.]url is needed"):
        read_options({})
    assert problems({"goqueue.url": "http://127.0.0.1:1"}) == [
        "path and goqueue.url exclude each other: give one of them"
    ]
    found = read_options({"goqueue.url": "http://127.0.0.1:1", "goqueue.token": "secret"})
    assert found.logs() == BrokerLogs("http://127.0.0.1:1", "secret")
    assert "secret" not in repr(found.logs())
    found = read_options({"goqueue.url": "http://127.0.0.1:1", "goqueue.tenant": "team-a"})
    assert found.logs() == BrokerLogs("http://127.0.0.1:1", tenant="team-a")
    assert problems({"path": "/d", "goqueue.tenant": "team-a"}) == [
        "goqueue.tenant needs goqueue.url: a directory has the full names"
    ]


# --- selections ---


def test_topics_are_named_matched_or_assigned() -> None:
    assert options(subscribe=" a, b ,").selection == TopicSelection(("a", "b"))
    assert options(subscribePattern="a|b.*").selection == TopicSelection(pattern="a|b.*")
    assert options(assign='{"a": [0, 2], "b": [1]}').selection == TopicSelection(assigned={"a": (0, 2), "b": (1,)})


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_no_topic_is_no_subscription(text: str) -> None:
    assert problem(subscribe=text) == f"subscribe: {text!r} names nothing"


@pytest.mark.parametrize("text", ["(", "*", "a{2,1}"])
def test_a_pattern_has_to_be_one(text: str) -> None:
    assert problem(subscribePattern=text).startswith(f"subscribePattern: {text!r} is not a pattern: ")


@pytest.mark.parametrize("text", ["", "orders", "[]", "{}", "null", '"orders"', '{"orders": [0}', "[" * 100_000])
def test_an_assignment_has_to_be_an_object(text: str) -> None:
    found = problem(assign=text)
    assert found.endswith('is not what is expected here; write it as in {"orders": [0, 1]}')
    assert len(found) < 400


@pytest.mark.parametrize("numbers", ["[]", "0", "[-1]", '["0"]', "[0.5]", "[true]", "null", '{"0": 1}'])
def test_partitions_are_numbers(numbers: str) -> None:
    found = problem(assign=f'{{"orders": {numbers}}}')
    assert found.startswith("assign: the partitions of 'orders' are ")
    assert found.endswith("; write them as in [0, 1]")


# --- ends ---


def test_offsets_are_a_word_for_all_or_numbers_and_words_for_each() -> None:
    assert options(startingOffsets="earliest").start == ReadBound("earliest")
    assert options(startingOffsets="LATEST", endingOffsets="latest").start == ReadBound("latest")
    found = options(startingOffsets='{"a": {"0": 23, "1": -2, "2": -1}}').start
    assert found == ReadBound("earliest", {("a", 0): 23, ("a", 1): "earliest", ("a", 2): "latest"})
    found = options(endingOffsets='{"a": {"0": 23, "2": -1}, "b": {"0": 0}}').end
    assert found == ReadBound("latest", {("a", 0): 23, ("a", 2): "latest", ("b", 0): 0})


def test_nothing_ends_at_the_earliest() -> None:
    told = "endingOffsets: earliest is where nothing has been read yet; latest, or offsets"
    assert problem(endingOffsets="earliest") == told
    assert problem(endingOffsets='{"a": {"0": -2}}') == told


def test_a_time_for_all_wins_over_times_for_each_and_these_over_offsets() -> None:
    all_, each, offsets = "1760000000123", '{"a": {"0": 5}}', '{"a": {"0": 9}}'
    for end, otherwise in (("starting", "earliest"), ("ending", "latest")):
        names = [f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets"]
        given = dict(zip(names, (all_, each, offsets), strict=True))
        wanted = [
            ReadBound(TimePoint(1760000000123 * MS)),
            ReadBound(otherwise, {("a", 0): TimePoint(5 * MS)}),  # type: ignore[arg-type]
            ReadBound(otherwise, {("a", 0): 9}),  # type: ignore[arg-type]
            None,
        ]
        for name, bound in zip([*names, ""], wanted, strict=True):
            found = options(given)
            assert (found.start if end == "starting" else found.end) == bound
            given.pop(name, None)


def test_a_time_may_be_written_as_people_write_it() -> None:
    assert options(startingTimestamp="2026-03-01T12:00:00.5Z").start == ReadBound(TimePoint(1772366400_500 * MS))


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "1" * 30, "2026-03-01", "\u0661\u0662"])
def test_a_time_has_to_be_one(text: str) -> None:
    assert problem(startingTimestamp=text).startswith("startingTimestamp: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("now", "startingOffsets: 'now' is not what is expected here; write it as in {\"orders\": {\"0\": 23}}"),
        ("{}", "startingOffsets: '{}' is not what is expected here; write it as in {\"orders\": {\"0\": 23}}"),
        ('{"a": 5}', "startingOffsets: 'a' has '5'; write it as in {\"orders\": {\"0\": 23}}"),
        *[
            (f'{{"a": {{"{number}": {value}}}}}', f"startingOffsets: partition '{number}' of 'a' has {shown}; it takes "
             "an offset, -2 for the earliest or -1 for the latest")
            for number, value, shown in [("0", "-3", "-3"), ("x", "1", "1"), ("-1", "1", "1"), ("0", "null", "None"),
                                         ("0", "1.5", "1.5"), ("0", "true", "True"), ("0", str(2**63), str(2**63))]
        ],
    ],
)  # fmt: skip
def test_offsets_have_to_be_some(text: str, told: str) -> None:
    assert problem(startingOffsets=text) == told


def test_times_for_each_are_milliseconds() -> None:
    assert problem(endingOffsetsByTimestamp='{"a": {"0": -1}}') == (
        "endingOffsetsByTimestamp: partition '0' of 'a' has -1; it takes milliseconds since the epoch"
    )


# --- the rest ---


@pytest.mark.parametrize("name", ["minPartitions", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "many", "1e3", "\u0663", "1" + "0" * 30, "9" * 5000])
def test_a_count_is_a_number_above_zero(name: str, text: str) -> None:
    found = problem(**{name: text})
    assert found.startswith(f"{name}: '")
    assert found.endswith("is not a number above 0")


@pytest.mark.parametrize("name", ["splitBytes", "maxBytesPerTrigger"])
@pytest.mark.parametrize("text", ["", "0", "-1", "big", "5 apples", "0.3"])
def test_a_size_is_some_bytes(name: str, text: str) -> None:
    assert problem(**{name: text}).startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["failOnDataLoss", "includeHeaders", "delayed"])
@pytest.mark.parametrize("text", ["", "yes", "1", "no"])
def test_a_choice_is_true_or_false(name: str, text: str) -> None:
    assert problem(**{name: text}) == f"{name}: {text!r} is neither true nor false"


def test_the_other_values_are_checked_too() -> None:
    assert problem(isolation="dirty") == "isolation: 'dirty' is neither read_committed nor read_uncommitted"
    assert problem(maxTriggerDelay="soon").startswith("maxTriggerDelay: 'soon' is not a duration")
    assert problem(columns=" ") == "columns: ' ' names nothing"


def test_every_option_that_is_known_is_read() -> None:
    examples = {
        "path": "/d", "goqueue.url": "http://h", "goqueue.token": "t", "subscribe": "a", "subscribePattern": "a",
        "assign": '{"a": [0]}', "startingOffsets": "latest", "endingOffsets": "latest", "startingTimestamp": "5",
        "endingTimestamp": "5", "startingOffsetsByTimestamp": '{"a": {"0": 1}}',
        "endingOffsetsByTimestamp": '{"a": {"0": 1}}', "maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "1",
        "maxTriggerDelay": "1s", "maxBytesPerTrigger": "1", "minPartitions": "1", "splitBytes": "1",
        "failOnDataLoss": "false", "includeHeaders": "true", "columns": "key", "groupId": "g",
        "isolation": "read_committed", "delayed": "true", "goqueue.caFile": "ca.pem",
        "goqueue.clientCert": "c.pem", "goqueue.clientKey": "c.key", "schemas": "own", "schemaSubject": "s",
        "schemaVersion": "1", "keySchemaSubject": "s", "keySchemaVersion": "1", "includeKeyData": "true",
        "mode": "FAILFAST", "backup": "/b", "backupId": "i", "backup.endpoint": "https://h", "backup.region": "r",
        "backup.credentialsFile": "c", "backup.allowHttp": "true", "backup.keyFile": "k",
        "goqueue.tenant": "team-a",
    }  # fmt: skip
    assert set(examples) == set(READ_OPTIONS)
    for name, value in examples.items():
        place = {} if name in ("path", "goqueue.url", "backup") else {"path": "/data"}
        place = {"backup": "/b"} if name.startswith("backup") and name != "backup" else place
        place = {"goqueue.url": "http://h"} if name == "goqueue.tenant" else place
        place |= {"schemas": "file.json"} if name in SCHEMA_OPTIONS else {}
        plain = read_options(place or {"path": "/data"})
        assert read_options({**place, name: value}) != plain or name == "isolation"


def test_key_of_the_environment_is_for_brokers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("gq_key\n")
    monkeypatch.setenv("GOQUEUE_API_KEY_FILE", str(file))
    broker = {"goqueue.url": "http://127.0.0.1:1"}
    found = [read_options(given).token for given in (broker, broker | {"goqueue.token": "own"}, {"path": "/data"})]
    assert found == ["gq_key", "own", None]
