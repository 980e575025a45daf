"""Fixtures that the tests of transactions share."""

import pytest

from goqueue.broker.core.open_transactions import TransactionId
from tests.broker.transactions.scene import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def whose(scene: Scene) -> TransactionId:
    """A transactional id that has done nothing yet."""
    return scene.init()
