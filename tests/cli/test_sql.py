"""`goqueue-cli sql` against a real broker."""

import csv
import io
import json
import shlex
from pathlib import Path

import pytest
import yaml

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from tests.cli.programs import Done, cli, on_a_terminal, protecting

MESSAGES = 30


@pytest.fixture(scope="module")
def sales(module_broker: LocalBroker) -> LocalBroker:
    """Sales as JSON; a topic whose name wants quotes, with values that are no text; one without messages."""
    with Client(module_broker.url) as client:
        client.create_topic("sales", 2)
        client.create_topic("svc-invoices")
        client.create_topic("empty")
        for number in range(MESSAGES):
            value = json.dumps({"customer": f"c{number % 3}", "total": number / 2})
            client.publish("sales", value, f"c{number % 3}", partition=number % 2)
        client.publish("svc-invoices", b"\xff\xfe", "k")
    return module_broker


def sql(broker: LocalBroker, *words: str, given: str = "") -> Done:
    return cli(broker.url, "sql", *words, given=given)


def test_a_question_is_answered_with_a_table(sales: LocalBroker) -> None:
    done = sql(sales, "SELECT customer, count(*) AS n, sum(total) AS total FROM sales GROUP BY 1 ORDER BY 1")
    assert (done.code, done.err) == (0, "3 rows\n")
    assert [line.split() for line in done.out.splitlines()] == [
        ["CUSTOMER", "N", "TOTAL"], ["c0", "10", "67.5"], ["c1", "10", "72.5"], ["c2", "10", "77.5"],
    ]  # fmt: skip


def test_every_form_has_the_same_rows(sales: LocalBroker, tmp_path: Path) -> None:
    query = "SELECT offset, total, headers FROM sales WHERE partition = 0 AND offset < 2 ORDER BY offset"
    expected = [{"offset": 0, "total": 0.0, "headers": None}, {"offset": 1, "total": 1.0, "headers": None}]
    assert json.loads(sql(sales, query, "-o", "json").out) == expected
    assert [json.loads(line) for line in sql(sales, "-", "-o", "jsonl", given=query).out.splitlines()] == expected
    assert yaml.safe_load(sql(sales, query, "-o", "yaml").out) == expected
    (tmp_path / "query.sql").write_text(f"{query};\n")
    lines = list(csv.reader(io.StringIO(sql(sales, f"@{tmp_path}/query.sql", "-o", "csv").out)))
    assert lines == [["offset", "total", "headers"], ["0", "0.0", ""], ["1", "1.0", ""]]
    assert sql(sales, query, "-o", "name").out == "0\n1\n"


@pytest.mark.parametrize(("form", "text"), [("json", "[]\n"), ("yaml", "[]\n"), ("jsonl", ""), ("csv", "key\n")])
def test_a_result_without_rows_has_its_form(sales: LocalBroker, form: str, text: str) -> None:
    done = sql(sales, "SELECT key FROM empty", "-o", form)
    assert (done.code, done.out) == (0, text)


def test_bytes_are_base64_for_programs_and_readable_for_people(sales: LocalBroker) -> None:
    query = "SELECT raw_key, raw_value FROM svc_invoices"
    assert json.loads(sql(sales, query, "-o", "jsonl").out) == {"raw_key": "aw==", "raw_value": "//4="}
    assert sql(sales, query, "--no-headers").out.split() == ["k", "0xfffe"]


def test_a_table_is_cut_at_its_limit_and_says_so(sales: LocalBroker) -> None:
    done = sql(sales, "FROM sales", "--limit", "2")
    assert len(done.out.splitlines()) == 3
    assert done.err == "the first 2 rows; --limit shows more, -o jsonl and -o csv all of them\n"


def test_without_a_query_tables_and_their_fields_are_listed(sales: LocalBroker) -> None:
    done = sql(sales)
    assert [line.split(maxsplit=2) for line in done.out.splitlines()] == [
        ["TABLE", "MESSAGES", "FIELDS"], ["empty", "0"], ["sales", "30", "customer, total"], ["svc_invoices", "1"],
    ]  # fmt: skip
    assert done.err.startswith("each table also has partition, offset, timestamp, key, value,")
    (_, listed, _) = json.loads(sql(sales, "-o", "json").out)
    assert listed == {
        "name": "sales", "topic": "sales", "table": "sales", "messages": 30, "fields": ["customer", "total"],
    }  # fmt: skip


def test_above_the_limit_the_command_for_spark_is_printed(sales: LocalBroker, tmp_path: Path) -> None:
    query = """SELECT "key", count(*) FROM sales WHERE key <> '"' GROUP BY 1"""
    done = sql(sales, query, "--max-messages", "29", "--from", "0")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: the query reads 30 messages; the limit is 29\nhint: ask Spark, or read less: ")
    assert shlex.split(done.err.partition("less: ")[2]) == [
        "goqueue", "spark-inspect", "sql", "--url", sales.url, query.replace('"key"', "`key`"), "--from", "0",
    ]  # fmt: skip
    named = cli(
        "", "sql", "FROM sales", "--max-messages", "1", "-o", "csv", GOQUEUE_CONFIG=protecting(tmp_path, sales.url)
    )
    assert shlex.split(named.err.partition("less: ")[2])[3:] == ["--context", "production", "FROM sales"]


def test_a_range_of_places_is_read(sales: LocalBroker) -> None:
    query = "SELECT count(*) AS n FROM sales"
    assert sql(sales, query, "--from", "10", "--no-headers").out.split() == ["10"]
    assert sql(sales, query, "--to", "-1h", "--no-headers").out.split() == ["0"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT * FROM svc-invoices",
            "error: topic svc-invoices is written without quotes\n"
            "  SELECT * FROM svc-invoices\n"
            "                   ^\n"
            'hint: write it as svc_invoices or "svc-invoices"\n',
        ),
        ("SELECT * FROM sails", "error: there is no topic 'sails'\n"),
        ("SELECT * FROM svc-invoice", "error: there is no topic 'svc-invoice'\n"),
        ("SELECT * FROM svc-invoice", 'hint: did you mean "svc-invoices"?\n'),
        ("SELECT totl FROM sales", "hint: did you mean total? sales has partition, offset, timestamp, key, value, "),
        (
            "SELECT key FRM sales WHERE",
            'error: syntax error at or near "sales"\n  SELECT key FRM sales WHERE\n                 ^^^^^\n',
        ),
    ],
)
def test_a_wrong_query_is_told_with_its_place(sales: LocalBroker, query: str, said: str) -> None:
    done = sql(sales, query)
    assert done.out == ""
    assert said in done.err
    assert done.code in {2, 5}


def test_a_data_directory_is_read_without_its_broker(tmp_path: Path, closed_url: str) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker, Client(broker.url) as client:
        client.create_topic("sales", 1)
        client.publish("sales", '{"total": 7}')
    done = cli(closed_url, "sql", "SELECT total FROM sales", "--data", f"{tmp_path}/data", "-o", "csv")
    assert (done.code, done.out) == (0, "total\n7\n")
    refused = cli(closed_url, "sql", "SELECT 1")
    assert (refused.code, refused.out) == (3, "")
    assert refused.err.startswith("error: no broker answers at ")


def test_control_characters_are_escaped_on_a_terminal(sales: LocalBroker) -> None:
    assert "\\x1b[2J" in on_a_terminal(sales.url, "sql", "SELECT chr(27) || '[2J' AS a FROM svc_invoices").out
