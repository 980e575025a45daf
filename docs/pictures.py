"""Makes the picture of questions at a terminal, from what the real commands print. `make pictures` calls it.

`tests/spark/test_pictures.py` runs the commands of the picture again and compares.
"""

import shlex
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.spark.order_day import make_order_day
from tests.tui.screenshots import without_fonts

IMAGES = Path(__file__).parent / "images"
WIDTH = 112
MODULES = {"goqueue": "goqueue", "goqueue-cli": "goqueue_cli.main"}
QUERY = "SELECT customer, sum(total) spent FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 3"
QUESTIONS = (
    ("goqueue-cli", "sql", "--data", "data", QUERY),
    ("goqueue", "spark-inspect", "timeline", "data", "orders", "--bucket", "2h"),
    ("goqueue", "spark-inspect", "keys", "data", "orders", "--top", "3"),
)


def run(words: tuple[str, ...], directory: Path) -> list[Text]:
    """Return the typed command and its output."""
    done = subprocess.run(
        [sys.executable, "-m", MODULES[words[0]], *words[1:]],
        capture_output=True,
        text=True,
        check=True,
        cwd=directory,
    )
    typed = f"$ {shlex.join(words)}"
    assert len(typed) <= WIDTH, typed
    return [Text(typed, style="bold"), *map(Text, (done.stdout + done.stderr).splitlines()), Text()]


def draw(name: str, lines: list[Text]) -> None:
    """Draw lines of a terminal as an SVG."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    for line in lines[:-1]:
        console.print(line, soft_wrap=False)
    drawn = console.export_svg(title="GoQueue")
    (IMAGES / f"{name}.svg").write_text(without_fonts(drawn), encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        make_order_day(Path(directory) / "data")
        draw("questions", [line for words in QUESTIONS for line in run(words, Path(directory))])


if __name__ == "__main__":
    main()
