"""An Ollama server: one that runs, here or elsewhere, or one in a container that is started when it is needed.

It cuts what is longer than its window, at the front and silently, and its usual window is small: so it is told one, always
the same, since another would have the model loaded anew. Models that think are told not to; what some think all the same,
between tags, is taken out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.models.account import KeyHeader
from lorelog.models.dialect import Unreadable
from lorelog.models.endpoint import Reply
from lorelog.models.language_remote import RemoteLanguage, Tongue, Wanted, count, finished, inner
from lorelog.models.ollama import PORT, address

DEFAULT_MODEL = "llama3.2"
_THOUGHT = re.compile(r"\A\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


def _path(model: str, base_url: str) -> str:
    return "api/chat"


def _body(wanted: Wanted) -> dict[str, Any]:
    said = [{"role": "system", "content": wanted.system}, {"role": "user", "content": wanted.text}]
    options = {"num_predict": wanted.most_tokens, "num_ctx": wanted.window_tokens}
    asked = {"model": wanted.model, "messages": said, "stream": False, "options": options}
    return {**asked, "think": False} if wanted.manner else asked


def _read(answer: dict[str, Any]) -> Completion:
    text = inner(answer, "message").get("content")
    if answer.get("done") is not True:
        raise Unreadable("a message that is not done")
    cut = answer.get("done_reason") == "length"
    text = _THOUGHT.sub("", text) if isinstance(text, str) else text
    return Completion(finished(text, cut=cut), count(answer, "prompt_eval_count"), count(answer, "eval_count"), cut)


TONGUE = Tongue(
    provider="ollama",
    base_url=f"http://127.0.0.1:{PORT}",
    default_model=DEFAULT_MODEL,
    path=_path,
    body=_body,
    read=_read,
    key=KeyHeader(needed=False),
    manners=("think", ""),
)


class OllamaLanguage(RemoteLanguage):
    """Writes with an Ollama server, and with leave of the settings sees to it that there is one."""

    def __init__(self, options: LanguageOptions) -> None:
        from lorelog.models.ollama_docker import Container

        url = address(options.base_url)
        super().__init__(replace(options, base_url=url), TONGUE)
        self._container = Container(options.ollama, url) if options.ollama.manage else None

    def _ask(self, wanted: Wanted) -> Reply:
        container = self._container
        if container is None:
            return self._answered(super()._ask(wanted))
        container.ensure(self.model)
        try:
            reply = super()._ask(wanted)
        except ModelUnavailable:
            if container.answers():
                raise
            container.ensure(self.model, anew=True)  # it was let go meanwhile
            reply = super()._ask(wanted)
        if reply.status == 404 and container.pull(self.model):
            reply = super()._ask(wanted)
        if reply.status == 200:
            container.used()
        return self._answered(reply)

    def _answered(self, reply: Reply) -> Reply:
        if reply.status == 404 and b"not found" in reply.body:
            raise ModelUnavailable(
                f"the Ollama server at {self._endpoint.host} does not have the model {self.model}",
                hint=f"run: ollama pull {self.model}",
            )
        return reply
