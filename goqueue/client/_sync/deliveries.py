# Generated from goqueue/client/_async/deliveries.py; edit that and run `make fmt`.
"""The deliveries of a producer, as its callers hold them."""

import time

from goqueue.client.delivery import BulkDeliveryHandle, DeliveryHandle, Receipt, SendBatch, still_pending
from goqueue.client.producer_core import delivery_callbacks
from goqueue.client.threads import report_callback_error
from goqueue.errors import GoQueueError


class Delivery(DeliveryHandle):
    """One message that was sent. Waiting for it sends the messages gathered so far at once."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> Receipt:
        """Wait until the message is durable.

        Raises the error of the message, and RequestTimedOut when the timeout passes first.
        """
        self._wait(timeout)
        return self._receipt()

    def exception(self, timeout: float | None = None) -> GoQueueError | None:
        """Wait, and return the error of the message instead of raising it."""
        self._wait(timeout)
        return self._batch.fault(self._index)

    def _wait(self, timeout: float | None) -> None:
        if not self._batch.settled and not self._batch.owner.wait(self._batch, timeout):
            raise still_pending(1, timeout)


class Deliveries(BulkDeliveryHandle):
    """All messages of one `send_many`."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> list[Receipt]:
        """Wait until all are durable, and return their receipts in the order of the call. Raises the first error."""
        self._wait(timeout)
        return self._receipts()

    def exceptions(self, timeout: float | None = None) -> dict[int, GoQueueError]:
        """Wait, and return the errors by the position of the message in the call."""
        self._wait(timeout)
        return self._failures()

    def _only(self) -> Delivery:
        ((batch, index, _),) = self._spans
        return Delivery(batch, index)

    def _wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        for batch in self._batches():
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not batch.owner.wait(batch, left):
                raise still_pending(len(self), timeout)


def call_back(batches: list[SendBatch]) -> None:
    """Call the callbacks of batches. An error of one is reported, and the others are called all the same."""
    for batch, first, count, call in delivery_callbacks(batches):
        for index in range(first, first + count):
            try:
                call(Delivery(batch, index))
            except Exception as error:
                report_callback_error(error)
