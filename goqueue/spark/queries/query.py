"""SQL as people write it: what is a query, and what is wrong with one that Spark refuses.

A query only reads. What would change something is refused, before Spark is started where its first word tells.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.quantities import quoted
from goqueue.spark.queries.tables import bare_hyphen, bare_topic, unknown_column, unknown_topic, without_quotes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "DESCRIBE", "DESC")
_BLANK = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_DESCRIPTIONS = {"DescribeRelation", "DescribeColumn", "DescribeQueryCommand"}
_ACTIVE = {"ScriptTransformation", "CompoundBody", "UnresolvedExecuteImmediate"}
_HINT = "a query begins with SELECT, WITH, FROM, VALUES, TABLE or DESCRIBE"
_LOGGER = "SQLQueryContextLogger"  # pyspark writes each refused query to stderr, with the stack of the JVM


def check_query(text: str) -> str:
    """Return the query without semicolons at its end, if it begins with the first word of a query."""
    query = text.strip().rstrip(";").rstrip()
    beginning = _BLANK.match(query)
    rest = query[beginning.end() if beginning else 0 :]
    word = re.match(r"\w*", rest)
    if not rest:
        raise RequestInvalid("the query is empty", hint=_HINT)
    if word is None or word[0].upper() not in FIRST_WORDS:
        raise RequestInvalid(f"{quoted(rest.split(maxsplit=1)[0])} does not begin a query", hint=_HINT)
    return query


def check_reads_only(spark: "SparkSession", query: str) -> None:
    """Refuse what a first word does not tell, such as `WITH … INSERT INTO …`."""
    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None:  # a Connect server parses where it runs
        return
    command = session.getClass().getClassLoader().loadClass("org.apache.spark.sql.catalyst.plans.logical.Command")
    for node in _nodes(session.sessionState().sqlParser().parsePlan(query)):
        name = node.getClass().getSimpleName()
        if name in _ACTIVE or (name not in _DESCRIPTIONS and (command.isInstance(node) or "Insert" in name)):
            raise RequestInvalid(f"{name} is no query: logs are only read here", hint=_HINT)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The query, topics and columns that an error can name."""

    query: str = ""
    topics: Sequence[str] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of each topic that the query names, as far as they are known."""


UNKNOWN = QueryContext()


@contextmanager
def translated_refusals(known: QueryContext = UNKNOWN) -> Iterator[None]:
    """Raise Spark's refusal of a query as one sentence with its position, and a suggestion."""
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - not before Spark starts
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    logger = PySparkLogger.getLogger(_LOGGER)  # the first call with a name decides the class of its logger
    was, logger.disabled = logger.disabled, True
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise describe_refusal(error, known) from None
    finally:
        logger.disabled = was


def describe_refusal(error: Any, known: QueryContext = UNKNOWN) -> GoQueueError:
    condition, told = error.getCondition() or "", error.getMessageParameters() or {}
    position = _position(str(error))
    if (name := missing_relation(error)) is not None:
        return unknown_topic(".".join(name), known.topics, position)
    if condition.startswith("UNRESOLVED_COLUMN"):
        proposals = told.get("proposal", "").replace("`", "")
        column = told.get("objectName", "").replace("`", "")
        return unknown_column(column, known.columns, position, proposals.split(", ") if proposals else ())
    if (topic := bare_topic(known.query, known.topics)) is not None:
        return without_quotes(topic, position, "`")
    if condition.startswith("INVALID_IDENTIFIER") and (bare := bare_hyphen(known.query)) is not None:
        return unknown_topic(bare, known.topics, position)
    return RequestInvalid(f"{_sentence(str(error))}{position}")


def missing_relation(error: Any) -> tuple[str, ...] | None:
    """Return the missing table that a query reads, in parts where dots separate them."""
    told = error.getMessageParameters() or {}
    match error.getCondition():
        case "TABLE_OR_VIEW_NOT_FOUND":
            name = told.get("relationName", "")
        case "REQUIRES_SINGLE_PART_NAMESPACE":
            name = told.get("identifier", "")
        case _:
            return None
    return tuple(part.replace("``", "`") for part in re.findall(r"`((?:[^`]|``)*)`", name)) or (str(name),)


def _position(text: str) -> str:
    found = re.search(r"\bline (\d+),? pos (\d+)", text)
    return f" (line {found[1]}, column {int(found[2]) + 1})" if found else ""


def _sentence(text: str) -> str:
    """Return Spark's first sentences, without its codes, the query and the plan."""
    head = re.split(r"\s*SQLSTATE|;?\s*\bline \d+,? pos|\n== SQL|;\n|\nJVM stack", text.strip(), maxsplit=1)[0]
    plain = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", head.strip())
    return " ".join(plain.split()).rstrip(". ")
