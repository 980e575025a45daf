"""What the rules of groups need to know of topics; the broker is it."""

from collections.abc import Mapping
from typing import Protocol

from goqueue.broker.topic import Topic, TopicSpec
from goqueue.broker.work import Told


class Topics(Protocol):
    """Where topics are looked up, and made."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def topic(self, name: str) -> Topic: ...

    def has_lost_record(self, name: str) -> bool:
        """Whether there are logs of such a topic and no record."""
        ...

    def create_topic(self, spec: TopicSpec, told: Told[Topic]) -> None: ...
