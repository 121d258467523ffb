"""The settings about traces: whether calls and errors are kept, and how much of them."""

from __future__ import annotations

from lorelog.config.setting import Kind, Setting

TRACE_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "traces.enabled",
        Kind.SWITCH,
        True,
        "Whether it is kept, on this machine only, which operations and agents' tools were called, how long they took and what "
        "went wrong. Texts that operations are given are not kept.",
    ),
    Setting(
        "traces.days",
        Kind.WHOLE,
        30,
        "Traces that were kept longer than so many days are dropped.",
        minimum=1,
        maximum=36_500,
    ),
    Setting(
        "traces.megabytes",
        Kind.WHOLE,
        64,
        "The oldest traces are dropped when there are more megabytes than this.",
        minimum=1,
        maximum=100_000,
    ),
)
