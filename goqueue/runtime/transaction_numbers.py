"""What the metrics tell of transactions, from the broker's state: on its thread, in slices, without a file."""

from goqueue.broker.broker import Broker
from goqueue.broker.transactions.refusals import REASONS
from goqueue.broker.transactions.states import OPEN
from goqueue.clock import NANOSECONDS
from goqueue.observe.transaction_metrics import Place, TransactionNumbers
from goqueue.runtime.slices import Slices


async def transaction_numbers(broker: Broker) -> TransactionNumbers:
    coordinator, slices = broker.transactions, Slices()
    now_ns = coordinator.clock.now_ns()
    states, oldest_ns = {str(state): 0 for state in sorted(OPEN)}, now_ns
    for record in coordinator.register.open_ones():
        states[record.state] += 1
        oldest_ns = min(oldest_ns, record.began_ns)
    held_back: dict[Place, int] = {}
    for _, partition in broker.partitions():
        await slices.rest()
        if count := partition.held_back:
            held_back[partition.topic, str(partition.number)] = count
    counts = coordinator.counts
    return TransactionNumbers(
        states,
        (now_ns - oldest_ns) / NANOSECONDS,
        counts.committed,
        {reason: counts.aborted.get(reason, 0) for reason in REASONS},
        held_back,
    )
