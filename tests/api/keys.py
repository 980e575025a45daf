"""A broker with authentication, and requests with keys."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from goqueue.testing.broker import LocalBroker
from tests.brokers import Answer, ask


class SecuredBroker:
    """A broker that needs API keys, and the first key."""

    def __init__(self, local: LocalBroker) -> None:
        self.local = local
        self.url = local.url
        self.admin = local.daemon.bootstrap_key or ""

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> Answer:
        """Send a request with a key; that of the administrator by default, and none if it is empty."""
        sent = self.admin if key is None else key
        given = {"authorization": f"Bearer {sent}"} if sent else {}
        return ask(
            self.url, method, path, body, given | {name.replace("_", "-"): text for name, text in headers.items()}
        )

    def do(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request of the administrator that succeeds."""
        answer = self.ask(method, path, body)
        assert answer.status < 300, answer.body
        return answer.json

    def new_key(self, name: str, *roles: str, rules: Sequence[dict[str, Any]] = ()) -> str:
        made = self.do("POST", "/admin/keys", {"name": name, "roles": list(roles)})
        for rule in rules:
            self.do("POST", "/admin/acls", {"principal": f"key:{name}", **rule})
        return str(made["key"])


@contextmanager
def secured(path: Path, **settings: str) -> Iterator[SecuredBroker]:
    with LocalBroker(str(path / "data"), security__authentication="keys", **settings) as local:
        yield SecuredBroker(local)


def eventually(holds: Callable[[], bool]) -> None:
    """Ask until something is true."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it has not become true"
        threading.Event().wait(0.02)
