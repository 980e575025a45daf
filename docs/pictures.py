"""Makes the pictures of the documentation, from what the real commands print: `python docs/pictures.py`."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.text import Text

from goqueue.client import Client
from goqueue.clock import SystemClock
from goqueue.quantities import parse_time
from goqueue.storage import frame, scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import Store
from goqueue.testing.broker import LocalBroker
from goqueue.testing.clock import ManualClock

IMAGES = Path(__file__).parent / "images"


def make_data(directory: Path) -> None:
    """Four logs; one with a flipped bit, one with a torn write, one without its index."""
    store = Store.open(SystemDisk(), str(directory), SystemClock(), owner="the pictures")
    for name, batches in (("orders/0", 40), ("orders/1", 35), ("payments/0", 12), ("payments/1", 9)):
        log = store.create(name)
        for number in range(batches):
            frames = (frame.encode(b"%06d" % count * 16, key=b"customer-%d" % number) for count in range(1000))
            log.append(scan.check_batch(bytearray(b"".join(frames))))
            store.flush()
    store.close()
    logs = directory / "logs"
    damaged = logs / "orders/1/00000000000000000000.log"
    content = bytearray(damaged.read_bytes())
    content[1_000_000] ^= 0x10
    damaged.write_bytes(content)
    with (logs / "payments/0/00000000000000000000.log").open("ab") as file:
        file.write(frame.encode(b"a write that was never answered")[:-9])
    (logs / "payments/1/00000000000000000000.index").unlink()


def make_day(directory: Path) -> None:
    """A day of orders: a quiet night, a rush at noon, and one customer who buys most."""
    clock = ManualClock(parse_time("2026-03-01T00:00:00Z"))
    store = Store.open(SystemDisk(), str(directory), clock, owner="the pictures")
    logs = [store.create(f"orders/{number}") for number in range(3)]
    random = Random(17)
    for minute in range(24 * 60):
        busy = math.exp(-(((minute / 60 - 12.5) / 4) ** 2)) + 0.1
        for _ in range(round(40 * busy)):
            customer = 4 if random.random() < 0.15 else random.randrange(60)
            order = {"customer": f"customer-{customer}", "total": random.randrange(5, 200)}
            content = frame.encode(json.dumps(order).encode(), b"customer-%d" % customer)
            logs[customer % len(logs)].append(scan.check_batch(bytearray(content)))
        clock.advance(60)
        store.flush()
    store.close()


def questions(directory: Path) -> list[Text]:
    """The first commands of an analyst, then of an operator."""
    make_day(directory / "data")
    query = "SELECT customer, count(*) n, sum(total) total FROM orders GROUP BY 1 ORDER BY 3 DESC LIMIT 3"
    lines = run("goqueue", "spark-inspect", "sql", "data", query, directory=directory)
    lines += run("goqueue", "spark-inspect", "timeline", "data", "orders", "--bucket", "1h", directory=directory)
    lines += run("goqueue", "spark-inspect", "keys", "data", "orders", "--top", "3", directory=directory)
    return lines


def run(program: str, *words: str, directory: Path, server: str = "", stdin: str = "") -> list[Text]:
    """Typed commands and their output."""
    module = {"goqueue": "goqueue", "goqueue-cli": "goqueue_cli.main"}[program]
    environment = os.environ | ({"GOQUEUE_SERVER": server} if server else {})
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env=environment,
    )
    typed = f"$ {f'printf {stdin!r} | ' if stdin else ''}{program} {shlex.join(words)}"
    lines = (done.stdout + done.stderr).splitlines()
    return [Text(typed, style="bold"), *map(_coloured, lines), Text()]


def _coloured(line: str) -> Text:
    is_damage = "range_damaged" in line or "1 damage" in line
    return Text(line, style="red" if is_damage else "")


def draw(name: str, lines: list[Text], width: int) -> None:
    """Lines of a terminal, as an SVG."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True)
    for line in lines[:-1]:
        console.print(line, soft_wrap=False)
    drawn = console.export_svg(title="GoQueue")
    IMAGES.mkdir(exist_ok=True)
    # Fonts of the viewer's machine, instead of some that would be fetched.
    (IMAGES / f"{name}.svg").write_text(re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL))


def first_messages(directory: Path) -> list[Text]:
    """The first commands of a new user."""
    with LocalBroker(str(directory / "data")) as broker:
        there: dict[str, Any] = {"directory": directory, "server": broker.url}
        lines = run("goqueue-cli", "topic", "create", "orders", **there)
        lines += run("goqueue-cli", "publish", "orders", "--key", "customer-4", '{"id": 17, "total": 42}', **there)
        lines += run(
            "goqueue-cli", "publish", "orders", "--key-separator", "=", stdin="anna=tea\nben=coffee\n", **there
        )
        lines += run("goqueue-cli", "consume", "orders", "--format", r"%T  %t/%p@%o  %k  %v\n", **there)
        with Client(broker.url) as client, client.producer() as producer:
            producer.send_many("orders", [b"%07d" % number for number in range(1_000_000)])
        lines += run("goqueue-cli", "topic", "describe", "orders", **there)
        lines += run("goqueue-cli", "topic", "describe", "ordrs", **there)
    return lines


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        make_data(Path(directory) / "goqueue-data")
        draw("fsck", run("goqueue", "fsck", "goqueue-data", directory=Path(directory)), 132)
        draw("first", first_messages(Path(directory)), 100)
        (Path(directory) / "analyst").mkdir()
        draw("questions", questions(Path(directory) / "analyst"), 124)


if __name__ == "__main__":
    main()
