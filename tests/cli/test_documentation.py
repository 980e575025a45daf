"""The commands of the documentation run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.testing.broker import LocalBroker
from tests.cli.programs import ROOT, environment


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("cli", "tea=450"),
        ("contexts", "(?m)^timeout +1m +timeout of context production$"),
        ("admin", ""),
        ("sql", "eva +1 +7.5"),
    ],
)
@pytest.mark.slow
def test_every_command_of_the_page_runs(broker: LocalBroker, tmp_path: Path, page: str, printed: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    own = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    own |= {"GOQUEUE_CONFIG": str(tmp_path / "config.yaml")} if page == "contexts" else {"GOQUEUE_SERVER": broker.url}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], cwd=tmp_path, capture_output=True, errors="replace", check=False,
        env=environment(**own),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(printed, done.stdout)
