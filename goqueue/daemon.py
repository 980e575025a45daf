"""The daemon: reads the configuration, builds the broker's components, and owns their start and stop.

The only module that knows all components. It owns the data directory while it runs: recovery at the start, the event
loop, and the clean-stop marker at the end.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import uvloop

from goqueue import __version__
from goqueue.api.http.certificates import CertificateStore, TlsFiles
from goqueue.api.service import BrokerService, runtime_settings, store_settings
from goqueue.broker.broker import Broker
from goqueue.broker.core.work import Work
from goqueue.clock import SystemClock
from goqueue.config import Config
from goqueue.config.conflicts import exposure_of
from goqueue.errors import CertificateInvalid, ConfigInvalid, PathInvalid
from goqueue.observe.logs import configure_logging
from goqueue.observe.metrics import Metrics
from goqueue.rpc.packages import require_packages
from goqueue.runtime.cluster.notes import NodeNotes
from goqueue.runtime.runtime import Runtime
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import Store, process_name

if TYPE_CHECKING:
    from goqueue.rpc.listener import RpcListener

_log = logging.getLogger("goqueue.daemon")

T = TypeVar("T")

_GARBAGE_THRESHOLDS = 10_000, 1, 150
"""New objects before a garbage collection, which pauses all requests for some milliseconds; such collections before one
of their survivors; and those before one of all objects, which takes a second when 10,000 streams are open."""


class Daemon:
    """One broker process: `run` it until `stop` is called."""

    def __init__(self, config: Config) -> None:
        self.config = config
        _raise_file_limit()
        self.certificates = _certificates(config)
        """The certificate of the listener; None without TLS."""
        self.service = BrokerService(config, SystemDisk(), SystemClock())
        if self.certificates is not None:
            self.service.use(self.certificates)
        self.runtime, self.server = self.service.runtime, self.service.server
        self.registry_server = self.service.registry_server
        self.rpc_listener = self._rpc_listener()
        """The listener for gRPC; None without one."""
        self.recent_logs = self.service.context.recent_logs
        self.bootstrap_key: str | None = None
        """The first key of the role admin, if this start has made it."""
        self.key_file: Callable[[], AbstractContextManager[TextIO | None]] = nullcontext
        """Opens the file for the first key, before it is made: a key that cannot be written is not made."""
        self._has_failed = False
        self._stop: asyncio.Event

    @property
    def connections_max(self) -> int:
        """The limit of connections, which a limit of open files can lower."""
        return self.service.connections_max

    @property
    def address(self) -> str:
        return self._url(self.server.address)

    @property
    def registry_address(self) -> str | None:
        """The address that answers only the paths of the schema registry, if there is one."""
        return None if self.registry_server is None else self._url(self.registry_server.address)

    @property
    def rpc_address(self) -> str | None:
        """Host and port that speak gRPC, if there are any."""
        listener = self.rpc_listener
        if listener is None:
            return None
        return f"[{listener.host}]:{listener.port}" if ":" in listener.host else f"{listener.host}:{listener.port}"

    def _rpc_listener(self) -> "RpcListener | None":
        """Raises GrpcUnavailable if the packages are missing."""
        if self.config.grpc.port == "none":
            return None
        require_packages()
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its lines on stderr have no level that ours have
        from goqueue.rpc.listener import RpcListener  # noqa: PLC0415 - 0.2 s that only gRPC costs

        return RpcListener(self.service, self.config.grpc, self.certificates, uvloop.new_event_loop)

    def _url(self, address: str | tuple[str, int]) -> str:
        if isinstance(address, str):
            return f"unix:{address}{'' if self.certificates is None else ' (TLS)'}"
        host, port = address
        scheme = "http" if self.certificates is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def store(self) -> Store:
        return self.runtime.store

    def run(self, started: Callable[["Daemon"], None], stopped: Callable[[], None]) -> None:
        """Run until stopped. Call `started` when clients can connect, `stopped` when everything is written."""
        log = self.config.log
        logs = configure_logging(log.level, log.format, sys.stderr, recent=self.recent_logs)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._run(started))
            stopped()
        finally:
            logs.close()

    async def _run(self, started: Callable[["Daemon"], None]) -> None:
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_tell_of_mistake)
        self.runtime.on_failure.subscribe(self._fail)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        # The signal means two things: "reload", and that the terminal of the broker was closed.
        ends_with_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()
        loop.add_signal_handler(signal.SIGHUP, self._hang_up, ends_with_terminal)
        await self.start()
        gc.freeze()
        gc.set_threshold(*_GARBAGE_THRESHOLDS)
        try:
            started(self)
            await self._stop.wait()
        finally:
            await self.close()
        if self._has_failed:
            raise RuntimeError("the broker failed: see its log")

    def _hang_up(self, ends_with_terminal: bool) -> None:
        if ends_with_terminal and not _has_terminal():
            self.stop()
        elif self.certificates is None:
            _log.info("SIGHUP: there is no TLS certificate to reload")
        else:
            with suppress(CertificateInvalid):  # it is logged
                self.certificates.reload()

    def _fail(self) -> None:
        self._has_failed = True
        self._stop.set()

    async def start(self) -> None:
        """Bind the address, recover the data directory, and listen."""
        server = self.config.server
        # Bind the address first: without it, nothing else is touched. The loop does not run during recovery,
        # so early connections wait in the kernel.
        uds = None if server.uds == "none" else server.uds
        fd = None if server.fd == "none" else int(server.fd)
        certificates = self.certificates
        tls = None if certificates is None else lambda: certificates.context
        rpc_port = 0 if self.rpc_listener is None else int(self.config.grpc.port)
        if self.rpc_listener is not None:
            await self.rpc_listener.check_address(server.host, rpc_port)
        await self.server.start(server.host, server.port, uds=uds, fd=fd, tls=tls)
        try:
            if self.registry_server is not None:
                await self.registry_server.start(server.host, int(self.config.schemas.registry_port), tls=tls)
            self._refuse_exposure()
            if certificates is not None:
                certificates.start_watching()
            self.service.start()
            if self.service.lacks_admin_key:
                await self._create_first_key()
        except BaseException:
            await self._stop_servers(0)
            raise
        try:  # last, because these let the loop run
            await self.service.start_cluster(self.address)
            if self.rpc_listener is not None:
                await self.rpc_listener.start(self.config.server.host, rpc_port)
        except BaseException:
            await self.close()
            raise

    async def _create_first_key(self) -> None:
        with self.key_file() as file:
            self.bootstrap_key = await self.service.create_first_key()
            if file is not None:
                file.write(f"{self.bootstrap_key}\n")

    def _refuse_exposure(self) -> None:
        """Refuse an inherited listener that other machines reach: the settings do not have its address."""
        security, address = self.config.security, self.server.address
        if not isinstance(address, str):
            sentence = exposure_of(
                address[0],
                has_keys=security.authentication == "keys",
                has_tls=self.certificates is not None,
                insecure=security.insecure,
            )
            if sentence is not None:
                raise ConfigInvalid(sentence, problems=())

    async def close(self) -> None:
        """Refuse new work, finish requests in progress, within limits, and write everything."""
        if self.certificates is not None:
            self.certificates.stop_watching()
        if self.service.context.cluster is not None:  # clients go on at other nodes before this one is gone
            await self.service.context.cluster.give_away()
        await self._stop_servers(self.config.server.stop_timeout)
        await self.service.stop()

    async def _stop_servers(self, seconds: float) -> None:
        servers = [one for one in (self.server, self.registry_server) if one is not None]
        listeners = [] if self.rpc_listener is None else [self.rpc_listener.stop(seconds)]
        await asyncio.gather(*(one.stop(seconds) for one in servers), *listeners)

    def stop(self) -> None:
        """Stop the broker. Called on the loop's thread by a signal."""
        self._stop.set()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _certificates(config: Config) -> CertificateStore | None:
    """Load the certificate of the listener. Raises CertificateInvalid."""
    tls = config.tls
    if tls.cert == "none":
        return None
    key, client_ca = (None if path == "none" else path for path in (tls.key, tls.client_ca))
    return CertificateStore(TlsFiles(tls.cert, key, client_ca, tls.client_auth), SystemClock())


