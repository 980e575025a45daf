"""The broker against its own OpenAPI document, with requests that Schemathesis generates.

It runs as a process of its own: it is a pytest plugin too, with warnings that this suite would take for errors.
The seed is fixed, so that a failure does not depend on the day. The suite sends a case for each kind of data and field;
`--hypothesis-profile=long` sends all that are generated, and many random ones.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from goqueue.testing.broker import LocalBroker
from tests.api.keys import secured
from tests.api.members import Member
from tests.brokers import create, publish

# A request may fit the schema and be refused all the same: a time before 1970, a tombstone without a key.
LEFT_OUT = "positive_data_acceptance"

HOOKS = Path(__file__).with_name("schema_hooks.py")

_ALL = ["read", "write", "create", "delete", "describe", "alter"]

# Polls learn of members that have joined, and reads of topics that were made: both would wait for messages.
SHORT_POLLS = """
[[operations]]
include-name = "GET /groups/{group}/poll"
parameters = { "query.timeout" = "1ms" }

[[operations]]
include-name = "GET /topics/{topic}/partitions/{partition}/messages"
parameters = { "query.wait" = "1ms" }
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker with tenants, in which rebalances take at most a second."""
    with LocalBroker(str(tmp_path / "data"), groups__revocation_timeout="1s", tenants__enabled="true") as local:
        yield local


def problems(broker: LocalBroker, path: Path, parameters: str, phases: str, *words: str) -> str:
    """Return the problems that Schemathesis found, or nothing."""
    tries_more = settings().max_examples > 25
    hooks = "" if tries_more else f'hooks = "{HOOKS}"\n'
    (path / "schemathesis.toml").write_text(hooks + parameters + SHORT_POLLS)
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml",
            "run", f"{broker.url}/openapi.json", "--url", broker.url, "--exclude-checks", LEFT_OUT, "--seed", "17",
            "--phases", "examples,coverage,fuzzing" if tries_more else phases,
            "--max-examples", str(settings().max_examples // 5 if tries_more else 1), "--generation-database", "none",
            "--request-timeout", "30", "--no-color", *words,
        ],
        cwd=path,
        env={"PATH": os.environ["PATH"], "HOME": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.slow
def test_answers_match_the_openapi_document(broker: LocalBroker, tmp_path: Path) -> None:
    assert problems(broker, tmp_path, "", "examples,fuzzing") == ""


@pytest.mark.slow
def test_answers_for_an_existing_topic_and_group_match_the_openapi_document(
    broker: LocalBroker, tmp_path: Path
) -> None:
    create(broker.url, "orders", partitions=2)
    publish(broker.url, "orders", *map(str, range(100)))
    member = Member(broker.url, session_timeout="30m").join()
    existing = {"path.topic": "orders", "path.group": "billing", "query.member_id": member.id, "query.topic": "orders"}
    parameters = "".join(f'"{name}" = "{text}"\n' for name, text in existing.items())
    parameters = f'[parameters]\n{parameters}"path.partition" = 1\n"query.wait" = "1ms"\n'
    assert problems(broker, tmp_path, parameters, "coverage,fuzzing", "--exclude-method", "DELETE") == ""
    assert member.assignment()["member_id"] == member.id


@pytest.mark.parametrize("role", ["consumer", "own"])
@pytest.mark.slow
def test_answers_to_a_restricted_key_match_the_openapi_document(tmp_path: Path, role: str) -> None:
    with secured(tmp_path, groups__revocation_timeout="1s", tenants__enabled="true") as broker:
        broker.do("POST", "/topics", {"name": "orders", "num_partitions": 2})
        rules = [{"kind": kind, "pattern": "o", "match": "prefix", "actions": _ALL} for kind in ("topic", "group")]
        key = broker.new_key("tried", rules=rules) if role == "own" else broker.new_key("tried", role)
        words = ("--exclude-method", "DELETE", "-H", f"Authorization: Bearer {key}")
        parameters = '[parameters]\n"path.topic" = "orders"\n"path.partition" = 1\n"query.wait" = "1ms"\n'
        assert problems(broker.local, tmp_path, parameters, "examples,fuzzing", *words) == ""
