"""SQL as people write it: what is a query, how it is written for Spark, and what is wrong with one.

DuckDB takes OFFSET for the beginning of a clause. Messages have a column of that name, so the word is quoted where no
clause can begin.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import pairwise

import duckdb

from goqueue.errors import GoQueueError, RequestInvalid, SqlFailed
from goqueue.quantities import quoted
from goqueue.spark.queries.tables import bare_hyphen, bare_topic, unknown_column, unknown_topic, without_quotes

Token = tuple[str, str]
"""The kind of a piece of a query, and its text."""

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>"(?:[^"]|"")*")
    |(?P<number>\d[\w.]*)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_BEGINS_CLAUSE = {"number", "text"}
_SIGNS_OF_CLAUSE = {"(", "$", "?"}

_HINT = "a query begins with SELECT, WITH, FROM, VALUES, DESCRIBE or SUMMARIZE"
_MEMORY_HINT = "read less at a time, or ask Spark: `goqueue spark-inspect sql`"
_MISSING_TABLE = re.compile(r"Table with name (.+?) does not exist", re.DOTALL)
_MISSING_COLUMN = re.compile(
    r'Referenced column "(?P<a>.+?)" not found|does not have a column named "(?P<b>.+?)"', re.DOTALL
)


def check_query(text: str, connection: duckdb.DuckDBPyConnection) -> str:
    """Return a query as DuckDB takes it, if it is one that only reads."""
    query = text.strip().rstrip(";").rstrip()
    if not query:
        raise RequestInvalid("the query is empty", hint=_HINT)
    written = _with_quoted_offsets(query)
    statements = connection.extract_statements(written)
    if len(statements) > 1:
        raise RequestInvalid(f"there are {len(statements)} queries", hint="ask one at a time")
    if not statements or statements[0].type != duckdb.StatementType.SELECT:
        raise RequestInvalid(f"{quoted(query.split(maxsplit=1)[0])} is no query: topics are only read", hint=_HINT)
    return written


def for_spark(query: str) -> str:
    """Return a query on one line, with its names in the quotes that Spark takes."""
    return "".join(_for_spark(kind, text) for kind, text in tokens(query)).strip("; ")


def _for_spark(kind: str, text: str) -> str:
    if kind == "blank":
        return " "
    plain = text[1:-1].replace('""', '"').replace("`", "``")
    return f"`{plain}`" if kind == "name" else text


def _with_quoted_offsets(query: str) -> str:
    found = list(tokens(query))
    solid = [number for number, (kind, _) in enumerate(found) if kind != "blank"]
    for number, following in pairwise([*solid, -1]):
        kind, text = found[following] if following >= 0 else ("", "")
        is_clause = kind in _BEGINS_CLAUSE or text in _SIGNS_OF_CLAUSE
        if found[number][1].lower() == "offset" and not is_clause:
            found[number] = ("name", '"offset"')
    return "".join(text for _, text in found)


def quote_columns(query: str, columns: Container[str]) -> str:
    """Return a query with double quotes around the words that are columns, except ORDER BY, GROUP BY and their like."""
    found = list(tokens(query))
    solid = [number for number, (kind, _) in enumerate(found) if kind != "blank"]
    for number, following in pairwise([*solid, -1]):
        kind, text = found[number]
        is_clause = following >= 0 and found[following][1].lower() == "by"
        if kind == "word" and text.lower() in columns and not is_clause:
            found[number] = ("name", f'"{text}"')
    return "".join(text for _, text in found)


def named_tables(query: str) -> set[str]:
    """Return what stands behind FROM and JOIN and may be tables, also in a query that is wrong."""
    found = [(kind, text) for kind, text in tokens(query) if kind != "blank"]
    behind = [one for (_, word), one in pairwise(found) if word.lower() in {"from", "join", ","}]
    return {text[1:-1].replace('""', '"') if kind == "name" else text for kind, text in behind}


def tokens(query: str) -> Iterator[Token]:
    for found in _TOKEN.finditer(query):
        yield found.lastgroup or "", found[0]


# --- refusals ---


def missing_table(error: duckdb.Error) -> str | None:
    """Return the table that a query names and that there is not."""
    found = _MISSING_TABLE.search(str(error)) if isinstance(error, duckdb.CatalogException) else None
    return found and found[1]


def describe_refusal(
    error: duckdb.Error, query: str, topics: Sequence[str], columns: Mapping[str, Sequence[str]]
) -> GoQueueError:
    """Return DuckDB's refusal as one sentence, with the place in the query as an excerpt."""
    text = str(error)
    found = _refusal(error, text, query, topics, columns)
    found.details["excerpt"] = _excerpt(text)
    return found


def _refusal(
    error: duckdb.Error, text: str, query: str, topics: Sequence[str], columns: Mapping[str, Sequence[str]]
) -> GoQueueError:
    if (topic := bare_topic(query, topics)) is not None:
        return without_quotes(topic, "", '"')
    if 'at or near "-"' in text and (bare := bare_hyphen(query)) is not None:
        return unknown_topic(bare, topics, quote='"')
    if (table := missing_table(error)) is not None:
        return unknown_topic(table, topics, quote='"')
    if (missing := _MISSING_COLUMN.search(text)) is not None:
        return unknown_column(missing["a"] or missing["b"], columns)
    sentence, hint = _sentence(text)
    if isinstance(error, duckdb.OutOfMemoryException):
        return SqlFailed("DuckDB ran out of memory", hint=_MEMORY_HINT)
    if isinstance(error, (duckdb.InternalException, duckdb.FatalException)):
        return SqlFailed(sentence, hint=hint)
    return RequestInvalid(sentence, hint=hint)


def _sentence(text: str) -> tuple[str, str | None]:
    """Return the first sentence, without the name of its class, and a suggestion that follows it."""
    first, *others = text.split("\n\nLINE ", maxsplit=1)[0].strip().splitlines()
    sentence = re.sub(r"^[A-Z]\w+(?: \w+)? Error: ", "", first).rstrip(".! ")
    guess = next((line.strip() for line in others if line.startswith("Did you mean")), None)
    return sentence[:1].lower() + sentence[1:], guess and guess[:1].lower() + guess[1:]


def _excerpt(text: str) -> list[str]:
    """Return the line of a query that an error is about, with a caret below its place."""
    found = re.search(r"^LINE \d+: (?P<line>.*)\n(?P<caret> *\^+)", text, re.MULTILINE)
    if found is None:
        return []
    skipped = len(found[0]) - len(found[0].split(": ", 1)[1])
    return [found["line"].replace("\t", " "), found["caret"][skipped:]]
