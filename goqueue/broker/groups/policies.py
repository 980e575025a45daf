"""The delivery policies that are in force: of a group in a topic, by the settings that both have now."""

from collections.abc import Collection, Iterator

from goqueue.broker.core.delivery_settings import NO_DEAD_LETTERS, NOTHING_SET, DeliverySettings
from goqueue.broker.groups.records import Group
from goqueue.broker.groups.retries import (
    DEAD_LETTER_SUFFIX,
    DeliveryPolicy,
    EffectiveDelivery,
    dead_letter_topic,
    resolve_delivery,
)
from goqueue.broker.groups.store import GroupDirectory, TopicLookup


class DeliveryPolicies:
    """Looks up the settings of groups and topics. Nothing is kept here, so a change holds from the next look on."""

    def __init__(self, directory: GroupDirectory, topics: TopicLookup, configured: DeliveryPolicy) -> None:
        self._directory = directory
        self._topics = topics
        self.configured = configured

    def of(self, group: str, topic: str) -> DeliveryPolicy:
        return resolve_delivery(topic, self.configured, self._of_topic(topic), self._of_group(group)).policy

    def effective(self, group: Group, topic: str) -> EffectiveDelivery:
        return resolve_delivery(topic, self.configured, self._of_topic(topic), group.delivery)

    def _of_topic(self, name: str) -> DeliverySettings:
        topic = self._topics.topics.get(name)
        return NOTHING_SET if topic is None else topic.delivery

    def _of_group(self, name: str) -> DeliverySettings:
        group = self._directory.group(name)
        return NOTHING_SET if group is None else group.delivery

    # --- dead-letter topics ---

    def dead_letter_topic(self, topic: str, group: str | None = None, *, named: Collection[str] | None = None) -> str:
        """Return where the dead letters of a topic are, or of one group in it: in the topic itself if it is one.

        A caller with many topics passes the `dead_letter_topics` that settings name.
        """
        if topic.endswith(DEAD_LETTER_SUFFIX) or topic in (self.dead_letter_topics() if named is None else named):
            return topic
        of_group = NOTHING_SET if group is None else self._of_group(group)
        policy = resolve_delivery(topic, self.configured, self._of_topic(topic), of_group).policy
        return policy.dead_letter_topic or dead_letter_topic(topic)

    def dead_letter_topics(self) -> set[str]:
        """Return the dead-letter topics that settings of topics and groups name."""
        return set(self._named())

    def dead_letter_topics_of_groups(self, topic: str) -> list[str]:
        """Return the dead-letter topics that groups name which read a topic, or have read it."""
        named = set[str]()
        for group in self._directory.groups():
            name = group.delivery.dead_letter_topic
            if name is not None and (
                topic in group.topics() or any(ref.topic == topic for ref in self._directory.cursors(group.group))
            ):
                named.add(name)
        return sorted(named)

    def _named(self) -> Iterator[str]:
        for topic in self._topics.topics.values():
            if (name := topic.delivery.dead_letter_topic) is not None and name != NO_DEAD_LETTERS:
                yield name
        for group in self._directory.groups():
            if (name := group.delivery.dead_letter_topic) is not None and name != NO_DEAD_LETTERS:
                yield name
