"""Writing by asking a server, whoever's it is: what all vendors share.

How one vendor's API is spoken is a value, a `Tongue`; a new vendor is a new file with one. No SDK is used, for the reasons
that `dialect` gives for embeddings.

Some things servers do not agree on are asked for in one manner and, where a server complains of it, in the next; that is
remembered. An answer that ran into its limit loses its last, unfinished line. What was refused with a status is charged to
nobody; where a connection broke or a gateway lost the answer it may have been, so nothing is sent again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.models.account import BEARER, Account, KeyHeader
from lorelog.models.dialect import Unreadable
from lorelog.models.endpoint import LOST, Endpoint, Reply


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request."""

    model: str
    system: str
    text: str
    most_tokens: int
    window_tokens: int = 0
    manner: str = ""


@dataclass(frozen=True, slots=True)
class Tongue:
    """A vendor's way."""

    provider: str
    base_url: str
    default_model: str
    path: Callable[[str, str], str]
    """Where to ask, from the model and the base URL."""
    body: Callable[[Wanted], dict[str, Any]]
    read: Callable[[dict[str, Any]], Completion]
    """Returns what was written, or raises Unreadable."""
    key: KeyHeader = BEARER
    headers: Mapping[str, str] = field(default_factory=dict)
    manners: tuple[str, ...] = ("",)
    """Each is the word that a server's complaint holds when it does not know that manner; an empty one has no other after it."""
    extra_tokens: int = 50


class RemoteLanguage:
    """Writes by asking a server in a vendor's tongue."""

    def __init__(self, options: LanguageOptions, tongue: Tongue) -> None:
        self.provider = tongue.provider
        self.model = options.model or tongue.default_model
        self.extra_tokens = tongue.extra_tokens
        self._tongue = tongue
        self._window_tokens = options.window_tokens
        self._base_url = options.base_url or tongue.base_url
        # A connection that broke while an answer was written is not tried again: it may have been charged for.
        self._endpoint = Endpoint(self._base_url, options.timeout_s, purpose="language model", once=True)
        self._account = Account(self._endpoint, options.api_key, options.key_variable, tongue.key)
        self._manners = tongue.manners

    def check(self) -> None:
        """Raise ModelUnavailable where the key is missing, or cannot be one. Asks nobody."""
        self._account.headers()

    def complete(self, system: str, text: str, most_tokens: int) -> Completion:
        # A lone surrogate is no JSON to most servers.
        told, asked = (one.encode("utf-8", "replace").decode() for one in (system, text))
        try:
            reply = self._answer(Wanted(self.model, told, asked, most_tokens, self._window_tokens))
        finally:
            self._endpoint.close()  # minutes pass until the next one: a connection kept open would be stale
        if reply.status != 200:
            raise self._refusal(reply)
        try:
            return self._tongue.read(_object(reply.body))
        except Unreadable as wrong:
            raise ModelFault(f"{self._endpoint.host} ({self.model}) answered {wrong}") from wrong

    def _answer(self, wanted: Wanted) -> Reply:
        """Ask in the manner that is known to be understood, or else in one after the other."""
        for _ in self._manners:
            manner = self._manners[0]
            reply = self._ask(replace(wanted, manner=manner))
            if reply.status not in {400, 422} or not manner or manner.encode() not in reply.body.lower():
                break
            self._manners = (*self._manners[1:], manner)
        return reply

    def _ask(self, wanted: Wanted) -> Reply:
        path = self._tongue.path(self.model, self._base_url)
        headers = {**self._tongue.headers, **self._account.headers()}
        return self._endpoint.post(path, json.dumps(self._tongue.body(wanted)).encode(), headers)

    def _refusal(self, reply: Reply) -> ModelUnavailable | ModelFault:
        refused = self._account.refusal(reply, f"write with {self.model}")
        hint = "wait a while, or choose another model" if reply.status == 429 else refused.hint
        kind = ModelFault if reply.status in LOST else ModelUnavailable  # all but these are charged to nobody
        return kind(refused.message, hint=hint)


def _object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreadable("something that is not JSON") from error
    if not isinstance(answer, dict):
        raise Unreadable("JSON without a message")
    return answer


def finished(text: object, *, cut: bool) -> str:
    """Return a text as far as it is whole: one that ran into its limit ends before its last, unfinished line."""
    if not isinstance(text, str):
        raise Unreadable("a message without text")
    return text.rpartition("\n")[0] if cut else text


def joined(parts: object) -> str:
    """Return the text of a list of parts, of which some may be no text."""
    if not isinstance(parts, list):
        raise Unreadable("JSON without a message")
    texts = [part.get("text") for part in parts if isinstance(part, dict) and not part.get("thought")]
    return "".join(text for text in texts if isinstance(text, str))


def inner(answer: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return an object inside another; an empty one where there is none."""
    found: object = answer
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def count(usage: Mapping[str, Any], *names: str) -> int:
    """Return the sum of counts, as far as they are some."""
    values = (usage.get(name) for name in names)
    return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0)


def reason(value: object) -> str:
    """Return why an answer ended, as a word that may be shown; empty where that is said by none."""
    word = value if isinstance(value, str) else ""
    return word if word.replace("_", "").isalnum() and word.isascii() and len(word) <= 60 else ""
