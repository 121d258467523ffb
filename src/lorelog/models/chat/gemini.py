"""Google's Gemini API.

Its models think before they write, and thinking counts against the output limit: they are asked to think little, by the
parameter of their generation, and given room for it. A model that rejects the parameter is asked without. The key goes into
a header and never into the URL, which logs would keep.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from lorelog.core.ports import Completion
from lorelog.models.chat.remote import (
    ChatAdapter,
    ChatRequest,
    complete_lines,
    finish_reason,
    join_parts,
    nested_object,
    sum_counts,
)
from lorelog.models.http import KeyHeader, MalformedReply

DEFAULT_MODEL = "gemini-flash-latest"
_THINKING_TOKENS = 1024
"""Output tokens reserved for thinking."""
_MIN_PRO_THINKING_TOKENS = 128
"""Minimum for models whose thinking cannot be switched off."""


def _path(model: str, base_url: str) -> str:
    return f"models/{quote(model.removeprefix('models/'), safe='')}:generateContent"


def _body(request: ChatRequest) -> dict[str, Any]:
    limits: dict[str, Any] = {"maxOutputTokens": request.max_tokens + _THINKING_TOKENS}
    if request.variant:
        limits["thinkingConfig"] = _low_thinking_config(request.model.removeprefix("models/"))
    return {
        "systemInstruction": {"parts": [{"text": request.system}]},
        "contents": [{"role": "user", "parts": [{"text": request.text}]}],
        "generationConfig": limits,
    }


def _low_thinking_config(model: str) -> dict[str, Any]:
    """Return the parameter for little thinking: a number up to generation 2, a level from 3 on."""
    if model.startswith(("gemini-1", "gemini-2")):
        return {"thinkingBudget": _MIN_PRO_THINKING_TOKENS if "pro" in model else 0}
    return {"thinkingLevel": "low"}


def _read(reply: dict[str, Any]) -> Completion:
    blocked = nested_object(reply, "promptFeedback").get("blockReason")
    if blocked:
        raise MalformedReply(f"a refusal ({finish_reason(blocked)})")
    candidates = reply.get("candidates")
    if not isinstance(candidates, list) or not candidates or not isinstance(candidates[0], dict):
        raise MalformedReply("JSON without a message")
    finish = candidates[0].get("finishReason") or "STOP"
    if finish not in {"STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED"}:
        # SAFETY, RECITATION, PROHIBITED_CONTENT and similar
        raise MalformedReply(f"a refusal ({finish_reason(finish)})")
    cut = finish == "MAX_TOKENS"
    parts = nested_object(candidates[0], "content").get("parts", [])  # missing if thinking used up the limit
    usage = nested_object(reply, "usageMetadata")
    tokens_out = sum_counts(usage, "candidatesTokenCount", "thoughtsTokenCount")
    text = complete_lines(join_parts(parts), cut=cut)
    return Completion(text, sum_counts(usage, "promptTokenCount"), tokens_out, cut)


ADAPTER = ChatAdapter(
    provider="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    default_model=DEFAULT_MODEL,
    path=_path,
    body=_body,
    read=_read,
    key=KeyHeader("x-goog-api-key", ""),
    variants=("thinking", ""),
    extra_tokens=_THINKING_TOKENS + 50,
)
