"""Every screen of the dashboard, one row each. To add one, add its row: nothing else needs to know."""

from typing import NamedTuple


class Place(NamedTuple):
    """A screen, and what it is about."""

    page: str
    about: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.page, *self.about))


class Row(NamedTuple):
    """`target` is `module:class`; `about` names what the screen is about, in the order it is typed.

    `up` is where escape leads: to the screen of that name, about as much of the same as it takes. Of a screen that is
    about nothing, `one` is the screen that is meant where something follows its name.
    """

    name: str
    target: str
    help: str
    about: tuple[str, ...] = ()
    up: str = ""
    key: str = ""
    one: str = ""
    aliases: tuple[str, ...] = ()


_SCREENS = "goqueue_admin.dashboard.screens"

PAGES = (
    Row("overview", f"{_SCREENS}.overview:OverviewPage", "What the broker does, and what is wrong.", key="f2"),
    Row("topics", f"{_SCREENS}.topics:TopicsPage", "All topics.", up="overview", key="f3"),
    Row(
        "topic",
        f"{_SCREENS}.partitions:PartitionsPage",
        "The partitions of a topic.",
        about=("topic",),
        up="topics",
        aliases=("partitions",),
    ),
    Row(
        "messages",
        f"{_SCREENS}.messages:MessagesPage",
        "The messages of a topic, as they come.",
        about=("topic", "partition"),
        up="topic",
        aliases=("tail",),
    ),
    Row("groups", f"{_SCREENS}.groups:GroupsPage", "All groups, and how far behind.", up="overview", key="f4"),
    Row("group", f"{_SCREENS}.group:GroupPage", "Members and lag of a group.", about=("group",), up="groups"),
    Row(
        "dlq",
        f"{_SCREENS}.dead_letters:DeadLettersPage",
        "Topics with dead letters.",
        up="overview",
        key="f5",
        aliases=("dead-letters",),
    ),
    Row("errors", f"{_SCREENS}.errors:ErrorsPage", "Why dead letters failed.", about=("topic",), up="dlq"),
    Row("letters", f"{_SCREENS}.letters:LettersPage", "Dead letters.", about=("topic", "error"), up="errors"),
    Row(
        "delayed",
        f"{_SCREENS}.delayed:DelayedPage",
        "What is to be delivered later, in all topics.",
        up="overview",
        key="f7",
        one="schedule",
    ),
    Row("schedule", f"{_SCREENS}.schedule:SchedulePage", "The delayed messages of a topic.", ("topic",), "delayed"),
    Row(
        "transactions",
        f"{_SCREENS}.transactions:TransactionsPage",
        "Open transactions, and what waits for them.",
        up="overview",
        key="f8",
        one="transaction",
    ),
    Row(
        "transaction",
        f"{_SCREENS}.transaction:TransactionPage",
        "One transaction in full.",
        about=("id",),
        up="transactions",
    ),
    Row("rebalances", f"{_SCREENS}.rebalances:RebalancesPage", "How groups were rebalanced.", up="overview", key="f6"),
)
HOME = Place("overview")

_BY_NAME = {name: row for row in PAGES for name in (row.name, *row.aliases)}


def row_of(place: Place) -> Row:
    return _BY_NAME[place.page]


def parse(text: str) -> Place | None:
    """`topic orders`, as it is typed behind the colon. What may be left out is the last word, and not the first."""
    words = text.split()
    row = _BY_NAME.get(words[0].lower()) if words else None
    if row is not None and row.one and len(words) > 1:
        row = _BY_NAME[row.one]
    if row is None or len(words) - 1 > len(row.about) or (row.about and len(words) == 1):
        return None
    return Place(row.name, tuple(words[1:]))


def usage(text: str) -> str:
    """What is wrong with a text that is no place."""
    words = text.split()
    row = _BY_NAME.get(words[0].lower()) if words else None
    if row is None:
        known = ", ".join(one.name for one in PAGES)
        return f"there is no screen {words[0] if words else ''!r}: known are {known}"
    about = _BY_NAME[row.one].about if row.one else row.about
    return f"write it as :{' '.join((row.name, *(part.upper() for part in about)))}"


def above(place: Place) -> Place | None:
    """Where escape leads."""
    up = row_of(place).up
    return Place(up, place.about[: len(_BY_NAME[up].about)]) if up else None


def trail(place: Place) -> list[Place]:
    """From the top down to a place."""
    found = [place]
    while (higher := above(found[0])) is not None:
        found.insert(0, higher)
    return found


def title(place: Place) -> str:
    """A place as its crumb: what it is about, where it is about something."""
    if place.page == "dlq":
        return "dead letters"
    is_whole = place.about and len(place.about) == len(row_of(place).about)
    return (place.about[-1] or place.page) if is_whole and place.page != "messages" else place.page
