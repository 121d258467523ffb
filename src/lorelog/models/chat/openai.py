"""OpenAI's chat completions API, or any compatible server.

Servers differ in the name of the output limit: OpenAI's newer models reject `max_tokens`, others know nothing else.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.models.chat.remote import (
    ChatAdapter,
    ChatRequest,
    RemoteLanguageModel,
    complete_lines,
    nested_object,
    sum_counts,
)
from lorelog.models.embed.openai import DEFAULT_BASE_URL
from lorelog.models.http import MalformedReply

DEFAULT_MODEL = "gpt-4.1-mini"


def _path(model: str, base_url: str) -> str:
    return "chat/completions"


def _body(request: ChatRequest) -> dict[str, Any]:
    messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.text}]
    return {"model": request.model, "messages": messages, request.variant: request.max_tokens}


def _read(reply: dict[str, Any]) -> Completion:
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        text = message["content"]
    except (LookupError, TypeError) as error:
        raise MalformedReply("JSON without a message") from error
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        raise MalformedReply("a refusal")
    cut = choice.get("finish_reason") == "length"
    usage = nested_object(reply, "usage")
    return Completion(
        complete_lines(text, cut=cut), sum_counts(usage, "prompt_tokens"), sum_counts(usage, "completion_tokens"), cut
    )


ADAPTER = ChatAdapter(
    provider="openai",
    base_url=DEFAULT_BASE_URL,
    default_model=DEFAULT_MODEL,
    path=_path,
    body=_body,
    read=_read,
    variants=("max_tokens", "max_completion_tokens"),
)


class OpenAILanguageModel(RemoteLanguageModel):
    """Completes with a server that implements OpenAI's API."""

    def __init__(self, options: LanguageOptions) -> None:
        host = urlsplit(options.base_url or DEFAULT_BASE_URL).hostname or ""
        is_openai = host == "api.openai.com" or host.endswith(".api.openai.com")
        super().__init__(options, replace(ADAPTER, variants=ADAPTER.variants[::-1]) if is_openai else ADAPTER)
