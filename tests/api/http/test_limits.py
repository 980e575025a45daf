"""Limits that depend on the machine."""

import pytest

from goqueue.api.http.server_state import HttpLimits
from goqueue.limits import HTTP_CONNECTIONS_MIN, STORAGE_FILES_MAX


@pytest.mark.parametrize("files_max", [None, 20_000, 1_048_576])
def test_connections_stay_as_set_where_there_are_files_enough(files_max: int | None) -> None:
    assert HttpLimits().within(files_max) == HttpLimits()


def test_handshakes_of_tls_leave_fewer_files_to_connections() -> None:
    plain, tls = (HttpLimits(handshakes=count).within(4096).connections for count in (0, 256))
    assert plain - tls == 512


@pytest.mark.parametrize("files_max", [1024, 4096, 10_000, STORAGE_FILES_MAX + HTTP_CONNECTIONS_MIN])
def test_connections_leave_the_files_that_storage_may_use(files_max: int) -> None:
    fitted = HttpLimits(handshakes=0).within(files_max)
    assert fitted.connections + fitted.connections_spare + STORAGE_FILES_MAX <= files_max
    assert fitted.connections > fitted.connections_spare


@pytest.mark.parametrize("files_max", [0, 64, STORAGE_FILES_MAX])
def test_some_connections_are_left_whatever_the_limit_of_files_is(files_max: int) -> None:
    fitted = HttpLimits(handshakes=0).within(files_max)
    assert (fitted.connections, fitted.connections_spare) == (14, 2)


def test_fewer_connections_than_there_are_files_for_stay_as_set() -> None:
    assert HttpLimits(connections=50, handshakes=0).within(1024).connections == 50
