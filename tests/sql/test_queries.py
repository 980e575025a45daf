"""Topics as tables of DuckDB: what they show, what is read for a query, and what is refused."""

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from goqueue.errors import GoQueueError, QueryTooLarge, RangeDamaged, RequestInvalid, TopicNotFound
from goqueue.sql.engine import TopicQueries, directory_logs
from goqueue.sql.query import for_spark
from goqueue.sql.values import Row
from tests.spark import naive
from tests.spark.stock import Sent, Stock, damage

MESSAGES = 60


def order(number: int) -> Sent:
    value = {"order": number, "customer": f"c{number % 3}", "total": number * 1.5, "key": "mine", "tags": ["a"]}
    return Sent(json.dumps(value).encode(), f"c{number % 3}".encode())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders as JSON in two partitions; a topic of all shapes, whose name wants quotes; one without messages."""
    path = tmp_path_factory.mktemp("sql") / "data"
    with Stock(path, segment_bytes=2048) as stock:
        stock.create("orders", 2).create("all.kinds-1").create("empty").create("Twin").create("twin")
        for first in range(0, MESSAGES, 10):
            stock.append("orders", *map(order, range(first, first + 10)), partition=first // 10 % 2)
        stock.fill("all.kinds-1", 24)
    return path


@contextmanager
def asking(place: Path, **settings: Any) -> Iterator[TopicQueries]:
    with closing(TopicQueries(directory_logs(str(place)), **settings)) as queries:
        yield queries


def rows(place: Path, query: str, most: int | None = None, **settings: Any) -> list[Row]:
    with asking(place, **settings) as queries:
        return [row for batch in queries.answer(query, most, encode=bytes.hex).batches for row in batch]


def values(place: Path, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows(place, query)]


def test_a_star_shows_messages_as_a_naive_reader_finds_them(place: Path) -> None:
    found = rows(place, "SELECT * FROM all_kinds_1 ORDER BY offset")
    stored = naive.rows(place, "all.kinds-1")
    assert list(found[0]) == ["partition", "offset", "timestamp", "key", "value", "priority", "headers", "topic"]
    for row, one in zip(found, stored, strict=True):
        texts = [None if one[name] is None else one[name].decode(errors="replace") for name in ("key", "value")]
        assert [row["key"], row["value"]] == texts
        assert row["timestamp"] == one["timestamp"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        assert [row[name] for name in ("offset", "priority", "topic")] == [
            one[name] for name in ("offset", "priority", "topic")
        ]
        pairs = None if one["headers"] is None else [(pair["key"], pair["value"].hex()) for pair in one["headers"]]
        assert (row["headers"] and [tuple(pair.values()) for pair in row["headers"]]) == pairs


def test_raw_columns_have_the_bytes(place: Path) -> None:
    found = values(place, 'SELECT raw_key, raw_value FROM "all.kinds-1" ORDER BY offset')
    stored = naive.rows(place, "all.kinds-1")
    assert found == [
        tuple(None if one[name] is None else one[name].hex() for name in ("key", "value")) for one in stored
    ]


def test_fields_of_json_values_are_columns_with_types(place: Path) -> None:
    assert values(place, "SELECT customer, sum(total) FROM orders GROUP BY 1 ORDER BY 1") == [
        (f"c{one}", sum(number * 1.5 for number in range(one, MESSAGES, 3))) for one in range(3)
    ]
    types = {row["column_name"]: row["column_type"] for row in rows(place, "DESCRIBE orders")}
    assert list(types)[4:10] == ["value", "customer", "json_key", "order", "tags", "total"]
    assert [types[name] for name in ("order", "tags", "total", "json_key")] == [
        "BIGINT", "VARCHAR[]", "DOUBLE", "VARCHAR",
    ]  # fmt: skip
    assert values(place, 'SELECT "order", tags FROM orders WHERE "order" = 7') == [(7, ["a"])]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT order, tags FROM orders WHERE order = 7 ORDER BY order",
        'SELECT o.Order, tags FROM empty AS e RIGHT JOIN "orders" AS o ON true WHERE Order IN (7, -1) GROUP BY ALL',
        "SELECT sum(order), ['a'] AS tags FROM orders WHERE order=7 -- order",
    ],
)
def test_a_field_with_the_name_of_a_keyword_needs_no_quotes(place: Path, query: str) -> None:
    assert values(place, query) == [(7, ["a"])]


def test_a_query_that_quotes_do_not_mend_shows_its_own_place(place: Path) -> None:
    with pytest.raises(RequestInvalid) as caught:
        rows(place, "SELECT order FROM orders WHRE order = 7 LIMIT")
    assert caught.value.details["excerpt"][0] == "SELECT order FROM orders WHRE order = 7 LIMIT"


@pytest.mark.parametrize(("direction", "first"), [("", None), (" DESC", 2), (" NULLS LAST", 1)])
def test_nulls_are_sorted_as_spark_sorts_them(place: Path, direction: str, first: int | None) -> None:
    query = f"WITH k(key) AS (VALUES (1), (NULL), (2)) SELECT key FROM k ORDER BY key{direction}"  # noqa: S608
    assert values(place, query)[0] == (first,)


@pytest.mark.parametrize(
    ("query", "columns", "messages"),
    [
        ("SELECT count(*) FROM orders", {"partition"}, 60),
        ("SELECT key FROM (SELECT * FROM orders)", {"key"}, 60),
        ("SELECT max(total) FROM orders WHERE partition = 1", {"partition", "value"}, 30),
        ("SELECT priority FROM orders WHERE offset BETWEEN 5 AND 6 AND partition IN (0, 1)", None, 4),
        ("SELECT key FROM orders WHERE 5 > offset", {"offset", "key"}, 10),
        ("SELECT count(*) FROM orders a JOIN orders b ON a.offset = 1 AND b.offset = 3", None, 4),
        ("SELECT count(*) FROM orders WHERE offset < 3 OR partition = 0", None, 60),
        ("SELECT count(*) FROM orders WHERE (offset < 3 OR offset = 9) AND partition < 1", None, 10),
        ("SELECT count(*) FROM orders WHERE key = 'offset < 3'", {"partition", "offset", "key"}, 60),
        ("SELECT count(*) FROM orders WHERE timestamp < '1999-01-01'", None, 0),
        ("WITH c AS (SELECT topic FROM orders) SELECT topic, count(*) FROM c GROUP BY 1", {"topic"}, 60),
        ("SELECT 1 AS one", set(), 0),
    ],
)
def test_only_what_a_query_needs_is_read(place: Path, query: str, columns: set[str] | None, messages: int) -> None:
    with asking(place) as queries:
        list(queries.answer(query, encode=bytes.hex).batches)
        scans = queries.reading.scans
        assert sum(scan.plan.messages for scan in scans) == messages
        assert columns is None or {name for scan in scans for name in scan.stored} == columns


def test_pruning_changes_no_result(place: Path) -> None:
    """Compare with the same queries over a table of all messages."""
    stored = [row for number in range(2) for row in naive.rows(place, "orders", number)]
    table = pa.Table.from_pylist(
        [{name: row[name] for name in ("partition", "offset", "timestamp", "key")} for row in stored]
    )
    chance = random.Random(11)
    with duckdb.connect() as naive_engine, asking(place) as queries:
        naive_engine.execute("SET TimeZone = 'UTC'")
        naive_engine.register("orders", table)
        pruned = 0
        for _ in range(150):
            where = condition(chance, [row["timestamp"] for row in stored])
            query = f'SELECT count(*), sum("offset"), min(key) FROM orders WHERE {where}'  # noqa: S608 - ours
            (found,) = [tuple(row.values()) for one in queries.answer(query, encode=bytes.hex).batches for row in one]
            count, total, least = naive_engine.sql(query).fetchall()[0]
            assert found == (count, total, least and least.decode()), where
            pruned += queries.reading.scans[-1].plan.messages < MESSAGES
    assert pruned > 50


def condition(chance: random.Random, times: list[datetime], depth: int = 0) -> str:
    if depth < 3 and chance.random() < 0.6:
        parts = [condition(chance, times, depth + 1) for _ in range(2)]
        return f"{'NOT ' if chance.random() < 0.2 else ''}({parts[0]} {chance.choice(['AND', 'OR'])} {parts[1]})"
    sign = chance.choice(["<", "<=", "=", ">=", ">", "<>"])
    match chance.randrange(5):
        case 0:
            return f"partition {sign} {chance.randrange(-1, 3)}"
        case 1:
            return f'"offset" IN ({chance.randrange(40)}, {chance.randrange(40)})'
        case 2:
            return f"timestamp {sign} TIMESTAMPTZ '{chance.choice(times).isoformat()}'"
        case 3:
            return f'"offset" + 1 {sign} {chance.randrange(40)}'
    return f'{chance.randrange(-2, 40)} {sign} "offset"'


def test_a_query_above_the_limit_is_refused_before_it_reads(place: Path) -> None:
    with asking(place, limit=59) as queries:
        with pytest.raises(QueryTooLarge, match="reads 60 messages; the limit is 59"):
            list(queries.answer("SELECT count(*) FROM orders", encode=bytes.hex).batches)
        assert queries.reading.read == 0
    assert rows(place, "SELECT count(*) AS n FROM orders WHERE partition = 1", limit=59) == [{"n": 30}]


def test_a_query_that_ends_early_counts_what_it_reads(place: Path) -> None:
    assert len(rows(place, "SELECT key FROM orders LIMIT 3", limit=30)) == 3
    assert len(rows(place, "SELECT key, total FROM orders WHERE total > 3", 3, limit=30)) == 3
    with pytest.raises(QueryTooLarge, match="has read 40 messages, and needs more"):
        rows(place, "SELECT key FROM orders WHERE key = 'none' LIMIT 3", limit=40)
    with pytest.raises(QueryTooLarge, match="reads 60 messages"):
        rows(place, "SELECT key FROM orders ORDER BY total LIMIT 3", limit=59)


@pytest.mark.parametrize(
    ("query", "kind", "sentence", "hint"),
    [
        ("SELECT * FROM ordres", TopicNotFound, "there is no topic 'ordres'", "did you mean orders?"),
        (
            "SELECT * FROM all.kinds-1",
            RequestInvalid,
            "topic all.kinds-1 is written without",
            'as all_kinds_1 or "all.k',
        ),
        ("SELECT * FROM twin", RequestInvalid, "cannot tell apart", None),
        (
            "SELECT custmer FROM orders",
            RequestInvalid,
            "there is no column 'custmer'",
            "did you mean customer? orders has partition, offset, timestamp, key, value, customer, json_key, order,",
        ),
        ("SELECT o.nope FROM orders o", RequestInvalid, "there is no column 'nope'", "orders has partition, offset"),
        ("SELEC 1", RequestInvalid, 'syntax error at or near "SELEC"', None),
        ("SELECT nosuch(1)", RequestInvalid, "(?i)function with name nosuch does not exist", None),
        ("SELECT 'a'::INT", RequestInvalid, "(?i)could not convert string 'a' to INT32", None),
        ("", RequestInvalid, "the query is empty", "begins with SELECT"),
        ("-- nothing", RequestInvalid, "is no query", None),
        ("SELECT 1; SELECT 2", RequestInvalid, "there are 2 queries", "one at a time"),
        ("DROP TABLE orders", RequestInvalid, "'DROP' is no query: topics are only read", None),
        ("COPY (SELECT 1) TO '/dev/null'", RequestInvalid, "'COPY' is no query", None),
        ("SET threads = 1", RequestInvalid, "'SET' is no query", None),
        ("SELECT * FROM read_csv('/etc/passwd')", RequestInvalid, "file system operations are disabled", None),
        ("SELECT * FROM place", TopicNotFound, "there is no topic 'place'", None),
    ],
)
def test_a_wrong_query_is_told_in_a_sentence(
    place: Path, query: str, kind: type[GoQueueError], sentence: str, hint: str | None
) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        rows(place, query)
    assert "\n" not in caught.value.sentence
    assert hint is None or hint in (caught.value.hint or "")


def test_an_error_shows_its_place_in_the_query(place: Path) -> None:
    with pytest.raises(RequestInvalid) as caught:
        rows(place, "SELECT key\nFROM orders\nWHRE offset < 3")
    line, caret = caught.value.details["excerpt"]
    assert (line, line[caret.index("^") :][:6]) == ('WHRE "offset" < 3', '"offse')


@pytest.mark.parametrize(
    "query",
    [
        "SELECT offset FROM orders WHERE offset < 3 AND partition = 0 ORDER BY offset",
        "SELECT o.offset AS offset FROM orders AS o WHERE o.offset IN (0, 1, 2) AND partition = 0 ORDER BY 1",
        "SELECT offset, 'an offset' FROM orders WHERE partition = 0 ORDER BY offset LIMIT 3 OFFSET 0",
        'SELECT "offset" -- offset\nFROM ORDERS WHERE partition = 0 ORDER BY "offset" LIMIT 3 OFFSET (0)',
    ],
)
def test_offset_is_a_column_where_no_clause_can_begin(place: Path, query: str) -> None:
    assert [row[0] for row in values(place, query)] == [0, 1, 2]


def test_a_topic_is_found_in_any_case_and_twice(place: Path) -> None:
    query = "SELECT (SELECT count(*) FROM Orders) + (SELECT count(*) FROM orders) AS n"
    assert values(place, query) == [(2 * MESSAGES,)]
    assert values(place, "SELECT count(*), max(offset) FROM empty") == [(0, None)]


def test_damage_ends_a_query_unless_it_is_skipped(place: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(place, tmp_path / "copy"))
    stored = naive.rows(copy, "orders")
    damage(copy, stored[4])
    query = "SELECT offset FROM orders WHERE partition = 0 ORDER BY offset"
    with pytest.raises(RangeDamaged):
        values(copy, query)
    assert [row["offset"] for row in rows(copy, query, skips_damage=True)] == [
        row["offset"] for row in stored if row != stored[4]
    ]


def test_values_are_as_json_has_them(place: Path) -> None:
    query = """SELECT 1::HUGEINT AS a, 2.5::DECIMAL(4, 2) AS b, DATE '2026-01-02' AS c,
        TIMESTAMP '2026-01-02 03:04:05' AS d,
        'nan'::DOUBLE AS e, {'x': TIMESTAMPTZ '2026-01-02 03:04:05+01', 'y': [1, NULL]} AS f, MAP {'k': 1} AS g,
        '\\xFF'::BLOB AS h, true AS i, NULL AS j, INTERVAL 1 DAY AS k,
        1 AS a, TIMESTAMP_NS '2026-01-02 03:04:05' AS l"""
    ((row),) = rows(place, query)
    assert {name: row[name] for name in row if name != "k"} == {
        "a": 1, "b": 2.5, "c": "2026-01-02", "d": "2026-01-02T03:04:05.000000", "e": "nan",
        "f": {"x": "2026-01-02T02:04:05.000000Z", "y": [1, None]}, "g": {"k": 1}, "h": "ff", "i": True, "j": None,
        "a_2": 1, "l": "2026-01-02T03:04:05.000000",
    }  # fmt: skip
    json.dumps(row)


def test_a_query_is_written_for_spark_with_its_names_in_backquotes() -> None:
    query = """SELECT "a""b", '"c"', offset FROM "svc-orders" -- "d"\nWHERE "x`y" = 1;"""
    assert for_spark(query) == """SELECT `a"b`, '"c"', offset FROM `svc-orders`   WHERE `x``y` = 1"""
