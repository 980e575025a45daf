"""A real broker with encrypted backups, as operators use it."""

import logging
from pathlib import Path

import pytest

from goqueue.errors import BackupKeyInvalid, ConfigInvalid
from goqueue.testing.broker import LocalBroker
from tests.admin.programs import admin
from tests.backup.keys import keys_of, secrets_in
from tests.backup.test_with_broker import COMMAND, broker, goqueue, rows
from tests.brokers import ask, create, publish, read
from tests.cli.programs import cli


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "backup.key"
    made = goqueue("backup", "key", "new", str(path))
    assert (made.code, made.out, path.stat().st_mode & 0o777) == (0, "", 0o600)
    assert keys_of(path).first.id in made.err
    assert "without it no backup can be read" in made.err
    return path


def encrypted(tmp_path: Path, keys: Path) -> LocalBroker:
    return broker(tmp_path, backup__key_file=str(keys))


def test_encrypted_backups_are_made_verified_and_restored_with_their_key_alone(
    tmp_path: Path, keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "goqueue")
    (secret,), (key,) = secrets_in(keys), keys_of(keys).ids
    target, answers = str(tmp_path / "backups"), list[str]()
    with encrypted(tmp_path, keys) as running:
        create(running.url, "orders")
        publish(running.url, "orders", "a", "b" * 1000)
        (made,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        (verified,) = rows(admin(running.url, "backup", "verify", "-o", "json"))
        assert (made["key"], verified["verification"]["problems"]) == (key, 0)
        assert admin(running.url, "backup", "restore", made["id"], "--topic", "orders", "--as", "again").code == 0
        assert [one["value"] for one in read(running.url, "again")] == ["a", "b" * 1000]
        answers += [ask(running.url, "GET", path).body.decode() for path in ("/admin/backup", "/doctor", "/metrics")]
        assert admin(running.url, "audit", "verify").code == 0
        answers += [admin(running.url, "audit", "list", "-o", "json").out]
    assert f"backups are encrypted with key {key}" in caplog.text
    given = ("--from", target, "--key-file", str(keys))
    for words in (("backup", "verify"), ("backup", "describe"), ("restore", "--data-dir", str(tmp_path / "new"))):
        assert f"is encrypted with key {key}, and there is no key file" in goqueue(*words, "--from", target).err
        done = goqueue(*words, *given)
        assert done.code == 0, done.err
        answers += [done.out, done.err]
    (listed,) = rows(goqueue("backup", "list", "--from", target, "-o", "json"))
    assert (listed["state"], listed["bytes"], listed["logs"]) == ("locked", None, None)
    (segment,) = (tmp_path / "data/logs/orders/0").glob("*.log")
    content = segment.read_bytes()
    segment.write_bytes(content[:40] + b"x" + content[41:])
    repair = ("fsck", str(tmp_path / "data"), "--repair", "--repair-from", target, "--yes")
    assert f"key {key}" in goqueue(*repair).err
    assert cli("", *repair, command=COMMAND, GOQUEUE_BACKUP_KEY_FILE=str(keys)).code == 0
    assert segment.read_bytes() == content
    assert not any(secret in text for text in (*answers, caplog.text))


def test_rotated_key_is_used_without_a_restart_and_a_lost_one_is_a_finding(tmp_path: Path, keys: Path) -> None:
    with encrypted(tmp_path, keys) as running:
        create(running.url, "orders")
        publish(running.url, "orders", "a")
        (first,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        keys.chmod(0o400)
        assert goqueue("backup", "key", "rotate", str(keys)).code == 0
        assert keys.stat().st_mode & 0o777 == 0o400
        (new, old) = rows(goqueue("backup", "key", "list", str(keys), "-o", "json"))
        assert (new["use"], old["use"], old["name"]) == ("encrypts, decrypts", "decrypts", first["key"])
        (second,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        assert second["key"] == new["name"]
        assert second["new_bytes"] >= first["new_bytes"], "nothing depends on the old key"
        assert finding(running.url) is None
        keys.chmod(0o644)
        assert "others may read" in admin(running.url, "backup", "create").err
        severity, said = finding(running.url) or ("", "")
        assert (severity, f"{keys} has mode 644: others may read or change it; correct" in said) == (
            "critical",
            True,
        )
        keys.chmod(0o600)
        assert finding(running.url) is None
        keys.write_text("\n".join(line for line in keys.read_text().splitlines() if not line.startswith(old["name"])))
    with encrypted(tmp_path, keys) as running:
        severity, said = finding(running.url) or ("", "")
        assert (severity, first["id"] in said, second["id"] in said) == ("warning", True, False)
        described = ask(running.url, "GET", f"/admin/backup/{first['id']}").json
        assert (described["state"], old["name"] in described["problem"]) == ("locked", True)
        for path, body in (("verify", {}), ("restore", {"topic": "orders", "name": "again"})):
            refused = ask(running.url, "POST", f"/admin/backup/{first['id']}/{path}", body)
            assert refused.code == "backup_key_mismatch"
        assert admin(running.url, "backup", "delete", first["id"], "--yes").code == 0
        admin(running.url, "backup", "create")
        assert finding(running.url) is None


def finding(url: str) -> tuple[str, str] | None:
    """Return severity and sentence of the finding about keys."""
    found = [one for one in ask(url, "GET", "/doctor").json["findings"] if one["code"] == "backup_key_missing"]
    return (found[0]["severity"], found[0]["sentence"]) if found else None


def test_key_file_that_cannot_be_used_ends_the_start(tmp_path: Path, keys: Path) -> None:
    for path, said in (("data/key", "is in the data directory"), ("backups/key", "is beside the backups")):
        with pytest.raises(ConfigInvalid, match=said):
            encrypted(tmp_path, tmp_path / path)
    keys.chmod(0o644)
    with pytest.raises(BackupKeyInvalid, match="others may read"):
        encrypted(tmp_path, keys).__enter__()
    with pytest.raises(BackupKeyInvalid, match="cannot be read: No such file"):
        encrypted(tmp_path, tmp_path / "absent").__enter__()
    assert goqueue("backup", "key", "new", str(keys)).code == 2
    keys.chmod(0o600)
    keys.write_text("secret")
    refused = goqueue("backup", "key", "rotate", str(keys))
    assert (refused.code, "line 1" in refused.err, keys.read_text()) == (2, True, "secret")


def test_backups_whose_key_is_gone_are_locked_and_their_verification_fails(tmp_path: Path, keys: Path) -> None:
    with encrypted(tmp_path, keys) as running:
        (made,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        lost = keys.rename(tmp_path / "lost.key")
        failed = admin(running.url, "backup", "verify")
        assert (failed.code, f"the key file {keys} cannot be read" in failed.err) == (2, True)
        assert "restore it from its copy: a new key reads no earlier backup" in " ".join(failed.err.split())
        (listed,) = rows(admin(running.url, "backup", "list", "-o", "json"))
        assert (listed["state"], f"the key file {keys} cannot be read" in listed["problem"]) == ("locked", True)
        assert goqueue("backup", "key", "new", str(keys)).code == 0
        (listed,) = rows(admin(running.url, "backup", "list", "-o", "json"))
        assert (listed["state"], made["key"] in listed["problem"]) == ("locked", True)
        assert admin(running.url, "backup", "verify").code == 2
        lost.rename(keys)
        assert rows(admin(running.url, "backup", "verify", "-o", "json"))[0]["state"] == "complete"
