"""The listener: a gRPC server on a thread and a loop of its own.

gRPC decodes, encodes and calls handlers in Python. On a thread of its own that happens beside the broker's loop, which
gets what has gathered, once a turn. An idle stream costs the broker's loop nothing.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from goqueue.api.http import sockets
from goqueue.api.http.certificates import CertificateStore
from goqueue.api.service import BrokerService
from goqueue.config.grpc_settings import GrpcConfig
from goqueue.errors import AddressUnavailable
from goqueue.limits import (
    HTTP_BODY_SECONDS,
    HTTP_HEADER_BYTES,
    HTTP_WRITE_SECONDS,
    KIB,
    RPC_CONNECTION_STREAMS_MIN,
    RPC_CONNECTIONS,
    RPC_KEEPALIVE_ANSWER_SECONDS,
    RPC_PING_SECONDS_MIN,
    TLS_HANDSHAKE_SECONDS,
)
from goqueue.rpc.bridge import LoopBridge
from goqueue.rpc.methods import handlers
from goqueue.rpc.session import SessionRegistry
from goqueue.rpc.stored_messages import MessageReader
from goqueue.rpc.stubs import services
from goqueue.rpc.tenant_bridge import TenantLoopBridge

_log = logging.getLogger("goqueue.rpc")

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class RpcListener:
    """One port that speaks gRPC. `start` and `stop` it on the broker's loop."""

    def __init__(
        self,
        service: BrokerService,
        settings: GrpcConfig,
        certificates: CertificateStore | None,
        loop_factory: LoopFactory,
    ) -> None:
        self._service = service
        self._settings = settings
        self._certificates = certificates
        self._loop_factory = loop_factory
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._stop_seconds = 0.0
        self.host = ""
        self.port = 0
        """The real port if 0 was requested."""

    @staticmethod
    async def check_address(host: str, port: int) -> None:
        """Raise AddressUnavailable if another process listens there: gRPC does not say why it cannot."""
        for one in await sockets.bind_address(host, port):
            one.close()

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises AddressUnavailable."""
        self.host = host
        started: Future[int] = Future()
        self._thread = threading.Thread(
            target=self._serve, args=(started, port, asyncio.get_running_loop()), name="grpc", daemon=True
        )
        self._thread.start()
        self.port = await asyncio.wrap_future(started)

    async def stop(self, seconds: float) -> None:
        """Refuse new calls, end those that wait, complete those that change something, for so many seconds."""
        if self._thread is None or not self._thread.is_alive():
            return
        self._stop_seconds = seconds
        self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.to_thread(self._thread.join)

    # --- the thread ---

    def _serve(self, started: "Future[int]", port: int, broker_loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            runner.run(self._run(started, port, broker_loop))

    async def _run(self, started: "Future[int]", port: int, broker_loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        try:
            server, registry, well = await self._start(port, broker_loop)
        except Exception as error:
            started.set_exception(error)
            return
        started.set_result(self.port)
        watching = asyncio.create_task(registry.end_slow_clients(self.port))
        await self._stopping.wait()
        await well.enter_graceful_shutdown()
        stopping = asyncio.create_task(server.stop(self._stop_seconds))
        await registry.end(self._stop_seconds)
        await server.stop(0)  # calls of health and reflection are left
        await stopping
        watching.cancel()

    async def _start(
        self, port: int, broker_loop: asyncio.AbstractEventLoop
    ) -> tuple[grpc.aio.Server, SessionRegistry, health.aio.HealthServicer]:
        service = self._service
        bridge = self._bridge(broker_loop)
        registry = SessionRegistry(
            bridge, service.metrics, read_seconds=HTTP_BODY_SECONDS, write_seconds=HTTP_WRITE_SECONDS
        )
        server = grpc.aio.server(options=self._options(), maximum_concurrent_rpcs=self._settings.streams)
        reader = MessageReader(service.context.decompressed)
        server.add_generic_rpc_handlers(tuple(handlers(registry, reader, service.runtime.clock.now_ns)))
        well = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(well, server)
        names = [one.full_name for one in services()]
        for name in names:
            await well.set(name, 1)
        server.add_generic_rpc_handlers(_reflection((*names, health.SERVICE_NAME, reflection.SERVICE_NAME)))
        address = f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"
        try:
            if self._certificates is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, _credentials(self._certificates))
        except RuntimeError as error:
            sentence = f"cannot listen for gRPC on {address}: {error}"
            raise AddressUnavailable(sentence, hint="choose another port with `--grpc-port`") from None
        await server.start()
        return server, registry, well

    def _bridge(self, broker_loop: asyncio.AbstractEventLoop) -> LoopBridge:
        service, certificates = self._service, self._certificates
        given = service.pipeline, service.server, broker_loop, self._loop
        has_certificates = certificates is not None and certificates.current.client_auth == "required"
        if service.context.meters is None:
            return LoopBridge(*given, has_certificates=has_certificates)
        return TenantLoopBridge(*given, meters=service.context.meters, has_certificates=has_certificates)

    def _options(self) -> list[tuple[str, int]]:
        server = self._service.config.server
        return [
            ("grpc.max_receive_message_length", server.request_bytes + 64 * KIB),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", HTTP_HEADER_BYTES),
            ("grpc.absolute_max_metadata_size", HTTP_HEADER_BYTES),
            ("grpc.max_concurrent_streams", max(RPC_CONNECTION_STREAMS_MIN, self._settings.streams // 4)),
            # Below these limits, what one client begins and resets costs others their calls.
            ("grpc.server.max_pending_requests", self._settings.streams),
            ("grpc.server.max_pending_requests_hard_limit", self._settings.streams),
            ("grpc.max_allowed_incoming_connections", RPC_CONNECTIONS),
            ("grpc.max_connection_idle_ms", round(server.idle_timeout * 1000)),
            ("grpc.keepalive_time_ms", round(self._settings.keepalive * 1000)),
            ("grpc.keepalive_timeout_ms", RPC_KEEPALIVE_ANSWER_SECONDS * 1000),
            (
                "grpc.http2.ping_timeout_ms",
                RPC_KEEPALIVE_ANSWER_SECONDS * 1000,
            ),  # of a client that sends nothing at all
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", RPC_PING_SECONDS_MIN * 1000),
            ("grpc.server_handshake_timeout_ms", TLS_HANDSHAKE_SECONDS * 1000),
            ("grpc.so_reuseport", 0),
        ]


def _reflection(names: Sequence[str]) -> list[grpc.GenericRpcHandler]:
    """Return the handlers of reflection under its name of today and its former one, whose messages are the same."""
    method = grpc.stream_stream_rpc_method_handler(
        reflection.aio.ReflectionServicer(names).ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    services = ("grpc.reflection.v1.ServerReflection", reflection.SERVICE_NAME)
    return [grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": method}) for name in services]


def _credentials(certificates: CertificateStore) -> grpc.ServerCredentials:
    """Return credentials that follow the certificate in use."""
    used = certificates.current.fingerprint

    def configuration() -> grpc.ServerCertificateConfiguration:
        chain, key, authorities = certificates.current.pem
        return grpc.ssl_server_certificate_configuration([(key, chain)], authorities)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        current = certificates.current.fingerprint
        if current == used:
            return None
        used = current
        return configuration()

    is_required = certificates.current.client_auth == "required"
    return grpc.dynamic_ssl_server_credentials(configuration(), renewed, require_client_authentication=is_required)
