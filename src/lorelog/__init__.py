"""Long-term memory for coding agents, kept in plain Markdown.

Everything exported here is imported on first use, so that importing the package costs nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lorelog.core import VERSION as __version__  # noqa: N811
    from lorelog.core.document import Anchor, Chunk, Document, StoredChunk
    from lorelog.core.errors import (
        Cancelled,
        ConfigError,
        DaemonError,
        DaemonNotRunning,
        DaemonUnresponsive,
        DailyLimitReached,
        LorelogError,
        MissingExtra,
        ModelError,
        ModelFault,
        ModelUnavailable,
        NotFound,
        ReplyLost,
        SourceChanged,
        SourceError,
        StoreBusy,
        StoreDamaged,
        StoreError,
        StoreIncompatible,
        StoreUnreachable,
        StoreUnwritable,
        UsageError,
    )
    from lorelog.core.memory import (
        AddReply,
        CompactReply,
        DeleteReply,
        DuplicatesReply,
        EpisodeReply,
        ExpandReply,
        ExpiryReply,
        FeedbackReply,
        FileProblem,
        GetReply,
        HealthReply,
        IndexReport,
        ListReply,
        SupersedeReply,
    )
    from lorelog.core.ports import StoreComparison, StoreStats
    from lorelog.core.query import Explanation, Filters, Fusion, Hit, Lane, ScorePart, SearchReply, TrustFilter
    from lorelog.services.watch.watcher import WatchPass
    from lorelog.surfaces.python.async_client import AsyncLorelog
    from lorelog.surfaces.python.calls import FileWatch
    from lorelog.surfaces.python.client import Lorelog
    from lorelog.surfaces.python.methods import to_dict

_HOMES = {
    "AddReply": "core.memory",
    "Anchor": "core.document",
    "AsyncLorelog": "surfaces.python.async_client",
    "Cancelled": "core.errors",
    "Chunk": "core.document",
    "CompactReply": "core.memory",
    "ConfigError": "core.errors",
    "DaemonError": "core.errors",
    "DaemonNotRunning": "core.errors",
    "DaemonUnresponsive": "core.errors",
    "DailyLimitReached": "core.errors",
    "DeleteReply": "core.memory",
    "Document": "core.document",
    "DuplicatesReply": "core.memory",
    "EpisodeReply": "core.memory",
    "ExpandReply": "core.memory",
    "ExpiryReply": "core.memory",
    "Explanation": "core.query",
    "FeedbackReply": "core.memory",
    "FileProblem": "core.memory",
    "FileWatch": "surfaces.python.calls",
    "Filters": "core.query",
    "Fusion": "core.query",
    "GetReply": "core.memory",
    "HealthReply": "core.memory",
    "Hit": "core.query",
    "IndexReport": "core.memory",
    "Lane": "core.query",
    "ListReply": "core.memory",
    "Lorelog": "surfaces.python.client",
    "LorelogError": "core.errors",
    "MissingExtra": "core.errors",
    "ModelError": "core.errors",
    "ModelFault": "core.errors",
    "ModelUnavailable": "core.errors",
    "NotFound": "core.errors",
    "ReplyLost": "core.errors",
    "ScorePart": "core.query",
    "SearchReply": "core.query",
    "SourceChanged": "core.errors",
    "SourceError": "core.errors",
    "StoreBusy": "core.errors",
    "StoreComparison": "core.ports",
    "StoreDamaged": "core.errors",
    "StoreError": "core.errors",
    "StoreIncompatible": "core.errors",
    "StoreStats": "core.ports",
    "StoreUnreachable": "core.errors",
    "StoreUnwritable": "core.errors",
    "StoredChunk": "core.document",
    "SupersedeReply": "core.memory",
    "TrustFilter": "core.query",
    "UsageError": "core.errors",
    "WatchPass": "services.watch.watcher",
    "to_dict": "surfaces.python.methods",
}

__all__ = [
    "AddReply",
    "Anchor",
    "AsyncLorelog",
    "Cancelled",
    "Chunk",
    "CompactReply",
    "ConfigError",
    "DaemonError",
    "DaemonNotRunning",
    "DaemonUnresponsive",
    "DailyLimitReached",
    "DeleteReply",
    "Document",
    "DuplicatesReply",
    "EpisodeReply",
    "ExpandReply",
    "ExpiryReply",
    "Explanation",
    "FeedbackReply",
    "FileProblem",
    "FileWatch",
    "Filters",
    "Fusion",
    "GetReply",
    "HealthReply",
    "Hit",
    "IndexReport",
    "Lane",
    "ListReply",
    "Lorelog",
    "LorelogError",
    "MissingExtra",
    "ModelError",
    "ModelFault",
    "ModelUnavailable",
    "NotFound",
    "ReplyLost",
    "ScorePart",
    "SearchReply",
    "SourceChanged",
    "SourceError",
    "StoreBusy",
    "StoreComparison",
    "StoreDamaged",
    "StoreError",
    "StoreIncompatible",
    "StoreStats",
    "StoreUnreachable",
    "StoreUnwritable",
    "StoredChunk",
    "SupersedeReply",
    "TrustFilter",
    "UsageError",
    "WatchPass",
    "__version__",
    "to_dict",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        return import_module("lorelog.core").VERSION
    if name not in _HOMES:
        raise AttributeError(f"module 'lorelog' has no attribute {name!r}")
    return getattr(import_module(f"lorelog.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
