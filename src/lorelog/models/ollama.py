"""An Ollama server: one that runs, here or elsewhere, or one in a container that is started when it is needed.

The words in front of questions and texts are ours to add: its API has none, and its templates for embeddings neither. It
cuts texts that are too long by itself. One request at a time and few tokens in each: it computes on this machine's own
processors, and an answer must come within the time limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.models.account import KeyHeader
from lorelog.models.dialect import Ask, Dialect, Told, Unreadable
from lorelog.models.endpoint import Reply
from lorelog.models.families import Forms, family_of, never
from lorelog.models.remote import RemoteEmbedder

PORT = 11434


def address(named: str) -> str:
    """Return the server's address from what OLLAMA_HOST or a setting says, as Ollama itself reads it.

    Scheme and port may be missing, and what a server listens on (0.0.0.0) is reached at this machine.
    """
    named = named.strip().strip("\"'").rstrip("/") or "127.0.0.1"
    full = named if "://" in named else f"http://{named}"
    try:
        parts = urlsplit(full)
        port = parts.port
    except ValueError:
        return full  # refused by whoever opens it
    if "@" in parts.netloc or parts.scheme not in {"http", "https"}:
        return full
    host = parts.hostname or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # nothing listens here
    usual = {"http": 80, "https": 443}[parts.scheme] if "://" in named else PORT
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port or usual}{parts.path}"


def _path(ask: Ask) -> str:
    return "api/embed"


def _body(ask: Ask) -> dict[str, Any]:
    return {"model": ask.model, "input": list(ask.texts)}


def _read(answer: dict[str, Any]) -> Told:
    embeddings = answer.get("embeddings")
    if not isinstance(embeddings, list):
        raise Unreadable("JSON without a list of embeddings")
    return Told(embeddings, tokens=answer.get("prompt_eval_count"))


def _usual_forms(model: str) -> Forms:
    return family_of(model).forms


DIALECT = Dialect(
    provider="ollama",
    base_url=f"http://127.0.0.1:{PORT}",
    most_texts=512,
    most_tokens=16_000,
    path=_path,
    body=_body,
    read=_read,
    takes_dimensions=never,  # it would cut any model's vectors, whether they can be cut or not
    usual_forms=_usual_forms,
    key=KeyHeader(needed=False),
)


class OllamaEmbedder(RemoteEmbedder):
    """Embeds with an Ollama server, and with leave of the settings sees to it that there is one."""

    def __init__(self, options: EmbedOptions, at_once: int) -> None:
        from dataclasses import replace

        from lorelog.models.ollama_docker import Container

        url = address(options.base_url)
        super().__init__(replace(options, base_url=url), DIALECT, at_once)
        self._container = Container(options.ollama, url) if options.ollama.manage else None

    def _ask(self, texts: Sequence[str], *, is_query: bool) -> Reply:
        container = self._container
        if container is None:
            return self._answered(super()._ask(texts, is_query=is_query))
        container.ensure(self._name)
        try:
            reply = super()._ask(texts, is_query=is_query)
        except ModelUnavailable:
            if container.answers():
                raise
            container.ensure(self._name, anew=True)  # it was let go meanwhile
            reply = super()._ask(texts, is_query=is_query)
        if reply.status == 404 and container.pull(self._name):
            reply = super()._ask(texts, is_query=is_query)
        if reply.status == 200:
            container.used()
        return self._answered(reply)

    def _answered(self, reply: Reply) -> Reply:
        if reply.status == 404 and b"not found" in reply.body:
            raise ModelUnavailable(
                f"the Ollama server at {self._endpoint.host} does not have the model {self._name}",
                hint=f"run: ollama pull {self._name}",
            )
        return reply
