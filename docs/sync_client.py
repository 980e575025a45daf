"""Generate `goqueue/client/_sync` from `goqueue/client/_async`: the same code without `await`, with threads for tasks.

`make fmt` runs this; `tests/client/test_sync_is_generated.py` fails when the result is not what is checked in.
"""

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parent.parent / "goqueue" / "client"
HEADER = "# Generated from goqueue/client/_async/{name}; edit that and run `make fmt`.\n"

ASYNC_ONLY = re.compile(r"^    def .*# async only\n(?:        .*\n)+\n", re.MULTILINE)
REPLACEMENTS = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\ban `with", "a `with"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\b(?:Awaitable|Coroutine)\[(?:Any, Any, )?(\w+)\]", r"\1"),
    (r"\bgoqueue\.client\._async\b", "goqueue.client._sync"),
    (r"\bgoqueue\.client\.async_connection\b", "goqueue.client.connection"),
    (r"\bgoqueue\.client\.tasks\b", "goqueue.client.threads"),
    (r"\ba(iter|next)\(", r"\1("),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\btask(s?)\b", r"thread\1"),
]


def sync_source(name: str) -> str:
    text = ASYNC_ONLY.sub("", (CLIENT / "_async" / name).read_text())
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    text = HEADER.format(name=name) + text
    for command in (["check", "--fix-only", "--select", "F401,I", "--silent"], ["format", "--quiet"]):
        path = str(CLIENT / "_sync" / name)
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


def sync_sources() -> dict[Path, str]:
    """Return what each file of `_sync` must contain."""
    names = sorted(path.name for path in (CLIENT / "_async").glob("*.py"))
    return {CLIENT / "_sync" / name: sync_source(name) for name in names}


if __name__ == "__main__":
    for path, text in sync_sources().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"wrote {path.relative_to(CLIENT.parent.parent)}\n")
