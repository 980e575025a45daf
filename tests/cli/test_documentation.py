"""`docs/cli.md` says what works: its commands run, one after the other, against one broker."""

import os
import re
import subprocess
import sys
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.brokers import broker
from tests.cli.programs import ROOT, environment

__all__ = ["broker"]


def test_every_command_of_the_page_runs(broker: LocalBroker, tmp_path: Path) -> None:
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs/cli.md").read_text(), re.MULTILINE | re.DOTALL))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path,
        env=environment(GOQUEUE_SERVER=broker.url, PATH=path),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"tea=450" in done.stdout
