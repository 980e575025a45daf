"""The SDK: `Client` for threads, `AsyncClient` for event loops. `docs/sdk.md` shows them at work."""

from typing import TYPE_CHECKING, Any

from goqueue.client.client import Client
from goqueue.client.endpoints import Offsets, TopicInfo
from goqueue.client.insight import GroupDetails, TopicDetails
from goqueue.client.times import Nanoseconds

if TYPE_CHECKING:
    from goqueue.client.async_client import AsyncClient
    from goqueue.client.async_consumer import AsyncConsumer
    from goqueue.client.async_producer import AsyncDeliveries, AsyncDelivery, AsyncProducer
    from goqueue.client.async_reader import AsyncReader
    from goqueue.client.async_transaction import AsyncTransaction
    from goqueue.client.consumer import Consumer
    from goqueue.client.delivered import Batch, Delivered
    from goqueue.client.delivery import Deliveries, Delivery, Receipt, Stored
    from goqueue.client.leases import Refused, Stats
    from goqueue.client.message import Message
    from goqueue.client.options import ConsumerOptions
    from goqueue.client.polls import TopicPartition
    from goqueue.client.producer import Producer
    from goqueue.client.producing import Options
    from goqueue.client.reader import Reader
    from goqueue.client.segments import PartitionSegments, SegmentInfo
    from goqueue.client.transaction import Transaction

__all__ = [
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDeliveries",
    "AsyncDelivery",
    "AsyncProducer",
    "AsyncReader",
    "AsyncTransaction",
    "Batch",
    "Client",
    "Consumer",
    "ConsumerOptions",
    "Delivered",
    "Deliveries",
    "Delivery",
    "GroupDetails",
    "Message",
    "Nanoseconds",
    "Offsets",
    "Options",
    "PartitionSegments",
    "Producer",
    "Reader",
    "Receipt",
    "Refused",
    "SegmentInfo",
    "Stats",
    "Stored",
    "TopicDetails",
    "TopicInfo",
    "TopicPartition",
    "Transaction",
]

_LATER = {
    "AsyncClient": "async_client",
    "AsyncConsumer": "async_consumer",
    "AsyncDeliveries": "async_producer",
    "AsyncDelivery": "async_producer",
    "AsyncProducer": "async_producer",
    "AsyncReader": "async_reader",
    "AsyncTransaction": "async_transaction",
    "Batch": "delivered",
    "Consumer": "consumer",
    "ConsumerOptions": "options",
    "Delivered": "delivered",
    "Deliveries": "delivery",
    "Delivery": "delivery",
    "Message": "message",
    "Options": "producing",
    "PartitionSegments": "segments",
    "Producer": "producer",
    "Reader": "reader",
    "Receipt": "delivery",
    "Refused": "leases",
    "SegmentInfo": "segments",
    "Stats": "leases",
    "Stored": "delivery",
    "TopicPartition": "polls",
    "Transaction": "transaction",
}


def __getattr__(name: str) -> Any:
    """What carries messages or needs asyncio is loaded when it is asked for: a script without it need not wait."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - only for those who come here

    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
