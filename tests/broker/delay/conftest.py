"""Fixtures that the tests of delayed messages share."""

import pytest

from tests.broker.delay.delaywork import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()
