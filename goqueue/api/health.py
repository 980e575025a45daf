"""Whether the broker is well, and what it is."""

import os
import platform
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from goqueue import __version__
from goqueue.api.call import Call
from goqueue.api.http.message import Response
from goqueue.api.openapi import JSON
from goqueue.broker.name import is_internal
from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_count, format_duration, format_size, format_time

NODE = "0"
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Build:
    """Where this program came from, as far as whoever built it has said."""

    commit: str = os.environ.get("GOQUEUE_BUILD_COMMIT", "")
    time: str = os.environ.get("GOQUEUE_BUILD_TIME", "")


class ReadyQuery(msgspec.Struct, forbid_unknown_fields=True):
    verbose: Annotated[bool, msgspec.Meta(description="With the single checks.")] = False


class Health(msgspec.Struct):
    status: Annotated[str, msgspec.Meta(description="ok, degraded or fail")]
    timestamp: str


class Liveness(msgspec.Struct, omit_defaults=True):
    status: Annotated[str, msgspec.Meta(description="pass or fail")]
    timestamp: str
    uptime: Annotated[float, msgspec.Meta(description="In seconds.")]
    message: str


class Check(msgspec.Struct):
    status: str
    message: str
    latency: Annotated[float, msgspec.Meta(description="Of the check, in seconds.")]


class BrokerFacts(msgspec.Struct):
    node_id: str
    topic_count: int
    total_size: int


class Readiness(msgspec.Struct, omit_defaults=True):
    status: Annotated[str, msgspec.Meta(description="pass, degraded (writes are refused) or fail")]
    timestamp: str
    uptime: float
    message: str
    checks: dict[str, Check] | None = None
    broker: BrokerFacts | None = None


class Version(msgspec.Struct):
    version: str
    git_commit: str
    build_time: str
    python_version: str


async def health(call: Call) -> Health:
    is_degraded = refusal(call) is not None or faults(call)
    status = "fail" if call.runtime.is_stopping else "degraded" if is_degraded else "ok"
    return Health(status, _now(call))


async def live(call: Call) -> Liveness:
    return Liveness("pass", _now(call), uptime(call), "the event loop answers")


async def ready(call: Call) -> Response:
    """Whether it can be used: 503 while it stops.

    A broker that refuses writes is `degraded` and still answers 200. Reading goes on, and so does deleting, which an
    orchestrator must not cut off.
    """
    stopping, bad, refused = call.runtime.is_stopping, faults(call), refusal(call)
    status = "fail" if stopping else "degraded" if refused is not None else "pass"
    message = "stopping" if stopping else refused or (_trouble(bad) if bad else "ready")
    answer = Readiness(status, _now(call), uptime(call), message)
    if call.query.verbose:
        answer.checks = _checks(call, bad, refused)
        topics = [topic for name, topic in call.runtime.broker.topics.items() if not is_internal(name)]
        answer.broker = BrokerFacts(NODE, len(topics), sum(topic.size for topic in topics))
    return Response(503 if stopping else 200, _encode(answer))


def _trouble(bad: list[str]) -> str:
    return f"{format_count(len(bad), 'partition')} {'takes' if len(bad) == 1 else 'take'} no messages"


def faults(call: Call) -> list[str]:
    """Partitions that take no messages, and why."""
    return [
        f"{partition.log.name}: {partition.log.fence.sentence}"
        for _, partition in call.runtime.broker.partitions()
        if partition.log.fence is not None
    ]


def refusal(call: Call) -> str | None:
    """What is refused and why, while the disk takes no writes."""
    reason = call.runtime.store.refusal
    return f"publishing is refused: {reason}" if reason is not None else None


def _checks(call: Call, bad: list[str], refused: str | None) -> dict[str, Check]:
    metrics, runtime = call.app.metrics, call.runtime
    troubles = bad if refused is None else [refused, *bad]
    storage = "; ".join(troubles[:5]) or "all partitions take messages"
    late = round(metrics.loop_lag, 6)
    held, most = runtime.in_flight_bytes, runtime.settings.in_flight_bytes
    return {
        "storage": Check("fail" if troubles else "pass", storage, 0.0),
        "loop": Check("pass", f"last late by {format_duration(late)}", late),
        "in_flight": Check("pass" if held < most else "fail", f"{format_size(held)} of {format_size(most)}", 0.0),
    }


async def version(call: Call) -> Version:  # noqa: ARG001 - handlers have one form
    build = Build()
    return Version(__version__, build.commit, build.time, platform.python_version())


async def metrics(call: Call) -> Response:
    body, kind = await call.app.scraper.text(call.request.headers.get("accept", ""))
    return Response(200, body, kind, is_essential=True)


async def openapi(call: Call) -> Any:
    return Response(200, _encode(call.app.openapi), JSON)


def _now(call: Call) -> str:
    return format_time(call.runtime.clock.now_ns())


def uptime(call: Call) -> float:
    return (call.runtime.clock.monotonic_ns() - call.runtime.began_ns) / NANOSECONDS
