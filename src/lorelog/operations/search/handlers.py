"""Handler of `memory.search`, whose docstring is the help text on every surface, and the JSON of replies and hits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import fields, replace

from lorelog.core.options import SearchOptions
from lorelog.core.query import NO_LIFECYCLE_STATE, Fusion, Lane, TrustFilter
from lorelog.operations.arguments import read_filters
from lorelog.operations.replies import freshness_json, grounding_ref, reply_from, to_json, verification_hint
from lorelog.operations.search import schema

if TYPE_CHECKING:
    from lorelog.core.code import CodeReply
    from lorelog.core.document import Anchor
    from lorelog.core.query import Hit, LifecycleState, SearchReply
    from lorelog.engine import Engine
    from lorelog.operations.operation import RequestContext
    from lorelog.operations.replies import CodeAnswer, Json

_SEARCH_OPTIONS = tuple(
    field.name for field in fields(SearchOptions) if field.name in schema.SearchRequest.__struct_fields__
)
"""Fields that a search request shares with `SearchOptions`; one that is not given keeps its setting."""
_OPTION_ENUMS = {"lane": Lane, "fusion": Fusion, "trust": TrustFilter}


def search(engine: Engine, request: schema.SearchRequest, call: RequestContext) -> SearchReply:
    """Search memories, notes and records, best hit first.

    Keywords and vectors are searched together. Each hit has its location, its relevance and trust, and the number of
    tokens it takes to read more.
    """
    options: dict[str, Any] = {
        name: _OPTION_ENUMS[name](value) if name in _OPTION_ENUMS else value
        for name in _SEARCH_OPTIONS
        if (value := getattr(request, name)) is not None
    }
    reply = engine.search(
        request.query,
        replace(engine.defaults.search, filters=read_filters(request, call), **options),
        all_projects=request.all_projects,
    )
    from lorelog.services.pipeline.search import add_code_answer

    open_code = partial(engine.code, all_projects=request.all_projects)
    return add_code_answer(reply, request.query, engine.place, open_code)


def search_json(reply: SearchReply, request: schema.SearchRequest | None = None) -> schema.SearchJson:
    """Return search hits, with score parts if requested."""
    explain = request is not None and request.explain
    return reply_from(
        reply,
        schema.SearchJson,
        lane=str(reply.lane),
        hits=tuple(hit_json(hit, explain=explain) for hit in reply.hits),
        code=_code_answer(reply.code),
    )


def hit_json(hit: Hit, *, explain: bool = False) -> schema.HitJson:
    """Return one hit. With a token budget only `packed` holds text: the budget is for that."""
    changed: dict[str, Any] = {
        "anchor": anchor_json(hit.anchor),
        "origin": hit.origin,
        "lifecycle": lifecycle_json(hit.lifecycle),
        "verification_hint": verification_hint(hit.trust),
        "grounding_refs": tuple(map(grounding_ref, hit.grounding)),
        "freshness": freshness_json(hit.verdict),
        "explanation": hit.explanation.parts if explain else UNSET,
    }
    if hit.packed is None:
        changed["packed"] = UNSET
    else:
        changed |= dict.fromkeys(("content", "snippet", "matches", "tokens"), UNSET)
    return reply_from(hit, schema.HitJson, **changed)


def lifecycle_json(lifecycle: LifecycleState | None) -> Any:
    """Return a lifecycle state, or UNSET if there is nothing to report."""
    return UNSET if lifecycle is None or lifecycle == NO_LIFECYCLE_STATE else lifecycle


def _code_answer(reply: CodeReply | None) -> CodeAnswer | None:
    if reply is None:
        return None
    from lorelog.operations.code.serialize import code_answer

    return code_answer(reply)


def anchor_json(anchor: Anchor | None) -> Json | None:
    """Return the non-empty fields of an anchor; of `covers` only the count, as `expand` lists the chunks."""
    if anchor is None:
        return None
    fields: Json = {name: value for name, value in to_json(anchor).items() if value}
    return fields | {"covers": len(anchor.covers)} if anchor.covers else fields
