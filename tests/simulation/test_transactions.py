"""Whole lives of transactions: crashes at any moment, refusals, fenced producers, held against a naive model.

`--seed N` repeats the life of one seed and tells its story, `--seeds N` lives more of them.
"""

import pytest

from goqueue.errors import OperatorError, TransientError
from goqueue.testing.disk import Crashed
from tests.simulation.test_simulation import GROUP, TOLD, seeds
from tests.simulation.transactions.model import Model
from tests.simulation.transactions.rest import come_to_rest
from tests.simulation.transactions.steps import TransactionSteps
from tests.simulation.transactions.world import TransactionWorld

STEPS = 400


def live(seed: int) -> Model:
    """One seed's life, from an empty disk until every transaction has ended."""
    world = TransactionWorld(seed)
    steps = TransactionSteps(world)
    try:
        for _ in range(STEPS):
            if not world.is_damaged:
                survive(world, steps)
        if not world.is_damaged:
            come_to_rest(world)
    except BaseException as failure:
        failure.add_note(f"repeat it with --seed {seed}\n  " + "\n  ".join((*world.story[-TOLD:], repr(world.disk))))
        raise
    return world.model


def survive(world: TransactionWorld, steps: TransactionSteps) -> None:
    try:
        steps.take()
    except Crashed:
        world.crash()
    except (OperatorError, TransientError) as error:
        world.refused("a step", error)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "transaction_lives" in metafunc.fixturenames:
        chosen = seeds(metafunc.config)
        groups = [chosen[start : start + GROUP] for start in range(0, len(chosen), GROUP)]
        metafunc.parametrize("transaction_lives", groups, ids=[f"{group[0]}-{group[-1]}" for group in groups])


def test_every_promise_of_transactions_holds_through_random_lives(transaction_lives: list[int]) -> None:
    for seed in transaction_lives:
        live(seed)
