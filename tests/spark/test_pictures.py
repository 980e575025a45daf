"""The picture of questions at a terminal shows what the commands print."""

import re
import shlex
from pathlib import Path

from tests.cli.programs import COMMAND, ROOT, environment
from tests.forked import run
from tests.spark.order_day import make_order_day
from tests.spark.programs import Inspect
from tests.tui.screenshots import svg_lines

PICTURE = ROOT / "docs/images/questions.svg"


def without_numbers(text: str) -> list[str]:
    """Return the words of each line, with one 0 for each number and nothing for bars."""
    lines = [" ".join(re.sub(r"\d[\d.,]*", "0", re.sub("[▀-▟]", "", line)).split()) for line in text.splitlines()]
    return [line for line in lines if line]


def test_picture_of_questions_shows_what_the_commands_print(inspect_spark: Inspect, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    make_order_day(Path(data))
    shown = "\n".join(svg_lines(PICTURE.read_text("utf-8")))
    lines = []
    for typed in re.findall(r"^\$ (.*)$", shown, re.MULTILINE):
        program, *words = [data if word == "data" else word for word in shlex.split(typed)]
        if program == "goqueue-cli":
            done = run([*COMMAND, *words], b"", cwd=tmp_path, env=environment())
            printed = (done.stdout + done.stderr).decode()
        else:
            finished = inspect_spark(*words[1:])
            printed = finished.stdout + finished.stderr
        lines += [f"$ {typed}", printed]
    assert without_numbers("\n".join(lines)) == without_numbers(shown), f"{PICTURE} is stale: run `make pictures`"
