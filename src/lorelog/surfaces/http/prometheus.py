"""Metrics as Prometheus reads them: its text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HELD = {"answers", "hot_chunks", "hot_bytes"}
"""Cache counters that tell what is held now; the others only grow."""
_QUANTILES = (("0.5", "p50_ms"), ("0.9", "p90_ms"), ("0.99", "p99_ms"))


def exposition(shape: Mapping[str, Any], version: str) -> str:
    """Return what `memory.metrics` says, as text."""
    return "\n".join(_lines(shape, version)) + "\n"


def _lines(shape: Mapping[str, Any], version: str) -> Iterator[str]:
    operations, cache = shape["operations"], shape["cache"]
    yield from _metric("build_info", "gauge", "Version of the server.", [({"version": version}, 1)])
    yield from _metric("uptime_seconds", "gauge", "Seconds since the process started.", [({}, shape["uptime_s"])])
    yield from _metric("resident_memory_bytes", "gauge", "Memory of the process.", [({}, shape["rss_bytes"])])
    counts = [({"op": one["op"]}, one["count"]) for one in operations]
    yield from _metric("operations_total", "counter", "Operations that were asked for.", counts)
    errors = [({"op": one["op"]}, one["errors"]) for one in operations]
    yield from _metric("operation_errors_total", "counter", "Operations that failed.", errors)
    yield from _metric(
        "operation_latency_seconds",
        "gauge",
        "How long the last thousand of each operation took, by quantile.",
        [
            ({"op": one["op"], "quantile": quantile}, one[field] / 1000)
            for one in operations
            for quantile, field in _QUANTILES
        ],
    )
    events = [({"event": name}, value) for name, value in cache.items() if name not in _HELD]
    yield from _metric("cache_events_total", "counter", "What the caches have done.", events)
    held = [({"what": name}, value) for name, value in cache.items() if name in _HELD]
    yield from _metric("cache_held", "gauge", "What the caches hold.", held)


def _metric(name: str, kind: str, meaning: str, samples: list[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP lorelog_{name} {meaning}"
    yield f"# TYPE lorelog_{name} {kind}"
    for labels, value in samples:
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"lorelog_{name}{{{inner}}} {value!r}" if inner else f"lorelog_{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
