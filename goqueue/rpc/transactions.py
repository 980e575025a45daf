"""Methods of transactions that differ from their endpoints."""

from typing import Any

from goqueue.clock import NANOSECONDS
from goqueue.quantities import parse_time
from goqueue.rpc.positions import by_topic
from goqueue.rpc.session import CallSession, path_of
from goqueue.rpc.status import CallFailed, CallFailure, Code, described_failure, invalid_request
from goqueue.rpc.transcoding import fill, timestamp, to_json
from goqueue.rpc.v1 import transaction_pb2


async def add_offsets(session: CallSession, request: Any) -> Any:
    whose = {"producer_id": request.producer_id, "epoch": request.epoch}
    body = {**to_json(request), **whose, "offsets": by_topic(request.offsets)}
    response = transaction_pb2.AddOffsetsResponse()
    fill(response, (await session.ask("POST", "/transactions/offsets", body=body)).json)
    return response


async def add_acks(session: CallSession, request: Any) -> Any:
    body = {**to_json(request), "producer_id": request.producer_id, "epoch": request.epoch}
    answer = (await session.ask("POST", "/transactions/acks", body=body)).json
    response = transaction_pb2.AddAcksResponse(transaction_id=answer["transaction_id"])
    for handle, result in zip(request.receipts, answer["results"], strict=True):
        if "error" in result:
            response.failures.add(receipt_handle=handle, error=described_failure(result["error"]).error)
    return response


async def list_transactions(session: CallSession, request: Any) -> Any:  # noqa: ARG001 - it has no fields
    found = (await session.ask("GET", "/transactions")).json["transactions"]
    return transaction_pb2.ListTransactionsResponse(transactions=[_info(row) for row in found])


async def describe(session: CallSession, request: Any) -> Any:
    if request.transactional_id:
        path = path_of("/transactions/{transactional_id}", transactional_id=request.transactional_id)
        row = (await session.ask("GET", path)).json
    elif request.transaction_id:
        rows = (await session.ask("GET", "/transactions")).json["transactions"]
        row = next((one for one in rows if one["transaction_id"] == request.transaction_id), None)
        if row is None:
            sentence = f"no transaction {request.transaction_id!r} is open"
            hint = {"hint": "name the transactional_id to see its latest one"}
            raise CallFailed(CallFailure(Code.NOT_FOUND, sentence, "producer_not_found", hint))
    else:
        raise invalid_request("transaction_id", "is missing")
    return transaction_pb2.DescribeTransactionResponse(transaction=_info(row))


def _info(row: dict[str, Any]) -> Any:
    info = transaction_pb2.TransactionInfo(
        transaction_id=row["transaction_id"],
        transactional_id=row["transactional_id"],
        producer_id=row["producer_id"],
        epoch=row["epoch"],
        state=row["state"],
        timeout_ms=round(row["timeout_seconds"] * 1000),
    )
    if row["started_at"]:
        began_ns = parse_time(row["started_at"])
        lasted = max(0.0, row["age_seconds"] - row["idle_seconds"])
        info.start_time.CopyFrom(timestamp(began_ns))
        info.last_update_time.CopyFrom(timestamp(began_ns + round(lasted * NANOSECONDS)))
    topics: dict[str, list[int]] = {}
    for one in row["partitions"]:
        topics.setdefault(one["topic"], []).append(one["partition"])
    for topic, partitions in topics.items():
        info.partitions.add(topic=topic, partitions=sorted(set(partitions)))
    return info
