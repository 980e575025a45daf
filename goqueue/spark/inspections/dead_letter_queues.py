"""Find dead-letter queues: by their names, by the settings of topics and groups, and by the headers of their messages.

Dead letters of several topics may be in one queue, beside other messages. So what is found says which messages count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from goqueue.broker.core.delivery_settings import NO_DEAD_LETTERS
from goqueue.broker.groups.dead_letter_message import DEAD_LETTER_HEADER_PREFIX
from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX, dead_letter_topic
from goqueue.errors import TopicNotFound
from goqueue.quantities import quoted
from goqueue.spark.inspections.header import header_column
from goqueue.spark.inspections.internal_logs import GroupLogState, read_topics
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split, read_split

ORIGIN_TOPIC = f"{DEAD_LETTER_HEADER_PREFIX}topic"
"""The header with the topic in which a dead letter failed."""

Origins = frozenset[str] | None
"""The topics whose dead letters count; None: all."""

_PEEKED = 100  # messages of a partition


@dataclass(frozen=True, slots=True)
class _NamedQueues:
    """The queues that settings name."""

    of_topics: Mapping[str, str]
    """By topic."""
    of_groups: Sequence[tuple[str, frozenset[str]]]
    """With the topics that the group reads, or has read."""

    def all(self) -> set[str]:
        return {*self.of_topics.values(), *(queue for queue, _ in self.of_groups)}

    def of(self, topic: str) -> Iterator[str]:
        yield self.of_topics.get(topic, dead_letter_topic(topic))
        yield dead_letter_topic(topic)  # of groups that were there before the setting
        for queue, read in self.of_groups:
            if topic in read:
                yield queue


def find_queues(logs: LogSource, groups: GroupLogState, names: Sequence[str]) -> dict[str, Origins]:
    """Return the dead-letter queues of these topics, or the topics if they are queues; all where none is named."""
    known, named = logs.topics(), _named_queues(logs, groups)
    queues = {topic for topic in known if topic.endswith(DEAD_LETTER_SUFFIX) or topic in named.all()}
    if not names:
        return dict.fromkeys((topic for topic in known if topic in queues), None)
    found: dict[str, Origins] = {}
    for name in names:
        if name in queues:
            found[name] = None
            continue
        own = [queue for queue in dict.fromkeys(named.of(name)) if queue in known]
        if not own and name not in known:
            raise TopicNotFound(f"there is no topic {quoted(name)}", hint="`summary` lists those that there are")
        for queue in own:
            former = found.get(queue, frozenset())
            found[queue] = None if former is None else former | {name}
        if not own and _has_dead_letters(logs, name, known[name]):
            found[name] = None
    return found


def _named_queues(logs: LogSource, groups: GroupLogState) -> _NamedQueues:
    of_topics = {name: topic.settings.dead_letter_topic for name, topic in read_topics(logs).items()}
    of_groups = []
    for name, group in groups.groups.items():
        queue = group.delivery.dead_letter_topic
        if queue is not None and queue != NO_DEAD_LETTERS:
            read = group.topics() | {ref.topic for ref in groups.cursors.get(name, {})}
            of_groups.append((queue, frozenset(read)))
    chosen = {name: queue for name, queue in of_topics.items() if queue is not None and queue != NO_DEAD_LETTERS}
    return _NamedQueues(chosen, of_groups)


def _has_dead_letters(logs: LogSource, topic: str, partitions: Iterable[int]) -> bool:
    """Test if the first messages are dead letters: settings that named the queue may have changed since."""
    for number in partitions:
        view = logs.view(topic, number)
        split = Split(topic, number, view.earliest, min(view.end, view.earliest + _PEEKED), view.size, view.segments)
        first = next((piece for piece in read_split(logs, split) if isinstance(piece, FrameRun)), None)
        if first is not None:
            origins = header_column(first.frames, ORIGIN_TOPIC)
            if origins.null_count < len(origins):
                return True
    return False
