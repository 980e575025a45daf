"""The name under which the broker records who changed something."""

import os
import pwd
import subprocess
import sys

import pytest

from goqueue.testing.broker import LocalBroker
from tests.brokers import ask

_CREATE = "import sys; from goqueue.client import Client; Client(sys.argv[1]).create_topic('orders')"


@pytest.mark.parametrize(
    ("variables", "name"),
    [({}, pwd.getpwuid(os.getuid()).pw_name), ({"LOGNAME": "ben"}, "ben"), ({"LOGNAME": "ben", "USER": "ana"}, "ana")],
)
def test_operation_names_the_user_of_a_program_with_and_without_variables(
    broker: LocalBroker, variables: dict[str, str], name: str
) -> None:
    kept = {one: text for one, text in os.environ.items() if one not in {"USER", "LOGNAME"}}
    subprocess.run([sys.executable, "-c", _CREATE, broker.url], env=kept | variables, check=True)
    (operation,) = ask(broker.url, "GET", "/operations").json["operations"]
    assert operation["client"].split("@")[0].split()[-1] == name
