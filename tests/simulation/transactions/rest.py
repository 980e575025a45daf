"""The end of a life: on a disk that is sound again all transactions end, and what is left is what was decided."""

from goqueue.broker.delivery.taking import PollWish
from goqueue.clock import NANOSECONDS
from tests.simulation.transactions.checks import check_caches, check_rested, committed
from tests.simulation.transactions.consumers import Consumer
from tests.simulation.transactions.model import Place, Progress, Transaction
from tests.simulation.transactions.steps import GROUPS
from tests.simulation.transactions.world import TransactionWorld

ROUNDS = 12
_WISH = PollWish(1000, 1 << 20, 30 * NANOSECONDS)


def come_to_rest(world: TransactionWorld) -> None:
    world.disk.heal()
    world.disk.capacity_bytes = None
    world.crash()
    if world.is_damaged:
        return
    _wait(world)
    check_rested(world)
    world.check()
    _ask_how_they_ended(world)
    _drain(world)
    _check_all_or_nothing(world)
    before = dict(world.transactions.register.by_id)
    world.stop()
    assert world.transactions.register.by_id == before, "the state is what the log tells"
    world.settle(rounds=3)
    for place, partition in world.partitions():
        check_caches(world, place, partition)
    world.check()


def _wait(world: TransactionWorld) -> None:
    """Everybody's time is over, and what is scheduled comes."""
    for _ in range(4):
        world.clock.advance(400)
        world.call_due()
        for postman in world.broker.office.postmen():
            world.once(f"delivery of {postman.delays.name}", postman.deliver, postman.delays.inbox)
        world.settle(rounds=6)


def _ask_how_they_ended(world: TransactionWorld) -> None:
    for record in world.transactions.register.by_id.values():
        known = world.model.transactions.get(record.last.whose) if record.last is not None else None
        if known is not None and record.last is not None:
            known.has_ended("commit" if record.last.state == "complete_commit" else "abort", world.tick)


def _drain(world: TransactionWorld) -> None:
    """One patient member of each group reads what is not done yet."""
    drainers = [Consumer(world, group, f"{group}-drainer", is_draining=True) for group in GROUPS]
    for _ in range(ROUNDS):
        world.tick += 1
        for one in drainers:
            if one.member is None and not one.is_joining:
                one.join(3600)
        world.clock.advance(60)
        world.call_due()
        world.settle(rounds=3)
        for ask in (Consumer.heartbeat, _poll, _ack):
            for one in drainers:
                if one.member is not None and not one.is_polling:
                    ask(one)
            world.settle(rounds=2)
    assert all(one.member is not None for one in drainers), "who joins is a member"


def _poll(one: Consumer) -> None:
    one.poll(_WISH)


def _ack(one: Consumer) -> None:
    for hand in one.hands:
        if hand.left:
            one.settle("ack", hand, set(hand.left))


def _check_all_or_nothing(world: TransactionWorld) -> None:
    seen = {
        place: {one.offset for one in committed(partition, partition.earliest)}
        for place, partition in world.partitions()
    }
    for transaction in world.model.transactions.values():
        _check_transaction(transaction, seen)
        if transaction.outcome is None and "commit" in transaction.asked:
            _find_out(world, transaction, seen)
    for (group, where), progress in world.model.progress.items():
        place = world.model.places[where]
        if group in GROUPS and place in seen:
            _check_progress(world, group, place, progress, seen[place])


def _check_transaction(transaction: Transaction, seen: dict[Place, set[int]]) -> None:
    for message in transaction.messages:
        if not transaction.is_committed:
            assert message.seen is None, f"all or nothing: {message}"
        elif message.is_certain and message.due_ns is not None and message.place in seen:
            is_gone = message.place.may_expire or message.place.was_compacted
            assert message.seen is not None or is_gone, f"what was scheduled comes: {message}"


def _find_out(world: TransactionWorld, transaction: Transaction, seen: dict[Place, set[int]]) -> None:
    """Of one that nobody was told the end of, and no reader has seen: all groups were done with it, or none was."""
    came_back = set[bool]()
    for pledge in transaction.pledges:
        progress = world.model.of(pledge.group, pledge.place)
        others = set(progress.acked) | progress.maybe
        for other, one in world.model.pledges(pledge.group, pledge.place):
            others |= one.offsets if other is not transaction else set()
        offsets = pledge.offsets & seen.get(pledge.place, set()) if pledge.is_answered else set()
        came_back |= {offset in progress.drained for offset in offsets - others}
    assert len(came_back) <= 1, f"all or nothing: some of what {transaction} has pledged came back"
    lasting = [one for one in transaction.messages if not (one.place.was_compacted or one.place.may_expire)]
    has_messages = any(one.is_owed and one.counts and one.due_ns is None and one.place in seen for one in lasting)
    if came_back == {False} and not has_messages:
        transaction.has_ended("commit", world.tick)


def _check_progress(world: TransactionWorld, group: str, place: Place, progress: Progress, seen: set[int]) -> None:
    """Handed out is what nobody was done with: neither by itself nor in a transaction that was committed."""
    done, maybe = set(progress.acked), set(progress.maybe)
    for transaction, pledge in world.model.pledges(group, place):
        if transaction.is_committed and pledge.is_answered:
            done |= pledge.offsets
        elif transaction.is_committed or (transaction.outcome is None and "commit" in transaction.asked):
            maybe |= pledge.offsets
    missing = seen - done - maybe - progress.drained
    assert not missing, f"what was not committed is handed out again: {group} was not handed {missing} of {place}"
