"""The house rules: which room may use which, where libraries and the operating system may be touched,
and how large things may grow.

Everything is read from the source with `ast`, so an import inside a function counts like any other. A rule
that turns out wrong is changed here, in the open.
"""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("goqueue", "goqueue_cli", "goqueue_admin")

FILE_LINES_MAX = 450
# Plain lists, of a class or a number each: they are searched, not read, and grow with everything else.
LIST_LINES_MAX = {"goqueue.errors": 700, "goqueue.limits": 700}
FUNCTION_LINES_MAX = 60

# The shared vocabulary. These modules use each other and nothing else of the house.
VOCABULARY = (
    "goqueue",
    "goqueue.errors",
    "goqueue.limits",
    "goqueue.nearest",
    "goqueue.quantities",
    "goqueue.clock",
    "goqueue.config",
    "goqueue.partitioner",
    "goqueue.compression",
    "goqueue.delay",
    "goqueue.events",
)

# The house from the roof to the ground. A room may use the vocabulary and what stands beside it here, which
# must stand below it. Where a single module is named, the rest of its room stays out of reach.
HOUSE: dict[str, tuple[str, ...]] = {
    "goqueue.__main__": ("goqueue.commands",),
    "goqueue.commands": (
        "goqueue.console",
        "goqueue.drawing",
        "goqueue.daemon",
        "goqueue.broker",
        "goqueue.spark",
        "goqueue.client",
        "goqueue.backup",
        "goqueue.storage",
    ),
    "goqueue_cli": ("goqueue.console", "goqueue.client", "goqueue.drawing", "goqueue.sql"),
    "goqueue_admin": ("goqueue.console", "goqueue.client", "goqueue.drawing", "goqueue.wire"),
    "goqueue.console": ("goqueue.client", "goqueue.drawing"),
    "goqueue.drawing": (),
    "goqueue.testing": ("goqueue.daemon", "goqueue.client", "goqueue.cluster", "goqueue.storage"),
    "goqueue.daemon": (
        "goqueue.rpc",
        "goqueue.api",
        "goqueue.runtime",
        "goqueue.broker",
        "goqueue.cluster",
        "goqueue.security",
        "goqueue.observe",
        "goqueue.backup",
        "goqueue.storage",
    ),
    "goqueue.rpc": (
        "goqueue.api",
        "goqueue.runtime",
        "goqueue.broker",
        "goqueue.wire",
        "goqueue.security",
        "goqueue.observe",
        "goqueue.storage",
    ),
    "goqueue.api": (
        "goqueue.runtime",
        "goqueue.broker",
        "goqueue.wire",
        "goqueue.schemas",
        "goqueue.cluster",
        "goqueue.security",
        "goqueue.observe",
        "goqueue.backup",
        "goqueue.storage",
    ),
    "goqueue.runtime": (
        "goqueue.broker",
        "goqueue.wire",
        "goqueue.cluster",
        "goqueue.security",
        "goqueue.observe",
        "goqueue.backup",
        "goqueue.storage",
    ),
    # Another engine over the same tables: what reads logs and plans has no need of Spark.
    "goqueue.sql": (
        "goqueue.client",
        "goqueue.spark.logs",
        "goqueue.spark.queries.pruning",
        "goqueue.spark.queries.schemas",
        "goqueue.spark.queries.tables",
        "goqueue.spark.reading",
    ),
    # What groups, topics, producers, transactions and delayed logs record is understood by the broker's own rules, not
    # by copies of them.
    "goqueue.spark": (
        "goqueue.client",
        "goqueue.backup",
        "goqueue.wire",
        "goqueue.broker.core.catalog",
        "goqueue.broker.delay.records",
        "goqueue.broker.core.partition_ref",
        "goqueue.broker.delay.schedule",
        "goqueue.broker.groups.records",
        "goqueue.broker.groups.cursor",
        "goqueue.broker.core.delivery_settings",
        "goqueue.broker.groups.retries",
        "goqueue.broker.groups.dead_letter_message",
        "goqueue.broker.groups.state",
        "goqueue.broker.core.producers",
        "goqueue.broker.core.topic",
        "goqueue.broker.transactions.records",
        "goqueue.broker.tenants.usage_records",
        "goqueue.broker.schemas.parsing",
        "goqueue.broker.schemas.queries",
        "goqueue.broker.schemas.records",
        "goqueue.broker.schemas.state",
        "goqueue.schemas",
        "goqueue.storage",
    ),
    # What a backup held at a time is told by the records of topics and groups, which the broker's own rules understand.
    "goqueue.backup": ("goqueue.broker.core.catalog", "goqueue.broker.groups.records", "goqueue.storage"),
    # Topics and partitions are the same in the cluster's log as in a broker's catalog.
    "goqueue.cluster": ("goqueue.broker.core", "goqueue.storage"),
    "goqueue.broker": ("goqueue.wire", "goqueue.schemas", "goqueue.security", "goqueue.storage"),
    "goqueue.security": ("goqueue.storage",),
    "goqueue.observe": ("goqueue.wire", "goqueue.storage"),
    "goqueue.client": ("goqueue.wire", "goqueue.schemas", "goqueue.storage.frame"),
    "goqueue.schemas": (),
    "goqueue.wire": (),
    "goqueue.storage": (),
}

