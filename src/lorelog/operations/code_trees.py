"""The operations on which code is indexed: what they may be told, what they answer. A docstring's first line is its help everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from msgspec import Meta

from lorelog.core.errors import NotFound, StoreBusy, StoreUnwritable, UsageError
from lorelog.engine import Engine
from lorelog.operations.days import located
from lorelog.operations.operation import Call, Operation
from lorelog.operations.requests import Nothing, Path, Request
from lorelog.operations.trust_shapes import ProblemShape

if TYPE_CHECKING:
    from lorelog.services.code.indexing import CodeReport
    from lorelog.services.code.trees import Tree, Trees


class CodeIndexRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A working tree to be indexed."""

    path: Annotated[
        Path | None,
        Meta(
            description="A folder or file of the working tree, and only that part; the whole tree one stands in if not given."
        ),
    ] = None
    force: Annotated[bool, Meta(description="Parse every file again, whether or not it changed.")] = False


class CodeForgetRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A working tree to be forgotten."""

    path: Annotated[
        Path | None, Meta(description="A path of the working tree; the one that one stands in if not given.")
    ] = None


class CodeIndexShape(TypedDict):
    """What a run over code did."""

    root: str
    files: int
    changed: int
    unchanged: int
    touched: int
    removed: int
    symbols: int
    bytes: int
    broken: int
    languages: dict[str, int]
    left_out: dict[str, int]
    problems: list[ProblemShape]
    notes: list[str]
    seconds: float


class CodeForgetShape(TypedDict):
    """What was forgotten."""

    root: str
    files: int


class LeftOutShape(TypedDict):
    """A file of which nothing is known."""

    path: str
    reason: str


class CodeTreeShape(TypedDict):
    """A working tree whose code is indexed."""

    path: str
    project: str
    parts: list[str]
    exists: bool
    files: int
    symbols: int
    languages: dict[str, int]
    indexed_at: str | None
    commit: str | None
    left_out: list[LeftOutShape]
    left_out_total: int


class CodeStatusShape(TypedDict):
    """All working trees whose code is indexed."""

    trees: list[CodeTreeShape]
    bytes: int


def index(engine: Engine, request: CodeIndexRequest, call: Call) -> CodeReport:
    """Read the code of a working tree, so that it can be asked about; from then on it is kept up to date.

    Only files that changed are read. What Git ignores is left out. A file that cannot be read is in `problems` and does not stop
    the run.
    """
    trees = _trees(engine)
    if not call.own and (request.path is not None or not trees.is_registered()):
        raise UsageError(
            "which code is read is chosen at a shell or in Python", hint="'lorelog code index' there, once"
        )
    path = "" if request.path is None else located(request.path, call)
    with call.aside():  # code has a database and a lock of its own; nobody else must wait
        return trees.index(path, scan=engine.defaults.scan, force=request.force, progress=call.progress)


def forget(engine: Engine, request: CodeForgetRequest, call: Call) -> tuple[str, int]:
    """Forget the code of a working tree, and keep it up to date no longer. The files are not touched."""
    with call.aside():
        return _trees(engine).forget("" if request.path is None else located(request.path, call))


def status(engine: Engine, request: Nothing, call: Call) -> tuple[list[Tree], int]:
    """List the working trees whose code is indexed: how much, of which languages, and what was left out."""
    trees = _trees(engine)
    return trees.all(), trees.size()


def report_shape(report: CodeReport, request: CodeIndexRequest) -> CodeIndexShape:
    """Return what a run did, as JSON."""
    return {
        "root": report.root,
        "files": report.files,
        "changed": report.changed,
        "unchanged": report.unchanged,
        "touched": report.touched,
        "removed": report.removed,
        "symbols": report.symbols,
        "bytes": report.bytes,
        "broken": report.broken,
        "languages": report.languages,
        "left_out": report.left_out,
        "problems": [{"path": one.path, "message": one.message, "hint": one.hint} for one in report.problems],
        "notes": list(report.notes),
        "seconds": report.seconds,
    }


def status_shape(found: tuple[list[Tree], int]) -> CodeStatusShape:
    """Return what is indexed, as JSON."""
    trees, size = found
    return {"trees": [_tree_shape(tree) for tree in trees], "bytes": size}


def _tree_shape(tree: Tree) -> CodeTreeShape:
    return {
        "path": tree.path,
        "project": tree.project,
        "parts": list(tree.parts),
        "exists": tree.exists,
        "files": tree.files,
        "symbols": tree.symbols,
        "languages": tree.languages,
        "indexed_at": tree.indexed_at or None,
        "commit": tree.head or None,
        "left_out": [{"path": one.absolute, "reason": one.problem} for one in tree.left_out],
        "left_out_total": tree.left_out_total,
    }


def _trees(engine: Engine) -> Trees:
    from lorelog.services.code.trees import Trees

    return Trees(engine.place, engine.code().tables)


_CHOSEN = "which code is read is a person's choice"

TREES: tuple[Operation[Any, Any], ...] = (
    Operation(
        "code.index",
        CodeIndexRequest,
        CodeIndexShape,
        index,
        report_shape,
        errors=(NotFound, StoreBusy, StoreUnwritable),
        writes=True,
        absent={"mcp": _CHOSEN},
    ),
    Operation(
        "code.forget",
        CodeForgetRequest,
        CodeForgetShape,
        forget,
        lambda reply, _: {"root": reply[0], "files": reply[1]},
        errors=(NotFound, StoreBusy, StoreUnwritable),
        writes=True,
        absent={"http": _CHOSEN, "mcp": _CHOSEN},
    ),
    Operation("code.status", Nothing, CodeStatusShape, status, lambda reply, _: status_shape(reply)),
)
