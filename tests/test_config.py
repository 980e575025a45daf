"""The configuration: where settings come from, and that every mistake is found and told."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue import limits
from goqueue.commands import settings_reference
from goqueue.config import SETTINGS, Config, Problem, StorageConfig, load
from goqueue.errors import ConfigInvalid

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "goqueue.yaml"


def problems(path: Path | str | None = None, environment: Mapping[str, str] | None = None, **flags: str) -> list[str]:
    """Return the problems without the directory of the file."""
    with pytest.raises(ConfigInvalid) as refusal:
        load(None if path is None else str(path), environment, flags)
    found: tuple[Problem, ...] = refusal.value.details["problems"]
    return [str(problem).removeprefix(f"{Path(path).parent if path else ''}/") for problem in found]


def problems_of(content: bytes | str) -> list[str]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "f")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return problems(path)


# --- where settings come from ---


def test_nothing_at_all_gives_the_defaults() -> None:
    assert load() == Config()
    assert load().storage == StorageConfig(
        flush="always", flush_interval=1.0, segment_bytes=2**26, segment_age=604_800.0, tail_bytes=2**26
    )


def test_the_strongest_source_wins_and_is_named(file: Path) -> None:
    file.write_text("data_dir: a\nstorage:\n  segment_bytes: 1MiB\n  tail_bytes: 1MiB\n  flush_interval: 2s\n")
    environment = {"GOQUEUE_STORAGE_SEGMENT_BYTES": "2MiB", "GOQUEUE_STORAGE_TAIL_BYTES": "2MiB"}
    config = load(str(file), environment, {"storage.tail_bytes": "3MiB", "data_dir": None})
    origins = {setting.key: str(config.origin(setting)) for setting in SETTINGS if setting.section in ("", "storage")}
    assert (config.data_dir, config.storage.flush_interval) == ("a", 2.0)
    assert (config.storage.segment_bytes, config.storage.tail_bytes) == (2 * limits.MIB, 3 * limits.MIB)
    assert origins == {
        "data_dir": f"{file}:1:11",
        "storage.flush": "default",
        "storage.flush_interval": f"{file}:5:19",
        "storage.segment_bytes": "GOQUEUE_STORAGE_SEGMENT_BYTES",
        "storage.segment_age": "default",
        "storage.tail_bytes": "--storage-tail-bytes",
        "storage.upkeep_interval": "default",
        "storage.scrub_rate": "default",
        "storage.scrub_interval": "default",
        "storage.retention_jump_percent": "default",
    }


def test_a_mistake_is_reported_even_where_a_stronger_source_hides_it(file: Path) -> None:
    file.write_text("storage: {flush: sometimes}\n")
    found = problems(file, {"GOQUEUE_STORAGE_FLUSH": "never"}, **{"storage.flush": "perhaps"})
    assert [problem.split(": ")[0] for problem in found] == [
        "goqueue.yaml:1:18",
        "GOQUEUE_STORAGE_FLUSH",
        "--storage-flush",
    ]


@pytest.mark.parametrize("content", ["", "# nothing\n", "---\n", "storage:\n", "storage: {}\n", "\ufeffstorage:\n"])
def test_an_empty_file_and_an_empty_section_are_fine(file: Path, content: str) -> None:
    file.write_text(content, encoding="utf-8")
    assert load(str(file)) == Config()


def test_windows_line_ends_are_fine(file: Path) -> None:
    file.write_bytes(b"data_dir: a\r\nstorage:\r\n  flush: interval\r\n")
    assert (load(str(file)).data_dir, load(str(file)).storage.flush) == ("a", "interval")


# --- what is wrong with a file ---

MISTAKES = {
    "storage:\n  flsh: always\n": "f:2:3: storage.flsh: is not a setting (did you mean storage.flush?)",
    "storge:\n  flush: always\n": "f:1:1: storge: is not a setting (did you mean storage?)",
    "flush: always\n": "f:1:1: flush: is not a setting (did you mean flush in the section storage?)",
    "storage.flush: always\n": "f:1:1: storage.flush: is not a setting (did you mean flush in the section storage?)",
    "zzzzz: 1\n": "f:1:1: zzzzz: is not a setting",
    "data_dir: a\ndata_dir: b\n": "f:2:1: data_dir: is given twice, on lines 1 and 2 (keep one)",
    "data_dir:\n": "f:1:1: data_dir: has no value (the default is ./goqueue-data)",
    "data_dir: ~\n": "f:1:1: data_dir: has no value (the default is ./goqueue-data)",
    "data_dir: ''\n": "f:1:11: data_dir: the path is empty: write ./ for the current directory",
    "data_dir: ~/q\n": "f:1:11: data_dir: '~/q' begins with ~, which only a shell expands: write the full path",
    'data_dir: "a\\0"\n': "f:1:11: data_dir: 'a\\x00' contains a control character",
    'data_dir: "\\ud800"\n': "f:1:11: data_dir: '\\ud800' is not valid Unicode",
    "data_dir: [a]\n": "f:1:11: data_dir: is a list, not a single value",
    "data_dir: {a: b}\n": "f:1:11: data_dir: is a section, not a single value",
    "storage: 5\n": "f:1:10: storage: is '5', not a section (indent its settings below it)",
    "storage: {flush: Always}\n": "f:1:18: storage.flush: 'Always' is not one of always, interval: write always",
    "storage: {segment_bytes: 1KiB}\n": "f:1:26: storage.segment_bytes: '1KiB' is too small: at least 4KiB",
    "storage: {segment_age: 9999d}\n": "f:1:24: storage.segment_age: '9999d' is too large: at most 3650d",
    "storage: {tail_bytes: 010}\n": "f:1:23: storage.tail_bytes: '010' begins with a zero, which some read as octal:"
    " leave it away",
    "a: b\n---\nc: d\n": "f:2:1: a second document begins here (keep only one document: remove the line ---)",
    "[1]\n": "f:1:1: is a list, not a mapping of settings (write lines of `key: value`)",
    "data_dir:x\n": "f:1:1: is a single value, not a mapping of settings (write lines of `key: value`)",
    "? [a]\n: b\n": "f:1:3: a key must be a name",
    "storage:\n\tflush: always\n": "f:2:1: is not valid YAML: found character '\\t' that cannot start any token"
    " (indent with spaces)",
    "data_dir: @x\n": "f:1:11: is not valid YAML: found character '@' that cannot start any token"
    " (put quotes around the value)",
    "data_dir: 'x\n": "f:1:11: is not valid YAML: found unexpected end of stream (while scanning a quoted scalar)",
    'data_dir: "\\UFFFFFFFF"\n': "f:1:14: is not valid YAML here",
    "data_dir: !!python/object/apply:os.system [x]\n": "f:1:11: the tag '!!python/object/apply:os.system' is not"
    " allowed: values are plain text (remove it)",
    "data_dir: !own x\n": "f:1:11: the tag '!own' is not allowed: values are plain text (remove it)",
    "data_dir: &a x\n": "f:1:11: the anchor '&a' is not allowed (write the value itself)",
    "data_dir: *a\n": "f:1:11: the alias '*a' is not allowed (write the value itself)",
    "data_dir: a\x00b\n": "f:1:12: holds the control character U+0000",
    "data_dir: a\n\x1b[31m: 1\n": "f:2:1: holds the control character U+001B",
    "[" * 100_000: "f:1:10: is nested deeper than 8 levels",
    "a:\n" * 11_000: "f: has more than 10,000 keys and values",
}


@pytest.mark.parametrize(("content", "problem"), MISTAKES.items(), ids=[key[:20] for key in MISTAKES])
def test_a_mistake_is_told_with_its_place_its_key_and_what_helps(content: str, problem: str) -> None:
    assert problem in problems_of(content)


def test_bytes_that_are_no_text_are_refused_with_their_place() -> None:
    assert problems_of(b"a: b\nc: \xff\n") == ["f:2:4: byte 0xff is not UTF-8 (save it as UTF-8)"]


def test_a_bomb_of_aliases_is_refused_without_being_lit() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert any("the alias '*a0' is not allowed" in problem for problem in problems_of("\n".join(lines)))


def test_all_problems_are_told_at_once_in_the_order_of_reading(file: Path) -> None:
    file.write_text("storage:\n  tail_bytes: 1\n  flsh: x\ndata_dir: !x y\n")
    found = problems(file, {"GOQUEUE_STORAGE_FLUSH": "x"})
    assert [problem.split(": ")[0] for problem in found] == [
        "goqueue.yaml:2:15",
        "goqueue.yaml:3:3",
        "goqueue.yaml:4:11",
        "GOQUEUE_STORAGE_FLUSH",
    ]


def test_more_problems_than_anyone_reads_are_cut() -> None:
    found = problems_of("".join(f"unknown{n}: 1\n" for n in range(1000)))
    assert (len(found), found[-1]) == (limits.CONFIG_PROBLEMS_MAX + 1, "f: more problems follow")


def test_settings_that_contradict_each_other_are_refused() -> None:
    found = problems_of("storage: {flush: interval, flush_interval: 1m, segment_age: 2s}\n")
    assert found == [
        "f:1:61: storage.segment_age: 2s is shorter than storage.flush_interval (1m):"
        " segments would end before their first sync"
    ]


# --- what is wrong with the file itself ---


def test_a_file_that_is_not_there_is_a_problem(file: Path) -> None:
    assert problems(file)[0].startswith("goqueue.yaml: does not exist")


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    assert problems(tmp_path)[0].endswith("is a directory, not a file (name a YAML file in it)")


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "\udcff", "/dev/null/x"])
def test_what_cannot_be_a_path_is_a_problem(path: str) -> None:
    with pytest.raises(ConfigInvalid):
        load(path)


def test_a_file_without_end_is_read_only_so_far() -> None:
    assert "is larger than 1MiB" in problems("/dev/zero")[0]


# --- what is wrong with the environment ---


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("GOQUEUE_DATA_DIR", "", "data_dir: is empty (unset the variable to use the default)"),
        ("GOQUEUE_DATA_DIR", "\udcff", "data_dir: '\\udcff' is not valid Unicode"),
        (
            "GOQUEUE_STORAGE_FLUSH_INTERVAL",
            "-1s",
            "storage.flush_interval: '-1s' is negative: a duration is at least 0",
        ),
        ("GOQUEUE_STORAGE_FLSH", "x", "is not a setting (did you mean GOQUEUE_STORAGE_FLUSH?)"),
        ("GOQUEUE_storage_flush", "x", "is not a setting (did you mean GOQUEUE_STORAGE_FLUSH?)"),
        ("GOQUEUE_FLUSH", "x", "is not a setting (did you mean GOQUEUE_STORAGE_FLUSH?)"),
        ("GOQUEUE_DATADIR", "x", "is not a setting (did you mean GOQUEUE_DATA_DIR?)"),
    ],
)
def test_a_variable_meant_for_a_setting_must_be_right(variable: str, value: str, problem: str) -> None:
    assert problems(None, {variable: value}) == [f"{variable}: {problem}"]


@pytest.mark.parametrize("name", ["SERVER", "CONTEXT", "API_KEY", "TIMEOUT", "OUTPUT", "CONFIG", "PORT_80_TCP_ADDR"])
def test_variables_of_other_programs_are_left_alone(name: str) -> None:
    assert load(None, {f"GOQUEUE_{name}": "x", "HOME": "/"}) == Config()


@pytest.mark.parametrize("client", ["go", "typescript"])
def test_variables_of_a_client_do_not_end_the_start_of_the_broker(client: str) -> None:
    names = set(re.findall(r"GOQUEUE_[A-Z_]+", (ROOT / "clients" / client / "README.md").read_text(encoding="utf-8")))
    assert "GOQUEUE_GRPC_ADDRESS" in names
    assert load(None, dict.fromkeys(names, "127.0.0.1:9090")) == Config()


def test_the_address_of_a_service_of_our_name_is_no_setting() -> None:
    assert (
        load(None, {"GOQUEUE_PORT": "tcp://10.0.0.11:8080", "GOQUEUE_SERVER_PORT_": "tcp://10.0.0.11:8080"}) == Config()
    )
    assert problems(None, {"GOQUEUE_PORT": "9000"}) == [
        "GOQUEUE_PORT: is not a setting (did you mean GOQUEUE_SERVER_PORT?)"
    ]


# --- nothing else can happen ---

YAML_PIECES = [
    *("storage", "flush", "data_dir", "always", "64MiB", ": ", ":", "\n", "\n  ", "- ", "? ", "[", "]", "{", "}", ","),
    *("&a ", "*a", "!", "!!str ", "!a!b", "%YAML 1.1\n", "%TAG ! x\n", "---\n", "...\n", "|", ">", '"', "'", "#"),
    *("\\x0", "\\U00110000", "\t", "\r", "\x85", "\u2028", "~", "null", "1e400", "<<", "=", "%", "@", "`", "1:30"),
]
files = (
    st.binary()
    | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.lists(st.sampled_from(YAML_PIECES)).map(lambda pieces: "".join(pieces).encode())
)
variables = st.text() | st.sampled_from([s.variable for s in SETTINGS]) | st.text().map("GOQUEUE_STORAGE_".__add__)


@given(files)
def test_any_bytes_are_a_configuration_or_a_list_of_problems(content: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        assert {problem.origin.name for problem in problems_or_none(file.name, {})} <= {file.name}


@given(st.dictionaries(variables, st.text() | st.sampled_from(["always", "1s", "64MiB"])))
def test_any_environment_is_a_configuration_or_a_list_of_problems(environment: dict[str, str]) -> None:
    assert {problem.origin.name for problem in problems_or_none(None, environment)} <= environment.keys()


def problems_or_none(path: str | None, environment: dict[str, str]) -> tuple[Problem, ...]:
    try:
        load(path, environment)
    except ConfigInvalid as error:
        found: tuple[Problem, ...] = error.details["problems"]
        return found
    return ()


@given(st.text(min_size=1))
def test_settings_written_as_yaml_are_read_back(path: str) -> None:
    try:
        config = load(
            None, {}, {"data_dir": path, "storage.segment_bytes": "123457", "storage.flush_interval": "1.5ms"}
        )
    except ConfigInvalid:
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(settings_reference.settings_yaml(config).encode())
        file.flush()
        assert load(file.name) == config


def test_a_configuration_without_a_file_does_not_load_yaml() -> None:
    program = "import sys, goqueue.config; goqueue.config.load(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"yaml", "numpy", "asyncio", "goqueue.storage"}.isdisjoint(done.stdout.split())


# --- the page and the files made from the table ---


def test_every_default_is_within_its_bounds_and_reads_back() -> None:
    for setting in SETTINGS:
        assert setting.parse(setting.format(setting.default)) == setting.default


def test_the_page_is_current_and_documents_every_setting() -> None:
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    assert page == settings_reference.page(), "renew it: python -m goqueue.commands.settings_reference"
    for setting in SETTINGS:
        assert all(name in page for name in (f"`{setting.key}`", setting.variable, setting.flag, setting.rule.sentence))


@pytest.mark.parametrize("name", ["dev", "production"])
def test_the_ready_files_are_current_complete_and_valid(name: str) -> None:
    path = ROOT / f"configs/{name}.yaml"
    assert path.read_text(encoding="utf-8") == settings_reference.template(name), (
        "python -m goqueue.commands.settings_reference"
    )
    assert load(str(path)).origins.keys() == {setting.key for setting in SETTINGS}


def test_the_template_holds_exactly_the_defaults(file: Path) -> None:
    file.write_text(settings_reference.template("default"), encoding="utf-8")
    assert load(str(file)) == Config()


# --- lists ---


@pytest.mark.parametrize(
    ("key", "text", "kept"),
    [
        ("server.allowed_hosts", "none", "none"),
        ("server.allowed_hosts", " Queue.Example,b ,b", "queue.example, b"),
        ("server.allowed_hosts", "*", "*"),
        (
            "server.allowed_origins",
            "https://A.example:443, http://b:80,http://c:8080",
            "https://a.example, http://b, http://c:8080",
        ),
        ("server.allowed_origins", "http://[::1]:3000", "http://[::1]:3000"),
    ],
)
def test_lists_are_kept_in_one_form(key: str, text: str, kept: str) -> None:
    config = load(flags={key: text})
    setting = next(setting for setting in SETTINGS if setting.key == key)
    assert config.value(setting) == setting.parse(setting.format(kept)) == kept


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("server.allowed_hosts", "a,,b", "'' is not a host name"),
        ("server.allowed_hosts", "queue.example:8080", "'queue.example:8080' is not a host name"),
        ("server.allowed_hosts", "http://queue.example", "'http://queue.example' is not a host name"),
        ("server.allowed_hosts", "*.example", "'*.example' is not a host name"),
        ("server.allowed_hosts", ",".join(["a"] * 101), "has 101 items: at most 100"),
        ("server.allowed_origins", "queue.example", "'queue.example' is not an origin"),
        ("server.allowed_origins", "http://queue.example/", "'http://queue.example/' is not an origin"),
        ("server.allowed_origins", "null", "'null' is not an origin"),
    ],
)
def test_lists_with_a_wrong_item_are_refused(key: str, text: str, problem: str) -> None:
    assert problem in problems(None, None, **{key: text})[0]
