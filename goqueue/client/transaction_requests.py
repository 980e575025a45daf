"""Requests about transactions, and the client's methods for operators.

A producer's requests name a producer id and an epoch, which are those of one transaction alone, so each may be repeated
when it is unknown whether it arrived.
"""

from collections.abc import Sequence

import msgspec

from goqueue.client.address import quote
from goqueue.client.admin_requests import GroupOffsets, JsonObject
from goqueue.client.answers import TransactionInfo
from goqueue.client.api_request import JSON, ApiRequest, ApiResponse, decode_json, json_request, operation, with_query
from goqueue.errors import RequestInvalid
from goqueue.limits import REASON_CHARACTERS_MAX
from goqueue.wire.sections import ProducerIdentity


class TransactionIdentity(msgspec.Struct, frozen=True):
    """One transaction, as every call names it."""

    transactional_id: str
    producer_id: int
    epoch: int

    @property
    def identity(self) -> ProducerIdentity:
        return self.producer_id, self.epoch

    @property
    def transaction_id(self) -> str:
        return f"{self.producer_id}-{self.epoch}"

    def facts(self) -> JsonObject:
        return msgspec.structs.asdict(self)


class _Identity(msgspec.Struct):
    producer_id: int
    epoch: int


def init(
    transactional_id: str, timeout_seconds: float, former: ProducerIdentity | None = None
) -> ApiRequest[ProducerIdentity]:
    """Return the request for the producer id and epoch of the next transaction; it aborts an open one.

    With the `former` identity it is refused if another producer has taken over since.
    """
    body: JsonObject = {"transactional_id": transactional_id, "transaction_timeout_ms": round(timeout_seconds * 1000)}
    if former is not None:
        body |= {"producer_id": former[0], "epoch": former[1]}
    return identity_request("/producers/init", body)


def identity_request(path: str, body: JsonObject) -> ApiRequest[ProducerIdentity]:
    """Return a request whose answer has a producer id and an epoch."""

    def decode(answer: ApiResponse) -> ProducerIdentity:
        found = decode_json(answer, _Identity)
        return found.producer_id, found.epoch

    return ApiRequest("POST", path, decode, (msgspec.json.encode(body),), JSON)


def heartbeat(whose: TransactionIdentity) -> ApiRequest[JsonObject]:
    body = {"transactional_id": whose.transactional_id, "epoch": whose.epoch}
    return json_request("POST", f"/producers/{whose.producer_id}/heartbeat", JsonObject, body)


def begin(whose: TransactionIdentity) -> ApiRequest[JsonObject]:
    return _post("begin", whose, {})


def acks(
    whose: TransactionIdentity, group: str, member_id: str, entries: Sequence[JsonObject]
) -> ApiRequest[list[JsonObject]]:
    """Return the request; its answer has a result for each entry, as in settling."""
    body = whose.facts() | {"group": group, "member_id": member_id, "acks": entries}
    return json_request("POST", "/transactions/acks", list[JsonObject], body, field="results")


def offsets(
    whose: TransactionIdentity, group: str, places: GroupOffsets, member_id: str | None, generation: int | None
) -> ApiRequest[JsonObject]:
    body: JsonObject = {"group": group, "offsets": places}
    if member_id is not None:
        body |= {"member_id": member_id, "generation": generation}
    return _post("offsets", whose, body)


def join(whose: TransactionIdentity, *, begin: bool = False) -> ApiRequest[int]:
    """Return the request for another producer id whose messages belong to this transaction; it marks with epoch 0."""
    return json_request("POST", "/transactions/join", int, whose.facts() | {"begin": begin}, field="member_id")


def commit(
    whose: TransactionIdentity, members: Sequence[int] | None = None, note: str = ""
) -> ApiRequest[ProducerIdentity]:
    """Return the request; its answer is the producer id and epoch of the next transaction.

    Of the joined producers only `members` count, if given. The note is stored with the transaction.
    """
    more: JsonObject = {} if members is None else {"members": members}
    return identity_request("/transactions/commit", whose.facts() | more | ({"note": note} if note else {}))


def abort(whose: TransactionIdentity, reason: str | None) -> ApiRequest[ProducerIdentity]:
    return identity_request("/transactions/abort", whose.facts() | _why(reason))


def _post(action: str, whose: TransactionIdentity, more: JsonObject) -> ApiRequest[JsonObject]:
    return json_request("POST", f"/transactions/{action}", JsonObject, whose.facts() | more)


def _why(reason: str | None) -> JsonObject:
    if reason is not None and not isinstance(reason, str):
        raise RequestInvalid(f"the reason is {type(reason).__name__}, and must be text")
    return {} if reason is None else {"reason": reason[:REASON_CHARACTERS_MAX]}


class TransactionRows(list[TransactionInfo]):
    """Transactions, and the nodes of the cluster that did not say in time which they coordinate."""

    missing: tuple[str, ...] = ()


class _Listed(msgspec.Struct):
    transactions: list[TransactionInfo]
    missing: tuple[str, ...] = ()


def _listed(answer: ApiResponse) -> TransactionRows:
    found = decode_json(answer, _Listed)
    rows = TransactionRows(found.transactions)
    rows.missing = found.missing
    return rows


class TransactionAdmin:
    """Transactions by the transactional ids of their producers."""

    @operation
    def transactions(
        self, state: str | None = None, transactional_id: str | None = None, limit: int | None = None
    ) -> ApiRequest[TransactionRows]:
        """Return open transactions, with what each has written and holds back, of all nodes but those in `missing`.

        `state` selects others: "empty", "ongoing", "prepare_commit", "prepare_abort", "complete_commit",
        "complete_abort" or "all".
        """
        path = with_query("/transactions", state=state, transactional_id=transactional_id, limit=limit)
        return ApiRequest("GET", path, _listed, (), JSON)

    @operation
    def transaction(self, transactional_id: str) -> ApiRequest[TransactionInfo]:
        """Return the state of one transactional id, and how its `last` transaction ended."""
        return json_request("GET", f"/transactions/{quote(transactional_id)}", TransactionInfo)

    @operation
    def abort_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, reason: str | None = None
    ) -> ApiRequest[JsonObject]:
        """Abort a transaction of another producer, which gets the reason."""
        return _post("abort", TransactionIdentity(transactional_id, producer_id, epoch), _why(reason))

    @operation
    def transaction_stats(self) -> ApiRequest[JsonObject]:
        """Return how many transactions are open, were committed and aborted, and how long they took."""
        return json_request("GET", "/transactions/stats", JsonObject)
