"""`goqueue serve` as a real process: its banner, its end, and what it leaves."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.commands.serve import cluster_role
from goqueue.limits import GROUP_LOGS, TRANSACTION_LOGS
from goqueue.storage.disk import SystemDisk
from goqueue.testing.broker import LocalBroker
from tests.brokers import create, publish
from tests.forked import Program, run
from tests.processes import END_OF_BANNER, ROOT, Served
from tests.storage.stores import append, open_store


def refused(*words: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-m", "goqueue", "serve", "--port", "0", *words], cwd=ROOT, text=True)


def test_banner_of_a_node_says_whether_it_elects() -> None:
    peers = {"n2": ("b", 1), "n1": ("a", 1)}
    assert cluster_role("n1", peers) == "node n1, elects with n1, n2"
    assert cluster_role("n9", peers) == "node n9, without a vote, follows n1, n2"


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_can_be_no_directory_is_a_matter_of_configuration(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    done = refused("--data-dir", str(tmp_path / place))
    assert (done.returncode, done.stdout) == (2, "")
    assert str(tmp_path / "file") in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[1].startswith("hint: `--data-dir DIR` names a directory")


def test_it_stops_cleanly_when_its_terminal_is_closed(tmp_path: Path) -> None:
    process, terminal = pty.fork()
    if not process:
        os.chdir(ROOT)
        os.execv(  # noqa: S606
            sys.executable,
            [sys.executable, "-m", "goqueue", "serve", "--port", "0", "--data-dir", str(tmp_path / "data")],
        )
    shown = b""
    while b"^C stops" not in shown:
        shown += os.read(terminal, 4096)
    os.kill(process, signal.SIGHUP)  # its terminal is there: this is a request to reload
    while b"no TLS certificate" not in shown:
        shown += os.read(terminal, 4096)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert (tmp_path / "data/clean").exists()


def test_the_banner_says_what_is_there_and_how_the_last_run_ended(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with LocalBroker(data) as broker:
        create(broker.url, "orders")
        publish(broker.url, "orders", "a", "b")
    with Served("--data-dir", data) as served:
        assert f"{data}: 1 topic, 2 records" in served.banner[1]
        assert "after a clean stop" in served.banner[3]
    with Served("--data-dir", data) as served:
        assert f"the last stop was not clean, {6 + GROUP_LOGS + TRANSACTION_LOGS} logs surveyed" in served.banner[3]


def test_the_banner_names_a_log_that_no_topic_knows(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    store = open_store(SystemDisk(), path=data)
    append(store, store.create("orders/0"), b"a", b"b")
    store.close()
    with Served("--data-dir", data) as served:
        assert f"{data}: 0 topics, 0 records" in served.banner[1]
        assert any(line.startswith("unclaimed   orders/0: no topic has this log") for line in served.banner)


def test_the_banner_names_what_recovery_cut_and_what_is_damaged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = open_store(SystemDisk(), path=str(data), segment_bytes=1 << 20)
    for name in ("torn", "rotten"):
        log = store.create(name)
        append(store, log, b"a" * 100)
        append(store, log, b"b" * 100)
    store.close()
    (data / "clean").unlink()
    with (data / "logs/torn/00000000000000000000.log").open("ab") as file:
        file.write(b"torn")
    content = bytearray((data / "logs/rotten/00000000000000000000.log").read_bytes())
    content[60] ^= 1
    (data / "logs/rotten/00000000000000000000.log").write_bytes(content)
    with Served("--data-dir", str(data)) as served:
        cut, damage = "cut         torn: an unanswered write at bytes 272 to 276", "DAMAGE      rotten: offsets 0 to 0"
        assert all(any(line.startswith(said) for line in served.banner) for said in (cut, damage))


def test_the_banner_names_a_log_that_could_not_be_opened(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = open_store(SystemDisk(), path=str(data))
    for name in ("lost", "kept"):
        append(store, store.create(name), b"x")
    store.close()
    shutil.rmtree(data / "logs/lost")
    with Served("--data-dir", str(data)) as served:
        assert f"{data}: 0 topics, 0 records" in served.banner[1]
        assert any(line.startswith("CLOSED      lost: log lost is gone") for line in served.banner)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--data-dir", "/proc/version"), "is not a directory"),
        (("--data-dir", "/etc"), "is not a GoQueue data directory"),
        (("--config", "/nowhere.yaml"), "/nowhere.yaml"),
        (("--storage-flush", "sometimes"), "is not one of always, interval"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(words: tuple[str, ...], sentence: str) -> None:
    done = refused(*words)
    assert done.returncode in (2, 5)
    assert sentence in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr


def test_a_newer_format_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "FORMAT").write_text("goqueue 2\n")
    done = refused("--data-dir", str(data))
    assert done.returncode != 0
    assert "format 2" in done.stderr
    assert [path.name for path in data.iterdir()] == ["FORMAT"]


def test_with_json_logs_every_line_is_an_object(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "goqueue", "serve", "--port", "0", "--log-format", "json", "--data-dir"]
    lines = []
    with Program([*command, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            lines.append(line)
            if END_OF_BANNER in line:
                process.send_signal(signal.SIGTERM)
    events = [json.loads(line)["event"] for line in lines]
    assert (process.returncode, events[-1]) == (0, "stopped cleanly")
    assert events[0].startswith("GoQueue ")


def test_the_banner_says_that_the_limit_of_files_leaves_fewer_connections(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "goqueue", "serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(
        ["bash", "-c", 'ulimit -n 1024; exec "$@"', "bash", *program], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        banner = list(iter(process.stderr.readline, f"{END_OF_BANNER}\n"))
        process.terminate()
    assert [line for line in banner if line.startswith("connections at most 168 instead of 10,000: ")]
