"""Options of a call: their origin and precedence."""

from pathlib import Path
from typing import Any

import pytest

from goqueue.console.contexts import Context, Contexts, save
from goqueue.console.failure import UsageInvalid
from goqueue.console.options import DEFAULT_SERVER, OptionOrigin, ResolvedOptions, resolve_options
from goqueue.errors import ConfigInvalid


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "config.yaml")
    production = Context(server="http://prod:1", api_key="prod-key", timeout="1m", output="json", protected=True)
    save(Contexts(path, "local", {"local": Context(server="http://local:1"), "production": production}))
    return path


def chosen(path: str, flags: dict[str, Any] | None = None, **variables: str) -> ResolvedOptions:
    return resolve_options(flags or {}, {"GOQUEUE_CONFIG": path, **variables})


def test_options_have_defaults(tmp_path: Path) -> None:
    found = chosen(str(tmp_path / "none"))
    assert (found.server.value, found.timeout.value, found.output.value) == (DEFAULT_SERVER, "30s", "table")
    assert {found.context.kind, found.server.kind, found.output.kind} == {OptionOrigin.DEFAULT}
    assert found.api_key.value.read() is None
    assert not found.guard


def test_a_flag_beats_a_variable_beats_a_context_beats_the_default(path: str) -> None:
    in_context = chosen(path)
    assert (in_context.server.value, in_context.server.kind) == ("http://local:1", OptionOrigin.CONTEXT)
    assert in_context.server.name == "server of context local"
    by_variable = chosen(path, GOQUEUE_SERVER="http://variable:1")
    assert (by_variable.server.value, by_variable.server.name) == ("http://variable:1", "GOQUEUE_SERVER")
    by_flag = chosen(path, {"server": "http://flag:1"}, GOQUEUE_SERVER="http://variable:1")
    assert (by_flag.server.value, by_flag.server.name) == ("http://flag:1", "--server")


def test_the_context_itself_is_chosen_in_the_same_order(path: str) -> None:
    assert chosen(path).context.value == "local"
    assert chosen(path, GOQUEUE_CONTEXT="production").context.name == "GOQUEUE_CONTEXT"
    assert chosen(path, {"context": "local"}, GOQUEUE_CONTEXT="production").context.kind is OptionOrigin.FLAG
    production = chosen(path, {"context": "production"})
    assert (production.timeout.value, production.output.value, production.guard) == ("1m", "json", "production")


def test_an_empty_variable_is_none(path: str) -> None:
    found = chosen(path, GOQUEUE_SERVER="", GOQUEUE_CONTEXT="", GOQUEUE_TIMEOUT="", GOQUEUE_API_KEY="")
    assert (found.context.value, found.server.value, found.timeout.value) == ("local", "http://local:1", "30s")


def test_the_key_of_a_context_is_for_its_broker_alone(path: str) -> None:
    assert chosen(path, {"context": "production"}).api_key.value.read() == "prod-key"
    assert chosen(path, {"context": "production", "server": "http://prod:1"}).api_key.value.read() == "prod-key"
    assert chosen(path, {"context": "production", "server": "http://else:1"}).api_key.value.read() is None
    assert chosen(path, GOQUEUE_CONTEXT="production", GOQUEUE_SERVER="http://else:1").api_key.value.read() is None


def test_context_is_named_only_beside_its_own_broker(path: str) -> None:
    assert chosen(path).broker_context == "local"
    assert chosen(path, GOQUEUE_SERVER="http://local:1/").broker_context == "local"
    assert chosen(path, GOQUEUE_SERVER="http://else:1").broker_context is None
    assert chosen(path, {"context": "production", "server": "http://else:1"}).broker_context is None


def test_a_key_that_is_named_goes_where_it_is_told(path: str) -> None:
    flags = {"context": "production", "server": "http://else:1"}
    assert chosen(path, {**flags, "api_key": "k"}, GOQUEUE_API_KEY="v").api_key.value.read() == "k"
    assert chosen(path, flags, GOQUEUE_API_KEY="v").api_key.value.read() == "v"
    with pytest.raises(UsageInvalid, match="exclude each other"):
        chosen(path, {"api_key": "a", "api_key_file": "b"})


