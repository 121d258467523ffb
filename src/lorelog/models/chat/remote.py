"""Completion over HTTP: request, retries and error handling shared by all vendors.

A vendor's API is a `ChatAdapter`; a new vendor is a new module with one. No SDK is used, for the reasons given in
`models.embed.adapter`.

Some parameters that servers disagree on have variants: if a server rejects one, the next is tried and remembered. A
completion that was truncated by the limit loses its last, unfinished line. A request rejected with a status is not charged;
one whose connection broke, or whose reply a gateway lost, may be, so it is not sent again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.models.http import (
    BEARER_HEADER,
    GATEWAY_FAILURES,
    Credentials,
    Endpoint,
    HttpReply,
    KeyHeader,
    MalformedReply,
    parse_object,
)


class ChatRequest(Struct, frozen=True, kw_only=True):
    """A prompt and its limits."""

    model: str
    system: str
    text: str
    max_tokens: int
    window_tokens: int = 0
    variant: str = ""


class ChatAdapter(Struct, frozen=True, kw_only=True):
    """A vendor's API."""

    provider: str
    base_url: str
    default_model: str
    path: Callable[[str, str], str]
    """Return the path for a model and a base URL."""
    body: Callable[[ChatRequest], dict[str, Any]]
    read: Callable[[dict[str, Any]], Completion]
    """Return the completion, or raise MalformedReply."""
    key: KeyHeader = BEARER_HEADER
    headers: Mapping[str, str] = field(default_factory=dict)
    variants: tuple[str, ...] = ("",)
    """Parameter names, tried in order: a 400 or 422 that mentions the name selects the next. The empty one is the last."""
    extra_tokens: int = 50


class RemoteLanguageModel:
    """Completes over HTTP through a vendor's adapter."""

    def __init__(self, options: LanguageOptions, adapter: ChatAdapter) -> None:
        self.provider = adapter.provider
        self.model = options.model or adapter.default_model
        self.extra_tokens = adapter.extra_tokens
        self._adapter = adapter
        self._window_tokens = options.window_tokens
        self._base_url = options.base_url or adapter.base_url
        # A connection that broke while a reply was written is not retried: the request may have been charged.
        self._endpoint = Endpoint(self._base_url, options.timeout_s, purpose="language model", once=True)
        self._credentials = Credentials(self._endpoint, options.api_key, options.key_variable, adapter.key)
        self._variants = adapter.variants

    def check(self) -> None:
        """Raise ModelUnavailable if the key is missing or malformed. Sends nothing."""
        self._credentials.headers()

    def complete(self, system: str, text: str, most_tokens: int) -> Completion:
        # Most servers reject a lone surrogate in JSON.
        system, text = (part.encode("utf-8", "replace").decode() for part in (system, text))
        try:
            reply = self._post_variants(
                ChatRequest(
                    model=self.model,
                    system=system,
                    text=text,
                    max_tokens=most_tokens,
                    window_tokens=self._window_tokens,
                )
            )
        finally:
            self._endpoint.close()  # the next call is minutes away: an open connection would be stale
        if reply.status != 200:
            raise self._refusal(reply)
        try:
            return self._adapter.read(parse_object(reply.body, "JSON without a message"))
        except MalformedReply as error:
            raise ModelFault(f"{self._endpoint.host} ({self.model}) answered {error}") from error

    def _post_variants(self, request: ChatRequest) -> HttpReply:
        """Send the request with each variant until the server accepts one."""
        for _ in self._variants:
            variant = self._variants[0]
            reply = self._post(replace(request, variant=variant))
            if reply.status not in {400, 422} or not variant or variant.encode() not in reply.body.lower():
                break
            self._variants = (*self._variants[1:], variant)
        return reply

    def _post(self, request: ChatRequest) -> HttpReply:
        path = self._adapter.path(self.model, self._base_url)
        headers = {**self._adapter.headers, **self._credentials.headers()}
        return self._endpoint.post(path, json.dumps(self._adapter.body(request)).encode(), headers)

    def _refusal(self, reply: HttpReply) -> ModelUnavailable | ModelFault:
        error = self._credentials.error_for_reply(reply, f"write with {self.model}")
        hint = "wait a while, or choose another model" if reply.status == 429 else error.hint
        # A reply lost by a gateway may have been charged; any other refusal is not.
        error_type = ModelFault if reply.status in GATEWAY_FAILURES else ModelUnavailable
        return error_type(error.message, hint=hint)


def complete_lines(text: object, *, cut: bool) -> str:
    """Return a text without its last, unfinished line if it was truncated."""
    if not isinstance(text, str):
        raise MalformedReply("a message without text")
    return text.rpartition("\n")[0] if cut else text


def join_parts(parts: object) -> str:
    """Return the joined text of a list of parts, without thoughts and parts that are not text."""
    if not isinstance(parts, list):
        raise MalformedReply("JSON without a message")
    texts = [part.get("text") for part in parts if isinstance(part, dict) and not part.get("thought")]
    return "".join(text for text in texts if isinstance(text, str))


def nested_object(reply: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return an object inside another, or an empty one."""
    value: object = reply
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def sum_counts(usage: Mapping[str, Any], *names: str) -> int:
    """Return the sum of the counts that are present and valid."""
    values = (usage.get(name) for name in names)
    return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0)


def finish_reason(value: object) -> str:
    """Return the finish reason if it is a word that is safe to show, otherwise an empty string."""
    word = value if isinstance(value, str) else ""
    return word if word.replace("_", "").isalnum() and word.isascii() and len(word) <= 60 else ""
