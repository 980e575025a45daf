"""What can be asked of the broker, and what is known of the answers."""

from collections.abc import Mapping, Sequence
from operator import is_not
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.client.insight import GroupDetails


class Question(NamedTuple):
    """A call of `AsyncClient` by its name, with what it is given. Equal questions have one answer."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, (self.method, *self.arguments)))


def question(method: str, *arguments: Any, **options: Any) -> Question:
    return Question(method, arguments, tuple(sorted(options.items())))


STATS = question("stats")
HISTORY = question("history", 300)
DOCTOR = question("doctor")
VERSION = question("version")
TOPICS = question("topic_details")
GROUPS = question("group_details")
REBALANCES = question("rebalance_stats")
DELAYS = question("delay_stats")
TRANSACTIONS = question("transaction_stats")


class Link(NamedTuple):
    """How we stand with the broker."""

    state: Literal["asking", "here", "away"]
    since_ns: int
    retry_ns: int = 0
    """When it is asked again, if it is away."""
    reason: str = ""


class Answer(NamedTuple):
    """What the broker said, or why it would not, and what it said the time before."""

    value: Any
    before: Any
    error: GoQueueError | None
    at_ns: int


class Known:
    """The last answer to each question."""

    def __init__(self) -> None:
        self._answers: dict[Question, Answer] = {}
        self._joined: dict[str, tuple[Sequence[Any], Any]] = {}

    def take(self, asked: Question, value: Any, at_ns: int) -> None:
        last = self._answers.pop(asked, None)  # so that the oldest stands first
        self._answers[asked] = Answer(value, last.value if last else None, None, at_ns)

    def refuse(self, asked: Question, error: GoQueueError, at_ns: int) -> None:
        """What was known before is not so any more."""
        self._answers[asked] = Answer(None, None, error, at_ns)

    def get(self, asked: Question) -> Any:
        """The value, or None where there is none (yet)."""
        answer = self._answers.get(asked)
        return answer.value if answer else None

    def before(self, asked: Question) -> Any:
        answer = self._answers.get(asked)
        return answer.before if answer else None

    def error(self, asked: Question) -> GoQueueError | None:
        answer = self._answers.get(asked)
        return answer.error if answer else None

    def at_ns(self, asked: Question) -> int:
        """When it was answered; 0 where it was not."""
        answer = self._answers.get(asked)
        return answer.at_ns if answer else 0

    def facts(self, asked: Question) -> Mapping[str, Any]:
        """An answer that is an object; an empty one where there is none yet."""
        value = self.get(asked)
        return value if isinstance(value, dict) else {}

    def joined(self, name: str, pages: Sequence[Any]) -> Any:
        """The pages of a long answer as one: the same list for the same pages. None as long as there is no page."""
        held, whole = self._joined.get(name, ((), None))
        if len(held) != len(pages) or any(map(is_not, held, pages)):
            there = [page for page in pages if page is not None]
            whole = there[0] if len(there) == 1 else [one for page in there for one in page] or None
            self._joined[name] = (pages, whole)
        return whole

    def keep(self, wanted: int = 200) -> None:
        """Forget the oldest answers beyond a number: screens that were left long ago."""
        for asked in list(self._answers)[: max(0, len(self._answers) - wanted)]:
            del self._answers[asked]


_GROUPS_AT_ONCE = 1_000
_GROUP_PAGES_MAX = 10


def groups_of(known: Known) -> "list[GroupDetails] | None":
    """All that is known of the list; None as long as that is nothing."""
    joined: list[GroupDetails] | None = known.joined("now", [known.get(asked) for asked in all_groups(known)])
    return joined


def groups_before(known: Known) -> "list[GroupDetails] | None":
    """The same as it was an answer ago."""
    joined: list[GroupDetails] | None = known.joined("before", [known.before(asked) for asked in all_groups(known)])
    return joined


def all_groups(known: Known) -> list[Question]:
    """The list of groups, and what follows a page that is full."""
    asked = [GROUPS]
    page = known.get(GROUPS)
    while page and len(page) >= _GROUPS_AT_ONCE and len(asked) < _GROUP_PAGES_MAX:
        asked.append(question("group_details", _GROUPS_AT_ONCE, page[-1].group_id))
        page = known.get(asked[-1])
    return asked
