"""What a consumer is told when it is made: wrong words are refused by their name, before anything is asked."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from goqueue.client import Client, ConsumerOptions
from goqueue.client.options import own_name
from goqueue.errors import RequestInvalid
from goqueue.limits import CLIENT_ID_CHARACTERS_MAX


@pytest.fixture
def client() -> Iterator[Client]:
    with Client("http://127.0.0.1:1") as made:
        yield made


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": 7},
        {"colour": "blue"},
        {"max_messages": "5"},
        {"max_messages": True},
        {"max_in_flight": 1.5},
        {"max_bytes": None},
        {"wait": None},
        {"session_timeout": [30]},
        {"prefetch": "no"},
        {"extend_leases": None},
        {"skip_damage": 1},
        {"on_assigned": "print"},
        {"on_expired": 7},
        {"order": ["key"]},
    ],
)
def test_what_is_of_a_wrong_type_is_refused_by_its_name(client: Client, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(RequestInvalid, match=name):
        client.consumer("g", ["t"], **wrong)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"max_messages": "5"}, "max_messages is '5', and must be a whole number"),
        ({"max_messages": 0}, "max_messages is 0, and must be 1 to 1000000"),
        ({"wait": "2m"}, "wait is '2m', and must be 0.001 to 60 seconds"),
        ({"until_idle": True}, "until_idle is True, and must be seconds, or text like '500ms'"),
        ({"prefetch": None}, "prefetch is None, and must be True or False"),
        ({"order": "both"}, "order is 'both', and must be one of None, 'none', 'key'"),
        ({"colour": "blue"}, "a consumer has no option colour"),
    ],
)
def test_a_refusal_says_what_was_given_and_what_may_be(client: Client, wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        client.consumer("g", ["t"], **wrong)
    assert refusal.value.sentence == sentence


@pytest.mark.parametrize("group", ["", None, 7, b"g"])
def test_a_group_has_a_name(client: Client, group: Any) -> None:
    with pytest.raises(RequestInvalid, match=r"the group (has no name|is )"):
        client.consumer(group, ["t"])


@pytest.mark.parametrize("topics", [7, None, b"t", ["t", 7], [""], ""])
def test_topics_have_names(client: Client, topics: Any) -> None:
    with pytest.raises(RequestInvalid, match=r"a topic (has no name|is )"):
        client.consumer("g", topics)


def test_a_consumer_holds_what_it_reads_and_what_it_fetches_meanwhile() -> None:
    assert ConsumerOptions().wishes(["t"])["max_in_flight"] == 2_000
    assert ConsumerOptions(max_messages=5).wishes(["t"])["max_in_flight"] == 10
    assert ConsumerOptions(max_messages=5, max_in_flight=7).wishes(["t"])["max_in_flight"] == 7


def test_without_a_name_a_consumer_is_called_by_host_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "till\n3" + "x" * 300)
    names = {own_name(), own_name(), ConsumerOptions().wishes(["t"])["client_id"]}
    assert len(names) == 3
    for name in names:
        assert name.startswith("till3xxx")
        assert len(name) <= CLIENT_ID_CHARACTERS_MAX
        assert name.rpartition("-")[2].partition(".")[0] == str(os.getpid())
    assert ConsumerOptions(client_id="till-3").wishes(["t"])["client_id"] == "till-3"