# The packages of the broker from the roof to the ground: each may use those below it.
BROKER_FLOORS = (
    "goqueue.broker.adoption",
    "goqueue.broker.offline_catalog",
    "goqueue.broker.tracing",
    "goqueue.broker.broker",
    "goqueue.broker.losses",
    "goqueue.broker.internal_topics",
    "goqueue.broker.tenants",
    "goqueue.broker.schemas",
    "goqueue.broker.security",
    "goqueue.broker.transactions",
    "goqueue.broker.operations",
    "goqueue.broker.topic_maker",
    "goqueue.broker.scaling",
    "goqueue.broker.delay",
    "goqueue.broker.groups",
    "goqueue.broker.filters",
    "goqueue.broker.core",
)

# The package of groups from the ground up. A module may use those of its own layer and of the layers before it.
GROUP_LAYERS = {
    "records": ("records",),
    "state": ("leases", "retries", "cursor", "state", "store", "sessions"),
    "rules": (
        "assignors",
        "rebalance",
        "rebalancer",
        "membership",
        "offsets",
        "policies",
        "settle_commands",
        "settlement",
        "transaction_acks",
        "dead_letter_message",
        "dead_letters",
        "dead_letter_reader",
        "redrive",
        "fetch",
        "key_order",
        "split_gate",
        "poll",
        "lane_polling",
        "polling",
        "lag",
    ),
    "coordinator": ("coordinator",),
    "shards": ("shards",),
}

# A library that shapes whatever touches it is used in these rooms alone.
HOMES: dict[str, tuple[str, ...]] = {
    "typer": ("goqueue.console", "goqueue.commands", "goqueue_cli", "goqueue_admin"),
    "rich": ("goqueue.console", "goqueue.commands", "goqueue_cli", "goqueue_admin"),
    "textual": ("goqueue_admin",),
    "cryptography": ("goqueue.api", "goqueue.commands", "goqueue.backup"),
    "duckdb": ("goqueue.sql",),
    "pyarrow": ("goqueue.spark", "goqueue.sql", "goqueue.commands"),
    "pyspark": ("goqueue.spark",),
    "obstore": ("goqueue.backup",),
    "opentelemetry": ("goqueue.client",),
    "jsonschema_rs": ("goqueue.schemas",),
    "google": ("goqueue.rpc", "goqueue.schemas"),
    "grpc": ("goqueue.rpc",),
    "grpc_health": ("goqueue.rpc",),
    "grpc_reflection": ("goqueue.rpc",),
    "starlette": ("goqueue.api",),
    "uvicorn": ("goqueue.api",),
    "uvloop": ("goqueue.daemon", "goqueue.testing"),
}

# Declared for its bounds alone: pyspark imports it, and does not yet work with the version after these.
BOUNDED = {"pandas"}

# Type checkers have it: it is imported for them alone.
TYPES = {"typing-extensions"}

# Cores decide by what they are handed: no clock, no chance, no network, no log of their own.
CORES = ("goqueue.broker", "goqueue.cluster", "goqueue.schemas", "goqueue.security", "goqueue.storage")
SHELLS = ("goqueue.storage.disk", "goqueue.storage.flusher")
OUTSIDE_WORLD = {"asyncio", "datetime", "logging", "random", "secrets", "select", "socket", "time", "uuid"}

