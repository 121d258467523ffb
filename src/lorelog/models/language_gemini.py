"""Google's Gemini API.

Its models think before they write, and what they think counts against the limit of the answer: they are asked to think
little, in the words that their generation knows, and given room for that. A model that knows no such words is asked without.
The key goes into a header and never into the address, where logs would keep it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from lorelog.core.ports import Completion
from lorelog.models.account import KeyHeader
from lorelog.models.dialect import Unreadable
from lorelog.models.language_remote import Tongue, Wanted, count, finished, inner, joined, reason

DEFAULT_MODEL = "gemini-flash-latest"
_THINKING = 1024
"""Tokens that a model may think beyond what it writes."""
_LEAST_OF_PRO = 128
"""What a model thinks at least that cannot be kept from it."""


def _path(model: str, base_url: str) -> str:
    return f"models/{quote(model.removeprefix('models/'), safe='')}:generateContent"


def _body(wanted: Wanted) -> dict[str, Any]:
    limits: dict[str, Any] = {"maxOutputTokens": wanted.most_tokens + _THINKING}
    if wanted.manner:
        limits["thinkingConfig"] = _little(wanted.model.removeprefix("models/"))
    return {
        "systemInstruction": {"parts": [{"text": wanted.system}]},
        "contents": [{"role": "user", "parts": [{"text": wanted.text}]}],
        "generationConfig": limits,
    }


def _little(model: str) -> dict[str, Any]:
    """Return how a model is asked to think little: by a number up to generation 2, by a word from 3 on."""
    if model.startswith(("gemini-1", "gemini-2")):
        return {"thinkingBudget": _LEAST_OF_PRO if "pro" in model else 0}
    return {"thinkingLevel": "low"}


def _read(answer: dict[str, Any]) -> Completion:
    blocked = inner(answer, "promptFeedback").get("blockReason")
    if blocked:
        raise Unreadable(f"a refusal ({reason(blocked)})")
    candidates = answer.get("candidates")
    if not isinstance(candidates, list) or not candidates or not isinstance(candidates[0], dict):
        raise Unreadable("JSON without a message")
    ended = candidates[0].get("finishReason") or "STOP"
    if ended not in {"STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED"}:
        raise Unreadable(f"a refusal ({reason(ended)})")  # SAFETY, RECITATION, PROHIBITED_CONTENT and their like
    cut = ended == "MAX_TOKENS"
    parts = inner(candidates[0], "content").get("parts", [])  # none where thinking took all the room
    usage = inner(answer, "usageMetadata")
    tokens_out = count(usage, "candidatesTokenCount", "thoughtsTokenCount")
    return Completion(finished(joined(parts), cut=cut), count(usage, "promptTokenCount"), tokens_out, cut)


TONGUE = Tongue(
    provider="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    default_model=DEFAULT_MODEL,
    path=_path,
    body=_body,
    read=_read,
    key=KeyHeader("x-goog-api-key", ""),
    manners=("thinking", ""),
    extra_tokens=_THINKING + 50,
)
