"""The broker against its own OpenAPI document, with requests that Schemathesis makes up.

It runs as a process of its own: it is a pytest plugin too, with warnings that this suite would take for errors.
The seed is fixed, so that a failure is the code's and not the day's.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import Member
from tests.brokers import create, publish

EXAMPLES = 25
GROUPS = "/groups/"
ELSEWHERE = ("--exclude-path-regex", GROUPS)

# A request may fit the schema and be refused all the same: a time before 1970, a tombstone without a key.
LEFT_OUT = "positive_data_acceptance"

# Polls learn of members that have joined, and would wait for messages.
PATIENCE = """
[[operations]]
include-name = "GET /groups/{group}/poll"
parameters = { "query.timeout" = "1ms" }
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """Where nobody waits for long until others have joined again."""
    with LocalBroker(str(tmp_path / "data"), groups__revocation_timeout="1s") as local:
        yield local


def problems(broker: LocalBroker, path: Path, settings: str, *words: str) -> str:
    """What Schemathesis has to say; nothing where it found nothing."""
    (path / "schemathesis.toml").write_text(settings)
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml",
            "run", f"{broker.url}/openapi.json", "--url", broker.url, "--exclude-checks", LEFT_OUT, "--seed", "17",
            "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--generation-database", "none",
            "--request-timeout", "30", "--no-color", *words,
        ],
        cwd=path,
        env={"PATH": os.environ["PATH"], "HOME": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_whatever_is_asked_is_answered_as_the_document_says(broker: LocalBroker, tmp_path: Path) -> None:
    assert problems(broker, tmp_path, PATIENCE) == ""


def test_whatever_is_asked_of_a_topic_that_is_there_is_answered_as_the_document_says(
    broker: LocalBroker, tmp_path: Path
) -> None:
    create(broker.url, "orders", partitions=2)
    publish(broker.url, "orders", *map(str, range(100)))
    settings = '[parameters]\n"path.topic" = "orders"\n"path.partition" = 1\n"query.wait" = "1ms"\n'
    assert problems(broker, tmp_path, settings + PATIENCE, "--exclude-method", "DELETE", *ELSEWHERE) == ""


def test_whatever_is_asked_of_a_group_that_is_there_is_answered_as_the_document_says(
    broker: LocalBroker, tmp_path: Path
) -> None:
    create(broker.url, "orders", partitions=2)
    publish(broker.url, "orders", *map(str, range(100)))
    member = Member(broker.url, session_timeout="30m").join()
    settings = f'[parameters]\n"path.group" = "billing"\n"query.member_id" = "{member.id}"\n"query.topic" = "orders"\n'
    found = problems(
        broker, tmp_path, settings + PATIENCE, "--exclude-method", "DELETE", "--include-path-regex", GROUPS
    )
    assert found == ""
    assert member.assignment()["member_id"] == member.id
