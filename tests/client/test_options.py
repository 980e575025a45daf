"""Options: invalid ones are refused by name before any request, and type checkers know the same ones."""

import os
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from goqueue.api.dead_letters import RedriveRequest
from goqueue.api.delivery import DURATIONS
from goqueue.broker.core import topic
from goqueue.client import (
    Client,
    ConsumerArguments,
    ConsumerOptions,
    HandlerArguments,
    Options,
    ProducerArguments,
    TopicSettings,
    WorkerArguments,
)
from goqueue.client.consumer_core import default_client_id
from goqueue.client.dead_letter_requests import RedriveArguments
from goqueue.client.handler_options import HandlerOptions
from goqueue.client.message_encoding import PriorityName
from goqueue.errors import RequestInvalid
from goqueue.limits import CLIENT_ID_CHARACTERS_MAX
from goqueue.storage.frame import PRIORITIES


@pytest.fixture
def client() -> Iterator[Client]:
    with Client("http://127.0.0.1:1") as made:
        yield made


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": 7}, {"client_id": ""}, {"colour": "blue"}, {"protocol": "lazy"}, {"order": ["key"]},
        {"start": "now"}, {"assignment_strategy": "fair"}, {"max_messages": "5"}, {"max_messages": True},
        {"max_messages": 1_000_001}, {"max_in_flight": 1.5}, {"max_in_flight": 0}, {"max_bytes": None},
        {"max_bytes": 2**30}, {"wait": None}, {"wait": 0}, {"session_timeout": [30]}, {"session_timeout": 0},
        {"visibility_timeout": "soon"}, {"until_idle": -1}, {"prefetch": "no"}, {"extend_leases": None},
        {"skip_damage": 1}, {"on_assigned": "print"}, {"on_expired": 7},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_option_is_refused_by_its_name(client: Client, wrong: dict[str, Any]) -> None:
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
        ({"max_retries": 1001}, "max_retries is 1001, and must be a whole number from 0 to 1000, or 'unlimited'"),
        ({"max_retries": True}, "max_retries is True, and must be a whole number from 0 to 1000, or 'unlimited'"),
        ({"retry_delay": "0s"}, "retry_delay is '0s', and must be 0.001 to 3600 seconds"),
        ({"dead_letter_topic": 7}, "dead_letter_topic is 7, and must be the name of a topic, or 'none'"),
        ({"colour": "blue"}, "a consumer has no option colour"),
    ],
)
def test_a_refusal_says_what_was_given_and_what_may_be(client: Client, wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        client.consumer("g", ["t"], **wrong)
    assert refusal.value.sentence == sentence


@pytest.mark.parametrize(
    ("wrong", "sentence", "hint"),
    [
        ({"lingr": 4}, "a producer has no option lingr", "did you mean linger?"),
        ({"colour": "blue"}, "a producer has no option colour", "known are batch_messages, "),
        ({"serializer": "yaml"}, "serializer is 'yaml'", 'give "json", a function of one value'),
        ({"acks": "both"}, "acks is 'both'", "known are 'leader', 'all', 'none'"),
    ],
)
def test_wrong_option_of_a_producer_is_refused_with_the_right_one(
    client: Client, wrong: dict[str, Any], sentence: str, hint: str
) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        client.producer(**wrong)
    assert refusal.value.sentence == sentence
    assert (refusal.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("by_name", "declared"),
    [
        (ProducerArguments, Options),
        (ConsumerArguments, ConsumerOptions),
        (HandlerArguments, HandlerOptions),
        (TopicSettings, topic.TopicSettings),
    ],
    ids=lambda kind: kind.__name__,
)
def test_type_checkers_know_the_options_that_there_are(by_name: type, declared: type) -> None:
    said = get_type_hints(declared)
    if declared is topic.TopicSettings:  # a request may have text such as 30s
        said |= dict.fromkeys(DURATIONS, str | float | None)
    assert get_type_hints(by_name) == said


def test_type_checkers_know_the_options_of_a_worker() -> None:
    """A handler's own `max_retries` stands for that of its consumer."""
    assert get_type_hints(WorkerArguments) == get_type_hints(ConsumerOptions) | get_type_hints(HandlerOptions)


def test_type_checkers_know_the_options_of_a_redrive() -> None:
    fields = {name.replace("filter", "filters") for name in RedriveRequest.__struct_fields__} - {"key_encoding"}
    assert fields == RedriveArguments.__annotations__.keys()


def test_type_checkers_know_the_priorities_that_there_are() -> None:
    assert get_args(PriorityName) == PRIORITIES


@pytest.mark.parametrize("group", ["", None, 7, b"g"])
def test_a_group_has_a_name(client: Client, group: Any) -> None:
    with pytest.raises(RequestInvalid, match=r"the group (has no name|is )"):
        client.consumer(group, ["t"])


@pytest.mark.parametrize("topics", [7, None, b"t", ["t", 7], [""], "", []])
def test_topics_have_names(client: Client, topics: Any) -> None:
    with pytest.raises(RequestInvalid, match=r"a topic (has no name|is )|at least one topic"):
        client.consumer("g", topics)


def test_a_consumer_holds_what_it_reads_and_what_it_fetches_meanwhile() -> None:
    assert ConsumerOptions().join_fields(["t"])["max_in_flight"] == 2_000
    assert ConsumerOptions(max_messages=5).join_fields(["t"])["max_in_flight"] == 10
    assert ConsumerOptions(max_messages=5, max_in_flight=7).join_fields(["t"])["max_in_flight"] == 7


def test_without_a_name_a_consumer_is_called_by_host_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "till\n3" + "x" * 300)
    names = {default_client_id(), default_client_id(), ConsumerOptions().join_fields(["t"])["client_id"]}
    assert len(names) == 3
    for name in names:
        assert name.startswith("till3xxx")
        assert len(name) <= CLIENT_ID_CHARACTERS_MAX
        assert name.rpartition("-")[2].partition(".")[0] == str(os.getpid())
    assert ConsumerOptions(client_id="till-3").join_fields(["t"])["client_id"] == "till-3"
