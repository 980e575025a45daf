"""The `.proto` files beside the table of endpoints, the stubs, the tools of others, and what was released."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from docs.proto_stubs import MESSAGES, PROTO, generate
from goqueue import errors
from goqueue.api.http.error_responses import status_of
from goqueue.api.table import ENDPOINTS
from goqueue.rpc import status
from goqueue.rpc.endpoints import endpoints_of
from goqueue.rpc.methods import SPECIAL
from goqueue.rpc.stubs import services
from goqueue.rpc.transcoding import JSON_NAMES
from goqueue.testing.broker import LocalBroker
from tests.brokers import create, read

BUF = str(Path(sys.executable).parent / "buf")
RELEASED = Path(__file__).parent / "released.binpb"
ROWS = {f"{row.method} {row.path}": row for row in ENDPOINTS}
ELSEWHERE = {"DelayedService.RescheduleDelayed": {"headers", "value"}}
"""Fields of a message that several methods return, of which one has them."""
METHODS = {f"{service.name}.{method.name}": method for service in services() for method in service.methods}


def buf(*arguments: str, given: str | None = None) -> str:
    done = subprocess.run(
        [BUF, *arguments], cwd=PROTO, capture_output=True, text=True, timeout=60, input=given, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def names_of(kind: Any) -> set[str]:
    return set() if kind is None else {field.encode_name for field in msgspec.structs.fields(kind)}


def test_methods_name_endpoints_of_the_table_and_fields_that_they_have() -> None:
    for name, method in METHODS.items():
        named = endpoints_of(method)
        assert [one for one in named if one not in ROWS] == [], name
        assert named or name in {"AdminService.Call", "AdminService.ListEndpoints"}, name
        if name in SPECIAL:
            continue
        (row,) = (ROWS[one] for one in named)
        kind = row.query if row.method in {"GET", "DELETE"} else row.body
        asked = names_of(kind) | set(re.findall(r"{(\w+)}", row.path))
        fields = {JSON_NAMES.get(field.name, field.name) for field in method.input_type.fields}
        assert fields - asked <= {"settings"}, name
        if _is_struct(row.answer):
            answered = {JSON_NAMES.get(field.name, field.name) for field in method.output_type.fields}
            assert answered - names_of(row.answer) <= {"error"} | ELSEWHERE.get(name, set()), name


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def test_every_error_of_an_endpoint_has_a_status() -> None:
    kinds = {kind for row in ENDPOINTS for kind in row.errors}
    assert {status_of(kind) for kind in kinds} <= status.BY_STATUS.keys()
    codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "code")}
    assert (status.BY_CODE.keys() | status.CLASSES.keys()) - codes == set()


def test_stubs_are_those_of_the_files() -> None:
    assert {path.name: path.read_text() for path in MESSAGES.glob("*.py*")} == generate()


def test_files_keep_their_style_and_what_was_released() -> None:
    buf("lint")
    buf("breaking", "--against", str(RELEASED))


def test_broker_answers_a_client_that_knows_only_what_reflection_says(rpc_broker: LocalBroker, new_name: Any) -> None:
    topic, address = new_name("orders"), f"http://{rpc_broker.daemon.rpc_address}"
    create(rpc_broker.url, topic)
    call = ("curl", "--protocol", "grpc", "--http2-prior-knowledge")
    request = f'{{"topic": "{topic}", "key": "dXNlcg==", "value": "cGFpZA=="}}'
    answer = buf(*call, "--data", request, f"{address}/goqueue.v1.PublishService/Publish")
    assert msgspec.json.decode(answer) == {"topic": topic}
    (stored,) = read(rpc_broker.url, topic)
    assert (stored["key"], stored["value"]) == ("user", "paid")
    listed = buf(*call, "--reflect-protocol", "grpc-v1", "--list-methods", address)
    assert {f"goqueue.v1.{name.replace('.', '/')}" for name in METHODS} <= set(listed.split())
