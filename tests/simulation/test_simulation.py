"""Whole lives of brokers: random requests, crashes and refusals of the disk, compared with naive models.

`--seed N` repeats the life of one seed and shows its story, `--seeds N` lives more of them.
"""

import pytest

from tests.simulation.lives import MIXES, live

GROUP = 25


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    seed: int | None = metafunc.config.getoption("--seed")
    count: int = metafunc.config.getoption("--seeds")
    seeds = range(count) if seed is None else range(seed, seed + 1)
    groups = [seeds[start : start + GROUP] for start in range(0, len(seeds), GROUP)]
    metafunc.parametrize("seeds", groups, ids=[f"{group[0]}-{group[-1]}" for group in groups])


@pytest.mark.parametrize("mix", MIXES)
def test_every_invariant_holds_through_random_lives(mix: str, seeds: range) -> None:
    for seed in seeds:
        live(mix, seed)
