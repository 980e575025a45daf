"""Whole clusters, each from one seed: elections and a log among crashes, pauses, partitions and empty disks.

A failure names its seed; `replay(seed)` in this module repeats it.
"""

import pytest

from tests.simulation.cluster.canaries import CANARIES, Plant
from tests.simulation.cluster.oracles import Violated
from tests.simulation.cluster.plan import live
from tests.simulation.cluster.universe import Universe

SEEDS = 300
GROUP = 100
CANARY_SEEDS = 1000


def universe_of(seed: int) -> Universe:
    universe = Universe(seed, 3 if seed % 2 else 5)
    universe.has_brief_leaders = seed % 5 == 4
    universe.has_late_copies = seed % 7 == 6
    universe.replaces_voters = seed % 3 == 2
    return universe


def replay(seed: int) -> Universe:
    universe = universe_of(seed)
    live(universe)
    return universe


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_every_property_holds_through_random_lives_of_clusters(first: int) -> None:
    universes = [replay(seed) for seed in range(first, first + GROUP)]

    assert sum(len(one.oracles.committed) for one in universes) > 10 * GROUP
    assert sum(len(one.oracles.leaders) for one in universes) > 1.5 * GROUP
    assert any(one.oracles.cuts for one in universes), "logs diverge in some of them"


def test_every_property_holds_while_leaders_tell_the_state_again_and_logs_begin_later() -> None:
    universes = []
    for seed in range(2 * GROUP):
        universe = universe_of(seed)
        universe.tells = True
        live(universe)
        universes.append(universe)

    assert sum(one.skips for one in universes) > GROUP, "nodes pass over what is gone"
    assert any(node.begins > 20 for one in universes for node in one.nodes)


@pytest.mark.parametrize("plant", CANARIES, ids=lambda plant: plant.__name__)
def test_planted_defect_is_found_within_a_thousand_seeds(plant: Plant) -> None:
    for seed in range(CANARY_SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            universe = universe_of(seed)
            plant(patch, universe)
            try:
                live(universe)
            except Violated:
                return
    pytest.fail(f"{CANARY_SEEDS} seeds do not find {plant.__name__}")
