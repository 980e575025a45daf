"""The client for threads."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from goqueue.client import address, endpoints, insight
from goqueue.client.archive import Archive
from goqueue.client.attempts import Attempts, checked_key, tls_of
from goqueue.client.blocking import Connection
from goqueue.client.calls import Call, Script
from goqueue.client.endpoints import ANSWER_BYTES, GroupOffsets, TopicInfo
from goqueue.client.insight import GroupDetails, TopicDetails
from goqueue.client.ledger import Ledger
from goqueue.client.schedule import Schedule
from goqueue.client.times import Moment, seconds
from goqueue.errors import GoQueueError, RequestInvalid, TopicExists, TopicNotFound

if TYPE_CHECKING:
    import ssl

    from goqueue.client.consumer import Consumer
    from goqueue.client.delivery import Stored
    from goqueue.client.due import Delay, DeliverAt
    from goqueue.client.outgoing import Headers, Key, Priority, Value
    from goqueue.client.producer import Producer
    from goqueue.client.reader import Reader
    from goqueue.client.reading import Place
    from goqueue.client.transaction import TransactionalProducer

T = TypeVar("T")


class Client(Archive, Schedule, Ledger):
    """A broker, as threads use it. Any number of threads may share one.

    `server` is a URL; without one, the variable GOQUEUE_SERVER and then this machine. What the broker refuses is
    raised as the error of `goqueue.errors` with its code. Within `timeout` a call is tried again after a passing
    failure, if that can do no harm. An `api_key` goes along with every request, those of producers, readers and
    consumers included.
    """

    def __init__(
        self,
        server: str | None = None,
        timeout: str | float = "30s",
        *,
        connect_timeout: str | float = "5s",
        api_key: str | None = None,
        tls: "ssl.SSLContext | None" = None,
    ) -> None:
        self._address = address.parse(server)
        self._timeout = seconds(timeout, "timeout")
        self._connect_timeout = seconds(connect_timeout, "connect_timeout")
        self._api_key = checked_key(api_key)
        self._tls = tls_of(self._address, tls)
        self._idle: list[Connection] = []
        self._closed = False

    # --- topics ---

    def create_topic(self, name: str, partitions: int | None = None, **settings: Any) -> TopicInfo:
        """Create a topic; without a number of partitions it has as many as the broker's default."""
        self.call(endpoints.create_topic(name, partitions, settings))
        return self.topic(name)

    def topics(self, internal: bool = False) -> list[str]:
        """The names of all topics; with `internal` also of those that the broker keeps for itself."""
        return self.call(endpoints.topics(internal))

    def topic(self, name: str) -> TopicInfo:
        return self.call(endpoints.topic(name))

    def _topic_to_publish(self, name: str) -> TopicInfo:
        """The topic, which a broker that is configured so creates for whoever publishes to it."""
        try:
            return self.topic(name)
        except TopicNotFound:
            with suppress(TopicExists):  # by somebody who was quicker
                self.call(endpoints.create_on_publish(name))
            return self.topic(name)

    def alter_topic(self, name: str, **settings: Any) -> TopicInfo:
        return self.call(endpoints.alter_topic(name, settings))

    def delete_topic(self, name: str) -> dict[str, Any]:
        """Delete a topic with its messages; `delayed_deleted` says how many were still to be delivered."""
        return self.call(endpoints.delete_topic(name))

    def offset_at(self, topic: str, partition: int, time: Moment) -> int:
        """The offset of the first message at or after that time."""
        return self.call(endpoints.offset_at(topic, partition, time))

    def topic_details(self, internal: bool = False) -> list[TopicDetails]:
        """All topics with their numbers and rates, in one request."""
        return self.call(insight.topic_details(internal))

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        """Positions, sizes and faults of each partition."""
        return self.call(insight.partitions(topic))

    def compact_topic(self, name: str) -> dict[str, Any]:
        """Compact all partitions of a compacted topic now, and wait until that is done."""
        return self.call(insight.compact_topic(name))

    # --- messages ---

    def publish(  # noqa: PLR0913 - each is a choice of its own, mostly given by name
        self,
        topic: str,
        value: "Value",
        key: "Key" = None,
        headers: "Headers | None" = None,
        partition: int | None = None,
        priority: "Priority" = "normal",
        *,
        delay: "Delay | None" = None,
        deliver_at: "DeliverAt | None" = None,
    ) -> "Stored":
        """Publish one message, durable when this returns. With a `delay`, or a time, it is delivered then.

        When the connection breaks in between, it may be there all the same; a Producer, which is also faster from
        two messages on, repeats without doing it twice.
        """
        from goqueue.client import publications  # noqa: PLC0415 - ten milliseconds for who only looks at topics

        return self.call(
            publications.publish(topic, value, key, headers, partition, priority, delay=delay, deliver_at=deliver_at)
        )

    @overload
    def producer(self, *, transactional_id: str, **options: Any) -> "TransactionalProducer": ...
    @overload
    def producer(self, **options: Any) -> "Producer": ...
    def producer(self, **options: Any) -> "Producer":
        """A producer; `goqueue.client.Options` lists what may be said.

        With a `transactional_id` it sends in transactions, and whoever had that id before cannot any more.
        """
        from goqueue.client.producer import Producer  # noqa: PLC0415 - as above
        from goqueue.client.producing import options_of  # noqa: PLC0415

        self._check_open()
        wishes = options_of(options)
        if wishes.transactional_id is None:
            return Producer(self._connect(), self._topic_to_publish, wishes, self._timeout)
        from goqueue.client.transaction import TransactionalProducer  # noqa: PLC0415

        return TransactionalProducer(self._connect, self._topic_to_publish, wishes, self._timeout)

    def reader(  # noqa: PLR0913 - each is a choice of its own, given by name
        self,
        topic: str,
        partitions: Iterable[int] | int | None = None,
        start: "Place" = "earliest",
        until: "Place | None" = None,
        *,
        follow: bool = False,
        on_missing: str = "raise",
        skip_damage: bool = False,
        max_bytes: int = ANSWER_BYTES,
        wait: str | float = "5s",
        timeout: str | float | None = None,
        filters: Iterable[str] | str = (),
        isolation: str = "read_committed",
    ) -> "Reader":
        """Read the messages of a topic, of all its partitions or of some.

        `start` is "earliest", "latest", an offset, a mapping of partitions to offsets, or a time (datetime, RFC 3339
        or `Nanoseconds`). Reading ends at `until`, given in the same way; without `follow` it ends at the latest
        where the topic ended when it began, and with it new messages are waited for, in requests of `wait` each.
        When an offset is not there (any more), `on_missing` goes on with "earliest" or "latest" instead of raising.
        With `filters`, such as `["json.order.total>40"]`, the broker gives those messages only that fit all of them.
        With the `isolation` "read_uncommitted" it also gives those of open and of aborted transactions.
        """
        from goqueue.client.reader import Reader  # noqa: PLC0415 - as above
        from goqueue.client.reading import begin, wish  # noqa: PLC0415

        wanted = wish(
            topic,
            partitions,
            wait,
            filters,
            start=start,
            until=until,
            follow=follow,
            on_missing=on_missing,
            skip_damage=skip_damage,
            max_bytes=max_bytes,
            isolation=isolation,
        )
        patience = self._timeout if timeout is None else seconds(timeout, "timeout")
        return Reader(self._run(begin(wanted)), self._connect, patience)

    # --- groups ---

    def consumer(self, group: str, topics: Iterable[str], **options: Any) -> "Consumer":
        """A member of a group, which joins when it is entered or first iterated.

        `goqueue.client.ConsumerOptions` lists what may be said.
        """
        from goqueue.client.consumer import Consumer  # noqa: PLC0415 - as above
        from goqueue.client.options import options_of  # noqa: PLC0415

        self._check_open()
        return Consumer(group, topics, self._connect, options_of(options), self._timeout)

    def groups(self) -> list[str]:
        """The names of all groups."""
        return self.call(endpoints.groups())

    def group(self, name: str) -> dict[str, Any]:
        """A group as the broker describes it: its state, members and lag."""
        return self.call(endpoints.group(name))

    def group_details(self, limit: int = 1000, after: str | None = None) -> list[GroupDetails]:
        """Groups by their names, with their lag, in one request; `after` is the last name of the list before."""
        return self.call(insight.group_details(limit, after))

    def cooperative_group(self, name: str) -> dict[str, Any]:
        """Who has what of a group, and how its rebalances went."""
        return self.call(insight.cooperative_group(name))

    def rebalance_stats(self, group: str | None = None) -> dict[str, Any]:
        """Rebalances of one group, or of all, since the broker started."""
        return self.call(insight.rebalance_stats(group))

    def priority_stats(self, topic: str | None = None, group: str | None = None) -> dict[str, Any]:
        """What is ready, in hand and was handed out of each priority, by topic and partition; as a group has it."""
        return self.call(insight.priority_stats(topic, group))

    def delete_group(self, name: str) -> None:
        """Forget a group and where it was; it must have no members."""
        self.call(endpoints.delete_group(name))

    def group_offsets(self, group: str, topic: str | None = None) -> GroupOffsets:
        """By topic and partition the offset before which everything is done."""
        return self.call(endpoints.group_offsets(group, topic))

    def commit_offsets(
        self, group: str, member_id: str, offsets: GroupOffsets, generation: int | None = None
    ) -> GroupOffsets:
        """Say that a member is done with everything before these offsets; gives them as they stand now."""
        return self.call(endpoints.commit_offsets(group, member_id, offsets, generation))

    def reset_offsets(  # noqa: PLR0913 - each is a choice of its own, given by name
        self,
        group: str,
        topic: str,
        to: str,
        *,
        partitions: Iterable[int] | None = None,
        offset: int | None = None,
        time: Moment | None = None,
        shift: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Move a group to another place: "earliest", "latest", "offset", "time" or "shift", with what that needs."""
        chosen = None if partitions is None else list(partitions)
        wishes = {"partitions": chosen, "offset": offset, "time": time, "shift": shift, "dry_run": dry_run}
        return self.call(endpoints.reset_offsets(group, topic, to, wishes))

    def redrive(self, topic: str, **wishes: Any) -> dict[str, Any]:
        """Send dead letters back to where they came from. Each is moved exactly once, however often this is called.

        `error`, `group`, `key`, `header`, `filters`, `from_time` and `to_time` choose which; `limit`, `rate`,
        `target`, `start` (`next` of the answer before) and `dry_run` how.
        """
        return self.call(endpoints.redrive(topic, wishes))

    def dead_letters(  # noqa: PLR0913 - wishes, mostly given by name
        self,
        topic: str,
        limit: int = 100,
        error: str | None = None,
        group: str | None = None,
        start: Mapping[Any, int] | None = None,
        filters: Iterable[str] | str = (),
        *,
        from_time: Moment | None = None,
        to_time: Moment | None = None,
    ) -> dict[str, Any]:
        """Dead letters of a topic that were not sent back: `messages`, and how they failed.

        `error` is a part of why, `group` the one that failed, `filters` are as for a reader, `from_time` and `to_time`
        bound when they came, and `start` is where to go on: `next` of the answer before, until that is `complete`.
        """
        wishes = {"error": error, "group": group, "from_time": from_time, "to_time": to_time}
        return self.call(endpoints.dead_letters(topic, limit, wishes, start, filters))

    def dead_letter_errors(self, topic: str) -> dict[str, Any]:
        """Why the dead letters of a topic have failed, and how many each time."""
        return self.call(endpoints.dead_letter_errors(topic))

    # --- the broker ---

    def version(self) -> dict[str, Any]:
        return self.call(endpoints.version())

    def health(self) -> dict[str, Any]:
        return self.call(endpoints.health())

    def readiness(self) -> dict[str, Any]:
        """Whether the broker takes messages, with the single checks; one that does not is no error here."""
        return self.call(insight.readiness())

    def stats(self) -> dict[str, Any]:
        """Numbers of all topics, rates, and what the process and the disk have."""
        return self.call(insight.stats())

    def history(self, seconds: int = 300) -> dict[str, Any]:
        """The broker's last seconds: a list of numbers for each of the `series`, oldest first."""
        return self.call(insight.history(seconds))

    def reliability(self) -> dict[str, Any]:
        """What became of messages since the broker started, and what is in hand."""
        return self.call(insight.reliability())

    def doctor(self) -> dict[str, Any]:
        """The broker's own look at itself: `checks`, and `findings` with what to do."""
        return self.call(insight.doctor())

    def call(self, call: Call[T]) -> T:
        """Carry out a call, again if need be."""
        self._check_open()
        attempts = Attempts(call, self._timeout)
        connection = self._idle.pop() if self._idle else self._connect()
        try:
            while True:
                try:
                    answer = connection.exchange(call, attempts.left())
                    return call.decode(answer)
                except GoQueueError as error:
                    attempts.pause(error)
        finally:
            self._idle.append(connection)
            if self._closed:
                connection.close()

    def _run(self, script: Script[T]) -> T:
        value: Any = None
        while True:
            try:
                call = script.send(value)
            except StopIteration as end:
                result: T = end.value
                return result
            value = self.call(call)

    def _connect(self) -> Connection:
        return Connection(self._address, self._connect_timeout, self._tls, self._api_key)

    def _check_open(self) -> None:
        if self._closed:
            raise RequestInvalid("this client is closed", hint="make another one")

    def close(self) -> None:
        """Close the client's own connections. Producers and readers are closed for themselves."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client {self._address}>"
