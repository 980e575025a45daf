"""Answers are the dicts that the broker sent, and their attributes are those that it has."""

import json
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from goqueue.api import (
    dead_letters,
    delayed,
    delayed_leaders,
    delivery,
    groups,
    health,
    offsets,
    scaling,
    stats,
    topics,
    traces,
    transaction_list,
)
from goqueue.broker.core.delivery_settings import DeliverySettings
from goqueue.client import Client, answers, trace_requests
from goqueue.client.answers import Answer
from goqueue.testing.broker import LocalBroker

SENT: dict[type[Answer], type[msgspec.Struct]] = {
    answers.AddedPartition: scaling.AddedPartitionJson,
    answers.BrokerStats: stats.BrokerStatsResponse,
    answers.Check: health.DoctorCheckJson,
    answers.DeadLetter: dead_letters.DeadLetterJson,
    answers.DeadLetterErrors: dead_letters.DeadLetterErrorsResponse,
    answers.DeadLetters: dead_letters.DeadLettersResponse,
    answers.DelayedChanges: delayed_leaders.DelayedChangesResponse,
    answers.DelayedMessage: delayed.DelayedMessageJson,
    answers.DelayedMessages: delayed_leaders.DelayedListResponse,
    answers.Diagnosis: health.DoctorResponse,
    answers.EndedTransaction: transaction_list.EndedTransactionJson,
    answers.Finding: health.DoctorFindingJson,
    answers.GroupDelivery: delivery.DeliveryJson,
    answers.GroupInfo: groups.AlterGroupResponse,
    answers.MemberInfo: groups.MemberJson,
    answers.OffsetsReset: offsets.ResetOffsetsResponse,
    answers.OwnDelivery: DeliverySettings,
    answers.PartitionInfo: topics.PartitionJson,
    answers.PartitionLag: groups.PartitionLagJson,
    answers.PartitionReset: offsets.PartitionResetJson,
    answers.Rates: stats.RatesJson,
    answers.Redrive: dead_letters.RedriveResponse,
    answers.RedriveResult: dead_letters.RedriveResultJson,
    answers.ScaledTopic: scaling.ScaleTopicResponse,
    answers.ScalingStatus: scaling.ScalingStatusResponse,
    trace_requests.Trace: traces.ListedTraceJson,
    trace_requests.TraceEvent: traces.TraceEventJson,
    trace_requests.TraceStats: traces.TraceStatsResponse,
    trace_requests.TracedMessage: traces.TracedMessageJson,
    answers.TransactionInfo: transaction_list.TransactionResponse,
    answers.TransactionPartition: transaction_list.TransactionPartitionJson,
    answers.WaitingGroup: scaling.WaitingGroupJson,
    answers.WaitsFor: groups.ParentJson,
}


def json_kind(kind: Any) -> Any:
    """Return what a value of a type is in JSON; whether it may be missing does not matter."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return str
    if origin in (UnionType, Union):
        kinds = {json_kind(one) for one in inner if one not in (msgspec.UnsetType, type(None))}
        return kinds.pop() if len(kinds) == 1 else kinds
    if origin is list:
        return list, json_kind(inner[0])
    if origin is dict or (isinstance(kind, type) and issubclass(kind, (dict, msgspec.Struct))):
        return dict
    return kind


def test_every_answer_is_compared_with_what_the_broker_sends() -> None:
    assert set(SENT) == set(Answer.__subclasses__())


@pytest.mark.parametrize("answer", SENT, ids=lambda kind: kind.__name__)
def test_attributes_are_fields_that_the_broker_sends(answer: type[Answer]) -> None:
    sent = get_type_hints(SENT[answer])
    for name, kind in get_type_hints(answer).items():
        assert json_kind(kind) == json_kind(sent[name]), name


def test_an_answer_is_a_dict_with_attributes(module_broker: LocalBroker) -> None:
    with Client(module_broker.url) as client:
        client.create_topic("t", 1, exist_ok=True)
        client.publish("t", "x")
        with client.consumer("g", "t", until_idle=0) as consumer:
            list(consumer)
            found = client.group("g")
            assert found == json.loads(json.dumps(found))
            assert found.members[0].member_id == found["members"][0]["member_id"] == consumer.member_id
            assert found.lag["t"]["0"].messages == found["lag"]["t"]["0"]["messages"] == 1
        assert [one.partition for one in client.partitions("t")] == [0]
        assert client.reset_offsets("g", "t", "latest", dry_run=True).partitions[0].after == 1
        assert client.doctor().checks
        assert client.stats().rates.read_per_second >= 0


def test_fields_of_other_versions_are_kept_or_empty() -> None:
    found = answers.GroupInfo({"group_id": "g", "colour": "blue", "members": [{"member_id": "m", "age": 7}]})
    assert (found["colour"], found.members[0]["age"]) == ("blue", 7)
    assert (found.state, found.total_lag, found.lag, found.drain_seconds) == ("", 0, {}, None)
    assert answers.TransactionInfo().last is None
    assert answers.DelayedMessages().complete
