"""The connections of one node with others that are not there, or are no nodes."""

import asyncio
import socket
from collections.abc import Callable

from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.peer_messages import PROTOCOL, Hello
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.cluster.peer_network import PeerHandlers, PeerNetwork

SECRET = b"the secret of a test"
WAIT_SECONDS = 60


def test_problem_of_an_address_is_over_once_nothing_listens_there() -> None:
    async def run() -> tuple[dict[str, str], dict[str, str]]:
        refused = asyncio.Event()
        closing = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        handlers = PeerHandlers(
            lambda: Hello(PROTOCOL, NodeIdentity("n1", "d"), "", ("n1", "n2"), (), ""),
            *(lambda _: None, lambda _: None, lambda _, __: None, lambda _: None, lambda _: refused.set()),
        )
        network = PeerNetwork("n1", {"n2": closing.sockets[0].getsockname()}, SECRET, handlers)
        await network.start(None)
        async with asyncio.timeout(WAIT_SECONDS):
            while not network.problems:
                await asyncio.sleep(0)
            before = network.problems
            closing.close()
            await refused.wait()
        after = network.problems
        await network.stop()
        return before, after

    before, after = asyncio.run(run())

    assert before == {"n2": "the connection ended before its first request or answer"}
    assert after == {}


def test_defect_in_a_handler_is_told_to_the_owner() -> None:
    def break_down(_: object) -> None:
        raise KeyError("a defect")

    async def run() -> None:
        failed = asyncio.Event()

        def handlers(node: str, connected: Callable[[PeerLink], None], told: Callable[[], None]) -> PeerHandlers:
            hello = Hello(PROTOCOL, NodeIdentity(node, "d"), "", ("n1", "n2"), (), "")
            return PeerHandlers(
                lambda: hello,
                lambda _: None,
                connected,
                *(lambda _, __: None, lambda _: None, lambda _: None, lambda _, __: None, lambda _, __, ___: None),
                told,
            )

        with socket.create_server(("127.0.0.1", 0)) as free:
            address = free.getsockname()
        listening = PeerNetwork("n2", {"n2": address}, SECRET, handlers("n2", lambda _: None, lambda: None))
        dialing = PeerNetwork("n1", {"n2": address}, SECRET, handlers("n1", break_down, failed.set))
        await listening.start(address)
        await dialing.start(None)
        async with asyncio.timeout(WAIT_SECONDS):
            await failed.wait()
        await dialing.stop()
        await listening.stop()

    asyncio.run(run())


def test_connection_that_another_one_replaces_ends_before_that_begins() -> None:
    async def run() -> list[str]:
        told: list[str] = []
        links: list[PeerLink] = []
        enough = asyncio.Event()

        def handlers(
            node: str, connected: Callable[[PeerLink], None], ended: Callable[[PeerLink], None]
        ) -> PeerHandlers:
            hello = Hello(PROTOCOL, NodeIdentity(node, "d"), "", ("n1", "n2"), (), "")
            return PeerHandlers(lambda: hello, lambda _: None, connected, lambda _, __: None, ended, lambda _: None)

        def connected(link: PeerLink) -> None:
            links.append(link)
            told.append(f"connected {len(links)}")
            if len(links) == 2:
                enough.set()

        def ended(link: PeerLink) -> None:
            told.append(f"ended {links.index(link) + 1}")

        with socket.create_server(("127.0.0.1", 0)) as free:
            address = free.getsockname()
        listening = PeerNetwork("n2", {"n2": address}, SECRET, handlers("n2", connected, ended))
        dialing = [
            PeerNetwork("n1", {"n2": address}, SECRET, handlers("n1", lambda _: None, lambda _: None)) for _ in range(2)
        ]
        await listening.start(address)
        for one in dialing:
            await one.start(None)
        async with asyncio.timeout(WAIT_SECONDS):
            await enough.wait()
        for network in (*dialing, listening):
            await network.stop()
        return told[:3]

    assert asyncio.run(run()) == ["connected 1", "ended 1", "connected 2"]
