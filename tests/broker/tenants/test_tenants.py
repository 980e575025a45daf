"""Tenants on a disk that crashes: their lifecycle, and the deletion of all that belongs to one."""

from typing import Any

import pytest

from goqueue.broker.core.work import Work, run_work
from goqueue.broker.groups.records import Group
from goqueue.broker.schemas.records import SchemaContent
from goqueue.broker.tenants.administration import TenantAdministration
from goqueue.broker.tenants.naming import TenantNames, id_from_name
from goqueue.broker.tenants.records import (
    REACHED,
    TRANSITIONS,
    TenantDeleted,
    TenantLogRecord,
    TenantRecord,
    decode_tenant_record,
    encode_tenant_record,
)
from goqueue.errors import (
    GoQueueError,
    RequestInvalid,
    TenantBeingDeleted,
    TenantDisabled,
    TenantExists,
    TenantNotFound,
)
from goqueue.storage import frame
from tests.broker.brokers import KEEPS, Running, Told
from tests.broker.crashes import crash_points
from tests.broker.groupwork import GATHERED, Team


def _tenants(running: Running) -> TenantAdministration:
    assert running.broker.tenants is not None
    return running.broker.tenants


def _do(running: Running, work: Work[Any]) -> Any:
    return run_work(work, running.flush)


def _create(running: Running, tenant: str, **fields: Any) -> TenantRecord:
    record: TenantRecord = _do(running, _tenants(running).create(TenantRecord(id=tenant, name=tenant, **fields), "me"))
    return record


def _fill(running: Running, tenant: str) -> None:
    """Give a tenant a topic, a key, a transactional id and a subject."""
    names = TenantNames(tenant)
    running.create(names.full("orders"))
    _do(running, running.broker.security.create_key(f"key-{tenant}", ["admin"], None, "", None, tenant))
    _do(running, running.broker.transactions.of(names.full("t")).init(names.full("t"), 1000))
    content = SchemaContent(kind="AVRO", text='"string"')
    _do(running, running.broker.schemas.register(names.full("orders-value"), content))


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            TenantRecord(id="a", name="A", metadata={"x": "y"}, status="suspended", quotas={"max_topics": 3}),
            '{"record":"tenant","id":"a","name":"A","metadata":{"x":"y"},"status":"suspended",'
            '"quotas":{"max_topics":3}}',
        ),
        (TenantDeleted("a"), '{"record":"tenant_deleted","id":"a"}'),
    ],
)
def test_record_has_the_documented_bytes(record: TenantLogRecord, text: str) -> None:
    message = frame.decode(encode_tenant_record(record), 0)
    assert (message.key, bytes(message.value).decode()) == (b"tenant:a", text)
    assert bool(message.flags & frame.TOMBSTONE) == isinstance(record, TenantDeleted)
    assert decode_tenant_record(message) == record


def test_id_is_made_from_the_name_and_has_no_dot() -> None:
    assert [id_from_name(name) for name in ("Team A", "  x.y ", "Ämter 7")] == ["team-a", "x-y", "mter-7"]
    with pytest.raises(RequestInvalid, match="no id can be made"):
        id_from_name("...")
    for wrong in ("a.b", "A", "-a", "a" * 64, "../a"):
        with pytest.raises(RequestInvalid, match="is not a valid id of a tenant"):
            _create(Running(has_tenants=True), wrong)


def test_every_action_leads_to_its_status_and_none_leads_out_of_deleting() -> None:
    for (status, action), after in TRANSITIONS.items():
        assert after == REACHED.get(action, "deleting")
        assert status != "deleting"
    running = Running(has_tenants=True)
    _create(running, "a")
    for action in ("suspend", "suspend", "disable", "activate", "activate"):
        assert _do(running, _tenants(running).set_status("a", action)).status == REACHED[action]
    deletion = _tenants(running).delete("a")
    next(deletion)
    with pytest.raises(TenantBeingDeleted):
        _do(running, _tenants(running).set_status("a", "activate"))
    with pytest.raises(TenantDisabled, match="is being deleted") as refusal:
        _tenants(running).admit("a", describes=True)
    assert "activate" not in (refusal.value.hint or "")


def test_names_in_use_become_a_tenants_only_on_request() -> None:
    running = Running(has_tenants=True)
    running.create("a.orders")
    with pytest.raises(TenantExists, match=r"names that begin with a\. are in use: 'a.orders'"):
        _create(running, "a")
    _do(running, _tenants(running).create(TenantRecord(id="a", name="a"), "", adopt=True))
    assert _tenants(running).contents("a").topics == ["a.orders"]


