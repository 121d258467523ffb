"""Any server that speaks OpenAI's chat completions: OpenAI itself, or one on this machine or in this company.

Servers differ in what they call the limit of an answer: OpenAI's newer models refuse `max_tokens`, others know nothing
else. A server that refuses one word is asked again with the other, and from then on at once. An answer that ran into its
limit loses its last, unfinished line.
"""

from __future__ import annotations

import json
from typing import Any

from recollect.core.errors import ModelFault, ModelUnavailable
from recollect.core.options import SummarizeOptions
from recollect.core.ports import Completion
from recollect.models.account import Account
from recollect.models.endpoint import Endpoint, Reply
from recollect.models.openai import DEFAULT_BASE_URL, KEY_VARIABLE

DEFAULT_MODEL = "gpt-4.1-mini"
_LIMITS = ("max_completion_tokens", "max_tokens")


class OpenAILanguage:
    """Writes by asking a server."""

    provider = "openai"
    extra_tokens = 50

    def __init__(self, options: SummarizeOptions) -> None:
        self.model = options.model or DEFAULT_MODEL
        # A connection that broke while an answer was written is not tried again: it may have been charged for.
        self._endpoint = Endpoint(options.base_url or DEFAULT_BASE_URL, options.timeout_s, purpose="summary", once=True)
        self._account = Account(self._endpoint, options.api_key, KEY_VARIABLE)
        self._limits = _LIMITS if self._endpoint.host.endswith("api.openai.com") else _LIMITS[::-1]

    def complete(self, system: str, text: str, most_tokens: int) -> Completion:
        try:
            reply = self._ask(system, text, most_tokens)
            if reply.status in {400, 422} and self._limits[0].encode() in reply.body:
                self._limits = self._limits[::-1]
                reply = self._ask(system, text, most_tokens)
        finally:
            self._endpoint.close()  # minutes pass until the next one: a connection kept open would be stale
        if reply.status != 200:
            refused = self._account.refusal(reply, f"write with {self.model}")
            raise ModelUnavailable(refused.message, hint=refused.hint)  # whatever it is, nobody is charged for it
        try:
            answer = json.loads(reply.body)
        except (ValueError, RecursionError) as error:
            raise self._fault("answered something that is not JSON") from error
        return self._completion(answer)

    def _ask(self, system: str, text: str, most_tokens: int) -> Reply:
        said = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        for message in said:  # a lone surrogate is no JSON to most servers
            message["content"] = message["content"].encode("utf-8", "replace").decode()
        request = {"model": self.model, "messages": said, self._limits[0]: most_tokens}
        return self._endpoint.post("chat/completions", json.dumps(request).encode(), self._account.headers())

    def _completion(self, answer: Any) -> Completion:
        try:
            choice = answer["choices"][0]
            text = choice["message"]["content"]
        except (LookupError, TypeError) as error:
            raise self._fault("answered JSON without a message") from error
        if not isinstance(text, str):
            raise self._fault("answered a message without text")
        if choice.get("finish_reason") == "length":
            text = text.rpartition("\n")[0]
        usage = answer.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        return Completion(text, _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))

    def _fault(self, what: str) -> ModelFault:
        return ModelFault(f"{self._endpoint.host} ({self.model}) {what}")


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
