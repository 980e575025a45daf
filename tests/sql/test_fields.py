"""Fields of JSON values and their types, from a sample."""

import json
from typing import Any

import pytest

from goqueue.sql.fields import FieldType, column_sql, infer_fields, structure


def inferred(*values: Any) -> dict[str, FieldType]:
    return infer_fields(json.dumps(value) for value in values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((1, 2), "BIGINT"),
        ((1, 2.5), "DOUBLE"),
        ((True, None), "BOOLEAN"),
        (("a", 1), "VARCHAR"),
        ((None, None), "VARCHAR"),
        ((2**63,), "DECIMAL(38,0)"),
        ((2**63, 1.5), "DOUBLE"),
        ((10**40,), "DOUBLE"),
        (([], [1], [2.5]), ["DOUBLE"]),
        (([1], "text"), "VARCHAR"),
        (({"b": 1}, {"a": True, "b": 2.5}), {"a": "BOOLEAN", "b": "DOUBLE"}),
        (([{"a": 1}], [{"b": None}]), [{"a": "BIGINT", "b": "VARCHAR"}]),
    ],
)
def test_a_field_has_the_narrowest_type_of_all_its_values(values: tuple[Any, ...], kind: FieldType) -> None:
    assert inferred(*({"field": value} for value in values)) == {"field": kind}


def test_fields_are_sorted_and_an_object_without_fields_is_none() -> None:
    assert inferred({"b": 1, "a": {}, "": 1}, {"c": [{}]}) == {"b": "BIGINT"}
    assert list(inferred({"b": 1}, {"a": 1})) == ["a", "b"]


def test_values_that_are_mostly_no_objects_have_no_fields() -> None:
    assert infer_fields([*(["{}"] * 8), *(["text"] * 2)]) == {}
    assert infer_fields([*(['{"a": 1}'] * 9), "text"]) == {"a": "BIGINT"}
    assert infer_fields(['{"a": 1}', '{"a": ', '{"b": ' + "[" * 10_000]) == {"a": "BIGINT"}
    assert infer_fields([]) == {}


def test_objects_whose_names_differ_in_case_stay_text() -> None:
    assert structure([{"a": "BIGINT", "A": "BIGINT"}]) == ["VARCHAR"]


def test_quotes_in_a_name_are_escaped() -> None:
    assert column_sql("it's", "BIGINT") == ("""struct_extract(json_transform(_json, '{"it''s": "BIGINT"}'), 'it''s')""")
