"""How violations call places, and whoever found something there."""

from goqueue.testing.history.events import Published, Received, Seen, Stored


def place(event: Published | Stored | Received | Seen) -> str:
    return f"{event.topic}/{event.partition}/{event.offset}"


def others(count: int) -> str:
    """What else there is of a list of which one was told."""
    return f", and {count - 1:,} other{'s' if count > 2 else ''}" if count > 1 else ""


def found(event: Stored | Received | Seen) -> str:
    """That a value was found somewhere, and by whom."""
    if isinstance(event, Received):
        return f"{event.member} received {event.value_id} at {place(event)}"
    if isinstance(event, Seen):
        return f"{event.reader} read {event.value_id} at {place(event)}"
    return f"{place(event)} holds {event.value_id}"
