"""Every operation, by name. What is not here cannot be asked for from anywhere."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from lorelog.core.errors import ModelError, NotFound, SourceError, StoreBusy, StoreUnwritable, UsageError
from lorelog.operations import cost, memory, recall, replies, requests, session, session_replies, shapes
from lorelog.operations.catalogue_code import CODE
from lorelog.operations.catalogue_context import CONTEXT
from lorelog.operations.catalogue_debug import DEBUG
from lorelog.operations.catalogue_digests import DIGESTS
from lorelog.operations.catalogue_ledger import LEDGER
from lorelog.operations.catalogue_lifecycle import LIFECYCLE
from lorelog.operations.catalogue_records import RECORDS
from lorelog.operations.operation import Operation
from lorelog.operations.store import STORE

_DESTROYS = "it deletes the whole index; a person does that at a shell, or a program in Python"
_READS_FILES = "it reads files that whoever asks would name, and is for tuning at a shell"
_FOR_HOOKS = "it is for the hooks of agents, which show what it answers by themselves; search_memory finds the same"
_READS_SESSIONS = "it reads conversations that whoever asks would name; hooks on this machine ask for it"
_CHOOSES_FILES = "what is read from this machine is a person's choice, made at a shell or in Python"

_ALL: tuple[Operation[Any, Any], ...] = (
    Operation(
        "memory.search",
        requests.SearchRequest,
        replies.SearchShape,
        memory.search,
        lambda reply, request: shapes.search_shape(reply, explain=request.explain),
        errors=(ModelError,),
        warms=True,
    ),
    Operation(
        "memory.expand",
        requests.ExpandRequest,
        replies.ExpandShape,
        memory.expand,
        lambda reply, _: shapes.expand_shape(reply),
        errors=(NotFound,),
    ),
    Operation(
        "memory.get", requests.IdentityRequest, replies.GetShape, memory.get, lambda reply, _: shapes.get_shape(reply)
    ),
    Operation(
        "memory.transcript",
        requests.TranscriptRequest,
        replies.TranscriptShape,
        memory.transcript,
        lambda reply, _: shapes.transcript_shape(reply),
        errors=(NotFound, SourceError),
    ),
    Operation(
        "memory.list", requests.ListRequest, replies.ListShape, memory.list_, lambda reply, _: shapes.list_shape(reply)
    ),
    Operation(
        "memory.add",
        requests.AddRequest,
        replies.AddShape,
        memory.add,
        lambda reply, _: shapes.add_shape(reply),
        errors=(StoreUnwritable, StoreBusy),
        writes=True,
        warms=True,
    ),
    Operation(
        "memory.add_batch",
        requests.AddBatchRequest,
        replies.AddBatchShape,
        memory.add_batch,
        lambda reply, _: {"memories": [shapes.add_shape(one) for one in reply]},
        errors=(StoreUnwritable, StoreBusy),
        writes=True,
        warms=True,
    ),
    Operation(
        "memory.delete",
        requests.IdentityRequest,
        replies.DeleteShape,
        memory.delete,
        lambda reply, _: shapes.delete_shape(reply),
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
    ),
    Operation(
        "memory.restore",
        requests.IdentityRequest,
        replies.DeleteShape,
        memory.restore,
        lambda reply, _: shapes.delete_shape(reply),
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
    ),
    Operation(
        "memory.index",
        requests.IndexRequest,
        replies.IndexShape,
        memory.index,
        lambda reply, _: shapes.index_shape(reply),
        errors=(StoreUnwritable, StoreBusy),
        warms=True,
    ),
    Operation(
        "memory.stats",
        requests.Nothing,
        replies.StatsShape,
        memory.stats,
        lambda engine, _: shapes.stats_shape(engine.stats(), engine.coverage(), engine.model),
    ),
    Operation(
        "memory.health",
        requests.HealthRequest,
        replies.HealthShape,
        memory.health,
        lambda reply, _: shapes.health_shape(reply),
    ),
    Operation("memory.cost", cost.CostRequest, cost.CostShape, cost.cost, lambda reply, _: cost.cost_shape(reply)),
    Operation(
        "memory.metrics",
        requests.Nothing,
        replies.MetricsShape,
        memory.metrics,
        lambda reply, _: shapes.metrics_shape(reply[1].meter, reply[0].cache_counters()),
    ),
    Operation(
        "memory.evaluate",
        requests.EvaluateRequest,
        replies.EvaluateShape,
        memory.evaluate,
        lambda reply, _: shapes.evaluate_shape(reply),
        errors=(NotFound, SourceError),
        warms=True,
        absent={"http": _READS_FILES, "mcp": _READS_FILES},
    ),
    Operation(
        "memory.reset",
        requests.Nothing,
        replies.ResetShape,
        memory.reset,
        lambda reply, _: {"deleted": reply},
        errors=(StoreBusy,),
        writes=True,
        absent={"http": _DESTROYS, "mcp": _DESTROYS},
    ),
    Operation(
        "session.recall",
        requests.RecallRequest,
        session_replies.RecallShape,
        recall.recall,
        lambda reply, _: recall.recall_shape(reply),
        errors=(ModelError, StoreUnwritable, StoreBusy),
        warms=True,
        absent={"mcp": _FOR_HOOKS},
    ),
    Operation(
        "session.capture",
        requests.CaptureRequest,
        session_replies.CaptureShape,
        session.capture,
        lambda reply, _: session.capture_shape(reply),
        errors=(StoreUnwritable, StoreBusy),
        writes=True,
        absent={"http": _READS_SESSIONS, "mcp": _READS_SESSIONS},
    ),
    Operation(
        "session.status",
        requests.Nothing,
        session_replies.SessionStatusShape,
        session.status,
        lambda reply, _: session.status_shape(reply),
        errors=(StoreUnwritable, StoreBusy),
    ),
    Operation(
        "roots.list",
        requests.Nothing,
        replies.RootsShape,
        memory.list_roots,
        lambda reply, _: shapes.roots_shape(reply),
    ),
    Operation(
        "roots.add",
        requests.IndexRequest,
        replies.IndexShape,
        memory.add_roots,
        lambda reply, _: shapes.index_shape(reply),
        errors=(StoreUnwritable, StoreBusy),
        warms=True,
        absent={"http": _CHOOSES_FILES, "mcp": _CHOOSES_FILES},
    ),
    Operation(
        "roots.remove",
        requests.RootsRequest,
        replies.ForgottenShape,
        memory.remove_roots,
        lambda reply, _: {"forgotten": reply[0], "documents": reply[1]},
        errors=(NotFound, StoreBusy),
        writes=True,
        absent={"http": _CHOOSES_FILES, "mcp": _CHOOSES_FILES},
    ),
    *LIFECYCLE,
    *RECORDS,
    *DIGESTS,
    *CODE,
    *CONTEXT,
    *DEBUG,
    *LEDGER,
    *STORE,
)

OPERATIONS: dict[str, Operation[Any, Any]] = {operation.name: operation for operation in _ALL}


def find_operation(name: str) -> Operation[Any, Any]:
    """Return an operation by its name; `memory.` may be left out. Raise UsageError with the nearest names."""
    found = OPERATIONS.get(name) or OPERATIONS.get(f"memory.{name}")
    if found is not None:
        return found
    bare = {one.partition(".")[2]: one for one in reversed(OPERATIONS)} | {one: one for one in OPERATIONS}
    near = list(dict.fromkeys(bare[one] for one in get_close_matches(name, bare, n=3, cutoff=0.5)))
    hint = f"did you mean {' or '.join(near)}?" if near else "'lorelog ops' lists them"
    raise UsageError(f"there is no operation {name[:100]!r}", hint=hint)
