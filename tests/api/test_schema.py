"""The broker against its own OpenAPI document, with requests that Schemathesis makes up.

It runs as a process of its own: it is a pytest plugin too, with warnings that this suite would take for errors.
The seed is fixed, so that a failure is the code's and not the day's.
"""

import os
import subprocess
import sys
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.brokers import broker, create, publish

__all__ = ["broker"]

EXAMPLES = 25

# A request may fit the schema and be refused all the same: a time before 1970, a tombstone without a key.
LEFT_OUT = "positive_data_acceptance"


def problems(broker: LocalBroker, path: Path, *words: str) -> str:
    """What Schemathesis has to say; nothing where it found nothing."""
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", *(["--config-file", "schemathesis.toml"] if words else []),
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
    assert problems(broker, tmp_path) == ""


def test_whatever_is_asked_of_a_topic_that_is_there_is_answered_as_the_document_says(
    broker: LocalBroker, tmp_path: Path
) -> None:
    create(broker.url, "orders", partitions=2)
    publish(broker.url, "orders", *map(str, range(100)))
    settings = '[parameters]\n"path.topic" = "orders"\n"path.partition" = 1\n"query.wait" = "1ms"\n'
    (tmp_path / "schemathesis.toml").write_text(settings)
    assert problems(broker, tmp_path, "--exclude-method", "DELETE") == ""
