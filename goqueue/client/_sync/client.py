# Generated from goqueue/client/_async/client.py; edit that and run `make fmt`.
"""The client: sends requests, and makes producers, readers and consumers."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from goqueue.client import admin_requests
from goqueue.client._sync import exchange
from goqueue.client.admin_requests import ANSWER_BYTES, BrokerAdmin, GroupAdmin, TopicAdmin, TopicInfo
from goqueue.client.alert_requests import AlertAdmin
from goqueue.client.api_request import ApiRequest, ClientCore
from goqueue.client.backup_requests import BackupAdmin
from goqueue.client.cluster_requests import ClusterAdmin
from goqueue.client.connection import Connection
from goqueue.client.dead_letter_requests import DeadLetterAdmin
from goqueue.client.delayed_requests import DelayedMessageAdmin
from goqueue.client.operation_requests import OperationAdmin
from goqueue.client.quota_requests import QuotaAdmin
from goqueue.client.schema_requests import SchemaAdmin
from goqueue.client.security_requests import SecurityAdmin
from goqueue.client.segment_requests import SegmentAdmin
from goqueue.client.servers import Servers
from goqueue.client.tenant_requests import TenantAdmin
from goqueue.client.threads import opened
from goqueue.client.times import seconds
from goqueue.client.trace_requests import TraceAdmin
from goqueue.client.transaction_requests import TransactionAdmin
from goqueue.errors import TopicExists, TopicNotFound

if TYPE_CHECKING:
    from typing import Unpack

    from goqueue.client._sync.consumer import Consumer
    from goqueue.client._sync.producer import Producer
    from goqueue.client._sync.reader import Reader
    from goqueue.client._sync.transaction import TransactionalProducer
    from goqueue.client.arguments import BatchingArguments, ConsumerArguments, ProducerArguments
    from goqueue.client.delivery import Receipt, Stored
    from goqueue.client.message_encoding import Serializer, Value
    from goqueue.client.partition_reads import Isolation, OnMissing, ReadPosition, Replica
    from goqueue.client.serializers.interfaces import PayloadDeserializer
    from goqueue.client.serializers.known_schemas import KnownSchemas
    from goqueue.client.serializers.message_decoding import MessageDecoding
    from goqueue.client.settings import TopicSettings

T = TypeVar("T")


class Client(
    ClientCore,
    TopicAdmin,
    GroupAdmin,
    DeadLetterAdmin,
    DelayedMessageAdmin,
    TransactionAdmin,
    SegmentAdmin,
    OperationAdmin,
    SecurityAdmin,
    SchemaAdmin,
    TraceAdmin,
    AlertAdmin,
    TenantAdmin,
    BackupAdmin,
    ClusterAdmin,
    QuotaAdmin,
    BrokerAdmin,
):
    """A client of a broker or of a cluster. Any number of threads may share it.

    `server` is a URL, or several: a list, or one text with commas. Default: the variable GOQUEUE_SERVER, then this
    machine. The first address is used until it fails, then the next one. A refusal of the broker is raised as the error
    of `goqueue.errors` with its code. Within `timeout` a request is retried after a transient failure if
    that cannot do harm. The `api_key` is sent with every request, those of producers, readers and consumers included.
    So is the `tenant`, in which an operator works by its names; default: the variable GOQUEUE_TENANT.
    With `http`, an `httpx.Client` that stays the caller's, all requests go over it.
    """

    _http_kind = "Client"
    _idle: list[Connection]

    def create_topic(
        self, name: str, partitions: int | None = None, *, exist_ok: bool = False, **settings: "Unpack[TopicSettings]"
    ) -> TopicInfo:
        """Create a topic and return it. Default of `partitions`: the broker's own.

        With `exist_ok` a topic of that name is returned as it is, also if its partitions or settings are others.
        """
        try:
            self.call(admin_requests.create_topic(name, partitions, settings, exist_ok=exist_ok))
        except TopicExists:
            if not exist_ok:
                raise
        return self.topic(name)

    def _topic_to_publish(self, name: str) -> TopicInfo:
        """Return the topic; create it if the broker is configured to do so on publish."""
        try:
            return self.topic(name)
        except TopicNotFound:
            with suppress(TopicExists):  # another client was faster
                self.call(admin_requests.create_on_publish(name))
            return self.topic(name)

    @overload
    def producer(
        self, *, transactional_id: str, serializer: None = None, **options: "Unpack[BatchingArguments]"
    ) -> "TransactionalProducer[Value]": ...
    @overload
    def producer(
        self, *, transactional_id: str, serializer: "Serializer", **options: "Unpack[BatchingArguments]"
    ) -> "TransactionalProducer[Any]": ...
    @overload
    def producer(
        self, *, transactional_id: None = None, serializer: None = None, **options: "Unpack[BatchingArguments]"
    ) -> "Producer[Value]": ...
    @overload
    def producer(self, **options: "Unpack[ProducerArguments]") -> "Producer[Any]": ...
    def producer(self, **options: Any) -> "Producer[Any]":
        """Return a producer; `goqueue.client.Options` lists its options.

        With a `transactional_id` it sends in transactions, and fences the earlier producer with that id. With a
        `serializer` ("json", a function, or one with a schema) it takes values that are not bytes or text.
        """
        from goqueue.client._sync.producer import Producer  # noqa: PLC0415 - not needed otherwise
        from goqueue.client.producer_core import parse_producer_options, topic_encoding  # noqa: PLC0415

        self._check_open()
        chosen = parse_producer_options(options)
        schemas = topic_encoding(chosen, lambda: self._known_schemas), self.call
        if chosen.transactional_id is None:
            connect = partial(self._connect, self._servers.copy())
            return Producer(connect(), self._topic_to_publish, chosen, self._timeout, *schemas, connect)
        from goqueue.client._sync.transaction import TransactionalProducer  # noqa: PLC0415

        return TransactionalProducer(self._connect, self._topic_to_publish, chosen, self._timeout, *schemas)

    def reader(  # noqa: PLR0913 - independent options, given by name
        self,
        topic: str,
        partitions: Iterable[int] | int | None = None,
        start: "ReadPosition" = "earliest",
        until: "ReadPosition | None" = None,
        *,
        follow: bool = False,
        on_missing: "OnMissing" = "raise",
        skip_damage: bool = False,
        max_bytes: int = ANSWER_BYTES,
        wait: str | float = "5s",
        timeout: str | float | None = None,
        filters: Iterable[str] | str = (),
        isolation: "Isolation" = "read_committed",
        replica: "Replica" = "leader",
        at_least: "Mapping[int, int] | Iterable[Receipt | Stored]" = (),
        deserializer: "PayloadDeserializer | None" = None,
        key_deserializer: "PayloadDeserializer | None" = None,
    ) -> "Reader":
        """Read the messages of a topic, of all its partitions or of some.

        `start` is "earliest", "latest", an offset, a mapping of partitions to offsets, or a time (datetime, RFC 3339
        or `Nanoseconds`). Reading ends at `until`, given in the same way. Without `follow` it ends at the latest where
        the topic ended at the start; with it, requests of `wait` each wait for new messages. When an offset is
        missing, `on_missing` continues at "earliest" or "latest" instead of raising. With `filters`, such as
        `["json.order.total>40"]`, the broker returns only messages that match all of them. The `isolation`
        "read_uncommitted" includes messages of open and aborted transactions. In a cluster the `replica` "any" reads
        from any node with one, which may be behind; it waits for the messages of the receipts, or below the offsets by
        partition, in `at_least`. With a `deserializer` messages have their
        value as `decode()`, with a `key_deserializer` their key as `decode_key()`.
        """
        from goqueue.client._sync.reader import Reader  # noqa: PLC0415 - as above
        from goqueue.client.partition_reads import parse_read_options  # noqa: PLC0415

        self._check_open()
        wanted = parse_read_options(
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
            replica=replica,
            at_least=at_least,
        )
        patience = self._timeout if timeout is None else seconds(timeout, "timeout")
        decoding = self._decoding(deserializer, key_deserializer)
        return opened(Reader(wanted, self.call, self._connect, patience, decoding, self._is_in_cluster))

    def consumer(self, group: str, topics: Iterable[str], **options: "Unpack[ConsumerArguments]") -> "Consumer":
        """Return a member of a group; it joins when its block is entered or it is first iterated.

        `goqueue.client.ConsumerOptions` lists its options.
        """
        from goqueue.client._sync.consumer import Consumer  # noqa: PLC0415 - as above
        from goqueue.client.consumer_core import parse_consumer_options  # noqa: PLC0415

        self._check_open()
        chosen = parse_consumer_options({**options})
        decoding = self._decoding(chosen.deserializer, chosen.key_deserializer)
        return Consumer(group, topics, self._connect, chosen, self._timeout, self.call, decoding)

    @cached_property
    def _known_schemas(self) -> "KnownSchemas":
        from goqueue.client.serializers.known_schemas import KnownSchemas  # noqa: PLC0415 - for schemas alone

        return KnownSchemas()

    def _decoding(self, value: object, key: object) -> "MessageDecoding | None":
        """Return the deserializers of a reader or consumer, if it has any."""
        if value is None and key is None:
            return None
        from goqueue.client.serializers.message_decoding import MessageDecoding  # noqa: PLC0415 - as above

        return MessageDecoding(self._known_schemas, value, key)

    def call(self, call: ApiRequest[T]) -> T:
        """Send a request, and retry it where that is safe."""
        self._check_open()
        connection = self._idle_connection(call) or self._connect()
        try:
            return exchange(connection, call, self._timeout)
        finally:
            self._idle.append(connection)
            if self._closed:
                connection.close()

    def _idle_connection(self, call: ApiRequest[Any]) -> Connection | None:
        """Return a connection that is not used; in a cluster the one with the leader, if there is one."""
        if call.place is None or self._servers.cluster is None:
            return self._idle.pop() if self._idle else None
        leader = self._servers.cluster.leader(call.place)
        with suppress(ValueError, StopIteration):  # another thread may have taken it
            fitting = next(one for one in self._idle if leader in {None, one.address})
            self._idle.remove(fitting)
            return fitting
        return None

    def _connect(self, servers: Servers | None = None) -> Connection:
        servers = servers or self._servers
        if self._http is not None:
            from goqueue.client.httpx_connection import HttpxConnection  # noqa: PLC0415 - imports httpx

            return HttpxConnection(self._http, servers, self._connect_timeout, self._sender)
        return Connection(servers, self._connect_timeout, self._tls, self._sender)

    def close(self) -> None:
        """Close the client's own connections. Producers, readers and consumers are closed separately."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
