"""Whole clusters with replicated topics, each from one seed: replicas, ISR and leaders among crashes, pauses,
partitions, failing and lost disks.

A failure names its seed; `replay(seed)` in this module repeats it.
"""

import pytest

from tests.simulation.cluster.oracles import Violated
from tests.simulation.replication.data_canaries import CANARIES, Plant
from tests.simulation.replication.data_plan import live
from tests.simulation.replication.data_universe import DataUniverse

SEEDS = 300
GROUP = 100
CANARY_SEEDS = 1000


def universe_of(seed: int) -> DataUniverse:
    return DataUniverse(seed, 3 if seed % 2 else 5)


def replay(seed: int) -> DataUniverse:
    universe = universe_of(seed)
    live(universe)
    return universe


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_every_property_holds_through_random_lives_of_replicas(first: int) -> None:
    oracles = [replay(seed).data_oracles for seed in range(first, first + GROUP)]

    assert sum(one.acknowledged for one in oracles) > 20 * GROUP
    assert sum(one.elections for one in oracles) > 3 * GROUP
    assert sum(one.isr_changes for one in oracles) > GROUP
    assert any(one.cuts for one in oracles), "logs diverge in some of them"
    assert sum(one.moves for one in oracles) > GROUP // 10
    assert any(one.resets for one in oracles), "in some of them a log falls behind the start of its leader's"


@pytest.mark.parametrize("plant", CANARIES, ids=lambda plant: plant.__name__)
def test_planted_defect_of_replicas_is_found_within_a_thousand_seeds(plant: Plant) -> None:
    for seed in range(CANARY_SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            universe = universe_of(seed)
            plant(patch, universe)
            try:
                live(universe)
            except Violated:
                return
    pytest.fail(f"{CANARY_SEEDS} seeds do not find {plant.__name__}")
