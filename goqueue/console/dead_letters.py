"""Dead letters in all programs: the names of their topics, and the progress of a redrive."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.client.admin_requests import TopicDetails

SUFFIX = ".dlq"

_SINGLE_MESSAGE_ERRORS = {
    "topic_not_found",
    "partition_not_found",
    "message_too_large",
    "request_invalid",
    "topic_name_invalid",
}
"""Codes of errors that concern one message, so that others can still be redriven."""


def dead_letter_topic(topic: str, known: "Iterable[TopicDetails]" = ()) -> str:
    """Return the dead-letter topic of a topic as the broker's list has it; it may be named itself."""
    usual = topic if topic.endswith(SUFFIX) else f"{topic}{SUFFIX}"
    return next((one.dlq_topic for one in known if one.name == topic), "") or usual


def holds_dead_letters(topic: "TopicDetails") -> bool:
    """Return whether a topic is a dead-letter topic; a broker that does not say goes by its name."""
    return topic.name == topic.dlq_topic or (not topic.dlq_topic and topic.name.endswith(SUFFIX))


def error_text(error: str) -> str:
    return error or "(no error given)"


def origin_of(message: Mapping[str, Any]) -> str | None:
    """Return the place that a dead letter came from."""
    topic, partition, offset = (message.get(f"origin_{part}") for part in ("topic", "partition", "offset"))
    if topic is None:
        return None
    return str(topic) if partition is None or offset is None else f"{topic}/{partition}@{offset}"


class RedriveTotals:
    """Totals over the requests of a redrive of at most `limit` messages."""

    def __init__(self, limit: int | None = None, *, scanned: int = 0, is_complete: bool = False) -> None:
        self.moved = 0
        self.scanned = scanned
        self.is_complete = is_complete
        """True if the last request reached the end."""
        self.is_hopeless = False
        """True if the next messages would fail with the same error."""
        self.operation: int | None = None
        """The id of the operation, of which all requests are a part."""
        self.failures: Counter[str] = Counter()
        """The number of messages that were not moved, by error."""
        self.hints: dict[str, str] = {}
        self._limit = limit

    def add(self, answer: Mapping[str, Any]) -> None:
        self.moved += answer["moved"]
        self.scanned += answer["scanned"]
        self.is_complete = bool(answer["complete"])
        self.operation = answer.get("operation") or self.operation
        for error in (one["error"] for one in answer["results"] if one.get("error")):
            sentence = f"{error['code']}: {error['error']}"
            self.failures[sentence] += 1
            self.is_hopeless |= error["code"] not in _SINGLE_MESSAGE_ERRORS
            if error.get("hint"):
                self.hints[sentence] = error["hint"]

    @property
    def is_done(self) -> bool:
        """True if no more messages are wanted, or there are none."""
        return self.is_complete or (self._limit is not None and self.moved >= self._limit)

    @property
    def is_over(self) -> bool:
        return self.is_done or self.is_hopeless

    def next_count(self, most: int, rate: float | None) -> int:
        """Return the maximum for the next request: a second's worth, so that a stop takes effect soon."""
        most = most if rate is None else max(1, min(most, int(rate)))
        return most if self._limit is None else max(1, min(most, self._limit - self.moved))
