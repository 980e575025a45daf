"""`goqueue serve --auth` and `goqueue key`: the first keys, as processes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.cluster.formation import ClusterNote
from goqueue.cluster.messages import NodeIdentity
from goqueue.runtime.cluster.notes import NodeNotes
from goqueue.security.api_key import parse_key
from goqueue.storage.disk import SystemDisk
from tests.api.keys import secured
from tests.brokers import ask
from tests.forked import Program, run
from tests.processes import ROOT

_GOQUEUE = [sys.executable, "-m", "goqueue"]


def _key(*words: str) -> subprocess.CompletedProcess[str]:
    return run([*_GOQUEUE, "key", "create", *words], cwd=ROOT, text=True)


@pytest.mark.parametrize("form", ["text", "json"])
def test_first_start_prints_a_key_on_stdout_and_nowhere_else(tmp_path: Path, form: str) -> None:
    command = [*_GOQUEUE, "serve", "--auth", "--port", "0", "--log-format", form, "--data-dir", str(tmp_path / "data")]
    served = Program(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert served.stdout is not None
    key = served.stdout.readline().strip()
    served.send_signal(signal.SIGTERM)
    rest, said = served.communicate()
    assert parse_key(key) is not None
    assert (served.returncode, rest) == (0, "")
    assert "this once" in said
    assert key not in said
    assert key.rpartition("_")[2] not in said


def test_first_key_file_survives_repeated_starts_and_keeps_foreign_keys(tmp_path: Path) -> None:
    file = tmp_path / "admin.key"
    file.write_text("another broker's key\n")

    def serve(*, is_refused: bool = False) -> tuple[int, str, str]:
        words = ["serve", "--auth", "--port", "0", "--admin-key-file", str(file), "--data-dir", str(tmp_path / "data")]
        served = Program([*_GOQUEUE, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert served.stderr is not None and served.stdout is not None  # noqa: PT018
        said = ""
        if not is_refused:
            said = "".join(iter(served.stderr.readline, "^C stops\n"))
            served.send_signal(signal.SIGTERM)
        with served.stdout, served.stderr:  # `communicate` would lose what is buffered
            return served.wait(), served.stdout.read(), said + served.stderr.read()

    code, out, said = serve(is_refused=True)
    assert (code, out, file.read_text()) == (2, "", "another broker's key\n")
    assert "admin.key cannot be created: File exists" in said
    file.write_text("")  # as `>` of a start that was refused leaves it
    file.chmod(0o644)
    starts = [(serve(), file.read_text()) for _ in range(2)]
    assert parse_key(starts[0][1].strip()) is not None
    assert starts[0][1] == starts[1][1]
    assert {(code, out) for (code, out, _), _ in starts} == {(0, "")}
    assert file.stat().st_mode & 0o777 == 0o600
    assert "is in" in starts[0][0][2]
    file.write_text("")
    assert "goqueue key create NAME --role admin --data-dir" in serve()[2]
    assert file.read_text() == ""
    made = _key("rescue", "--role", "admin", "--data-dir", str(tmp_path / "data"), "--save", str(file))
    assert (made.returncode, made.stdout) == (0, "")
    assert parse_key(file.read_text().strip()) is not None


def test_key_made_while_the_broker_is_stopped_is_accepted_by_it(tmp_path: Path) -> None:
    with secured(tmp_path) as broker:
        broker.local.stop()
        made = _key("rescue", "--role", "admin", "--data-dir", str(tmp_path / "data"))
    assert made.returncode == 0, made.stderr
    with secured(tmp_path) as broker:
        assert broker.admin == ""  # there is a key with the role admin already
        headers = {"authorization": f"Bearer {made.stdout.strip()}"}
        names = [one["name"] for one in ask(broker.url, "GET", "/admin/keys", headers=headers).json["keys"]]
    assert names == ["bootstrap", "rescue"]


def test_key_made_before_the_first_start_replaces_the_bootstrap_key(tmp_path: Path) -> None:
    assert _key("root", "--role", "admin", "--data-dir", str(tmp_path / "data")).returncode == 0
    with secured(tmp_path) as broker:
        assert broker.admin == ""


def test_key_of_a_running_broker_is_not_made_offline(tmp_path: Path) -> None:
    with secured(tmp_path):
        refused = _key("rescue", "--role", "admin", "--data-dir", str(tmp_path / "data"))
    assert refused.returncode == 2
    assert "is in use by goqueue serve" in refused.stderr
    assert refused.stdout == ""


def test_unknown_role_is_refused_offline(tmp_path: Path) -> None:
    refused = _key("rescue", "--role", "amdin", "--data-dir", str(tmp_path / "data"))
    assert refused.returncode == 5
    assert "there is no role 'amdin'" in refused.stderr
    assert "did you mean admin?" in refused.stderr


def test_key_is_not_made_in_the_directory_of_a_node_of_a_cluster(tmp_path: Path) -> None:
    NodeNotes(SystemDisk(), str(tmp_path)).save(ClusterNote(NodeIdentity("n1", "57f5f1cf")))
    refused = _key("rescue", "--role", "admin", "--data-dir", str(tmp_path))
    assert refused.returncode != 0
    assert "belongs to a node of a cluster" in refused.stderr
