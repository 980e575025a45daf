"""Compressed values in answers: one bound for a request, one for all requests together."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from goqueue.api import message_json
from goqueue.api.message_json import DecompressedMemory, MessageJson
from goqueue.api.reading import TopicReadResponse
from goqueue.errors import BrokerOverloaded
from goqueue.limits import MIB, READ_BYTES_MAX
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import section, send
from tests.brokers import ask, create

PARTITIONS = 20
LARGE = 4 * MIB


def packed(size: int) -> bytes:
    return frame.encode(zstandard.ZstdCompressor().compress(b" " * size), flags=frame.COMPRESSED)


def message(content: bytes) -> frame.StoredMessage:
    return frame.decode(content)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A topic whose messages are small, and 4 MiB each once they are unpacked."""
    with LocalBroker(str(tmp_path_factory.mktemp("data"))) as broker:
        create(broker.url, "t", PARTITIONS)
        content = packed(LARGE) * 3
        assert send(broker.url, b"".join(section(number, content) for number in range(PARTITIONS))).status == 200
        yield broker.url


def read(url: str, path: str) -> Any:
    answer = ask(url, "GET", path)
    assert answer.status == 200, answer.body
    return answer.json


def test_read_of_a_topic_unpacks_no_more_than_a_read_of_a_partition(url: str) -> None:
    answer = read(url, "/topics/t/messages?limit=1000")
    assert [len(one["value"]) for one in answer["messages"]] == [LARGE] * (READ_BYTES_MAX // LARGE)
    assert sum(answer["next_offsets"].values()) == len(answer["messages"])


def test_read_continues_after_values_without_room(url: str) -> None:
    positions = read(url, "/topics/t/messages?limit=1000")["next_offsets"]
    rest = read(url, f"/topics/t/partitions/1/messages?max_bytes=16777216&offset={positions['1']}")
    assert rest["messages"][-1]["offset"] == 2
    assert rest["next_offset"] == 3


def test_filtered_read_of_a_topic_unpacks_a_bounded_amount(url: str) -> None:
    answer = read(url, "/topics/t/messages?filter=value~x")
    assert (answer["messages"], answer["matched"]) == ([], 0)
    assert answer["scanned"] * LARGE <= 3 * READ_BYTES_MAX


def test_messages_behind_what_no_filter_looked_at_are_left_for_later(url: str) -> None:
    answer = read(url, "/topics/t/messages?filter=value~%20&limit=1000")
    assert sum(len(one["value"]) for one in answer["messages"]) <= READ_BYTES_MAX
    assert sum(answer["next_offsets"].values()) == len(answer["messages"])


def test_largest_value_is_readable(url: str) -> None:
    create(url, "large")
    assert send(url, section(0, packed(READ_BYTES_MAX) + packed(READ_BYTES_MAX)), "large").status == 200
    for path in ("/topics/large/messages", "/topics/large/partitions/0/messages?max_bytes=1"):
        assert [len(one["value"]) for one in read(url, path)["messages"]] == [READ_BYTES_MAX]


def test_poll_shows_values_beyond_the_bound_as_they_are_stored(url: str) -> None:
    member = ask(url, "POST", "/groups/g/join", {"topics": ["t"]}).json
    polled = read(url, f"/groups/g/poll?member_id={member['member_id']}&timeout=30s")["messages"]
    assert [one.get("encoding") for one in polled].count(None) == READ_BYTES_MAX // LARGE
    assert {one.get("encoding") for one in polled} == {None, "zstd"}


def test_values_of_other_requests_are_counted_until_their_answers_are_made() -> None:
    memory = DecompressedMemory(bytes_max=10_000)
    with memory.budget() as one, memory.budget() as other:
        assert one.decompress(message(packed(8_000))) == b" " * 8_000
        with pytest.raises(BrokerOverloaded, match="decompressed values") as refused:
            other.decompress(message(packed(8_000)))
        assert refused.value.details["retry_after"] == 1
    assert memory.held == 0
    with memory.budget() as another:
        assert another.decompress(message(packed(20_000))) == b" " * 20_000


def test_value_that_does_not_say_its_size_is_counted_once_it_is_unpacked() -> None:
    memory, compressor = DecompressedMemory(), zstandard.ZstdCompressor(write_content_size=False)
    content = frame.encode(compressor.compress(b"x" * 5_000), flags=frame.COMPRESSED)
    with memory.budget() as budget:
        assert budget.decompress(message(content)) == b"x" * 5_000
        assert memory.held == 5_000


@given(values=st.lists(st.none() | st.text(max_size=60), max_size=6))
def test_answer_in_parts_is_the_answer_as_a_whole(values: list[str | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_json, "_PIECE_CHARACTERS", 7)
        patch.setattr(message_json, "_PART_BYTES", 50)
        messages = [MessageJson(number, "now", "k", value, 2, {"a": "b"}, 3) for number, value in enumerate(values)]
        answer = TopicReadResponse(messages, {"0": 3}, scanned=4)
        assert b"".join(message_json.encode_messages(answer)) == msgspec.json.encode(answer)
