"""A real broker with its backups in an object store, as operators use it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.admin.programs import admin
from tests.api.keys import eventually
from tests.backup.object_store import FaultyWay, MotoServer, first
from tests.backup.test_with_broker import COMMAND, goqueue, rows
from tests.brokers import ask, create, publish, read
from tests.cli.programs import cli
from tests.processes import Served


@pytest.fixture
def config(store: MotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the settings of a bucket of its own; no command has credentials from elsewhere."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    secrets = tmp_path / "credentials"
    secrets.write_text("[default]\naws_access_key_id = AKIA\naws_secret_access_key = not-shown\n")
    path = tmp_path / "goqueue.yaml"
    path.write_text(
        f"data_dir: {tmp_path / 'data'}\n"
        "backup:\n"
        f"  target: s3://{store.bucket()}/nightly\n"
        f"  endpoint: {store.url}\n"
        "  allow_http: true\n"
        f"  credentials_file: {secrets}\n"
        "  rate: 0B\n"
    )
    return path


def target_of(config: Path) -> str:
    return next(line.split()[-1] for line in config.read_text().splitlines() if "target:" in line)


def test_everything_that_a_directory_can_do_is_done_in_an_object_store(config: Path, tmp_path: Path) -> None:
    target = target_of(config)
    given = ("--from", target, "--config", str(config))
    with Served("--config", str(config)) as running:
        create(running.url, "orders")
        publish(running.url, "orders", "a", "b")
        (first_made,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        publish(running.url, "orders", "c")
        (made,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        assert 0 < made["new_bytes"] < first_made["new_bytes"]
        (verified,) = rows(admin(running.url, "backup", "verify", "-o", "json"))
        assert verified["verification"]["problems"] == 0
        assert ask(running.url, "GET", "/admin/backup").json["target"] == target
        words = ("backup", "restore", made["id"], "--topic", "orders", "--as", "again")
        assert admin(running.url, *words).code == 0
        assert [one["value"] for one in read(running.url, "again")] == ["a", "b", "c"]
        deleted = admin(running.url, "backup", "delete", first_made["id"], "--yes", "-o", "json")
        assert rows(deleted)[0]["result"] == "deleted"
        (again,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        running.stop()
    assert [one["name"] for one in rows(goqueue("backup", "list", *given, "-o", "json"))] == [again["id"], made["id"]]
    differing = {one["name"] for one in rows(goqueue("backup", "diff", made["id"], *given, "-o", "json"))}
    assert "again/0" in differing
    assert "is sound" in goqueue("backup", "verify", *given).err
    logs = {one["name"] for one in rows(goqueue("backup", "describe", *given, "-o", "json"))}
    assert "orders/0" in logs
    (segment,) = (tmp_path / "data/logs/orders/0").glob("*.log")
    content = segment.read_bytes()
    segment.write_bytes(content[:40] + b"x" + content[41:])
    repair = ("fsck", str(tmp_path / "data"), "--repair", "--repair-from", target, "--yes")
    repaired = cli("", *repair, command=COMMAND, **settings_variables(config))
    assert f"from backup {again['id']}" in repaired.err
    assert segment.read_bytes() == content
    shutil.rmtree(tmp_path / "data")
    assert goqueue("restore", *given).code == 0
    with Served("--config", str(config)) as running:
        assert [one["value"] for one in read(running.url, "orders")] == ["a", "b", "c"]


def settings_variables(config: Path) -> dict[str, str]:
    lines = [line.strip().partition(": ") for line in config.read_text().splitlines() if line.startswith("  ")]
    return {f"GOQUEUE_BACKUP_{key.upper()}": text for key, _, text in lines}


def test_killed_backup_leaves_the_earlier_one_and_the_next_one_continues(config: Path, store: MotoServer) -> None:
    with FaultyWay(store.port) as way:
        config.write_text(config.read_text().replace(store.url, way.url))
        running = Served("--config", str(config)).launch().await_start()
        create(running.url, "orders")
        publish(running.url, "orders", "a")
        (made,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        for topic in ("b", "c", "d", "e"):
            create(running.url, topic)
            publish(running.url, topic, f"in {topic}")
        way.requests.clear()
        put = [0]

        def kill_at_second_piece(method: str, path: str) -> str | None:
            put[0] += method == "PUT" and "/objects/" in path
            if put[0] == 2:
                running.kill()
            return "cut" if put[0] == 2 else None

        way.fault = kill_at_second_piece
        ask(running.url, "POST", "/admin/backup", {})
        eventually(lambda: running.process.returncode is not None)
        way.fault = lambda _method, _path: None
        given = ("--from", target_of(config), "--config", str(config))
        assert [one["name"] for one in rows(goqueue("backup", "list", *given, "-o", "json"))] == [made["id"]]
        assert "is sound" in goqueue("backup", "verify", *given).err
        held = json.loads(store.content(target_of(config).split("/")[2], "nightly/lock"))
        assert held["expires"] != "released"
        way.requests.clear()
        with Served("--config", str(config)) as after:
            (second,) = rows(admin(after.url, "backup", "create", "-o", "json"))
            assert second["state"] == "complete", "the lock of a dead process is taken"
            stored = [path for method, path in way.requests if method == "PUT" and "/objects/" in path]
            names = store.names(target_of(config).split("/")[2])
            assert 0 < len(stored) < sum("/objects/" in name for name in names)
        assert "is sound" in goqueue("backup", "verify", *given).err


def test_store_that_fails_is_told_by_the_broker_in_every_way(config: Path, store: MotoServer) -> None:
    with FaultyWay(store.port) as way:
        config.write_text(config.read_text().replace(store.url, way.url))
        way.fault = first(10**6, 403)
        with Served("--config", str(config)) as running:
            create(running.url, "orders")
            refused = admin(running.url, "backup", "create")
            assert (refused.code, "refuses the credentials" in refused.err) == (1, True)
            assert "backup.credentials_file" in refused.err
            findings = {one["code"]: one for one in ask(running.url, "GET", "/doctor").json["findings"]}
            assert "refuses the credentials" in findings["backup_target_gone"]["sentence"]
            assert "refuses the credentials" in findings["backup_failed"]["sentence"]
            assert "goqueue_backup_failures_total 1" in ask(running.url, "GET", "/metrics").body.decode()
            listed = ask(running.url, "GET", "/admin/backup")
            assert listed.code == "backup_target_invalid"
            answers = [listed.body, ask(running.url, "GET", "/doctor").body, refused.err.encode()]
            assert not any(b"not-shown" in one for one in answers)
            way.fault = first(0, 403)
            assert admin(running.url, "backup", "create").code == 0
            after = {one["code"] for one in ask(running.url, "GET", "/doctor").json["findings"]}
            assert not after & {"backup_target_gone", "backup_failed"}
        shown = goqueue("config", "show", "--config", str(config))
        assert "not-shown" not in shown.out + shown.err
    config.write_text(config.read_text().replace("  allow_http: true\n", ""))
    assert "has no TLS" in goqueue("serve", "--config", str(config)).err
