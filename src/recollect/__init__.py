"""Memory for coding agents: plain Markdown in, the right answer out.

Everything exported here is loaded when it is first used, so that importing the package costs nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recollect.core.document import Anchor, Chunk, Document, StoredChunk
    from recollect.core.errors import RecollectError
    from recollect.core.memory import AddReply, ExpandReply, IndexReport, ListReply, Problem
    from recollect.core.ports import StoreStats
    from recollect.core.query import Explanation, Filters, Fusion, Hit, Lane, Part, SearchReply
    from recollect.core.version import VERSION as __version__  # noqa: N811
    from recollect.surfaces.python import Recollect

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
    "Recollect": "surfaces.python",
    "RecollectError": "core.errors",
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
    "Part",
    "Problem",
    "Recollect",
    "RecollectError",
    "SearchReply",
    "StoreStats",
    "StoredChunk",
    "__version__",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        return import_module("recollect.core.version").VERSION
    if name not in _HOMES:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    return getattr(import_module(f"recollect.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
