"""Ids for producers whose retries are to be known again."""

import msgspec

from goqueue.api.call import Call


class NewProducer(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing needs to be said."""


class ProducerIdentity(msgspec.Struct):
    producer_id: int
    epoch: int


async def init(call: Call) -> ProducerIdentity:
    return ProducerIdentity(await call.runtime.new_producer(), 0)
