"""All screens, one row each, and the keys that work on every screen."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from textual.binding import BindingType

from goqueue.console.dead_letters import SUFFIX
from goqueue.nearest import nearest
from goqueue.quantities import format_count, quoted
from goqueue_admin.dashboard.widgets.lines import key_binding


class Location(NamedTuple):
    """A screen and its subject."""

    page: str
    about: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.page, *self.about))


class Route(NamedTuple):
    """A screen: `target` is `module:class` in this package, `about` names its subject in the typed order.

    `up` is the screen that escape opens. `one` is the screen of a single item, for a list typed with a name.
    """

    name: str
    target: str
    help: str
    about: tuple[str, ...] = ()
    up: str = ""
    key: str = ""
    one: str = ""
    aliases: tuple[str, ...] = ()


ROUTES = (
    Route("overview", "overview:OverviewScreen", "What the broker does, and what is wrong.", key="f2"),
    Route("topics", "topics:TopicsScreen", "All topics.", up="overview", key="f3", one="topic"),
    Route(
        "topic", "topics:PartitionsScreen", "The partitions of a topic.", ("topic",), "topics", aliases=("partitions",)
    ),
    Route(
        "messages",
        "messages:MessagesScreen",
        "The messages of a topic, as they come.",
        ("topic", "partition"),
        "topic",
        aliases=("tail",),
    ),
    Route("groups", "groups:GroupsScreen", "All groups, and how far behind.", up="overview", key="f4", one="group"),
    Route("group", "groups:GroupScreen", "Members and lag of a group.", ("group",), "groups"),
    Route(
        "dlq",
        "dead_letters:DeadLetterTopicsScreen",
        "Topics with dead letters.",
        up="overview",
        key="f5",
        one="errors",
        aliases=("dead-letters",),
    ),
    Route("errors", "dead_letters:DeadLetterErrorsScreen", "Why dead letters failed.", ("topic",), "dlq"),
    Route("letters", "dead_letters:TopicDeadLettersScreen", "Dead letters.", ("topic", "error"), "errors"),
    Route(
        "delayed",
        "delayed:DelayedTopicsScreen",
        "What is to be delivered later, in all topics.",
        up="overview",
        key="f7",
        one="schedule",
    ),
    Route("schedule", "delayed:TopicDelayedScreen", "The delayed messages of a topic.", ("topic",), "delayed"),
    Route(
        "transactions",
        "transactions:TransactionsScreen",
        "Open transactions, and what waits for them.",
        up="overview",
        key="f8",
        one="transaction",
    ),
    Route("transaction", "transactions:TransactionScreen", "One transaction in full.", ("id",), "transactions"),
    Route("traces", "traces:TracesScreen", "What happened to messages, newest first.", up="overview", one="trace"),
    Route("trace", "traces:TraceScreen", "What happened to a message.", ("trace",), "traces", aliases=("waterfall",)),
    Route(
        "schemas",
        "schemas:SchemasScreen",
        "Subjects of the schema registry.",
        up="overview",
        one="schema",
        aliases=("subjects",),
    ),
    Route("schema", "schema:SchemaScreen", "The versions of a subject, and how they differ.", ("subject",), "schemas"),
    Route("rebalances", "rebalances:RebalancesScreen", "How groups were rebalanced.", up="overview", key="f6"),
    Route("logs", "logs:LogsScreen", "The last lines of the broker's log.", up="overview", key="f9"),
    Route("operations", "operations:OperationsScreen", "What operators changed.", up="overview", aliases=("undo",)),
    Route("alerts", "alerts:AlertsScreen", "Alerts that the broker sends itself.", up="overview"),
    Route("keys", "keys:KeysScreen", "API keys.", up="overview"),
    Route("tenants", "tenants:TenantsScreen", "Teams that share the broker.", up="overview", one="tenant"),
    Route("tenant", "quotas:TenantQuotasScreen", "Quotas of a tenant.", ("tenant",), "tenants", aliases=("quotas",)),
    Route("backups", "backups:BackupsScreen", "Backups, and what runs.", up="overview", one="backup"),
    Route("backup", "backups:BackupScreen", "One backup with its logs.", ("backup",), "backups"),
    Route("nodes", "cluster:NodesScreen", "The nodes of the cluster.", up="overview", aliases=("cluster",)),
    Route("replicas", "cluster:ReplicasScreen", "Partitions of the cluster: leaders, replicas.", up="nodes"),
    Route("moves", "moves:MovesScreen", "Replicas that move to other nodes.", up="nodes"),
    Route("contexts", "contexts:ContextsScreen", "Other brokers.", up="overview", one="context", aliases=("ctx",)),
    Route("context", "contexts:ContextsScreen", "Connect to the broker of a context.", ("context",), "contexts"),
)
HOME = Location("overview")

_BY_NAME = {name: row for row in ROUTES for name in (row.name, *row.aliases)}


def route_of(place: Location) -> Route:
    return _BY_NAME[place.page]


def keyed_routes() -> list[tuple[str, Route]]:
    """Return the screens that have a key, each with its digit, in the order of the keys."""
    rows = sorted((row for row in ROUTES if row.key), key=lambda row: int(row.key[1:]))
    return [(str(number), row) for number, row in enumerate(rows, 1)]


# --- what is typed ---


class TypedLocation(NamedTuple):
    """The location that a text means, and what to tell: what was guessed, or why there is no such location."""

    place: Location | None
    told: str = ""


NamesOf = Callable[[str], Sequence[str]]
"""Returns the names of a kind: topic, group, dlq, id, subject, backup or context."""


def parse_location(text: str) -> Location | None:
    """Parse `topic orders`, written in full. Only last words may be omitted."""
    words = text.split()
    rows = _matching(words[0].lower(), has_subject=len(words) > 1, exactly=True) if words else []
    if not rows or not _fits(rows[0], words[1:]):
        return None
    return Location(rows[0].name, tuple(words[1:]))


def resolve_location(text: str, names: NamesOf) -> TypedLocation:
    """Resolve `gr bil`: the beginning of a screen's name, and of a name. A mistyped one is taken for the nearest."""
    first, *rest = text.split() or [""]
    rows = _matching(first.lower(), has_subject=bool(rest))
    if not rows:
        guess = nearest(first, _BY_NAME)
        if guess is None:
            return TypedLocation(None, _unknown(first))
        found = resolve_location(" ".join((guess, *rest)), names)
        return found._replace(told=found.told or f"there is no screen {quoted(first)}: this is {guess}")
    if len(rows) > 1:
        return TypedLocation(None, f"{first} is short for {_listed(row.name for row in rows)}")
    if not _fits(rows[0], rest):
        return TypedLocation(None, _usage(_BY_NAME.get(first.lower(), rows[0]).name, rows[0]))
    return _with_subject(rows[0], rest, names) if rest else TypedLocation(Location(rows[0].name))


