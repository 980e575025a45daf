"""TLS between nodes: certificates that are right, wrong, of others, renewed, or missing."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.peer_messages import PROTOCOL, Hello
from goqueue.commands.cert import make_dev_certificates
from goqueue.errors import CertificateInvalid
from goqueue.runtime.cluster.peer_network import PeerHandlers, PeerNetwork
from goqueue.runtime.cluster.peer_tls import PeerTls, PeerTlsFiles
from tests.cluster.processes import NAMES, SECRET, ServedCluster, cluster, free_ports

WAIT_SECONDS = 60


@pytest.fixture
def files(tmp_path: Path) -> Path:
    make_dev_certificates(tmp_path / "tls", nodes=NAMES)
    return tmp_path / "tls"


def tls_of(files: Path, node: str, shown: str = "") -> PeerTls:
    """Return the certificate of a node, which may be that of another one."""
    name = shown or node
    return PeerTls(PeerTlsFiles(str(files / f"{name}.pem"), str(files / f"{name}.key"), str(files / "ca.pem")), name)


@dataclass
class Pair:
    """Two nodes; n1 dials n2."""

    dialer: PeerNetwork
    listener: PeerNetwork

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                await asyncio.sleep(0.001)

    @property
    def is_connected(self) -> bool:
        return "n2" in self.dialer.links and "n1" in self.listener.links


@asynccontextmanager
async def pair(dialer: PeerTls | None, listener: PeerTls | None, *, secret: bytes = b"") -> AsyncIterator[Pair]:
    address = "127.0.0.1", free_ports(1)[0]
    networks = []
    for node, tls in (("n1", dialer), ("n2", listener)):
        hello = partial(Hello, PROTOCOL, NodeIdentity(node, "d"), "", ("n1", "n2"), (), "")
        handlers = PeerHandlers(
            hello,
            *(lambda _: None, lambda _: None, lambda _, __: None, lambda _: None, lambda _: None),
        )
        networks.append(PeerNetwork(node, {"n1": ("127.0.0.1", 9), "n2": address}, secret, handlers, tls))
    await networks[1].start(address)
    await networks[0].start(None)
    try:
        yield Pair(*networks)
    finally:
        for one in networks:
            await one.stop()


def test_nodes_with_certificates_connect_with_and_without_a_secret(files: Path) -> None:
    async def run(secret: bytes) -> None:
        async with pair(tls_of(files, "n1"), tls_of(files, "n2"), secret=secret) as nodes:
            await nodes.until(lambda: nodes.is_connected)
            assert nodes.dialer.problems == nodes.listener.problems == {}

    asyncio.run(run(b""))
    asyncio.run(run(SECRET.encode()))


def test_certificate_of_another_node_is_refused_at_both_ends(files: Path) -> None:
    async def run() -> None:
        async with pair(tls_of(files, "n1", "n3"), tls_of(files, "n2")) as nodes:
            await nodes.until(lambda: bool(nodes.dialer.problems and nodes.listener.problems))
            sentence = "the certificate is for n3, not for 'n1'"
            assert nodes.dialer.problems["n2"].endswith(f"refuses: {sentence}")
            assert nodes.listener.problems == {"n1": sentence}
        async with pair(tls_of(files, "n1"), tls_of(files, "n2", "n3")) as nodes:
            await nodes.until(lambda: bool(nodes.dialer.problems))
            assert nodes.dialer.problems == {"n2": "the certificate is for n3, not for 'n2'"}

    asyncio.run(run())


def test_certificate_of_another_authority_is_refused_by_each_side(
    files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    make_dev_certificates(other, nodes=NAMES)
    shutil.copy(files / "ca.pem", tmp_path / "own.pem")
    stranger = PeerTls(PeerTlsFiles(*(str(other / name) for name in ("n1.pem", "n1.key", "ca.pem"))), "n1")

    async def dialer_refuses() -> None:
        async with pair(stranger, tls_of(files, "n2")) as nodes:
            await nodes.until(lambda: bool(nodes.dialer.problems))
            assert "is refused: self-signed certificate" in nodes.dialer.problems["n2"]
            await nodes.until(lambda: "127.0.0.1 ended the connection in the handshake: it may refuse" in caplog.text)

    async def listener_refuses() -> None:
        trusting = stranger.contexts()
        trusting.dialer.load_verify_locations(tmp_path / "own.pem")
        async with pair(stranger, tls_of(files, "n2")) as nodes:
            await nodes.until(lambda: bool(nodes.dialer.problems))
            assert "it refuses the certificate of this node: tlsv1 alert unknown ca" in nodes.dialer.problems["n2"]
            await nodes.until(lambda: "no TLS with 127.0.0.1: self-signed certificate" in caplog.text)

    asyncio.run(dialer_refuses())
    asyncio.run(listener_refuses())


def test_node_without_tls_is_refused_with_a_sentence_at_both_ends(
    files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def plain_dialer() -> None:
        async with pair(None, tls_of(files, "n2"), secret=SECRET.encode()) as nodes:
            await nodes.until(lambda: bool(nodes.dialer.problems and nodes.listener.problems))
            sentence = "node 'n1' dials without TLS: set cluster.tls_cert on all nodes"
            assert nodes.dialer.problems["n2"].endswith(f"refuses: {sentence}")
            assert nodes.listener.problems == {"n1": sentence}

    async def plain_listener() -> None:
        async with pair(tls_of(files, "n1"), None, secret=SECRET.encode()) as nodes:
            await nodes.until(lambda: bool(nodes.dialer.problems))
            assert "it may have no cluster.tls_cert" in nodes.dialer.problems["n2"]
            assert "a node dials with TLS, and this one has no cluster.tls_cert" in caplog.text

    asyncio.run(plain_dialer())
    asyncio.run(plain_listener())


def test_another_secret_is_refused_on_connections_with_tls_too(files: Path) -> None:
    async def run() -> None:
        async with pair(tls_of(files, "n1"), tls_of(files, "n2"), secret=b"one") as nodes:
            nodes.dialer._secret = b"another"
            await nodes.until(lambda: "n2" in nodes.dialer.problems)
            assert "has another cluster secret" in nodes.dialer.problems["n2"]

    asyncio.run(run())


def test_renewed_certificate_counts_from_the_next_connection_on(files: Path) -> None:
    async def run() -> None:
        tls = tls_of(files, "n2")
        async with pair(tls_of(files, "n1"), tls) as nodes:
            await nodes.until(lambda: nodes.is_connected)
            first, before = nodes.dialer.links["n2"], tls.contexts()
            make_dev_certificates(files, nodes=NAMES)
            assert tls.contexts().content != before.content
            assert nodes.dialer.links["n2"] is first, "an open connection goes on"
            first.abort()
            await nodes.until(lambda: nodes.is_connected and nodes.dialer.links["n2"] is not first)
            assert nodes.dialer.problems == {}

    asyncio.run(run())


def test_broken_files_leave_the_former_certificate_in_use(files: Path) -> None:
    tls = tls_of(files, "n1")
    before = tls.contexts()
    (files / "n1.key").write_text("broken")

    assert tls.contexts() is before
    assert tls.error is not None

    make_dev_certificates(files, nodes=NAMES)
    assert tls.contexts().content != before.content
    assert tls.error is None


def test_certificate_that_other_nodes_would_refuse_ends_the_start(files: Path, tmp_path: Path) -> None:
    def load(cert: str, key: str, node: str = "n1", ca: str = "ca.pem") -> str:
        with pytest.raises(CertificateInvalid) as found:
            PeerTls(PeerTlsFiles(str(files / cert), str(files / key), str(files / ca)), node)
        return found.value.sentence

    assert "is for n1, and this is node n2" in load("n1.pem", "n1.key", "n2")
    assert "does not belong to the certificate" in load("n1.pem", "n2.key")
    assert "would refuse the certificate" in load("server.pem", "server.key", "localhost")
    assert "cannot be read" in load("absent.pem", "n1.key")
    make_dev_certificates(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "ca.pem", files / "other.pem")
    assert "self-signed certificate in certificate chain" in load("n1.pem", "n1.key", ca="other.pem") or (
        "unable to get local issuer" in load("n1.pem", "n1.key", ca="other.pem")
    )
    make_dev_certificates(files, days=0, nodes=NAMES)
    assert "certificate has expired" in load("n1.pem", "n1.key")


def test_cluster_of_processes_with_certificates_elects_and_refuses_a_plain_node(files: Path, tmp_path: Path) -> None:
    class WithTls(ServedCluster):
        plain: tuple[str, ...] = ()

        def words_of(self, name: str) -> tuple[str, ...]:
            if name in self.plain:
                return ()
            paths = {"cert": f"{name}.pem", "key": f"{name}.key", "ca": "ca.pem"}
            return tuple(word for key, path in paths.items() for word in (f"--cluster-tls-{key}", str(files / path)))

    with cluster(tmp_path, made=WithTls) as nodes:
        assert isinstance(nodes, WithTls)
        controller = nodes.controller()
        stranger = next(name for name in NAMES if name != controller)
        nodes.kill(stranger)
        nodes.plain = (stranger,)

        nodes.start(stranger)

        other = next(name for name in NAMES if name not in (stranger, controller))
        nodes.wait(lambda: any("TLS" in (one.problem or "") for one in nodes.state(stranger).nodes))
        assert nodes.state(stranger).controller_id is None
        assert nodes.controller(seen_from=(controller, other)) == controller
