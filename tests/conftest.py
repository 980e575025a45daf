"""Options and fixtures that all tests share."""

import atexit
import gc
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import count
from math import ceil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from goqueue.testing.broker import LocalBroker

MEMORY = Path("/dev/shm")  # noqa: S108
MEMORY_FREE_MIN = 4 << 30

# Temporary directories are kept in memory where it has room: most tests would only wait for the device's syncs.
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_FREE_MIN:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Without bytecode files each worker, and each program that it starts, would compile all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell without job control has background jobs ignore SIGINT, and programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are the same in every run, so that a change is judged by itself. `--hypothesis-profile=long` tries 100 other
# examples in each run, `--hypothesis-profile=thorough` 1,000; a failure prints the blob that repeats it. A slow machine
# is not a failure.
settings.register_profile(
    "default",
    max_examples=25,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", settings.get_profile("default"), max_examples=100, derandomize=False)
settings.register_profile("thorough", settings.get_profile("long"), max_examples=1000)
settings.load_profile("default")

_numbers = count(1)

# Ten thousand tests are millions of objects that stay: to look for garbage among them takes half the time of
# collecting the tests, and would take as long again whenever a test has made many objects.
gc.disable()
GARBAGE_THRESHOLDS = (20_000, 20, 20)
"""A screen is 30,000 objects, which the usual 700 would look through dozens of times: for a tenth of its CPU time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker load its share of the modules first: in a fresh checkout, each would else compile all of them."""
    config, worker = session.config, os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    places = [config.invocation_params.dir / word.partition("::")[0] for word in config.args]
    paths = sorted({path for place in places for path in ([place] if place.is_file() else place.rglob("test_*.py"))})
    for path in paths[int(worker.removeprefix("gw")) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]:
        with suppress(Exception):  # collecting it says why
            import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each worker its share of slow tests first, so that none of them begins when the others are about to end."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    share = ceil(len(quick) / workers)
    items[:] = [
        item
        for number in range(workers)
        for item in (*slow[number::workers], *quick[number * share : (number + 1) * share])
    ]


def pytest_collection_finish() -> None:
    gc.freeze()
    atexit.register(gc.unfreeze)  # some libraries report objects that are left at the end of the process
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """Return twice the number of cores: many tests wait for programs that they have started."""
    return (os.cpu_count() or 1) * 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kills",
        type=int,
        default=20,
        metavar="COUNT",
        help="how often the crash suite kills the storage engine with SIGKILL (default: 20)",
    )
    parser.addoption(
        "--seeds",
        type=int,
        default=4,
        metavar="COUNT",
        help="how many random lives of each traffic mix are simulated (default: 4)",
    )
    parser.addoption("--seed", type=int, metavar="NUMBER", help="simulate only the life of this seed")


@pytest.fixture
def kept_port() -> Iterator[str]:
    """A port for a broker that starts again: no other program gets it meanwhile."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker's, which may use it besides
        held.bind(("127.0.0.1", 0))
        yield str(held.getsockname()[1])


@pytest.fixture
def broker(tmp_path: Path, kept_port: str) -> Iterator[LocalBroker]:
    """A fresh broker on an empty directory."""
    with LocalBroker(str(tmp_path / "data"), server__port=kept_port) as local:
        yield local


@pytest.fixture(scope="module")
def module_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A fresh broker for the tests of one module."""
    with LocalBroker(str(tmp_path_factory.mktemp("module") / "data")) as local:
        yield local


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """One broker for all tests of a process: they use names from `new_name`, and never stop or configure it."""
    with LocalBroker(str(tmp_path_factory.mktemp("shared") / "data")) as local:
        yield local


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """Return names of topics, groups and transactional ids that no other test of this process has."""
    return lambda stem: f"{stem}-{next(_numbers)}"


@pytest.fixture
def closed_url() -> Iterator[str]:
    """An address at which no program listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"
