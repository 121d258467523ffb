"""Conversion of search replies and hits to the `…Json` replies of `schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from lorelog.core.query import NO_LIFECYCLE_STATE
from lorelog.operations.replies import freshness_json, grounding_ref, reply_from, to_json, verification_hint
from lorelog.operations.search import schema

if TYPE_CHECKING:
    from lorelog.core.code import CodeReply
    from lorelog.core.document import Anchor
    from lorelog.core.query import Hit, LifecycleState, SearchReply
    from lorelog.operations.replies import CodeAnswer, Json


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
        "fate": fate_json(hit.fate),
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


def fate_json(fate: LifecycleState | None) -> Any:
    """Return a lifecycle state, or UNSET if there is nothing to report."""
    return UNSET if fate is None or fate == NO_LIFECYCLE_STATE else fate


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
