"""Schemas are listed, compared, changed and deleted in the dashboard, with a real broker."""

import json
from pathlib import Path

import pytest

from goqueue.client import Client, SchemaReferenceInfo
from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.widgets.text_pane import TextPane
from tests.api.keys import secured
from tests.tui.pilots import press, see, see_page, shown, table, text, until


def _order(**fields: str) -> str:
    told = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Order", "fields": told})


ORDERS = Location("schema", ("orders-value",))


async def test_versions_are_compared_deleted_and_registered_again(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        client.create_topic("orders", value_validation="payload")
        client.set_schema_config("orders-value", compatibility="NONE")
        client.register_schema("orders-value", _order(id="long", customer="string"))
        client.register_schema("orders-value", _order(id="string"))
        client.set_schema_config("orders-value", compatibility="FORWARD")
        line = '{"type":"record","name":"Line","fields":[{"name":"order","type":"Order"}]}'
        client.register_schema("lines-value", line, references=[SchemaReferenceInfo("Order", "orders-value", 1)])
        async with shown(broker.url, Location("schemas"), size=(150, 40)) as pilot:
            await see(pilot, "orders-value", "lines-value", "FORWARD", "2 subjects", "BACKWARD for all")
            await press(pilot, "slash", *"ord", "enter", "enter")
            await see_page(pilot, "schema")
            await see(
                pilot,
                "version 2 · id 2 · AVRO",
                '"type": "string"}',
                "orders topic by its name",
                "payload checked on publish",
            )
            await press(pilot, "d")
            await see(pilot, "version 1 → 2", "◆ FORWARD: version 2 may not follow version 1", "#/customer")
            await see(pilot, '-    {"name": "id", "type": "long"}', '+    {"name": "id", "type": "string"}')
            await press(pilot, "d", "down")
            await see(pilot, "version 1 · id 1 · AVRO", "referred to by version 1 of lines-value")
            await press(pilot, "x")
            await see(pilot, "version 1 of lines-value refers to version 1: delete that first", "(y)")
            await press(pilot, "y")
            await see(pilot, "references exist")
            await press(pilot, "escape", "up", "x")
            await see(pilot, "delete version 2 of orders-value softly? (y)", "registering a schema again")
            await press(pilot, "y")
            await see(pilot, "version 2 is deleted")
            assert client.schema_versions("orders-value") == [1]
            await press(pilot, "escape")
            await until(pilot, lambda: table(pilot.app).records[1].deleted)
            await press(pilot, "e", *["backspace"] * len("forward"), *"bakward", "enter")
            await see(pilot, "did you mean backward?")
            await press(pilot, *["backspace"] * len("bakward"), *"none", "enter")
            await see(pilot, "FORWARD → NONE", "any schema can be registered", "(y)")
            await press(pilot, "y")
            await see(pilot, "orders-value: the level is NONE")
            await press(pilot, "escape", "a")
            await see(pilot, "register version 2 again? (y)")
            await press(pilot, "y")
            await see(pilot, "it is version 3, id 2")
            await press(pilot, "escape")
            await until(pilot, lambda: any(one.version == 3 for one in table(pilot.app).records))
            await press(pilot, "home", "d")
            await see(pilot, "○ NONE: versions of this subject are not compared")
            broker.stop()
            await see(pilot, "broker is away since", "version 1 → 3")


async def test_subjects_are_deleted_and_given_levels_together(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        for name in ("a-value", "b-value"):
            client.register_schema(name, _order(id="long"))
        async with shown(broker.url, Location("schemas"), size=(80, 24)) as pilot:
            await until(pilot, lambda: len(table(pilot.app).records) == 2)
            await press(pilot, "space", "space", "e", *"full", "enter")
            await see(pilot, "set the level of 2 subjects to FULL? (y)")
            await press(pilot, "y")
            await see(pilot, "b-value: the level is FULL")
            await press(pilot, "escape", "E", *"forward_transitive", "enter")
            await see(pilot, "all subjects without a level", "(y)")
            await press(pilot, "y")
            await see(pilot, "all subjects: the level is FORWARD_TRANSITIVE")
            assert client.schema_config("a-value").compatibility_level == "FULL"
            assert client.schema_config().compatibility_level == "FORWARD_TRANSITIVE"
            await press(pilot, "escape", "x")
            await see(pilot, "1 version, id 1", "delete 2 subjects softly? (y)")
            await press(pilot, "y")
            await see(pilot, "b-value is deleted")
            await press(pilot, "escape")
            await see(pilot, "There are no schemas.")
            await press(pilot, "v")
            await see(pilot, "with deleted ones", "2 deleted")
            assert client.subjects() == []


async def test_key_that_may_only_describe_sees_versions_without_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secured(tmp_path) as broker:
        broker.do("POST", "/subjects/orders-value/versions", {"schema": _order(id="long")})
        rule = {"kind": "subject", "pattern": "orders-value", "actions": ["describe"]}
        monkeypatch.setenv("GOQUEUE_API_KEY", broker.new_key("reader", rules=[rule]))
        async with shown(broker.url, ORDERS, size=(80, 24)) as pilot:
            await see(pilot, "BACKWARD for all subjects", "may not read subject")
            assert '"type"' not in text(pilot.app)
            await press(pilot, "x")
            await see(pilot, "(y)")
            await press(pilot, "y")
            await see(pilot, "may not delete subject")
            await press(pilot, "escape", "colon", *"schema refunds", "enter")
            await see(pilot, "refunds")
            await press(pilot, "tab")
            await until(pilot, lambda: isinstance(pilot.app.focused, TextPane | type(table(pilot.app))))
