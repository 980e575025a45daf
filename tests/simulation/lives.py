"""The traffic mixes that are simulated, and the life of one seed."""

from goqueue.broker.groups.coordinator import GroupSettings
from goqueue.broker.groups.retries import DeliveryPolicy
from tests.simulation.delays import DelayTraffic
from tests.simulation.groups.traffic import GroupTraffic
from tests.simulation.publishing.traffic import PublishingTraffic
from tests.simulation.scaling import ScalingTraffic
from tests.simulation.transactions.traffic import TransactionTraffic
from tests.simulation.world import Mix, World

GROUP_SETTINGS = tuple(GroupSettings(policy=DeliveryPolicy(retries_max=most), log_bytes=6000) for most in (1, 2, 3))
GROUP_SECONDS = (*(0.03, 0.2, 1, 2, 5, 12) * 4, 31, 70, 3600, 20_000)


class PublishingForGroups(PublishingTraffic):
    """Topics and single publishes; groups read them."""

    has_streams = False


OF_GROUPS = {  # more messages in members' hands than the usual weights bring
    "offer": 40,
    "flush_some": 60,
    "commit": 30,
    "join": 20,
    "poll": 60,
    "settle": 80,
    "transaction_ack": 4,
    "redeem": 4,
    "call_due": 8,
    "vanish": 1,
    "leave": 1,
    "pass_time": 4,
    "alter_topic": 0.5,
    "delete_topic": 0.4,
    "crash": 0.7,
    "crash_soon": 0.7,
}

CHECKPOINTS = ("*producers", "*snapshot", "*compacted")

MIXES = {
    "publishing": Mix(
        (PublishingTraffic,),
        steps=300,
        jumps=(-10_000, -5, 300, 4000),
        read_faults=CHECKPOINTS,
        weights={"run_task": 8, "flush_some": 14},
    ),
    "delays": Mix(
        (DelayTraffic,),
        segment_bytes=1200,  # a few messages: sealed segments can be cleaned
        seconds=(0.001, 0.02, 1, 60, 3000, 50_000, 400_000),
        jumps=(-3600, -3600, -5, 300, 3600),
    ),
    "groups": Mix(
        (PublishingForGroups, GroupTraffic),
        steps=500,
        groups=GROUP_SETTINGS,
        seconds=GROUP_SECONDS,
        jumps=(-3600, 3600),
        weights=OF_GROUPS,
    ),
    "transactions": Mix(
        (TransactionTraffic,),
        steps=800,
        segment_bytes=2500,
        flush=("always", "always", "interval"),
        seconds=(*(0.01, 0.1, 0.5, 3) * 5, 40, 100, 1000),
        fault_paths=("*", "*__transactions*", "*payments*", "*payments*", "*prices*"),
        weights={"run_task": 80, "flush_some": 40},
    ),
    "groups and delays": Mix(
        (PublishingForGroups, GroupTraffic, DelayTraffic),
        steps=400,
        segment_bytes=2000,
        groups=GROUP_SETTINGS,
        seconds=GROUP_SECONDS,
        jumps=(-3600, 3600),
    ),
    "scaling": Mix(
        (ScalingTraffic,),
        steps=400,
        groups=(GroupSettings(policy=DeliveryPolicy(retries_max=None)),),
        seconds=(0.01, 0.1, 0.5, 3, 40),
        fault_paths=("*", "*__metadata*", "*scaled*"),
    ),
    "publishing, delays and transactions": Mix(
        (PublishingTraffic, TransactionTraffic, DelayTraffic),
        steps=600,
        segment_bytes=2500,
        seconds=(0.01, 0.1, 0.5, 3, 40, 1000, 50_000),
        weights={"run_task": 60, "flush_some": 40},
    ),
}


def live(mix: str, seed: int) -> World:
    """Live one seed's life, from an empty disk until everything that was asked for has come to its end."""
    world = None
    try:
        world = World(seed, MIXES[mix])
        world.live()
    except BaseException as failure:
        failure.add_note(f"repeat it with --seed {seed} -k '{mix}'")
        raise
    return world
