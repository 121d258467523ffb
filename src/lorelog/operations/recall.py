"""Memories for a prompt, as a host's hook asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.engine import Engine
from lorelog.operations import requests
from lorelog.operations.freshness_shapes import freshness_shape
from lorelog.operations.operation import Call
from lorelog.operations.trust_shapes import grounding_shape, hint_shape, trust_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorelog.operations.session_replies import RecallShape
    from lorelog.services.session.recall import Recalled


def recall(engine: Engine, request: requests.RecallRequest, call: Call) -> Sequence[Recalled]:
    """Return the few memories that fit a prompt, none of them twice in a session.

    For the hook that a host runs when something was typed. Whoever looks for something asks memory.search, which
    always answers the same.
    """
    from lorelog.services.session.recall import Prompt

    def wanted() -> None:
        if call.progress is not None:
            call.progress("recall", 0, 0)

    prompt = Prompt(request.host, request.session, request.prompt)
    return engine.recall(prompt, k=request.k, min_relevance=request.min_relevance, wanted=wanted)


def recall_shape(hits: Sequence[Recalled]) -> RecallShape:
    """Memories for a prompt."""
    return {
        "hits": [
            {
                "id": one.id,
                "text": one.text,
                "source": one.source,
                "date": one.date,
                "relevance": one.relevance,
                "origin": one.origin,
                "trust": trust_shape(one.trust),
                "grounding_refs": [grounding_shape(record) for record in one.grounding],
                "verification_hint": hint_shape(one.trust),
                "freshness": freshness_shape(one.verdict),
            }
            for one in hits
        ]
    }
