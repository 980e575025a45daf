"""Metrics in the protobuf of OTLP. The numbers are the field numbers of `opentelemetry/proto/metrics/v1/metrics.proto`.

Names are those of `METRICS`, without the `_total` that Prometheus adds. Counters and histograms are cumulative since
the start of the broker. All numbers are doubles, as in Prometheus, so that no series changes its type.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import ProcessCollector
from prometheus_client.samples import Exemplar, Timestamp

from goqueue.clock import NANOSECONDS
from goqueue.observe.histogram import Bucket
from goqueue.observe.metrics import METRICS, MetricKind, Sample, Scrape
from goqueue.observe.otlp import (
    encode_attributes,
    encode_bytes,
    encode_double,
    encode_fixed64,
    encode_number,
    encode_request,
    encode_text,
    nested,
)
from goqueue.observe.tracing.span import Attributes

_CUMULATIVE = 2
_UNITS = {"_seconds": "s", "_bytes": "By"}
"""Units by the end of a name: Prometheus adds the same end to a name with such a unit, unless it is there."""
_FIELDS: Mapping[MetricKind, int] = {"gauge": 5, "info": 5, "counter": 7, "histogram": 9}


def encode_metrics(scrape: Scrape, resource: Attributes, scope: str, *, start_ns: int, time_ns: int) -> bytes:
    """Return an `ExportMetricsServiceRequest` with all metrics of a scrape and those of the process."""
    times = encode_fixed64(2, start_ns) + encode_fixed64(3, time_ns)
    metrics = (*_broker_metrics(scrape, times), *_process_metrics(times))
    return encode_request(metrics, resource, scope, scrape.version)


def _broker_metrics(scrape: Scrape, times: bytes) -> Iterator[bytes]:
    build = METRICS["goqueue_build"]
    yield _metric("goqueue_build_info", build.help, "info", build.labels, [((scrape.version,), 1.0)], times)
    for name, samples in scrape.samples:
        if samples:
            described = METRICS[name]
            yield _metric(name, described.help, described.kind, described.labels, samples, times)


def _process_metrics(times: bytes) -> Iterator[bytes]:
    """Encode memory, CPU time and open files, which have no labels."""
    for family in ProcessCollector(registry=None).collect():
        kind: MetricKind = "counter" if family.type == "counter" else "gauge"
        samples: list[Sample] = [((), sample.value) for sample in family.samples]
        yield _metric(family.name, family.documentation, kind, (), samples, times)


def _metric(
    name: str, description: str, kind: MetricKind, labels: Sequence[str], samples: Sequence[Sample], times: bytes
) -> bytes:
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
    data = b"".join(nested(1, _point(labels, values, value, times)) for values, value in samples)
    if kind in ("counter", "histogram"):
        data += encode_number(2, _CUMULATIVE)
    if kind == "counter":
        data += encode_number(3, True)  # monotonic
    head = encode_text(1, name) + encode_text(2, description) + encode_text(3, unit)
    return head + nested(_FIELDS[kind], data)


def _point(
    labels: Sequence[str], values: Sequence[str], value: float | tuple[list[Bucket], float], times: bytes
) -> bytes:
    attributes = dict(zip(labels, values, strict=True))
    if isinstance(value, tuple):
        return times + _distribution(*value) + encode_attributes(9, attributes)
    return times + encode_double(4, value) + encode_attributes(7, attributes)


def _distribution(buckets: Sequence[Bucket], total: float) -> bytes:
    """Encode the fields of a histogram: the count of each bucket alone, and the bounds without infinity."""
    cumulative = [int(bucket[1]) for bucket in buckets]
    counts = [count - below for below, count in zip((0, *cumulative), cumulative, strict=False)]
    bounds = [float(bucket[0]) for bucket in buckets[:-1]]
    return b"".join(
        (
            encode_fixed64(4, cumulative[-1]),
            encode_double(5, total),
            nested(6, struct.pack(f"<{len(counts)}Q", *counts)),
            nested(7, struct.pack(f"<{len(bounds)}d", *bounds)),
            *(nested(8, _exemplar(bucket[2])) for bucket in buckets if len(bucket) > 2),
        )
    )


def _exemplar(exemplar: Exemplar) -> bytes:
    time = exemplar.timestamp
    time_ns = time.sec * NANOSECONDS + time.nsec if isinstance(time, Timestamp) else 0
    trace_id = bytes.fromhex(exemplar.labels["trace_id"])
    return encode_fixed64(2, time_ns) + encode_double(3, exemplar.value) + encode_bytes(5, trace_id)
