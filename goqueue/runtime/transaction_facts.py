"""What the doctor is told of transactions: those that are open for long, and those whose end is not carried out.

What one holds back is looked up partition by partition, for as many of them as one examination may look at.
"""

from goqueue.broker.broker import Broker
from goqueue.broker.transactions.records import Registered
from goqueue.clock import NANOSECONDS
from goqueue.limits import DOCTOR_PLACES_MAX, TRANSACTION_HUNG_SECONDS, TRANSACTION_STUCK_SECONDS
from goqueue.observe.facts import HeldBack, TransactionFacts
from goqueue.runtime.slices import Slices

_HUNG_NS = round(TRANSACTION_HUNG_SECONDS * NANOSECONDS)
_STUCK_NS = round(TRANSACTION_STUCK_SECONDS * NANOSECONDS)


async def transaction_facts(broker: Broker, slices: Slices) -> tuple[TransactionFacts, ...]:
    """The oldest first."""
    now_ns = broker.transactions.clock.now_ns()
    late = [one for one in broker.transactions.register.open_ones() if now_ns - _since_ns(one) >= _patience_ns(one)]
    found: list[TransactionFacts] = []
    left = DOCTOR_PLACES_MAX
    for record in sorted(late, key=lambda one: one.state == "ongoing"):  # no timeout ends those that are decided
        left -= max(1, len(record.partitions))
        if left < 0:
            break
        found.append(_facts(broker, record, now_ns))
        await slices.rest()
    return tuple(found)


def _since_ns(record: Registered) -> int:
    """When it began, or its end was decided."""
    return record.began_ns if record.state == "ongoing" else record.changed_ns


def _patience_ns(record: Registered) -> int:
    return _HUNG_NS if record.state == "ongoing" else _STUCK_NS


def _facts(broker: Broker, record: Registered, now_ns: int) -> TransactionFacts:
    transactions, obstacle = broker.transactions, broker.ending.obstacles.get(record.id)
    now = [touched for touched in record.partitions if not touched.spot.is_delayed]
    held = [(touched.spot, transactions.places.held_by(record, touched)) for touched in now]
    is_open = record.state == "ongoing"
    return TransactionFacts(
        name=record.id,
        transaction=str(record.whose),
        state="ongoing" if is_open else "prepare_commit" if record.state == "prepare_commit" else "prepare_abort",
        seconds=(now_ns - _since_ns(record)) / NANOSECONDS,
        idle_seconds=transactions.patience.idle_ns(record) / NANOSECONDS,
        expires_in=max(0, transactions.patience.expires_ns(record) - now_ns) / NANOSECONDS if is_open else None,
        messages=sum(one.messages for _, one in held),
        held_back=tuple(
            HeldBack(topic=spot.topic, partition=spot.partition, messages=one.held_back)
            for spot, one in held
            if one.held_back
        ),
        obstacle=None if obstacle is None else obstacle.sentence,
    )