# Storage reaches files through its disk. What remains free is arithmetic on names.
ON_DISK = "goqueue.storage.disk"
OS_PURE = {
    "os.fspath",
    "os.sep",
    *(
        f"os.path.{name}"
        for name in ("basename", "commonpath", "dirname", "isabs", "join", "normpath", "split", "splitext")
    ),
}
OS_MODULES = {"fcntl", "glob", "io", "mmap", "pathlib", "shutil", "subprocess", "tempfile"}
NUMPY_FILES = {"fromfile", "genfromtxt", "load", "loadtxt", "memmap", "open_memmap", "save", "savetxt"}

# What must stay out of memory when a module is imported: start-up time is a promise.
LOADS_WITHOUT: dict[str, tuple[str, ...]] = {
    "goqueue.wire.trace_context": ("numpy", "asyncio", "crc32c", "dataclasses"),
    "goqueue.wire.leases": ("numpy", "asyncio", "crc32c", "dataclasses"),
    "goqueue.storage.frame": ("numpy", "asyncio"),
    "goqueue.schemas.formats": ("numpy", "asyncio", "jsonschema_rs", "google"),
    "goqueue.client": ("numpy", "pyspark", "opentelemetry", "goqueue.broker", "goqueue.daemon", "goqueue.schemas"),
    "goqueue.client._sync.producer": ("numpy", "goqueue.schemas"),
    "goqueue.client.serializers.serializer": ("google.protobuf", "jsonschema_rs", "goqueue.schemas.avro"),
    "goqueue.console.session": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue.commands.main": ("numpy", "pydantic", "pyspark", "goqueue.daemon", "starlette", "uvicorn"),
    "goqueue.sql.engine": ("pyspark", "goqueue.daemon"),
    "goqueue_cli.main": ("typer", "re", "typing", "goqueue.errors"),
    "goqueue_cli.sql": ("numpy", "rich", "asyncio", "duckdb", "pyarrow", "goqueue.client"),
    "goqueue_cli.topics.listing": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue_cli.topics.changes": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue_cli.consuming.command": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue_cli.publishing.command": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue_cli.delayed.browse": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue_cli.delayed.changes": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue_cli.dead_letters.browse": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue_admin.main": ("typer", "re", "typing", "goqueue.errors"),
    "goqueue_admin.broker": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue_admin.doctor": ("numpy", "rich", "asyncio", "goqueue.client"),
    "goqueue_admin.rebalances": ("numpy", "rich", "asyncio", "goqueue.client"),
}

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

# One letter of each stands in brackets, so that this file does not say what it forbids.
FORBIDDEN_TEXT = {
    "an unfinished thought": r"\b(TO[D]O|FIX[M]E|XX[X])\b",
    "a path outside the repository": r"\.\./[s]hared\b",
    "the address of a package index": r"\b(py[p]i\.org|files\.py[t]honhosted\.org|registry\.np[m]js\.org)\b",
}
MADE_AT_THE_ROOT = {"build", "data", "dist"}
MADE_FOR_CLIENTS = {"build", "dist", "node_modules"}
HIDDEN_BUT_OURS = {".ci", ".github"}


@dataclass(frozen=True)
class Use:
    """A dotted name that a module mentions, with every import resolved to what it means."""

    name: str
    line: int


@dataclass(frozen=True)
class Source:
    """One Python file of the repository."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def module(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    @cached_property
    def imports(self) -> list[Use]:
        return list(self._imports())

    def _imports(self) -> Iterator[Use]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (Use(alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node)
                yield from (Use(f"{origin}.{alias.name}", node.lineno) for alias in node.names)

    def _origin(self, node: ast.ImportFrom) -> str:
        """The absolute name of what a `from` imports from: one dot is the module's own package."""
        if node.level == 0:
            return node.module or ""
        here = self.module.split(".")
        if self.path.name != "__init__.py":
            here.pop()
        package = here[: len(here) - node.level + 1]
        return ".".join([*package, node.module] if node.module else package)

    @cached_property
    def mentions(self) -> list[Use]:
        """Attributes written out in full, such as `os.path.join`, whatever name their module was imported by."""
        names = self._local_names()
        found = []
        for node in ast.walk(self.tree):
            written = dotted(node)
            if written is not None:
                first, _, rest = written.partition(".")
                meaning = names.get(first, first)
                found.append(Use(f"{meaning}.{rest}" if rest else meaning, getattr(node, "lineno", 0)))
        return found

    def _local_names(self) -> dict[str, str]:
        names = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names.update({alias.asname: alias.name for alias in node.names if alias.asname})
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node)
                names.update({alias.asname or alias.name: f"{origin}.{alias.name}" for alias in node.names})
        return names


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as text, or None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return owner and f"{owner}.{node.attr}"
    return None


