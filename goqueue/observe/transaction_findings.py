"""What can be wrong with transactions: one that is open for long, and one that cannot be ended."""

from goqueue.limits import TRANSACTION_HUNG_SECONDS, TRANSACTION_STUCK_SECONDS
from goqueue.observe.facts import Facts, TransactionFacts
from goqueue.observe.finding import Finding, Found
from goqueue.quantities import format_count, format_duration

_PLACES_NAMED = 5


def transaction_hung(facts: Facts) -> Found:
    for one in facts.transactions:
        if one.state != "ongoing" or one.seconds < TRANSACTION_HUNG_SECONDS or not one.held_back:
            continue
        others = max(0, _count(one) - one.messages)
        whose = f"{format_count(others)} of them of others" if others else "and nothing of others"
        yield Finding(
            "transaction_hung",
            "warning" if others else "note",
            one.name,
            f"transaction {one.transaction} is open for {format_duration(round(one.seconds))}, and "
            f"{_held_back(one)} until it ends, {whose}",
            f"look at its producer, which was heard of {format_duration(round(one.idle_seconds))} ago"
            f"{_expiry(one)}; `goqueue-cli transaction abort {one.name}` ends it now",
            {**_details(one), "others": others},
        )


def transaction_stuck(facts: Facts) -> Found:
    for one in facts.transactions:
        if one.state == "ongoing" or one.seconds < TRANSACTION_STUCK_SECONDS:
            continue
        verb = "committed" if one.state == "prepare_commit" else "aborted"
        because = f": {one.obstacle}" if one.obstacle else ""
        waiting = f"; {_held_back(one)} until then" if one.held_back else ""
        yield Finding(
            "transaction_stuck",
            "critical",
            one.name,
            f"transaction {one.transaction} is to be {verb} for {format_duration(round(one.seconds))}, and that cannot "
            f"be carried out{because}{waiting}",
            "the broker tries again every second: look at the device of the log that takes nothing and at the kernel's "
            f"log, then restart the broker; `goqueue-cli transaction describe {one.name}` shows where it stands",
            {**_details(one), "obstacle": one.obstacle},
        )


def _count(one: TransactionFacts) -> int:
    return sum(place.messages for place in one.held_back)


def _held_back(one: TransactionFacts) -> str:
    places = [f"{place.topic}/{place.partition}" for place in one.held_back]
    named = ", ".join([*places[:_PLACES_NAMED], *(["…"] if len(places) > _PLACES_NAMED else [])])
    count = _count(one)
    return f"{format_count(count, 'message')} of {named} {'is' if count == 1 else 'are'} seen by nobody"


def _expiry(one: TransactionFacts) -> str:
    if one.expires_in is None:
        return ""
    return f"; without a sign of life it is aborted in {format_duration(round(one.expires_in))}"


def _details(one: TransactionFacts) -> dict[str, object]:
    return {
        "transaction": one.transaction,
        "state": one.state,
        "seconds": round(one.seconds, 3),
        "messages": one.messages,
        "held_back": {f"{place.topic}/{place.partition}": place.messages for place in one.held_back},
    }
