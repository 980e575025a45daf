"""A relay between a client and a broker that loses what a test chooses."""

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.client.peers import Asked, Peer, Reply, peer

_PASSED_ON = {"content-type", "accept", "x-goqueue-checksum"}


@dataclass
class Relay:
    """Passes everything on. What `loses` says yes to is carried out, and its answer does not arrive."""

    target: str
    loses: Callable[[Asked], bool] = lambda _: False
    before: Callable[[Asked], object] = lambda _: None
    """Called with each request before it is passed on."""
    instead: Callable[[Asked], Reply] = lambda _: None
    """May answer what is not passed on then."""
    headers: Callable[[], dict[str, str]] = dict
    """Headers of its own in each answer."""
    lost: list[Asked] = field(default_factory=list)
    peer: Peer = field(init=False)

    def answer(self, asked: Asked) -> Reply:
        self.before(asked)
        own = self.instead(asked)
        if own is not None:
            return own
        connection = http.client.HTTPConnection(urlsplit(self.target).netloc, timeout=30)
        try:
            passed_on = {name: text for name, text in asked.headers.items() if name in _PASSED_ON}
            connection.request(asked.method, asked.target, asked.body, passed_on)
            response = connection.getresponse()
            body = response.read()
        except OSError:
            return None  # as if no broker listened
        finally:
            connection.close()
        if self.loses(asked):
            self.lost.append(asked)
            return None
        kept = [f"{name}: {text}" for name, text in self.headers().items()]
        kept += [f"{name}: {text}" for name, text in response.getheaders() if name.lower() != "content-length"]
        head = "\r\n".join((f"HTTP/1.1 {response.status} Passed on", f"Content-Length: {len(body)}", *kept, "", ""))
        return head.encode("latin-1") + body

    def asked(self, part: str) -> list[Asked]:
        """The requests with that in their target."""
        return [one for one in self.peer.asked if part in one.target]


def once(part: str) -> Callable[[Asked], bool]:
    """Loses the first answer to a request with that in its target."""
    left = [part]

    def loses(asked: Asked) -> bool:
        if left and left[0] in asked.target:
            left.clear()
            return True
        return False

    return loses


@contextmanager
def relay(target: str, loses: Callable[[Asked], bool] = lambda _: False) -> Iterator[Relay]:
    made = Relay(target, loses)
    with peer(made.answer) as made.peer:
        yield made
