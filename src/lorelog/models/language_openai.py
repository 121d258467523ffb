"""Any server that speaks OpenAI's chat completions: OpenAI itself, or one on this machine or in this company.

Servers differ in what they call the limit of an answer: OpenAI's newer models refuse `max_tokens`, others know nothing
else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.models.dialect import Unreadable
from lorelog.models.language_remote import RemoteLanguage, Tongue, Wanted, count, finished, inner
from lorelog.models.openai import DEFAULT_BASE_URL

DEFAULT_MODEL = "gpt-4.1-mini"


def _path(model: str, base_url: str) -> str:
    return "chat/completions"


def _body(wanted: Wanted) -> dict[str, Any]:
    said = [{"role": "system", "content": wanted.system}, {"role": "user", "content": wanted.text}]
    return {"model": wanted.model, "messages": said, wanted.manner: wanted.most_tokens}


def _read(answer: dict[str, Any]) -> Completion:
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        text = message["content"]
    except (LookupError, TypeError) as error:
        raise Unreadable("JSON without a message") from error
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        raise Unreadable("a refusal")
    cut = choice.get("finish_reason") == "length"
    usage = inner(answer, "usage")
    return Completion(finished(text, cut=cut), count(usage, "prompt_tokens"), count(usage, "completion_tokens"), cut)


TONGUE = Tongue(
    provider="openai",
    base_url=DEFAULT_BASE_URL,
    default_model=DEFAULT_MODEL,
    path=_path,
    body=_body,
    read=_read,
    manners=("max_tokens", "max_completion_tokens"),
)


class OpenAILanguage(RemoteLanguage):
    """Writes by asking a server that speaks as OpenAI's do."""

    def __init__(self, options: LanguageOptions) -> None:
        host = urlsplit(options.base_url or DEFAULT_BASE_URL).hostname or ""
        is_theirs = host == "api.openai.com" or host.endswith(".api.openai.com")
        super().__init__(options, replace(TONGUE, manners=TONGUE.manners[::-1]) if is_theirs else TONGUE)
