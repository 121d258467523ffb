"""Embeddings and completions from an Ollama server, an existing one or a container started on demand.

Embeddings: the API adds no prefixes, so ours are added. The server truncates long texts itself. One small request is in
flight at a time: the server computes on this machine, and a reply must arrive within the time limit.

Completions: the server silently drops the beginning of a prompt that exceeds its window, and the default window is small. So
a window is always sent, and always the same, since another would reload the model. Thinking is switched off; thoughts that
some models write anyway, between tags, are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions, LanguageOptions, OllamaOptions
from lorelog.core.ports import Completion
from lorelog.models.chat.remote import ChatAdapter, ChatRequest, RemoteLanguageModel, make_completion, make_messages
from lorelog.models.embed.remote import EmbeddingAdapter, EmbedResponse, RemoteEmbedder
from lorelog.models.http import Endpoint, HttpReply, KeyHeader, MalformedReply, nested_object, sum_counts

PORT = 11434


def server_url(address: str) -> str:
    """Return the URL for an address from OLLAMA_HOST or a setting, interpreted as Ollama does.

    Scheme and port may be missing; 0.0.0.0, which a server listens on, is reached at loopback.
    """
    address = address.strip().strip("\"'").rstrip("/") or "127.0.0.1"
    full = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(full)
        port = parts.port
    except ValueError:
        return full  # rejected when it is opened
    if "@" in parts.netloc or parts.scheme not in {"http", "https"}:
        return full
    host = parts.hostname or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # nothing listens here
    default_port = {"http": 80, "https": 443}[parts.scheme] if "://" in address else PORT
    bracketed = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{bracketed}:{port or default_port}{parts.path}"


class _OllamaEndpoint(Endpoint):
    """An Ollama server, whose container is started, and whose model is pulled, if the settings allow it."""

    def __init__(self, options: OllamaOptions, base_url: str, *given: Any, **named: Any) -> None:
        from lorelog.models.ollama_container import OllamaContainer

        url = server_url(base_url)
        super().__init__(url, *given, **named)
        self._container = OllamaContainer(options, url) if options.manage else None

    def post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] = {}, *, urgent: bool = False
    ) -> HttpReply:
        container, model = self._container, body["model"]
        post = partial(super().post, path, body, headers, urgent=urgent)
        if container is not None:
            container.ensure(model)
        try:
            reply = post()
        except ModelUnavailable:
            if container is None or container.is_reachable():
                raise
            container.ensure(model, recheck=True)  # it was stopped in the meantime
            reply = post()
        if reply.status == 404 and container is not None and container.pull(model):
            reply = post()
        if reply.status == 200 and container is not None:
            container.record_use()
        if reply.status == 404 and b"not found" in reply.body:
            raise ModelUnavailable(
                f"the Ollama server at {self.host} does not have the model {model}", hint=f"run: ollama pull {model}"
            )
        return reply


def _read_embeddings(reply: dict[str, Any]) -> EmbedResponse:
    embeddings = reply.get("embeddings")
    if not isinstance(embeddings, list):
        raise MalformedReply("JSON without a list of embeddings")
    return EmbedResponse(embeddings, tokens=sum_counts(reply, "prompt_eval_count"))


_EMBEDDING_ADAPTER = EmbeddingAdapter(
    base_url=f"http://127.0.0.1:{PORT}",
    max_texts=512,
    max_tokens=16_000,
    path=lambda model: "api/embed",
    # No dimensions: it would truncate any model's vectors, even where that is meaningless.
    body=lambda request: {"model": request.model, "input": list(request.texts)},
    read=_read_embeddings,
    is_prefixed=True,
    key=KeyHeader(required=False),
)


def open_ollama_embedder(options: EmbedOptions, parallel_batches: int) -> RemoteEmbedder:
    adapter = replace(_EMBEDDING_ADAPTER, endpoint=partial(_OllamaEndpoint, options.ollama))
    return RemoteEmbedder(options, adapter, parallel_batches)


def _chat_body(request: ChatRequest) -> dict[str, Any]:
    options = {"num_predict": request.max_tokens, "num_ctx": request.window_tokens}
    body = {"model": request.model, "messages": make_messages(request), "stream": False, "options": options}
    return {**body, "think": False} if request.variant else body


def _read_completion(reply: dict[str, Any]) -> Completion:
    text = nested_object(reply, "message").get("content")
    if reply.get("done") is not True:
        raise MalformedReply("a message that is not done")
    if isinstance(text, str) and text.lstrip().startswith("<think>"):
        text = text.partition("</think>")[2].lstrip()
    tokens_in, tokens_out = sum_counts(reply, "prompt_eval_count"), sum_counts(reply, "eval_count")
    return make_completion(text, tokens_in, tokens_out, cut=reply.get("done_reason") == "length")


_CHAT_ADAPTER = ChatAdapter(
    base_url=f"http://127.0.0.1:{PORT}",
    default_model="llama3.2",
    path=lambda model: "api/chat",
    body=_chat_body,
    read=_read_completion,
    key=KeyHeader(required=False),
    variants=("think", ""),
)


def open_ollama_model(options: LanguageOptions) -> RemoteLanguageModel:
    return RemoteLanguageModel(options, replace(_CHAT_ADAPTER, endpoint=partial(_OllamaEndpoint, options.ollama)))
