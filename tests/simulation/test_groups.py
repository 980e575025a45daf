"""Whole lives of groups: members that come, work, fail and vanish while brokers crash, held against a naive model.

`--seed N` repeats the life of one seed and tells its story, `--seeds N` lives more of them.
"""

import pytest

from tests.simulation.groups.rest import come_to_rest
from tests.simulation.groups.steps import GroupSteps
from tests.simulation.groups.world import GroupWorld
from tests.simulation.model import Model
from tests.simulation.test_simulation import GROUP, TOLD, seeds, survive

STEPS = 280


def live(seed: int) -> Model:
    """One seed's life, from an empty disk until everything that was published is done."""
    world = GroupWorld(seed)
    steps = GroupSteps(world)
    try:
        survive(world, steps.begin)
        for _ in range(STEPS):
            survive(world, steps.take)
        come_to_rest(world, steps)
    except BaseException as failure:
        failure.add_note(f"repeat it with --seed {seed}\n  " + "\n  ".join((*world.story[-TOLD:], repr(world.disk))))
        raise
    return world.model


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "lives" in metafunc.fixturenames:
        chosen = seeds(metafunc.config)
        groups = [chosen[start : start + GROUP] for start in range(0, len(chosen), GROUP)]
        metafunc.parametrize("lives", groups, ids=[f"{group[0]}-{group[-1]}" for group in groups])


def test_every_promise_to_groups_holds_through_random_lives(lives: list[int]) -> None:
    for seed in lives:
        live(seed)
