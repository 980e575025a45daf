"""Producers whose retries are known again, and those that have transactions."""

import re
from typing import Annotated

import msgspec

from goqueue.api.call import Call
from goqueue.broker.transactions.whose import Whose
from goqueue.clock import NANOSECONDS
from goqueue.errors import ProducerNotFound, RequestInvalid
from goqueue.limits import (
    EPOCH_MAX,
    TRANSACTION_SECONDS,
    TRANSACTION_SECONDS_MAX,
    TRANSACTION_SECONDS_MIN,
    TRANSACTIONAL_ID_CHARACTERS_MAX,
)
from goqueue.quantities import quoted

_MILLISECOND_NS = NANOSECONDS // 1000
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")

TransactionalId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=TRANSACTIONAL_ID_CHARACTERS_MAX,
        description="A name that the producer keeps over its restarts: letters, digits and . _ - : @",
    ),
]
ProducerId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX, description="It is another one after each transaction.")]
TimeoutMs = Annotated[
    int,
    msgspec.Meta(
        ge=round(TRANSACTION_SECONDS_MIN * 1000),
        le=round(TRANSACTION_SECONDS_MAX * 1000),
        description="Without a sign of life for so long, its transaction is aborted.",
    ),
]


class NewProducer(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing needs to be said; a transactional id is for transactions."""

    transactional_id: TransactionalId | None = None
    transaction_timeout_ms: TimeoutMs = round(TRANSACTION_SECONDS * 1000)
    producer_id: Annotated[
        ProducerId | None,
        msgspec.Meta(description="With the epoch what this producer had before: refused if it was replaced since."),
    ] = None
    epoch: Epoch | None = None

    @property
    def former(self) -> Whose | None:
        if self.producer_id is None and self.epoch is None:
            return None
        if self.producer_id is None or self.epoch is None or self.transactional_id is None:
            problem = {"place": "producer_id", "problem": "goes with an epoch and a transactional_id"}
            raise RequestInvalid(
                f"producer_id {problem['problem']}", hint="name all three, or none of them", problems=[problem]
            )
        return Whose(self.producer_id, self.epoch)


class ProducerIdentity(msgspec.Struct, omit_defaults=True):
    producer_id: int
    epoch: int = msgspec.field(name="epoch")
    transactional_id: str | None = None
    transaction_timeout_ms: int | None = None


class ProducerHeartbeat(msgspec.Struct, forbid_unknown_fields=True):
    epoch: Epoch
    transactional_id: TransactionalId | None = None


class HeartbeatTaken(msgspec.Struct):
    ok: bool


async def init(call: Call) -> ProducerIdentity:
    body: NewProducer = call.body
    former = body.former
    if body.transactional_id is None:
        return ProducerIdentity(await call.runtime.new_producer(), 0)
    coordinator, timeout_ms = call.runtime.broker.transactions, body.transaction_timeout_ms
    work = coordinator.init(body.transactional_id, timeout_ms * _MILLISECOND_NS, former)
    record = await call.runtime.notary.in_time(call.runtime.decide(work), body.transactional_id)
    return ProducerIdentity(record.producer, record.epoch, record.id, timeout_ms)


async def heartbeat(call: Call) -> HeartbeatTaken:
    """A sign of life. Of producers without a transactional id nothing ends by itself."""
    body: ProducerHeartbeat = call.body
    text = call.parameters["producer"]
    if not _NUMBER.fullmatch(text):
        raise ProducerNotFound(f"there is no producer {quoted(text)}", hint="POST /producers/init gives a number")
    call.runtime.broker.producer_ids.refuse_unless_given(int(text))
    coordinator, whose = call.runtime.broker.transactions, Whose(int(text), body.epoch)
    if body.transactional_id is not None or coordinator.register.of_producer(whose.producer) is not None:
        coordinator.heartbeat(whose, body.transactional_id)
    return HeartbeatTaken(True)