def _with_subject(row: Route, words: Sequence[str], names: NamesOf) -> TypedLocation:
    for part, text in zip(row.about, words, strict=False):
        if part == "partition" and not text.isdecimal():
            return TypedLocation(None, f"{quoted(text)} is not the number of a partition: {_usage(row.name, row)}")
    kind, word = _kind(row), words[0]
    known = names(kind)
    found = matching_names(word, known)
    if kind == "topic":
        found = [name for name in found if not name.endswith(SUFFIX)] or found
    if len(found) > 1:
        return TypedLocation(None, f"{quoted(word)} is short for {_listed(found)}")
    told = ""
    if not found and known:
        guess = nearest(word, known)
        if guess is not None and kind != "context":  # another broker is not opened on a guess
            found, told = [guess], f"there is no {_NOUNS[kind]} {quoted(word)}: this is {guess}"
    return TypedLocation(Location(row.name, (found[0] if found else word, *words[1:])), told)


def matching_names(word: str, known: Sequence[str]) -> list[str]:
    """Return the name itself, or else those that begin with the word, or else those that contain it."""
    if word in known:
        return [word]
    return [name for name in known if name.startswith(word)] or [name for name in known if word in name]


def named_kind(text: str) -> str:
    """Return the kind of name that the second word of a typed text is, or nothing."""
    words = text.split()
    rows = _matching(words[0].lower(), has_subject=True) if len(words) > 1 else []
    return _kind(rows[0]) if len(rows) == 1 else ""


