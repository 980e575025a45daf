"""`goqueue-admin rebalance`: how groups share their partitions, and what a rebalance waits for."""

import json
from collections.abc import Iterator

import pytest

from goqueue.testing.broker import LocalBroker
from tests.admin.programs import admin, running
from tests.api.members import Member
from tests.brokers import create


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the groups `billing`, of one member, and `empty`, which had one."""
    with LocalBroker(str(tmp_path_factory.mktemp("groups") / "data")) as local:
        create(local.url, "orders", partitions=3)
        Member(local.url, "billing", session_timeout="30m").join()
        Member(local.url, "empty").join().leave()
        yield local.url


def test_every_group_has_a_row_with_its_rebalances(url: str) -> None:
    done = admin(url, "rebalance", "list")
    assert (done.code, done.err) == (0, "")
    titles, *rows = done.out.splitlines()
    assert titles.split() == [
        "GROUP", "STATE", "REBALANCE", "MEMBERS", "GENERATION", "REBALANCES", "LAST", "TOOK", "AVERAGE", "REASONS",
    ]  # fmt: skip
    assert [row.split()[:4] for row in rows] == [
        ["billing", "stable", "complete", "1"],
        ["empty", "empty", "complete", "0"],
    ]
    assert rows[0].endswith("join=1")
    assert rows[1].endswith("join=1 leave=1")


def test_for_programs_the_numbers_are_as_they_are(url: str) -> None:
    billing, empty = json.loads(admin(url, "rebalance", "list", "-o", "json").out)
    assert (billing["name"], billing["state"], billing["total_rebalances"]) == ("billing", "stable", 1)
    assert billing["rebalances_by_reason"] == {"join": 1}
    assert empty["total_partitions_revoked"] == 3
    assert "FAILED" in admin(url, "rebalance", "list", "-o", "wide").out
    sorted_by = admin(url, "rebalance", "list", "-o", "name", "--sort-by", "total_rebalances:desc")
    assert sorted_by.out == "empty\nbilling\n"


def test_no_groups_are_an_empty_list(broker: LocalBroker) -> None:
    assert admin(broker.url, "rebalance", "list", "-o", "json").out == "[]\n"
    done = admin(broker.url, "rebalance", "list")
    assert (done.code, done.out, done.err) == (0, "", "there are no groups\n")


def test_a_group_is_described_by_who_has_what(url: str) -> None:
    done = admin(url, "rebalance", "describe", "billing")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "billing: stable, 1 member, generation 1, cooperative, sticky"
    assert lines[1:3] == ["  rebalance: complete", "  topics: orders"]
    assert lines[5].split() == ["MEMBER", "PARTITIONS", "HAS", "GIVES-UP"]
    assert lines[6].split()[1:] == ["3", "orders/0-2", "-"]


def test_what_is_to_be_given_up_is_shown_while_others_wait(broker: LocalBroker) -> None:
    create(broker.url, "orders", partitions=4)
    first = Member(broker.url, cooperative=True, session_timeout="30m").join()
    second = Member(broker.url, cooperative=True, session_timeout="30m").join()
    done = admin(broker.url, "rebalance", "describe", "billing")
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line.startswith("till-")}
    assert rows[first.id][:2] == ["4", "orders/0-3"]
    assert rows[first.id][2].startswith("orders/")
    assert rows[second.id] == ["0", "-", "-"]
    assert "rebalance: pending_revoke" in done.out
    (row,) = json.loads(admin(broker.url, "rebalance", "describe", "billing", "-o", "json").out)
    assert len(row["partitions_to_revoke"][first.id]) == 2


def test_several_groups_have_a_part_each_and_a_wrong_name_keeps_none_from_it(url: str) -> None:
    done = admin(url, "rebalance", "describe", "billing", "bilking", "empty")
    assert done.code == 1
    assert [line for line in done.out.splitlines() if ", generation " in line] == [
        "billing: stable, 1 member, generation 1, cooperative, sticky",
        "empty: empty, 0 members, generation 2, cooperative, sticky",
    ]
    assert "error: could not describe group bilking" in done.err
    assert "hint: did you mean billing?" in done.err


def test_a_group_that_is_not_there_ends_with_5(url: str) -> None:
    done = admin(url, "rebalance", "describe", "shipping")
    assert (done.code, done.out) == (5, "")
    assert "hint: `goqueue-admin rebalance list` shows the groups" in done.err


def test_watching_writes_a_line_for_each_change(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    Member(broker.url, session_timeout="30m").join()
    with running(broker.url, "rebalance", "watch", "--every", "100ms", "-o", "jsonl") as process:
        first = json.loads(process.stdout.readline())
        assert (first["event"], first["name"], first["members"]) == ("added", "billing", 1)
        Member(broker.url, session_timeout="30m").join()
        changed = (json.loads(line) for line in process.stdout)
        assert next(row for row in changed if row["members"] == 2)["event"] == "changed"
