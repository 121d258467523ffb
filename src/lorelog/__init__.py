"""Memory for coding agents: plain Markdown in, the right answer out.

Everything exported here is loaded when it is first used, so that importing the package costs nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lorelog.core.document import Anchor, Chunk, Document, StoredChunk
    from lorelog.core.errors import LorelogError
    from lorelog.core.memory import AddReply, ExpandReply, IndexReport, ListReply, Problem
    from lorelog.core.ports import StoreStats
    from lorelog.core.query import Explanation, Filters, Fusion, Hit, Lane, Part, SearchReply
    from lorelog.core.version import VERSION as __version__  # noqa: N811
    from lorelog.surfaces.python import Lorelog

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
    "Part": "core.query",
    "Problem": "core.memory",
    "Lorelog": "surfaces.python",
    "LorelogError": "core.errors",
    "SearchReply": "core.query",
    "StoreStats": "core.ports",
    "StoredChunk": "core.document",
}

__all__ = [
    "AddReply",
    "Anchor",
    "Chunk",
    "Document",
    "ExpandReply",
    "Explanation",
    "Filters",
    "Fusion",
    "Hit",
    "IndexReport",
    "Lane",
    "ListReply",
    "Lorelog",
    "LorelogError",
    "Part",
    "Problem",
    "SearchReply",
    "StoreStats",
    "StoredChunk",
    "__version__",
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
