"""The file of contexts: what is written is read again, whichever way, and every mistake has its line."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.console.contexts import Context, Contexts, _read_plain, _read_yaml, load, save, text_of
from goqueue.errors import ConfigInvalid

NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,9}", fullmatch=True)
TEXTS = (
    st.none() | st.text(min_size=1, max_size=20).filter(str.isprintable) | st.sampled_from(["no", "null", "~", "1e3"])
)
CONTEXTS = st.builds(Context, **{name: st.booleans() if name == "protected" else TEXTS for name in Context._fields})


def read(path: Path, text: str) -> Contexts:
    path.write_text(text, encoding="utf-8")
    return load({"GOQUEUE_CONFIG": str(path)})


@given(st.dictionaries(NAMES, CONTEXTS, max_size=4), st.none() | NAMES)
def test_what_is_written_is_read_again_with_and_without_yaml(
    tmp_path_factory: pytest.TempPathFactory, contexts: dict[str, Context], current: str | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "contexts.yaml"
    written = Contexts(str(path), current, contexts)
    save(written)
    assert load({"GOQUEUE_CONFIG": str(path)}) == written
    assert _read_yaml(str(path)) == written


LINES = st.sampled_from(
    [
        *(
            "current-context: a",
            "current-context: [a]",
            "contexts:",
            "contexts: {}",
            "contexts: a",
            "# said",
            "",
            "--- ",
        ),
        *("  a:", "  b: {}", "  a: b", "   c:", "\tx: y"),
        *("    server: http://x:1", "    server:", "    server: x # said", "    server: 'x'", "    server: &a x"),
        *("    protected: yes", "    protected: true", "    timeout: 1m", '    timeout: "1m"'),
        *("    api-key: null", "    output: ~", "      deep: er"),
    ]
)


@given(st.lists(LINES, max_size=8))
def test_the_short_way_reads_what_yaml_reads_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    quick = _read_plain(str(path))
    if quick is not None:
        assert _read_yaml(str(path)) == quick


def test_what_save_writes_needs_no_yaml(tmp_path: Path) -> None:
    production = Context(
        server="https://q.example.com/base", api_key="k3y", timeout="1m", output="json", protected=True
    )
    contexts = Contexts(str(tmp_path / "c.yaml"), "production", {"production": production, "empty": Context()})
    save(contexts)
    assert _read_plain(contexts.path) == contexts


def test_the_file_is_its_owners_alone_and_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "kept.yaml", tmp_path / "new" / "config.yaml"
    link.parent.mkdir()
    target.write_text("contexts: {}\n")
    target.chmod(0o644)
    link.symlink_to(target)
    save(load({"GOQUEUE_CONFIG": str(link)}).added("local", Context(server="http://x:1")))
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert "http://x:1" in target.read_text()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["kept.yaml"]


def test_without_a_file_there_is_no_context(tmp_path: Path) -> None:
    assert load({"GOQUEUE_CONFIG": str(tmp_path / "none")}).contexts == {}


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("context: a\n", ":1:1: context: is not a key of this file", "did you mean current-context?"),
        ("contexts:\n  a:\n    protcted: true\n", ":3:5: contexts.a.protcted: is not a key of a context", "protected"),
        ("contexts:\n  a:\n    protected: maybe\n", ":3:5: contexts.a.protected: is 'maybe'", "write true or false"),
        ("contexts:\n  a: http://x\n", ":2:3: contexts.a: is not a mapping", "the keys below it are server"),
        ("contexts:\n  a:\n    server: [x]\n", ":3:5: contexts.a.server: is a list, and must be one value", None),
        ("contexts: [a]\n", ":1:1: contexts: is not a mapping of names to contexts", "write a line `name:`"),
        ("contexts:\n  a b: {}\n", ":2:3: contexts.'a b': is not a valid name of a context", "use letters"),
        ("contexts:\n\ta: {}\n", ":2:1: is not valid YAML", "indent with spaces"),
        ("contexts:\n  a: {}\n  a: {}\n", ":3:3: contexts.a: is given twice, on lines 2 and 3", "keep one"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, said: str, hint: str | None) -> None:
    path = tmp_path / "config.yaml"
    with pytest.raises(ConfigInvalid) as error:
        read(path, text)
    assert error.value.sentence.startswith(f"{path}{said}")
    assert hint is None or hint in str(error.value.hint)


def test_a_context_that_is_not_there_is_told_with_the_nearest() -> None:
    known = Contexts("x", None, {"production": Context(), "staging": Context()})
    with pytest.raises(ConfigInvalid, match="there is no context 'prodction'") as near:
        known.find("prodction")
    assert near.value.hint == "did you mean production?"
    with pytest.raises(ConfigInvalid) as far:
        known.using("wombat")
    assert far.value.hint == "there are production, staging"


def test_the_first_context_becomes_the_current_one_and_leaves_with_its_name() -> None:
    known = Contexts("x").added("a", Context()).added("b", Context())
    assert known.current == "a"
    assert known.using("b").without("a").current == "b"
    assert known.without("a").current is None
    with pytest.raises(ConfigInvalid, match="context a exists already"):
        known.added("a", Context())


def test_a_key_is_in_the_file_and_not_in_what_is_printed_of_it() -> None:
    context = Context(api_key="s3cret")
    assert "s3cret" not in repr(context)
    assert "s3cret" in text_of(Contexts("x", None, {"a": context}))
