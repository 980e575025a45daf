"""The calls about transactions. Each names a producer id and an epoch, which are those of one transaction alone, so it
may be repeated whenever nobody knows whether it arrived."""

from collections.abc import Sequence
from typing import Any

import msgspec

from goqueue.client.address import quote
from goqueue.client.calls import Answer, Call
from goqueue.client.endpoints import JSON, GroupOffsets, ask, decoded, offset_texts
from goqueue.errors import RequestInvalid
from goqueue.limits import REASON_CHARACTERS_MAX

Facts = dict[str, Any]

Identity = tuple[int, int]
"""Producer id and epoch."""


class Whose(msgspec.Struct, frozen=True):
    """One transaction, as every call names it."""

    transactional_id: str
    producer_id: int
    epoch: int

    @property
    def identity(self) -> Identity:
        return self.producer_id, self.epoch

    @property
    def transaction_id(self) -> str:
        return f"{self.producer_id}-{self.epoch}"

    def facts(self) -> Facts:
        return msgspec.structs.asdict(self)


class _Identity(msgspec.Struct):
    producer_id: int
    epoch: int


class _Joined(msgspec.Struct):
    member_id: int


class _Results(msgspec.Struct):
    results: list[Facts]


class _Listed(msgspec.Struct):
    transactions: list[Facts]


# --- for producers ---


def init(transactional_id: str, timeout_seconds: float, former: Identity | None = None) -> Call[Identity]:
    """The producer id and epoch of the next transaction; what a predecessor left open is aborted by then.

    With what a producer had before it is refused if another one has taken over since.
    """
    body: Facts = {"transactional_id": transactional_id, "transaction_timeout_ms": round(timeout_seconds * 1000)}
    if former is not None:
        body |= {"producer_id": former[0], "epoch": former[1]}
    return Call("POST", "/producers/init", _identity, (msgspec.json.encode(body),), JSON)


def heartbeat(whose: Whose) -> Call[Facts]:
    body = {"transactional_id": whose.transactional_id, "epoch": whose.epoch}
    return ask("POST", f"/producers/{whose.producer_id}/heartbeat", Facts, body)


def begin(whose: Whose) -> Call[Facts]:
    return _post("begin", whose)


def acks(whose: Whose, group: str, member_id: str, entries: Sequence[Facts]) -> Call[list[Facts]]:
    """What became of each entry, as with settling."""
    body = whose.facts() | {"group": group, "member_id": member_id, "acks": entries}
    content = (msgspec.json.encode(body),)
    return Call("POST", "/transactions/acks", lambda answer: decoded(answer, _Results).results, content, JSON)


def offsets(
    whose: Whose, group: str, places: GroupOffsets, member_id: str | None, generation: int | None
) -> Call[Facts]:
    body: Facts = {"group": group, "offsets": offset_texts(places)}
    if member_id is not None:
        body |= {"member_id": member_id, "generation": generation}
    return _post("offsets", whose, body)


def join(whose: Whose, *, begin: bool = False) -> Call[int]:
    """Another producer id, whose messages are of this transaction; its marks have epoch 0."""
    content = (msgspec.json.encode(whose.facts() | {"begin": begin}),)
    return Call("POST", "/transactions/join", lambda answer: decoded(answer, _Joined).member_id, content, JSON)


def commit(whose: Whose, members: Sequence[int] | None = None, note: str = "") -> Call[Identity]:
    """Gives the producer id and epoch of the next transaction.

    Of those who have joined, only `members` count where they are named. The note is kept with it.
    """
    more: Facts = {} if members is None else {"members": members}
    return _end("commit", whose, more | ({"note": note} if note else {}))


def abort(whose: Whose, reason: str | None) -> Call[Identity]:
    return _end("abort", whose, _why(reason))


def _post(action: str, whose: Whose, more: Facts | None = None) -> Call[Facts]:
    return ask("POST", f"/transactions/{action}", Facts, whose.facts() | (more or {}))


def _end(action: str, whose: Whose, more: Facts) -> Call[Identity]:
    content = (msgspec.json.encode(whose.facts() | more),)
    return Call("POST", f"/transactions/{action}", _identity, content, JSON)


def _identity(answer: Answer) -> Identity:
    found = decoded(answer, _Identity)
    return found.producer_id, found.epoch


def _why(reason: str | None) -> Facts:
    if reason is not None and not isinstance(reason, str):
        raise RequestInvalid(f"the reason is {type(reason).__name__}, and must be text")
    return {} if reason is None else {"reason": reason[:REASON_CHARACTERS_MAX]}


# --- for operators ---


def listed(state: str | None, transactional_id: str | None, limit: int | None) -> Call[list[Facts]]:
    wishes = {"state": state, "transactional_id": transactional_id, "limit": limit}
    said = "&".join(f"{name}={quote(str(wish))}" for name, wish in wishes.items() if wish is not None)
    path = f"/transactions?{said}" if said else "/transactions"
    return Call("GET", path, lambda answer: decoded(answer, _Listed).transactions, headers=JSON)


def one(transactional_id: str) -> Call[Facts]:
    return ask("GET", f"/transactions/{quote(transactional_id)}", Facts)


def aborted(whose: Whose, reason: str | None) -> Call[Facts]:
    return _post("abort", whose, _why(reason))


def stats() -> Call[Facts]:
    return ask("GET", "/transactions/stats", Facts)
