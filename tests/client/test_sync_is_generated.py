"""The sync half of the client is the output of its generator."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "sync_client.py"


def test_sync_files_are_what_the_generator_writes() -> None:
    spec = importlib.util.spec_from_file_location("sync_client", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    expected = module.sync_sources()
    assert {path: path.read_text() for path in (module.CLIENT / "_sync").glob("*.py")} == expected, "run `make fmt`"
