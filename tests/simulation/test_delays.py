"""Whole lives of delayed messages: crashes, refusals and clocks that are set, held against a naive model.

`--seed N` repeats the life of one seed and tells its story, `--seeds N` lives more of them.
"""

import pytest

from goqueue.errors import OperatorError, TransientError
from goqueue.testing.disk import Crashed
from tests.simulation.delays.model import Model
from tests.simulation.delays.steps import DelaySteps
from tests.simulation.delays.world import PARTITIONS, DelayWorld
from tests.simulation.test_simulation import GROUP, TOLD, seeds

STEPS = 300


def live(seed: int) -> Model:
    """One seed's life, from an empty disk until everything that was scheduled has come to its end."""
    world = DelayWorld(seed)
    steps = DelaySteps(world)
    try:
        for _ in range(STEPS):
            survive(world, steps)
        come_to_rest(world, steps)
    except BaseException as failure:
        failure.add_note(f"repeat it with --seed {seed}\n  " + "\n  ".join((*world.story[-TOLD:], repr(world.disk))))
        raise
    return world.model


def survive(world: DelayWorld, steps: DelaySteps) -> None:
    try:
        steps.take()
    except Crashed:
        world.crash()
    except (OperatorError, TransientError) as error:
        world.refused("a step", error)


def come_to_rest(world: DelayWorld, steps: DelaySteps) -> None:
    """On a disk that is sound again, after all that time, everything that was answered is there once."""
    world.disk.heal()
    world.crash()
    world.check()
    deliver_all(world, steps)
    end_all(world, steps)
    deliver_all(world, steps)
    for number in range(PARTITIONS):
        assert not world.postman(number).delays.schedule.undecided, "how all transactions ended is known"
    world.stop()
    world.check()


def deliver_all(world: DelayWorld, steps: DelaySteps) -> None:
    """Nobody waits for a transaction that is open."""
    for _ in range(3):
        world.clock.advance(4_000_000)
        for number in range(PARTITIONS):
            steps.deliver(number)
        world.settle()
    for one in world.model.messages.values():
        assert one.seen or not one.is_owed, f"never lost: {one}"
    for number in range(PARTITIONS):
        assert not world.postman(number).delays.schedule.pending, "all that was pending has come to its end"


def end_all(world: DelayWorld, steps: DelaySteps) -> None:
    for number in range(PARTITIONS):
        while world.model.open(number):
            steps.transactions.end_one(number)
            world.settle()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "delayed_lives" in metafunc.fixturenames:
        chosen = seeds(metafunc.config)
        groups = [chosen[start : start + GROUP] for start in range(0, len(chosen), GROUP)]
        metafunc.parametrize("delayed_lives", groups, ids=[f"{group[0]}-{group[-1]}" for group in groups])


def test_every_promise_to_delayed_messages_holds_through_random_lives(delayed_lives: list[int]) -> None:
    for seed in delayed_lives:
        live(seed)