def test_a_context_that_a_flag_names_is_stronger_than_variables(path: str) -> None:
    variables = {"GOQUEUE_SERVER": "http://else:1", "GOQUEUE_TIMEOUT": "2m", "GOQUEUE_API_KEY": "v"}
    named = chosen(path, {"context": "production"}, **variables)
    assert (named.server.value, named.timeout.value) == ("http://prod:1", "1m")
    assert named.api_key.value.read() == "prod-key"
    by_variable = chosen(path, None, GOQUEUE_CONTEXT="production", **variables)
    assert (by_variable.server.value, by_variable.timeout.value) == ("http://else:1", "2m")
    assert chosen(path, {"context": "local"}, GOQUEUE_TIMEOUT="2m").timeout.value == "2m"


def test_the_broker_of_a_protected_context_is_protected_however_it_is_named(path: str) -> None:
    assert chosen(path).guard is None
    assert chosen(path, {"server": "http://prod:1"}).guard == "production"
    assert chosen(path, GOQUEUE_SERVER="http://prod:1").guard == "production"
    assert chosen(path, {"context": "production", "server": "http://else:1"}).guard == "production"


@pytest.mark.parametrize(
    ("kept", "named"),
    [
        ("http://prod:1", "prod:1"),
        ("prod:1", "http://prod:1/"),
        ("http://prod:1", "http://PROD.:1"),
        ("https://prod", "prod:443"),
        ("https://prod:443/queue", "https://prod/queue/"),
        ("localhost", "127.0.0.1:8080"),
        ("http://[::1]:8080", DEFAULT_SERVER),
    ],
)
def test_a_protected_broker_is_known_by_every_way_to_write_its_address(tmp_path: Path, kept: str, named: str) -> None:
    path = str(tmp_path / "config.yaml")
    contexts = {"broken": Context(server="ht!tp", protected=True), "production": Context(server=kept, protected=True)}
    save(Contexts(path, None, contexts))
    assert chosen(path, {"server": named}).guard == "production"
    assert chosen(path, {"server": "http://else:1"}).guard is None
    assert chosen(path, {"server": f"{named.rstrip('/')}/elsewhere"}).guard is None
    assert chosen(path, {"server": "ht!tp"}).guard is None


@pytest.mark.parametrize(
    ("flags", "variables", "said"),
    [
        ({"timeout": "soon"}, {}, "--timeout: 'soon' is not a duration"),
        ({}, {"GOQUEUE_TIMEOUT": "0"}, "GOQUEUE_TIMEOUT is 0, and must be above 0"),
        ({}, {"GOQUEUE_OUTPUT": "xml"}, "GOQUEUE_OUTPUT is 'xml'"),
    ],
)
def test_a_wrong_value_is_told_with_where_it_stands(
    path: str, flags: dict[str, str], variables: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageInvalid, match=said):
        chosen(path, flags, **variables)


def test_a_context_that_is_not_there_is_no_default(path: str) -> None:
    with pytest.raises(ConfigInvalid, match="there is no context 'prod'"):
        chosen(path, GOQUEUE_CONTEXT="prod")


def test_several_addresses_are_the_broker_of_a_context_if_it_has_them_all(path: str) -> None:
    cluster = Context(server="http://a:1,http://b:1", api_key="secret", protected=True)
    save(Contexts(path, "cluster", {"cluster": cluster}))
    one = chosen(path, {"server": ["http://b:1"]})
    assert (one.server.value, one.guard, one.broker_context) == ("http://b:1", "cluster", "cluster")
    assert one.api_key.value.read() == "secret"
    other = chosen(path, {"server": ["http://b:1", "http://c:1"]})
    assert (other.server.value, other.guard, other.broker_context) == ("http://b:1,http://c:1", "cluster", None)
    assert other.api_key.value.read() is None
