"""`goqueue-cli worker`: what it says about modules that cannot be run. Its processes are tested with the client."""

from pathlib import Path

import pytest

from tests.cli.programs import COMMAND, environment
from tests.forked import run

MODULE = """
from goqueue.client import Worker
app, other, text = Worker("g"), Worker("h"), "a"
"""


@pytest.mark.parametrize(
    ("place", "content", "said"),
    [
        ("absent:app", MODULE, ("there is no module absent", "run the command in the directory of absent.py")),
        ("found.py:app", MODULE, ("'found.py:app' names no module", "without .py")),
        ("found/app", MODULE, ("'found/app' names no module", "write MODULE:NAME")),
        ("found:ap", MODULE, ("module found has no 'ap'", "did you mean found:app?")),
        ("found:text", MODULE, ("found:text is of type str, and must be a Worker", "module found has app, other")),
        ("found", MODULE, ("module found has 2 workers, and one must be named", "module found has app, other")),
        ("found:app", "app =", ("cannot be imported: invalid syntax in", "found.py, line 1")),
        ("found:app", "import absent", ("module found imports absent, which is not installed", "install it")),
        ("found:app", "1 / 0", ("cannot be imported: ZeroDivisionError: division by zero, in", "found.py, line 1")),
        ("found:app", MODULE + "app.cron('0 25 * * *')", ("the hour '25' of a schedule is not in", "found.py, line 4")),
        ("found:app", MODULE, ("the worker g has no handlers", "@app.handler")),
    ],
)
def test_module_that_cannot_be_run_is_explained(
    tmp_path: Path, place: str, content: str, said: tuple[str, str]
) -> None:
    (tmp_path / "found.py").write_text(content)
    done = run([*COMMAND, "worker", place], b"", cwd=tmp_path, env=environment(GOQUEUE_SERVER="http://127.0.0.1:1"))
    assert done.returncode == 2
    error = done.stderr.decode()
    assert all(part in error for part in said), error
    assert "Traceback" not in error