def _tell_of_mistake(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled error of the event loop; the broker continues."""
    _log.error("%s", context.get("message", "unhandled"), exc_info=context.get("exception"))


def change_offline(config: Config, rule: Callable[[Broker], Work[T]]) -> T:
    """Carry out a rule on a data directory that no broker uses."""

    async def run() -> T:
        NodeNotes(SystemDisk(), os.path.abspath(config.data_dir)).refuse_member()
        runtime = Runtime(SystemDisk(), SystemClock(), Metrics(__version__), runtime_settings(config))
        owner = process_name("goqueue key", os.getpid())
        runtime.start(os.path.abspath(config.data_dir), owner, store_settings(config))
        try:
            return await runtime.decide(rule(runtime.broker))
        finally:
            await runtime.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def forget_cluster(data_directory: str) -> None:
    """Make the directory of a stopped node that of a broker alone."""
    disk = SystemDisk()
    notes = NodeNotes(disk, data_directory)
    if not notes.exist:
        raise PathInvalid(
            f"{data_directory} is no data directory of a node of a cluster", hint="name one with --data-dir"
        )
    lock = disk.lock(f"{data_directory}/lock", process_name("goqueue cluster forget", os.getpid()))
    try:
        notes.remove()
    finally:
        lock.release()


def _raise_file_limit() -> None:
    """Raise the limit of open files to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
