"""SQL as people write it: what is a query, and what is wrong with one that Spark refuses.

A query only reads. What would change something is refused, before Spark is started where its first word tells.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from goqueue.config.problem import nearest
from goqueue.errors import GoQueueError, RequestInvalid, TopicNotFound
from goqueue.quantities import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "DESCRIBE", "DESC")
_BLANK = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_DESCRIPTIONS = {"DescribeRelation", "DescribeColumn", "DescribeQueryCommand"}
_ACTIVE = {"ScriptTransformation", "CompoundBody", "UnresolvedExecuteImmediate"}
_HINT = "a query begins with SELECT, WITH, FROM, VALUES, TABLE or DESCRIBE"
_LOGGER = "SQLQueryContextLogger"  # pyspark writes each refused query to stderr, with the stack of the JVM


def check_query(text: str) -> str:
    """The query without what may stand at its end, once its first word is that of one."""
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


@contextmanager
def explained(topics: Iterable[str] = ()) -> Iterator[None]:
    """Spark's refusal of a query, as one sentence that says where, and what was probably meant."""
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - not before Spark starts
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    logger = PySparkLogger.getLogger(_LOGGER)  # whoever names it first says what it is
    was, logger.disabled = logger.disabled, True
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise refusal(error, topics) from None
    finally:
        logger.disabled = was


def refusal(error: Any, topics: Iterable[str] = ()) -> GoQueueError:
    condition, told = error.getCondition() or "", error.getMessageParameters() or {}
    place = _place(str(error))
    if (name := missing_relation(error)) is not None:
        return unknown_topic(".".join(name), topics, place)
    if condition.startswith("UNRESOLVED_COLUMN"):
        proposals = told.get("proposal", "").replace("`", "")
        column = told.get("objectName", "").replace("`", "")
        guess = nearest(column, proposals.split(", ")) if proposals else None
        hint = f"did you mean {guess}?" if guess else f"there are {proposals}" if proposals else None
        return RequestInvalid(f"there is no column {quoted(column)}{place}", hint=hint)
    return RequestInvalid(f"{_sentence(str(error))}{place}")


def missing_relation(error: Any) -> tuple[str, ...] | None:
    """The table that a query names and nobody has: more than one part where dots stand between them."""
    told = error.getMessageParameters() or {}
    match error.getCondition():
        case "TABLE_OR_VIEW_NOT_FOUND":
            name = told.get("relationName", "")
        case "REQUIRES_SINGLE_PART_NAMESPACE":
            name = told.get("identifier", "")
        case _:
            return None
    return tuple(part.replace("``", "`") for part in re.findall(r"`((?:[^`]|``)*)`", name)) or (str(name),)


def unknown_topic(name: str, topics: Iterable[str], place: str = "") -> GoQueueError:
    known = [topic for topic in topics if not topic.startswith("__")]
    if name in known:  # it was written without quotes, so its dots were taken for those between names
        return RequestInvalid(f"topic {name} is written without quotes{place}", hint=f"write it as `{name}`")
    guess = nearest(name, known)
    listed = ", ".join(known[:5]) + (", …" if len(known) > 5 else "")
    hint = f"did you mean {guess}?" if guess else f"there are: {listed}" if known else None
    return TopicNotFound(f"there is no topic {quoted(name)}{place}", hint=hint)


def _place(text: str) -> str:
    found = re.search(r"\bline (\d+),? pos (\d+)", text)
    return f" (line {found[1]}, column {int(found[2]) + 1})" if found else ""


def _sentence(text: str) -> str:
    """Spark's first sentences, without its codes, the query and the plan."""
    head = re.split(r"\s*SQLSTATE|;?\s*\bline \d+,? pos|\n== SQL|;\n|\nJVM stack", text.strip(), maxsplit=1)[0]
    plain = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", head.strip())
    return " ".join(plain.split()).rstrip(". ")
