"""Messages of keys that are being handled: they wait, so that concurrent handlers keep the order of each key."""

from collections import deque
from collections.abc import Callable

from goqueue.client.leased_message import Delivered

Key = tuple[str, int, bytes]


class KeyQueues:
    """One queue for each key that is being handled. The caller holds a lock.

    `may_handle` is asked before a message is handled late: it returns False if an earlier message of its key is to come
    again, and has then released the message.
    """

    def __init__(self, may_handle: Callable[[Delivered], bool]) -> None:
        self._may_handle = may_handle
        self._queues: dict[Key, deque[Delivered]] = {}
        self.waiting = 0

    def admit(self, message: Delivered) -> bool:
        """Return whether the message may be handled now; otherwise it waits for its key, or was released."""
        if not message.key:
            return True
        queue = self._queues.get(_key(message))
        if queue is not None:
            queue.append(message)
            self.waiting += 1
            return False
        if not self._may_handle(message):
            return False
        self._queues[_key(message)] = deque()
        return True

    def next_after(self, message: Delivered) -> Delivered | None:
        """Return the message of the same key to be handled after this one, which was settled."""
        if not message.key:
            return None
        queue = self._queues[_key(message)]
        while queue:
            following = queue.popleft()
            self.waiting -= 1
            if self._may_handle(following):
                return following
        del self._queues[_key(message)]
        return None


def _key(message: Delivered) -> Key:
    return message.topic, message.partition, message.key or b""
