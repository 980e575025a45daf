"""Runs of earlier days: every run is kept beside this package, where git does not look."""

import json
from pathlib import Path
from typing import Any

from benchmarks.harness.result import Reference, Run

RESULTS = Path(__file__).resolve().parent.parent / "results"


def keep(run: Run) -> Path:
    """Store a run under its time."""
    RESULTS.mkdir(exist_ok=True)
    kind = "quick" if run.is_quick else "full"
    path = RESULTS / f"{run.started.replace(':', '')}-{kind}.json"
    write(run, path)
    return path


def write(run: Run, path: Path) -> None:
    path.write_text(json.dumps(run.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def previous(*, is_quick: bool) -> Reference:
    """The last figures, from runs of the same size."""
    kind = "quick" if is_quick else "full"
    documents = [_load(path) for path in sorted(RESULTS.glob(f"*-{kind}.json"))]
    return Reference.of_json(*documents)


def load(path: Path) -> Reference:
    return Reference.of_json(_load(path))


def _load(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError(f"{path} is not the result of a run")  # noqa: TRY004 - for a file's content
    return document
