"""Plain words: code, tests and pages use the terms of `docs/glossary.md`, not metaphors."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".go", ".md", ".proto", ".py", ".toml", ".ts", ".yaml", ".yml"}

# Each refused word with the one to use.
REFUSED = {
    r"whoever|whomever": "a client, the caller, a member",
    r"(no|some|any|every)body": "no client, a member, another process",
    r"thrice|manieth": "three times; the number of the attempt",
    r"notary|courier|attendant|runners? of errands|errands?": "runner",
    r"postm[ae]n": "delivery",
    r"undertakers?|bur(y|ied|ies|ying|ials?)|graves?": "move to the dead-letter queue",
    r"obituar(y|ies)|narrators?": "how a process ended, the thread that reads its output",
    r"guests?|desks?": "connection, server state",
    r"pledges?|pledging": "offset commit in a transaction",
    r"lenders?|lend|lends|lent|lending": "lease",
    r"wish|wishes|wished": "request, option",
    r"(?<!range_)heal(s|ed|ing)?": "repair, restore",
    r"ghosts?": "stale member, orphaned file",
    r"mouths?": "facade",
    r"ears": "listener",
    r"theirs to tell|tell again|restated": "record, rewrite",
}
PATTERN = re.compile("|".join(rf"(?<![a-z])(?:{words})(?![a-z])" for words in REFUSED), re.IGNORECASE)
PHRASES = re.compile(
    "|".join(phrase for words in REFUSED for phrase in words.split("|") if " " in phrase), re.IGNORECASE
)
WORD = re.compile("[a-z]+", re.IGNORECASE)

# A docstring says what a function does ("Return …") or what a class is (a noun), not what is asked about it.
RIDDLES = {"Of", "What", "Who", "Whose", "Whom", "How", "Whether"}


def tracked(*suffixes: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [Path(name) for name in listed.stdout.split("\0") if name]
    return [
        path
        for path in paths
        if path.suffix in suffixes and (ROOT / path).is_file() and path.name != Path(__file__).name
    ]


@cache
def is_refused(word: str) -> bool:
    return PATTERN.fullmatch(word) is not None


def test_files_have_no_refused_words() -> None:
    found = [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for path in tracked(*SUFFIXES)
        for text in [(ROOT / path).read_text()]
        if any(map(is_refused, set(WORD.findall(text)))) or PHRASES.search(text)
        for match in PATTERN.finditer(text)
    ]
    assert not found, "use a plain word (see REFUSED in tests/test_words.py):\n" + "\n".join(found)


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = []
    candidate = re.compile(rf"""["']\s*({"|".join(RIDDLES)})\b""")
    for path in tracked(".py"):
        text = (ROOT / path).read_text()
        for node in ast.walk(ast.parse(text)) if candidate.search(text) else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node) or "-"
                if docstring.split()[0] in RIDDLES:
                    found.append(f"{path}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}")
    assert not found, "\n".join(found)
