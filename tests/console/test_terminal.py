"""Output to stdout, whatever stdout is."""

import os
import subprocess
import sys

import pytest

from tests.cli.programs import ROOT, environment

PROGRAM = "from goqueue.console import terminal; terminal.write('x' * 300_000 + 'ü'); terminal.write_bytes(b'end')"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("is_waited_for", [True, False])
def test_everything_arrives_in_a_pipe_that_takes_only_a_part(unbuffered: str, is_waited_for: bool) -> None:
    """Some shells hand down a stdout that answers "not now" where others keep the writer waiting."""
    reading, writing = os.pipe()
    os.set_blocking(writing, is_waited_for)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=writing, cwd=ROOT, env=environment(PYTHONUNBUFFERED=unbuffered)
    ) as process:
        os.close(writing)
        with open(reading, "rb") as pipe:
            assert pipe.read() == b"x" * 300_000 + "üend".encode()
    assert process.returncode == 0
