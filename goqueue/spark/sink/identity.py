"""Who a task is to the broker, so that whatever it repeats is stored once.

A task that is started again, another attempt at its side, and the same micro-batch after a crash are the same
producer: its id is made of the write (or the query) and the number of the Spark partition, its epoch of the number
of the micro-batch. The broker takes no batch of an epoch below the one it knows.

What must stay true: an id never means two things. Those that the broker gives out are far below these.
"""

import hashlib
from dataclasses import dataclass

from goqueue.limits import PRODUCER_IDS_CHOSEN

EPOCHS = 2**15
"""An epoch is a number below it; with the next one begins another id."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Of one task, for all partitions that it writes to."""

    producer: int
    epoch: int = 0


def of_write(write: str, partition: int) -> Identity:
    return Identity(_producer("write", write, str(partition)))


def of_stream(query: str, batch: int, partition: int) -> Identity:
    age, epoch = divmod(batch, EPOCHS)
    return Identity(_producer("query", query, str(partition), str(age)), epoch)


def note_of_batch(query: str, batch: int) -> str:
    """What is kept with the transaction of a micro-batch."""
    return f"{query}/{batch}"


def batch_in(note: str, query: str) -> int | None:
    """The number of the micro-batch that a note speaks of, if it is one of this query."""
    name, _, number = note.rpartition("/")
    return int(number) if name == query and number.isascii() and number.isdecimal() else None


def note_of_write(write: str) -> str:
    """The same of a batch write; its name may be longer than a note."""
    return f"write {hashlib.sha256(write.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _producer(*parts: str) -> int:
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return PRODUCER_IDS_CHOSEN | int.from_bytes(digest[:8], "big") & (PRODUCER_IDS_CHOSEN - 1)
