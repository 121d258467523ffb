"""Operations on memories, documents and roots: `memory.*` and `roots.*`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import (
    DailyLimitReached,
    ModelError,
    NotFound,
    SourceChanged,
    SourceError,
    StoreBusy,
    StoreUnwritable,
)
from lorelog.core.memory import AddReply, CompactReply, DeleteReply, EpisodeReply, ExpiryReply, FeedbackReply
from lorelog.core.session import TranscriptReply
from lorelog.operations.memory import handlers, schema, serialize
from lorelog.operations.operation import Operation, ShellCommand
from lorelog.operations.requests import EmptyRequest

_ABSENT_DELETES_INDEX = "it deletes the whole index; use the shell or Python"
_ABSENT_READS_FILES = "it reads files that the caller names; use the shell or Python"
_ABSENT_CHOOSES_FILES = "which files are indexed is the user's decision, made in the shell or in Python"
_ABSENT_EDITS = "only a person edits what is remembered: in the page, the shell or Python; agents supersede"
_ABSENT_COSTS_MONEY = "it may call a paid model; the user decides that in the shell or in Python"

_TEXT_HELP = "text of the memory, in Markdown; '-' reads standard input"

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "memory.expand",
        schema.ExpandRequest,
        schema.ExpandJson,
        handlers.expand,
        serialize.expand_json,
        errors=(NotFound,),
    ),
    Operation("memory.get", schema.IdentityRequest, schema.GetJson, handlers.get, serialize.get_json),
    Operation(
        "memory.transcript",
        schema.TranscriptRequest,
        TranscriptReply,
        handlers.transcript,
        errors=(NotFound, SourceError),
        commands=(ShellCommand("transcript", ("place",), {"context": "-c --context"}),),
    ),
    Operation(
        "memory.list",
        schema.ListRequest,
        schema.ListJson,
        handlers.list_memories,
        serialize.list_json,
        commands=(ShellCommand("list", hidden=("projects",)),),
    ),
    Operation(
        "memory.add",
        schema.AddRequest,
        AddReply,
        handlers.add,
        errors=(StoreUnwritable, StoreBusy),
        writes=True,
        once=True,
        warms=True,
        commands=(
            ShellCommand(
                "add", ("text",), helps={"text": _TEXT_HELP}, hidden=("origin", "cues"), metavars={"expires": "DAY"}
            ),
        ),
    ),
    Operation(
        "memory.add_batch",
        schema.AddBatchRequest,
        schema.AddBatchJson,
        handlers.add_batch,
        serialize.add_batch_json,
        errors=(StoreUnwritable, StoreBusy),
        writes=True,
        once=True,
        warms=True,
    ),
    Operation(
        "memory.delete",
        schema.IdentityRequest,
        DeleteReply,
        handlers.delete,
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
        commands=(ShellCommand("delete", ("id",)),),
    ),
    Operation(
        "memory.restore",
        schema.IdentityRequest,
        DeleteReply,
        handlers.restore,
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
    ),
    Operation(
        "memory.index",
        schema.IndexRequest,
        schema.IndexJson,
        handlers.index,
        serialize.index_json,
        errors=(NotFound, StoreUnwritable, StoreBusy),
        warms=True,
        commands=(
            ShellCommand(
                "index",
                ("paths",),
                {"vectors": "/--words-only", "forget_old": "--drop-old"},
                metavars={"paths": "PATH", "exclude": "PATTERN"},
                helps={"vectors": "do not embed anything in this run"},
            ),
        ),
    ),
    Operation(
        "memory.stats",
        EmptyRequest,
        schema.StatsReply,
        handlers.stats,
        commands=(ShellCommand("status index", summary="show the sizes of the index"),),
    ),
    Operation("memory.health", schema.HealthRequest, schema.HealthJson, handlers.health, serialize.health_json),
    Operation("memory.metrics", EmptyRequest, schema.MetricsReply, handlers.metrics),
    Operation(
        "memory.evaluate",
        schema.EvaluateRequest,
        schema.EvaluateJson,
        handlers.evaluate,
        serialize.evaluate_json,
        errors=(NotFound, SourceError),
        warms=True,
        absent={"http": _ABSENT_READS_FILES, "mcp": _ABSENT_READS_FILES},
        commands=(ShellCommand("eval", options={"k": "-k --k -n --limit --top-k"}, hidden=("projects", "lane")),),
    ),
    Operation(
        "memory.reset",
        EmptyRequest,
        schema.ResetReply,
        handlers.reset,
        errors=(StoreBusy,),
        writes=True,
        absent={"http": _ABSENT_DELETES_INDEX, "mcp": _ABSENT_DELETES_INDEX},
        commands=(ShellCommand("reset"),),
    ),
    Operation("roots.list", EmptyRequest, schema.RootsJson, handlers.list_roots, serialize.roots_json),
    Operation(
        "roots.add",
        schema.IndexRequest,
        schema.IndexJson,
        handlers.add_roots,
        serialize.index_json,
        errors=(StoreUnwritable, StoreBusy),
        warms=True,
        absent={"http": _ABSENT_CHOOSES_FILES, "mcp": _ABSENT_CHOOSES_FILES},
    ),
    Operation(
        "roots.remove",
        schema.RootsRequest,
        schema.RemovedRoots,
        handlers.remove_roots,
        errors=(NotFound, StoreBusy),
        writes=True,
        absent={"http": _ABSENT_CHOOSES_FILES, "mcp": _ABSENT_CHOOSES_FILES},
    ),
    Operation(
        "memory.supersede",
        schema.SupersedeRequest,
        schema.SupersedeJson,
        handlers.supersede,
        serialize.supersede_json,
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
        once=True,
        warms=True,
        commands=(ShellCommand("supersede", ("id", "text"), helps={"text": _TEXT_HELP}, hidden=("origin", "cues")),),
    ),
    Operation(
        "memory.edit",
        schema.EditRequest,
        schema.EditReply,
        handlers.edit,
        errors=(NotFound, SourceChanged, StoreUnwritable, StoreBusy),
        writes=True,
        once=True,
        warms=True,
        absent={"http": _ABSENT_EDITS, "mcp": _ABSENT_EDITS},
    ),
    Operation(
        "memory.set_expiry",
        schema.ExpiryRequest,
        ExpiryReply,
        handlers.set_expiry,
        errors=(NotFound, StoreUnwritable),
        writes=True,
        commands=(
            ShellCommand(
                "expire",
                ("id", "expires"),
                {"review_after": "--review"},
                metavars={"expires": "DAY", "review_after": "DAY"},
            ),
        ),
    ),
    Operation(
        "memory.feedback",
        schema.FeedbackRequest,
        FeedbackReply,
        handlers.feedback,
        errors=(NotFound, StoreUnwritable),
        writes=True,
        commands=(ShellCommand("feedback", ("query", "id", "relevance")),),
    ),
    Operation(
        "memory.find_near_duplicates",
        schema.NearDuplicatesRequest,
        schema.DuplicatesJson,
        handlers.find_near_duplicates,
        serialize.duplicates_json,
        commands=(ShellCommand("duplicates"),),
    ),
    Operation(
        "memory.consolidate_episode",
        schema.EpisodeRequest,
        EpisodeReply,
        handlers.consolidate_episode,
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
        once=True,
        warms=True,
    ),
    Operation(
        "memory.compact",
        schema.CompactRequest,
        CompactReply,
        handlers.compact,
        errors=(NotFound, ModelError, DailyLimitReached, StoreUnwritable, StoreBusy),
        writes=True,
        once=True,  # a second call would pay for a model while the first still waits for it
        warms=True,
        absent={"http": _ABSENT_COSTS_MONEY, "mcp": _ABSENT_COSTS_MONEY},
        commands=(ShellCommand("compact"),),
    ),
)
