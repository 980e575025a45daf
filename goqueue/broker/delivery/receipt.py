"""What a consumer shows to say which delivery of which message it speaks of.

    topic:partition:offset:deliveries:lease

The lease is a number that nobody can guess; the other fields must be those of the delivery that it stands for.
"""

import re
from typing import NamedTuple

from goqueue.errors import ReceiptInvalid
from goqueue.quantities import quoted

_FORM = re.compile(
    r"([A-Za-z0-9._-]{1,255}):(0|[1-9]\d{0,8}):(0|[1-9]\d{0,18}):([1-9]\d{0,8}):([0-9a-z]{33})", re.ASCII
)


class Receipt(NamedTuple):
    topic: str
    partition: int
    offset: int
    deliveries: int
    lease: str

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}:{self.deliveries}:{self.lease}"


def parse_receipt(text: str) -> Receipt:
    found = _FORM.fullmatch(text)
    if found is None:
        raise ReceiptInvalid(
            f"{quoted(text[:120])} is no receipt handle",
            hint="send the receipt_handle of a message as the poll gave it",
        )
    topic, partition, offset, deliveries, lease = found.groups()
    return Receipt(topic, int(partition), int(offset), int(deliveries), lease)
