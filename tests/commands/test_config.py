"""`goqueue config` from outside, with the files and variables that people give it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.config import SETTINGS, Config, load
from tests.forked import run

ROOT = Path(__file__).resolve().parent.parent.parent
BROKEN = "data_dir: ~/q\nstorage:\n  flsh: always\n  segment_bytes: 64mib\n"


@pytest.fixture(autouse=True)
def _without_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("GOQUEUE_"):
            monkeypatch.delenv(name)


def config(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "goqueue.commands.main", "config", *words]
    return run(command, cwd=cwd, env=os.environ | environment, text=True)


def test_check_prints_every_problem_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(BROKEN)
    done = config("check", "q.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "found 3 problems\n")
    assert done.stdout.splitlines() == [
        "q.yaml:1:11: data_dir: '~/q' begins with ~, which only a shell expands: write the full path",
        "q.yaml:3:3: storage.flsh: is not a setting (did you mean storage.flush?)",
        "q.yaml:4:18: storage.segment_bytes: '64mib' has the unknown unit 'mib': write MiB",
    ]


def test_check_gives_programs_the_same_as_json(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text("storage: {flush: x}\n")
    done = config("check", "q.yaml", "-o", "json", cwd=tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stdout) == {
        "valid": False,
        "problems": [
            {
                "origin": {"kind": "file", "name": "q.yaml", "line": 1, "column": 18},
                "key": "storage.flush",
                "problem": "'x' is not one of always, interval",
                "hint": None,
            }
        ],
        "settings": [],
    }


def test_check_shows_what_is_in_effect_when_all_is_well() -> None:
    done = config("check", "configs/production.yaml", GOQUEUE_STORAGE_FLUSH="interval")
    assert (done.returncode, done.stderr) == (0, "configs/production.yaml is valid\n")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[:2] == [
        ["SETTING", "VALUE", "ORIGIN"],
        ["data_dir", "/var/lib/goqueue", "configs/production.yaml:7:11"],
    ]
    assert ["storage.flush", "interval", "GOQUEUE_STORAGE_FLUSH"] in rows


def test_check_counts_a_broken_environment_as_well() -> None:
    done = config("check", "configs/dev.yaml", GOQUEUE_STORAGE_FLSH="x")
    assert done.returncode == 2
    assert done.stdout == "GOQUEUE_STORAGE_FLSH: is not a setting (did you mean GOQUEUE_STORAGE_FLUSH?)\n"


def test_show_needs_no_file_and_gives_json_with_raw_values() -> None:
    shown = json.loads(config("show", "-o", "json", "--storage-tail-bytes", "1MiB").stdout)
    assert [row["key"] for row in shown] == [setting.key for setting in SETTINGS]
    tail = next(row for row in shown if row["key"] == "storage.tail_bytes")
    assert (tail["value"], tail["text"], tail["origin"]["name"]) == (2**20, "1MiB", "--storage-tail-bytes")


def test_show_writes_yaml_that_gives_the_same_settings_again(tmp_path: Path) -> None:
    written = config("show", "configs/dev.yaml", "--data-dir", "a: # b", "-o", "yaml").stdout
    (tmp_path / "again.yaml").write_text(written)
    again = load(str(tmp_path / "again.yaml"))
    assert again.data_dir == "a: # b"
    assert again.storage == load(str(ROOT / "configs/dev.yaml")).storage


def test_show_tells_all_problems_on_stderr() -> None:
    done = config("show", "--storage-flush", "x", GOQUEUE_DATA_DIR="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: the configuration has 2 problems",
        "  GOQUEUE_DATA_DIR: data_dir: is empty (unset the variable to use the default)",
        "  --storage-flush: storage.flush: 'x' is not one of always, interval",
    ]


@pytest.mark.parametrize("setting", SETTINGS, ids=[setting.key for setting in SETTINGS])
def test_every_setting_is_a_flag(setting: object) -> None:
    assert f"{getattr(setting, 'flag', '')} " in config("show", "--help").stdout


@pytest.mark.parametrize("purpose", ["default", "dev", "production"])
def test_a_template_passes_its_own_check(tmp_path: Path, purpose: str) -> None:
    (tmp_path / "q.yaml").write_text(config("template", "--for", purpose).stdout)
    assert config("check", "q.yaml", cwd=tmp_path).returncode == 0


def test_the_default_template_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(config("template").stdout)
    assert load(str(tmp_path / "q.yaml")) == Config()


def test_what_a_terminal_would_obey_is_shown_as_text(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text('data_dir: "\\e[2Jx"\n"\\e]0;hi\\a": 1\n')
    done = config("check", "q.yaml", cwd=tmp_path)
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b" in done.stdout


def test_a_name_with_control_characters_is_shown_as_text() -> None:
    done = config("check", "a\x1b[31m\nb")
    assert done.stdout.startswith("a\\x1b[31m\\nb: does not exist")
