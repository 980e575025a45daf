"""Health, readiness, version, metrics and doctor findings of the broker."""

import asyncio
import os
import platform
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from goqueue import __version__
from goqueue.api.endpoint import ApiCall
from goqueue.api.http.message import HttpResponse
from goqueue.broker.core.names import is_internal
from goqueue.broker.losses import fault_of
from goqueue.clock import NANOSECONDS
from goqueue.observe.doctor import Status, examine
from goqueue.observe.finding import Severity
from goqueue.quantities import format_count, format_duration, format_size, format_time
from goqueue.wire.headers import JSON

_ALONE = "0"
"""In place of a node id: the broker is in no cluster."""
_BUILD = os.environ.get("GOQUEUE_BUILD_COMMIT", ""), os.environ.get("GOQUEUE_BUILD_TIME", "")
"""Where and when this program was built, if the build set it."""
_encode = msgspec.json.encode


class ReadyQuery(Struct, forbid_unknown_fields=True):
    verbose: Annotated[bool, Meta(description="Include the individual checks.")] = False


class HealthResponse(Struct):
    status: Annotated[str, Meta(description="ok, degraded or fail")]
    timestamp: str


class LivenessResponse(Struct, omit_defaults=True):
    status: Annotated[str, Meta(description="pass or fail")]
    timestamp: str
    uptime: Annotated[float, Meta(description="In seconds.")]
    message: str


class ReadinessCheckJson(Struct):
    status: str
    message: str
    latency: Annotated[float, Meta(description="Duration of the check in seconds.")]


class BrokerSummaryJson(Struct):
    node_id: str
    topic_count: int
    total_size: int


class ReadinessResponse(Struct, omit_defaults=True):
    status: Annotated[str, Meta(description="pass, degraded (writes are refused) or fail")]
    timestamp: str
    uptime: float
    message: str
    checks: dict[str, ReadinessCheckJson] | None = None
    broker: BrokerSummaryJson | None = None


class VersionResponse(Struct):
    version: str
    git_commit: str
    build_time: str
    python_version: str
    authentication: Annotated[str, Meta(description="keys: requests need an API key; none: all are accepted.")]
    tenants: Annotated[bool, Meta(description="True if it has tenants: it heeds the header `x-tenant`.")]


async def health(call: ApiCall) -> HealthResponse:
    is_degraded = refusal(call) is not None or faults(call)
    status = "fail" if call.runtime.is_stopping else "degraded" if is_degraded else "ok"
    return HealthResponse(status, _now(call))


async def live(call: ApiCall) -> LivenessResponse:
    return LivenessResponse("pass", _now(call), uptime(call), "the event loop answers")


def node_id(call: ApiCall) -> str:
    """Return the id of this node in its cluster, or 0."""
    return _ALONE if call.app.cluster is None else call.app.cluster.settings.node


async def ready(call: ApiCall, query: ReadyQuery) -> HttpResponse:
    """Answer 503 while the broker stops.

    A broker that refuses writes is `degraded` and still answers 200. Reading goes on, and so does deleting, which an
    orchestrator must not cut off.
    """
    stopping, bad, refused = call.runtime.is_stopping, faults(call), refusal(call)
    status = "fail" if stopping else "degraded" if refused is not None else "pass"
    message = "stopping" if stopping else refused or (_trouble(bad) if bad else "ready")
    answer = ReadinessResponse(status, _now(call), uptime(call), message)
    if query.verbose:
        answer.checks = _checks(call, bad, refused)
        topics = [topic for name, topic in call.runtime.broker.topics.items() if not is_internal(name)]
        answer.broker = BrokerSummaryJson(node_id(call), len(topics), sum(topic.size for topic in topics))
    return HttpResponse(503 if stopping else 200, _encode(answer))


def _trouble(bad: list[str]) -> str:
    return f"{format_count(len(bad), 'partition')} {'takes' if len(bad) == 1 else 'take'} no messages"


def faults(call: ApiCall) -> list[str]:
    """Return partitions that accept no messages, with the reasons."""
    return [
        f"{partition.log.name}: {fault.sentence}"
        for _, partition in call.runtime.broker.partitions()
        if (fault := fault_of(partition.log)) is not None
    ]


def refusal(call: ApiCall) -> str | None:
    """Return why publishing is refused, if it is."""
    reason = call.runtime.store.refusal
    return f"publishing is refused: {reason}" if reason is not None else None


def _checks(call: ApiCall, bad: list[str], refused: str | None) -> dict[str, ReadinessCheckJson]:
    metrics, runtime = call.app.metrics, call.runtime
    troubles = bad if refused is None else [refused, *bad]
    storage = "; ".join(troubles[:5]) or "all partitions take messages"
    if bad and call.app.authenticates:  # names of topics are not for everyone
        storage = _trouble(bad)
    late = round(metrics.loop_lag_seconds, 6)
    held, most = runtime.in_flight_bytes, runtime.settings.in_flight_bytes
    return {
        "storage": ReadinessCheckJson("fail" if troubles else "pass", storage, 0.0),
        "loop": ReadinessCheckJson("pass", f"last late by {format_duration(late)}", late),
        "in_flight": ReadinessCheckJson(
            "pass" if held < most else "fail", f"{format_size(held)} of {format_size(most)}", 0.0
        ),
    }


async def version(call: ApiCall) -> VersionResponse:
    authentication = "keys" if call.app.authenticates else "none"
    has_tenants = call.runtime.settings.has_tenants
    return VersionResponse(__version__, *_BUILD, platform.python_version(), authentication, has_tenants)


async def metrics(call: ApiCall) -> HttpResponse:
    body, kind = await call.app.scraper.text(call.request.headers.get("accept", ""))
    return HttpResponse(200, body, kind, is_essential=True)


async def openapi(call: ApiCall) -> Any:
    document = await asyncio.get_running_loop().run_in_executor(None, call.app.openapi)
    return HttpResponse(200, document, JSON)


def _now(call: ApiCall) -> str:
    return format_time(call.runtime.clock.now_ns())


def uptime(call: ApiCall) -> float:
    return (call.runtime.clock.monotonic_ns() - call.runtime.began_ns) / NANOSECONDS


class DoctorCheckJson(Struct):
    name: str
    status: Status
    message: str


class DoctorFindingJson(Struct):
    code: Annotated[str, Meta(description="Stable; docs/doctor.md lists all codes.")]
    severity: Severity
    subject: Annotated[str, Meta(description="What it concerns.")]
    sentence: str
    hint: Annotated[str, Meta(description="What to do; commands are in backquotes.")]
    details: dict[str, Any]


class DoctorResponse(Struct):
    status: Annotated[Status, Meta(description="The status of the worst finding; notes do not change ok.")]
    checked_at: str
    checks: list[DoctorCheckJson]
    findings: Annotated[list[DoctorFindingJson], Meta(description="Worst first.")]
    groups: Annotated[
        dict[str, int],
        Meta(description="Number of groups by condition; docs/groups.md explains them."),
    ]


async def examine_broker(call: ApiCall) -> DoctorResponse:
    """Run the doctor. A finding does not make the request fail."""
    checked_ns = call.runtime.clock.now_ns()
    diagnosis = examine(await call.app.gatherer.facts())
    return DoctorResponse(
        diagnosis.status,
        format_time(checked_ns),
        [DoctorCheckJson(one.name, one.status, one.message) for one in diagnosis.checks],
        [
            DoctorFindingJson(one.code, one.severity, one.subject, one.sentence, one.hint, dict(one.details))
            for one in diagnosis.findings
        ],
        dict(diagnosis.groups),
    )