def within(name: str, *places: str) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def room_of(module: str) -> str:
    """A room is a package beside `goqueue`, or a package or module directly below it."""
    return ".".join(module.split(".")[:2]) if within(module, "goqueue") else module.split(".", maxsplit=1)[0]


def sources(*directories: str) -> list[Source]:
    return [Source(path) for directory in directories for path in sorted((ROOT / directory).rglob("*.py"))]


PROGRAM = sources(*PACKAGES)
TESTS = sources("tests")
MODULES = {source.module for source in PROGRAM}


def imported_module(name: str) -> str:
    """The module that an imported name lives in: `goqueue.errors.DiskFull` lives in `goqueue.errors`."""
    while name not in MODULES and "." in name:
        name = name.rpartition(".")[0]
    return name


def house_imports(source: Source) -> Iterator[tuple[str, int]]:
    for use in source.imports:
        if within(use.name, *PACKAGES, "tests", "benchmarks"):
            yield imported_module(use.name), use.line


def may_use(source: Source, target: str) -> bool:
    here, there = room_of(source.module), room_of(target)
    if here == there or there in VOCABULARY:
        return True
    return within(target, *HOUSE.get(here, ()))


def cores(*, without: tuple[str, ...]) -> list[Source]:
    return [source for source in PROGRAM if within(source.module, *CORES) and not within(source.module, *without)]


def test_the_plan_of_the_house_points_downward() -> None:
    order = list(HOUSE)
    for room, below in HOUSE.items():
        assert all(order.index(room_of(target)) > order.index(room) for target in below), room


def test_every_module_stands_in_a_room_of_the_house() -> None:
    strays = [str(source) for source in PROGRAM if room_of(source.module) not in {*HOUSE, *VOCABULARY}]
    assert strays == []


def test_no_room_uses_a_room_above_it() -> None:
    arrows = [
        f"{source}:{line} uses {target}"
        for source in PROGRAM
        for target, line in house_imports(source)
        if not may_use(source, target)
    ]
    assert arrows == []


def test_no_package_of_the_broker_uses_a_package_above_it() -> None:
    def floor(module: str) -> int | None:
        return next((number for number, package in enumerate(BROKER_FLOORS) if within(module, package)), None)

    arrows = [
        f"{source}:{line} uses {target}"
        for source in PROGRAM
        if (here := floor(source.module)) is not None
        for target, line in house_imports(source)
        if (there := floor(target)) is not None and there < here
    ]
    assert arrows == []
    strays = [
        source.module for source in PROGRAM if within(source.module, "goqueue.broker") and floor(source.module) is None
    ]
    assert strays == ["goqueue.broker"]


def test_no_two_modules_need_each_other() -> None:
    needs = {source.module: {target for target, _ in house_imports(source)} - {source.module} for source in PROGRAM}
    while True:
        free = {module for module, needed in needs.items() if not needed & needs.keys()}
        if not free:
            break
        needs = {module: needed for module, needed in needs.items() if module not in free}
    assert needs == {}, "these modules import each other, or are imported by ones that do"


def test_modules_of_groups_use_no_later_layer() -> None:
    package = "goqueue.broker.groups"
    layer_of = {f"{package}.{name}": number for number, names in enumerate(GROUP_LAYERS.values()) for name in names}
    modules = {source.module for source in PROGRAM if source.module.startswith(f"{package}.")}
    assert modules == layer_of.keys()
    arrows = [
        f"{source}:{line} uses {target}"
        for source in PROGRAM
        if source.module in layer_of
        for target, line in house_imports(source)
        if layer_of.get(target, 0) > layer_of[source.module]
    ]
    assert arrows == []


def test_libraries_with_a_home_stay_in_it() -> None:
    abroad = [
        f"{source}:{use.line} uses {use.name}"
        for source in PROGRAM
        for use in source.imports
        if (library := use.name.split(".", maxsplit=1)[0]) in HOMES and room_of(source.module) not in HOMES[library]
    ]
    assert abroad == []


