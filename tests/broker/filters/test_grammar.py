"""Filters as people write them: what is understood, and what is said of the rest."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.filters.grammar import EXISTS, FIELDS, OPERATORS, parse_filters
from goqueue.errors import RequestInvalid
from goqueue.limits import FILTER_CHARACTERS_MAX, FILTER_INDEX_MAX, FILTER_STEPS_MAX, FILTERS_MAX


@pytest.mark.parametrize(
    ("text", "field", "path", "operator", "operand"),
    [
        ("key=customer-4", "key", (), "=", "customer-4"),
        ("key=", "key", (), "=", ""),
        ("key==a", "key", (), "=", "a"),
        ("json.total == 40", "json", ("total",), "=", 40),
        ("key = =a", "key", (), "=", "=a"),
        ("value ~ =a", "value", (), "~", "=a"),
        ("key!=", "key", (), "!=", ""),
        ("value~timeout", "value", (), "~", "timeout"),
        ("value!~time out", "value", (), "!~", "time out"),
        ("value^={", "value", (), "^=", "{"),
        ("value=a=b", "value", (), "=", "a=b"),
        ("value= a ", "value", (), "=", " a "),
        ("value = a ", "value", (), "=", "a"),
        ("value>=10", "value", (), ">=", 10),
        ("value>=ten", "value", (), ">=", "ten"),
        ('value>"a"', "value", (), ">", '"a"'),
        ("header.source=shop", "header", ("source",), "=", "shop"),
        ("header.dlq.error~timeout", "header", ("dlq.error",), "~", "timeout"),
        ('header."a=b"=c', "header", ("a=b",), "=", "c"),
        ("header.trace", "header", ("trace",), EXISTS, ""),
        ("header.x-count>3", "header", ("x-count",), ">", 3),
        ("json.order.total>40", "json", ("order", "total"), ">", 40),
        ("json.order.total > 40", "json", ("order", "total"), ">", 40),
        ("json.order.total>4.5e1", "json", ("order", "total"), ">", 45.0),
        ("json.lines[0].sku=7", "json", ("lines", 0, "sku"), "=", 7),
        ("json[2]", "json", (2,), EXISTS, ""),
        ('json."order.id"[1]', "json", ("order.id", 1), EXISTS, ""),
        (r'json."a\"b"=1', "json", ('a"b',), "=", 1),
        ("json.first name=Ann", "json", ("first name",), "=", "Ann"),
        ("json.paid=true", "json", ("paid",), "=", True),
        ("json.paid!=null", "json", ("paid",), "!=", None),
        ('json.code="7"', "json", ("code",), "=", "7"),
        ('json.code="7', "json", ("code",), "=", '"7'),
        ('json.code~"7"', "json", ("code",), "~", '"7"'),
        ("json.code~7", "json", ("code",), "~", "7"),
        ("json.code=007", "json", ("code",), "=", "007"),
        ("json.tags=[]", "json", ("tags",), "=", "[]"),
        ("json.at>=2026-03-01T12:00:00Z", "json", ("at",), ">=", "2026-03-01T12:00:00Z"),
        ('json.code>"7"', "json", ("code",), ">", "7"),
        ("priority<=1", "priority", (), "<=", 1),
        ("priority<=high", "priority", (), "<=", 1),
        ("priority=background", "priority", (), "=", 4),
    ],
)
def test_filter_is_parsed_into_field_operator_and_operand(
    text: str, field: str, path: Any, operator: str, operand: Any
) -> None:
    (found,) = parse_filters([text])
    assert (found.field, found.path, found.operator, found.operand) == (field, path, operator, operand)
    assert type(found.operand) is type(operand)
    assert str(found) == text


@pytest.mark.parametrize(
    ("text", "position", "said", "hint"),
    [
        ("", 0, "it is empty", "json.PATH"),
        ("kye=4", 0, "'kye' is not a field", "did you mean key?"),
        ("Key=4", 0, "'Key' is not a field", "did you mean key?"),
        ("headers.source=shop", 0, "'headers' is not a field", "did you mean header.NAME?"),
        ("priorty=1", 0, "'priorty' is not a field", "did you mean priority?"),
        ("=4", 0, "'=' is not a field", "fields are priority, key, header.NAME, value, json.PATH"),
        (" key=4", 0, "' ' is not a field", "fields are"),
        ("total>40", 0, "'total' is not a field", "fields are"),
        ("key", 3, "an operator is missing", "= != ~ !~ ^= <= >= < >"),
        ("key:4", 3, "':4' is not an operator", "operators of key are ="),
        ("key is 4", 4, "'is 4' is not an operator", "operators of key are ="),
        ("value.total>40", 5, "is not an operator", "json.total>40 looks into values"),
        ("value~", 6, "there is no text after ~", "write value~TEXT"),
        ("value ~  ", 7, "there is no text after ~", "write value~TEXT"),
        ("header=shop", 6, "the name of a header is missing", "header.source=shop"),
        ("header.=shop", 7, "a name is missing", "quotes"),
        ('header."x=1', 7, "a name is missing", "quotes"),
        (r'header."\q"=1', 7, "is not a quoted name", "JSON"),
        ("header.__producer", 7, "'__producer' is reserved for the broker", "cannot be filtered"),
        ("json>40", 4, "the path is missing", "json.order.total>40"),
        ("json.>40", 5, "a name is missing", "quotes"),
        ("json.a..b", 7, "a name is missing", "quotes"),
        ("json.a[-1]", 6, "the path is missing", "lines[0]"),
        ("json.a[x]", 6, "the path is missing", "lines[0]"),
        (f"json.a[{FILTER_INDEX_MAX + 1}]", 6, "too far in a list", ""),
        ("json.a<true", 7, "true has no order", "a number or with text"),
        ("json.a=1e999", 7, "is too large for a number", "quotes"),
        ("priority~1", 8, "~ is not an operator of priority", "operators of priority are = != <= >= < >"),
        ("priority", 8, "an operator is missing", "operators of priority"),
        ("priority=5", 9, "'5' is not a priority", "0 to 4, or critical, high, normal, low, background"),
        ("priority=hihg", 9, "'hihg' is not a priority", "did you mean high?"),
        ("priority=", 9, "'' is not a priority", "0 to 4"),
        ("key=\ud800", 4, "half of a surrogate pair", ""),
    ],
)
def test_invalid_filter_is_refused_with_its_position(text: str, position: int, said: str, hint: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_filters([text])
    error = refused.value
    assert said in str(error)
    assert f"at position {position}" in str(error)
    assert error.details["position"] == position
    assert hint in (error.hint or "")
    assert error.details["problems"][0]["place"] == "filter"


def test_filter_limits_are_inclusive() -> None:
    longest = "value~" + "x" * (FILTER_CHARACTERS_MAX - 6)
    assert parse_filters([longest])[0].operand
    assert len(parse_filters(["json" + ".a" * FILTER_STEPS_MAX])[0].path) == FILTER_STEPS_MAX
    assert len(parse_filters(["key=a"] * FILTERS_MAX)) == FILTERS_MAX
    for texts in ([longest + "x"], ["json" + ".a" * (FILTER_STEPS_MAX + 1)], ["key=a"] * (FILTERS_MAX + 1)):
        with pytest.raises(RequestInvalid, match="at most"):
            parse_filters(texts)


FIELD_WORDS = st.sampled_from([*FIELDS, "header.a", "json.a", "json[0]", 'json."', "x"])


@given(st.one_of(st.text(), st.builds("{}{}{}".format, FIELD_WORDS, st.sampled_from([*OPERATORS, ""]), st.text())))
def test_arbitrary_text_is_parsed_or_refused(text: str) -> None:
    try:
        (found,) = parse_filters([text])
    except RequestInvalid as error:
        position = error.details["position"]
    else:
        position = 0
        assert found.operator in FIELDS[found.field].operators
    assert 0 <= position <= len(text)
