"""Generates `goqueue/rpc/v1` from the `.proto` files: `make fmt`, or `--check` to compare only."""

import re
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "goqueue" / "rpc" / "proto"
MESSAGES = ROOT / "goqueue" / "rpc" / "v1"
_IMPORT = re.compile(r"^from goqueue\.v1 import", re.MULTILINE)
_HEAD = '"""Generated from the `.proto` files by `make fmt`: the messages of the package `goqueue.v1`."""\n'


def generate() -> dict[str, str]:
    """Return the texts of all messages by the names of their files."""
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as directory:
        outputs = [f"--{kind}_out={directory}" for kind in ("python", "pyi")]
        includes = [f"-I{PROTO}", f"-I{Path(protoc.__file__).parent / '_proto'}"]
        if protoc.main(["protoc", *includes, *outputs, *files]):
            raise SystemExit("protoc has failed")
        made = Path(directory, "goqueue", "v1")
        texts = {path.name: _IMPORT.sub("from goqueue.rpc.v1 import", path.read_text()) for path in made.iterdir()}
    return {"__init__.py": _HEAD, **texts}


def main() -> int:
    texts = generate()
    existing = {path.name: path.read_text() for path in MESSAGES.glob("*.py*")} if MESSAGES.is_dir() else {}
    if existing == texts:
        return 0
    if "--check" in sys.argv:
        changed = sorted(name for name in texts.keys() | existing.keys() if texts.get(name) != existing.get(name))
        sys.stderr.write("not as the .proto files: " + ", ".join(changed) + "\n")
        return 1
    MESSAGES.mkdir(exist_ok=True)
    for name in existing.keys() - texts.keys():
        (MESSAGES / name).unlink()
    for name, text in texts.items():
        (MESSAGES / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