def test_every_library_in_use_is_declared_and_every_declared_one_is_used() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (
        requirement
        for name, extra in project["optional-dependencies"].items()
        if name not in {"bench", "dev"}
        for requirement in extra
    )
    declared = {distribution_name(requirement) for requirement in (*project["dependencies"], *extras)}
    distributions = importlib.metadata.packages_distributions()
    libraries = {use.name.split(".", maxsplit=1)[0] for source in PROGRAM for use in source.imports}
    used = set()
    for library in libraries - {*sys.stdlib_module_names, *PACKAGES}:
        names = {distribution_name(name) for name in distributions.get(library, [library])}
        used |= names & declared or names  # several distributions may share a package
    assert (used - TYPES) | BOUNDED == declared


def distribution_name(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def test_the_silent_cores_bring_no_clock_chance_or_network() -> None:
    heard = [
        f"{source}:{use.line} imports {use.name}"
        for source in cores(without=SHELLS)
        for use in source.imports
        if within(use.name, *OUTSIDE_WORLD)
    ]
    assert heard == []


def test_the_silent_cores_are_synchronous() -> None:
    suspended = [
        f"{source}:{node.lineno}"
        for source in cores(without=SHELLS)
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await))
    ]
    assert suspended == []


def test_files_are_touched_by_the_disk_alone() -> None:
    touched = [
        f"{source}:{use.line} {use.name}"
        for source in cores(without=(ON_DISK,))
        for use in (*source.imports, *source.mentions)
        if touches_files(use.name)
    ]
    assert touched == []


def touches_files(name: str) -> bool:
    if within(name, "os"):
        return name not in {"os", "os.path"} and not within(name, *OS_PURE)
    if within(name, "numpy"):
        return name.rpartition(".")[2] in NUMPY_FILES
    return name in {"open", "builtins.open"} or within(name, *OS_MODULES)


@pytest.mark.parametrize("module", [module for module in LOADS_WITHOUT if module in MODULES])
def test_importing_a_light_module_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint(LOADS_WITHOUT[module])


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [str(source) for source in (*PROGRAM, *TESTS) if VAGUE_NAMES & set(source.module.split("."))]
    assert vague == []


def test_files_stay_readable_in_one_sitting() -> None:
    long = {
        str(source): lines
        for source in PROGRAM
        if (lines := source.text.count("\n")) > LIST_LINES_MAX.get(source.module, FILE_LINES_MAX)
    }
    assert long == {}


def test_functions_fit_on_a_screen() -> None:
    long = {
        f"{source}:{node.lineno} {node.name}": lines
        for source in PROGRAM
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long == {}


def test_logs_of_others_are_found_by_one_lookup_and_written_through_one_port() -> None:
    by_number = re.compile(r"\btopics?(\[[^]]+\])?\.partitions\[")
    written = re.compile(r"(?<!_port)\.(offer|take|publish|end_transactions)\(")
    found = [
        f"{source}:{number} {line.strip()}"
        for source in PROGRAM
        for number, line in enumerate(source.text.splitlines(), start=1)
        if by_number.search(line)
        or (source.module.startswith(("goqueue.broker.groups", "goqueue.broker.transactions")) and written.search(line))
    ]
    assert found == []


def test_tests_neither_sleep_nor_look_away() -> None:
    avoided = ("time.sleep", "pytest.skip", "pytest.xfail", "pytest.importorskip", "unittest.skip")
    marks = ("pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail")
    found = [
        f"{source}:{use.line} {use.name}"
        for source in TESTS
        if re.search(r"\bsleep\b|skip|xfail", source.text)  # to parse all takes seconds
        for use in (*source.imports, *source.mentions)
        if within(use.name, *avoided, *marks)
    ]
    assert found == []


def test_no_text_says_what_does_not_belong_here() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number} holds {what}"
        for path in repository_files()
        for number, line in enumerate(readable_text(path).splitlines(), start=1)
        for what, pattern in FORBIDDEN_TEXT.items()
        if re.search(pattern, line)
    ]
    assert found == []


def repository_files() -> Iterator[Path]:
    for place, directories, names in os.walk(ROOT):
        directories[:] = [name for name in directories if holds_our_files(Path(place, name))]
        yield from (Path(place, name) for name in names)


def holds_our_files(directory: Path) -> bool:
    if directory.parent == ROOT and directory.name in MADE_AT_THE_ROOT:
        return False
    if directory.parent.parent == ROOT / "clients" and directory.name in MADE_FOR_CLIENTS:
        return False
    return directory.name in HIDDEN_BUT_OURS or not directory.name.startswith((".", "__pycache__"))


def readable_text(path: Path) -> str:
    """The text of a file, or nothing when it is binary."""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", "replace")