def _kind(row: Route) -> str:
    """Return the kind of a screen's subject; the names of dead-letter topics are among those of topics."""
    return "dlq" if row.up in {"dlq", "errors"} else row.about[0] if row.about else ""


_NOUNS = {
    "topic": "topic",
    "group": "group",
    "dlq": "dead-letter topic",
    "id": "transaction",
    "subject": "subject",
    "tenant": "tenant",
    "backup": "backup",
    "context": "context",
}


def suggest_location(text: str, names: NamesOf) -> str | None:
    """Return the first completion of a text that is being typed."""
    first, space, rest = text.partition(" ")
    if not space:
        return next((name for name in _BY_NAME if text and name.startswith(text)), None)
    kind = named_kind(f"{first} x")
    found = next((name for name in names(kind) if name.startswith(rest)), None) if kind else None
    return None if found is None else f"{first} {found}"


def location_usage(text: str) -> str:
    """Explain why a text is not a location."""
    words = text.split()
    rows = _matching(words[0].lower(), has_subject=True, exactly=True) if words else []
    return _usage(_BY_NAME[words[0].lower()].name, rows[0]) if rows else _unknown(words[0] if words else "")


def _matching(word: str, *, has_subject: bool, exactly: bool = False) -> list[Route]:
    """Return the screens with this name, or else those whose names begin with it.

    A list that is typed with a name means the screen of that item.
    """
    if word in _BY_NAME:
        found = [_BY_NAME[word]]
    else:
        found = [row for name, row in _BY_NAME.items() if word and name.startswith(word) and not exactly]
    if has_subject:
        found = [_BY_NAME[row.one] if row.one else row for row in found]
    fitting = [row for row in found if bool(row.about) == has_subject]
    return list(dict.fromkeys(fitting or found))


def _fits(row: Route, subject: Sequence[str]) -> bool:
    return len(subject) <= len(row.about) and bool(subject) == bool(row.about)


def _usage(name: str, row: Route) -> str:
    return f"write it as :{' '.join((name, *(part.upper() for part in row.about)))}"


def _unknown(word: str) -> str:
    return f"there is no screen {quoted(word)}: known are {', '.join(row.name for row in ROUTES)}"


_LISTED = 6


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = len(found) - _LISTED
    return ", ".join([*found[:_LISTED], *([f"and {format_count(more)} more"] if more > 0 else [])])


def location_above(place: Location) -> Location | None:
    """Return the location that escape opens."""
    up = route_of(place).up
    return Location(up, place.about[: len(_BY_NAME[up].about)]) if up else None


def trail(place: Location) -> list[Location]:
    """Return the locations from the top down to this one."""
    found = [place]
    while (higher := location_above(found[0])) is not None:
        found.insert(0, higher)
    return found


def location_title(place: Location) -> str:
    """Return the breadcrumb of a location."""
    if place.page == "dlq":
        return "dead letters"
    is_whole = place.about and len(place.about) == len(route_of(place).about)
    return (place.about[-1] or place.page) if is_whole and place.page != "messages" else place.page


# --- keys that work on every screen ---

EVERYWHERE_KEYS: list[BindingType] = [
    key_binding("colon", "prompt_go", "Go", "go", show=True, display=":"),
    key_binding("question_mark,f1", "help", "Help", "help", show=True, display="?"),
    key_binding("escape", "up", "Up", "up", show=True, display="esc"),
    key_binding("left_square_bracket", "history(-1)", "Back", "back", display="["),
    key_binding("right_square_bracket", "history(1)", "Forward", "forward", display="]"),
    key_binding("r", "look", "Refresh", "refresh"),
    key_binding("p", "pause", "Pause", "pause"),
    key_binding("c", "copy", "Copy", "copy"),
    key_binding("u", "open('operations')", "What was changed; undo", "operations"),
    key_binding("C", "open('contexts')", "Contexts", "contexts"),
    key_binding("y", "copy_command", "Copy as command", "command"),
    key_binding("q", "quit", "Quit", "quit", show=True),
]
