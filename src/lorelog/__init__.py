"""Long-term memory for coding agents, kept in plain Markdown.

Everything exported here is imported on first use, so that importing the package costs nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lorelog.core.document import Anchor, Chunk, Document, StoredChunk
    from lorelog.core.errors import LorelogError
    from lorelog.core.memory import AddReply, ExpandReply, FileProblem, IndexReport, ListReply
    from lorelog.core.ports import StoreStats
    from lorelog.core.query import Explanation, Filters, Fusion, Hit, Lane, ScorePart, SearchReply
    from lorelog.core.version import VERSION as __version__  # noqa: N811
    from lorelog.surfaces.python.client import Lorelog
    from lorelog.surfaces.python.values import to_dict

_HOMES = {
    "AddReply": "core.memory",
    "Anchor": "core.document",
    "Chunk": "core.document",
    "Document": "core.document",
    "ExpandReply": "core.memory",
    "Explanation": "core.query",
    "Filters": "core.query",
    "Fusion": "core.query",
    "Hit": "core.query",
    "IndexReport": "core.memory",
    "Lane": "core.query",
    "ListReply": "core.memory",
    "ScorePart": "core.query",
    "FileProblem": "core.memory",
    "Lorelog": "surfaces.python.client",
    "LorelogError": "core.errors",
    "SearchReply": "core.query",
    "StoreStats": "core.ports",
    "StoredChunk": "core.document",
    "to_dict": "surfaces.python.values",
}

__all__ = [
    "AddReply",
    "Anchor",
    "Chunk",
    "Document",
    "ExpandReply",
    "Explanation",
    "FileProblem",
    "Filters",
    "Fusion",
    "Hit",
    "IndexReport",
    "Lane",
    "ListReply",
    "Lorelog",
    "LorelogError",
    "ScorePart",
    "SearchReply",
    "StoreStats",
    "StoredChunk",
    "__version__",
    "to_dict",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        return import_module("lorelog.core.version").VERSION
    if name not in _HOMES:
        raise AttributeError(f"module 'lorelog' has no attribute {name!r}")
    return getattr(import_module(f"lorelog.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
