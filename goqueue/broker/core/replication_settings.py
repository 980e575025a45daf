"""The settings of a topic about its replicas."""

from goqueue.broker.core.topic import TopicSettings
from goqueue.errors import RequestInvalid
from goqueue.quantities import format_count


def check_replication(settings: TopicSettings, nodes: int) -> None:
    """Raise unless so many nodes can do what the settings say."""
    factor = settings.replication_factor
    if factor is not None and factor > nodes:
        has = f"the cluster has {format_count(nodes, 'node')}" if nodes > 1 else "there is one node"
        raise RequestInvalid(
            f"replication_factor {factor} needs as many nodes, and {has}",
            hint=f"name at most {nodes}, or leave it out",
            problems=[],
        )
    check_min_isr(settings, factor or nodes)


def check_min_isr(settings: TopicSettings, most: int) -> None:
    """Raise unless so many replicas can be as many in sync as the topic asks for."""
    least = settings.min_isr
    if least is not None and least > most:
        raise RequestInvalid(
            f"min_isr {least} is more than {format_count(most, 'replica')}: no message could be committed",
            hint=f"name at most {most}, or leave it out",
            problems=[],
        )
