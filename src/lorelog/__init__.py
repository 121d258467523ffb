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
        Forbidden,
        LorelogError,
        MissingExtra,
        ModelError,
        ModelFault,
        ModelUnavailable,
        NotFound,
        Proposed,
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
    from lorelog.core.query import Explanation, Fusion, Hit, Lane, ScorePart, SearchReply, TrustFilter
    from lorelog.operations.measures import StatsReply
    from lorelog.services.watch.watcher import WatchPass
    from lorelog.surfaces.python.async_client import AsyncLorelog
    from lorelog.surfaces.python.calls import FileWatch
    from lorelog.surfaces.python.client import Lorelog
    from lorelog.surfaces.python.methods import to_dict

_HOMES = {
    "core.document": "Anchor Chunk Document StoredChunk",
    "core.memory": "AddReply CompactReply DeleteReply DuplicatesReply ExpandReply ExpiryReply FeedbackReply FileProblem GetReply HealthReply IndexReport ListReply SupersedeReply",
    "core.query": "Explanation Fusion Hit Lane ScorePart SearchReply TrustFilter",
    "operations.measures": "StatsReply",
    "services.watch.watcher": "WatchPass",
    "surfaces.python.async_client": "AsyncLorelog",
    "surfaces.python.calls": "FileWatch",
    "surfaces.python.client": "Lorelog",
    "surfaces.python.methods": "to_dict",
}
"""Names by module. All others are errors, of `core.errors`."""

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
    "ExpandReply",
    "ExpiryReply",
    "Explanation",
    "FeedbackReply",
    "FileProblem",
    "FileWatch",
    "Forbidden",
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
    "Proposed",
    "ReplyLost",
    "ScorePart",
    "SearchReply",
    "SourceChanged",
    "SourceError",
    "StatsReply",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreIncompatible",
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
    if name not in __all__:
        raise AttributeError(f"module 'lorelog' has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names.split()), "core.errors")
    return getattr(import_module(f"lorelog.{home}"), name)


def __dir__() -> list[str]:
    return __all__
