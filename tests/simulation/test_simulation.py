"""Whole lives of brokers: random requests, crashes and refusals of the disk, held against a naive model.

`--seed N` repeats the life of one seed and tells its story, `--seeds N` lives more of them.
"""

import pytest

from goqueue.errors import OperatorError, TransientError
from goqueue.testing.disk import Crashed
from tests.simulation.checks import check
from tests.simulation.model import Model
from tests.simulation.steps import Steps
from tests.simulation.world import World

STEPS = 300
GROUP = 25
TOLD = 60  # of the steps before a failure


def live(seed: int) -> Model:
    """One seed's life, from an empty disk to a clean stop."""
    world = World(seed)
    steps = Steps(world)
    try:
        for _ in range(STEPS):
            survive(world, steps.take)
        come_to_rest(world, steps)
    except BaseException as failure:
        failure.add_note(f"repeat it with --seed {seed}\n  " + "\n  ".join((*world.story[-TOLD:], repr(world.disk))))
        failure.add_note("  " + "\n  ".join(world.disk.journal[-40:]))
        raise
    return world.model


def survive(world: World, step: object) -> None:
    try:
        assert callable(step)
        step()
    except Crashed:
        world.crash()
    except (OperatorError, TransientError) as error:
        world.refused("a step", error)


def come_to_rest(world: World, steps: Steps) -> None:
    """On a disk that is sound again, everything that was refused goes well, and the end is clean."""
    world.answers_lost = 0
    world.disk.heal()
    world.crash()
    for stream in steps.streams:
        stream.retry()
    world.commit()
    world.store.flush()
    partitions = {id(owed) for topic in world.model.here() for owed in topic.partitions}
    for stream in steps.streams:
        assert stream.is_settled or id(stream.owed) not in partitions, f"a patient producer is answered: {stream}"
    assert not world.model.waiting, f"everybody is told: {world.model.waiting} were not"
    for topic, partition in list(world.broker.partitions()):
        world.finish_upkeep()
        world.begin_upkeep(topic, partition)
    world.finish_upkeep()
    check(world.broker, world.model)
    world.stop()


def seeds(config: pytest.Config) -> list[int]:
    seed: int | None = config.getoption("--seed")
    return list(range(config.getoption("--seeds"))) if seed is None else [seed]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "group" in metafunc.fixturenames:
        chosen = seeds(metafunc.config)
        groups = [chosen[start : start + GROUP] for start in range(0, len(chosen), GROUP)]
        metafunc.parametrize("group", groups, ids=[f"{group[0]}-{group[-1]}" for group in groups])


def test_every_promise_holds_through_random_lives(group: list[int]) -> None:
    for seed in group:
        live(seed)