@pytest.mark.parametrize("keep", KEEPS)
def test_answered_changes_survive_a_crash_at_any_moment(keep: Any) -> None:
    for point in crash_points(every=3):
        running, answered = Running(has_tenants=True), [""]
        with point.during(running.disk):
            _create(running, "a", description="first")
            answered.append("active")
            for action in ("suspend", "disable", "activate"):
                _do(running, _tenants(running).set_status("a", action))
                answered.append(REACHED[action])
        found = _tenants(running.crash(keep)).state.tenants.get("a")
        status = "" if found is None else found.status
        expected = [
            answered[-1],
            *({"": ["active"], "active": ["suspended"]}.get(answered[-1], ["active", "disabled"])),
        ]
        assert status in expected


@pytest.mark.parametrize("keep", KEEPS)
def test_deletion_is_finished_after_a_crash_and_leaves_other_tenants_alone(keep: Any) -> None:
    for point in crash_points(every=5):
        running = Running(has_tenants=True)
        for tenant in ("a", "ab"):
            _create(running, tenant)
            _fill(running, tenant)
        with point.during(running.disk):
            _do(running, _tenants(running).delete("a"))
        again = running.crash(keep)
        is_begun = "a" not in _tenants(again).state.tenants or _tenants(again).tenant("a").status == "deleting"
        assert is_begun or not point.is_over
        _do(again, _tenants(again).resume())
        assert _tenants(again).contents("ab").topics == ["ab.orders"]
        assert len(_tenants(again).contents("ab").keys) == 1
        if is_begun:
            with pytest.raises(TenantNotFound):
                _tenants(again).tenant("a")
            _create(again, "a")  # nothing is left under its names
            assert _tenants(again).contents("a").keys == []
            assert len(again.broker.schemas.subjects_of("a")) == 1


@pytest.mark.parametrize("others", [0, 2])
def test_deletion_removes_members_that_are_joining_or_leaving(others: int) -> None:
    running = Running(has_tenants=True)
    _create(running, "a")
    running.create("a.orders")
    team = Team(running, "a.g")
    members = [team.join(f"other{number}", ["a.orders"]) for number in range(others)]
    left, joins = list[Told[GoQueueError | None]](), list[Told[tuple[str, Group]]]()

    def settle() -> None:
        if joins:
            team.due(GATHERED)
            return
        left.extend(team.ask_to_leave(member) for member in members[:1])
        joins.append(team.ask_to_join("new", ["a.orders"]))
        running.flush()  # now the tenant is being deleted

    run_work(_tenants(running).delete("a"), settle)
    team.due(60)
    assert [one.all for one in left] == [[None]] * len(members[:1])
    assert [str(refused) for refused in joins[0].all] == ["tenant 'a' is being deleted"]
    assert list(running.broker.groups.names()) == []
    assert _tenants(running).state.tenants == {}


def test_refused_write_leaves_the_tenant_as_it_was() -> None:
    running = Running(has_tenants=True)
    _create(running, "a")
    running.refuse_writes()
    with pytest.raises(GoQueueError):
        _do(running, _tenants(running).set_status("a", "suspend"))
    assert _tenants(running).tenant("a").status == "active"


def test_failed_deletion_is_reported_to_be_resumed() -> None:
    running, reported, settled = Running(has_tenants=True), list[str](), list[int]()
    _create(running, "a")
    _fill(running, "a")
    _tenants(running).on_interrupted.subscribe(lambda: reported.append("interrupted"))

    def settle() -> None:
        if settled:  # the first record says that it is being deleted
            running.refuse_writes()
        settled.append(1)
        running.flush()

    with pytest.raises(GoQueueError):
        run_work(_tenants(running).delete("a"), settle)
    assert (reported, _tenants(running).tenant("a").status) == (["interrupted"], "deleting")
    _do(running, _tenants(running).resume())
    assert _tenants(running).state.tenants == {}
    assert running.broker.topics.keys() & {"a.orders"} == set()


def test_lost_record_is_reported_and_the_other_tenants_stay() -> None:
    running = Running(has_tenants=True)
    for tenant in ("a", "b", "c"):
        _create(running, tenant)
    disk = running.disk
    (path,) = (one for one in disk.paths() if "__tenants" in one and one.endswith(".log"))
    content = disk.read_file(path)
    second = next(
        place for place in frame.walk(memoryview(content)) if frame.key_at(memoryview(content), place) == b"tenant:b"
    )
    for one in (path, path.replace(".log", ".copy")):
        disk.overwrite(one, second + 40, bytes(byte ^ 0xA5 for byte in content[second + 40 : second + 42]))
    again = running.crash("everything")
    (lost,) = again.broker.lost_records()
    assert (lost.log, lost.count) == ("__tenants/0", 1)
    assert sorted(_tenants(again).state.tenants) == ["a", "c"]
