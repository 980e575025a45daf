"""What the broker finds when it looks at itself."""

from typing import Annotated, Any

import msgspec

from goqueue.api.call import Call
from goqueue.observe.finding import Severity
from goqueue.observe.findings import Status, examine
from goqueue.quantities import format_time


class CheckBody(msgspec.Struct):
    name: str
    status: Status
    message: str


class FindingBody(msgspec.Struct):
    code: Annotated[str, msgspec.Meta(description="Stable; docs/doctor.md lists all.")]
    severity: Severity
    subject: Annotated[str, msgspec.Meta(description="What it is about.")]
    sentence: str
    hint: Annotated[str, msgspec.Meta(description="What to do; commands stand in backquotes.")]
    details: dict[str, Any]


class DiagnosisBody(msgspec.Struct):
    status: Annotated[Status, msgspec.Meta(description="Of the worst finding; notes leave it at ok.")]
    checked_at: str
    checks: list[CheckBody]
    findings: Annotated[list[FindingBody], msgspec.Meta(description="The worst first.")]


async def examine_broker(call: Call) -> DiagnosisBody:
    """Nothing that is found makes the request fail: the answer tells it."""
    checked_ns = call.runtime.clock.now_ns()
    diagnosis = examine(await call.app.gatherer.facts())
    return DiagnosisBody(
        diagnosis.status,
        format_time(checked_ns),
        [CheckBody(one.name, one.status, one.message) for one in diagnosis.checks],
        [
            FindingBody(one.code, one.severity, one.subject, one.sentence, one.hint, dict(one.details))
            for one in diagnosis.findings
        ],
    )
