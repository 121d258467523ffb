"""A key for a server: shown to nobody but the server, and cut out of whatever the server says.

What providers over the wire have in common when they introduce themselves and when they are turned away. The key is held
by this object only and goes to the host of the base URL only. Without a key only a server on this machine is asked.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.models.endpoint import Endpoint, Reply


@dataclass(frozen=True, slots=True)
class KeyHeader:
    """How a vendor wants to be shown a key, and whether it can do without."""

    name: str = "Authorization"
    scheme: str = "Bearer "
    needed: bool = True


BEARER = KeyHeader()


class Account:
    """Who asks at an endpoint, and what its refusals mean for a person."""

    def __init__(self, endpoint: Endpoint, key: str, key_variable: str, header: KeyHeader = BEARER) -> None:
        self._endpoint = endpoint
        self._key = key.strip()
        self._key_variable = key_variable
        self._header = header

    def headers(self) -> dict[str, str]:
        """Return what to send with a request. Raise ModelUnavailable where a key is missing or cannot be one."""
        if self._key:
            if not (self._key.isascii() and self._key.isprintable()):
                # http.client would refuse it too, and show it.
                raise ModelUnavailable(
                    f"the API key for {self._endpoint.host} contains characters that no key has",
                    hint=f"check {self._key_variable}",
                )
            return {self._header.name: f"{self._header.scheme}{self._key}"}
        if self._endpoint.is_loopback or not self._header.needed:
            return {}
        raise ModelUnavailable(f"no API key for {self._endpoint.host}", hint=f"set {self._key_variable}")

    def refusal(self, reply: Reply, doing: str) -> ModelUnavailable | ModelFault:
        """Return the error that a reply other than 200 is; `doing` names what was refused: embed with MODEL."""
        host, said = self._endpoint.host, self._said(reply.body)
        if reply.status in {401, 403} or b"API_KEY_INVALID" in reply.body:  # Google says 400 to a wrong key
            hint = f"check {self._key_variable}" if self._key else f"set {self._key_variable}"
            return ModelUnavailable(f"{host} refused the API key (HTTP {reply.status}){said}", hint=hint)
        if 300 <= reply.status < 400:
            return ModelFault(
                f"{host} sends elsewhere (HTTP {reply.status}), which is not followed: the key is not for others",
                hint="set the base URL to where the server really is",
            )
        if reply.status == 402:
            return ModelUnavailable(f"{host} wants to be paid (HTTP 402){said}", hint="look after the account there")
        if reply.status == 429:
            return ModelUnavailable(
                f"{host} limits how much may be asked (HTTP 429){said}",
                hint="wait, or lower the batch size; what is done so far is kept",
            )
        if reply.is_passing:
            return ModelUnavailable(f"{host} fails (HTTP {reply.status}){said}", hint="try again later")
        return ModelFault(
            f"{host} refused to {doing} (HTTP {reply.status}){said}", hint="check the model's name and the base URL"
        )

    def complaint(self, body: bytes) -> str:
        """Return what a server complains of in an answer that passes for a good one, for a message; else nothing."""
        with suppress(ValueError, RecursionError):
            return self._shown(_message(json.loads(body)))
        return ""

    def _said(self, body: bytes) -> str:
        """Return the server's own words for a message."""
        text = body.decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            text = _message(json.loads(text)) or text
        return self._shown(text)

    def _shown(self, text: str) -> str:
        """Return a text short, on one line, and without the key, however a server writes it."""
        if self._key:
            text = _spellings(self._key).sub("[key]", text)
        text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        return f": {text[:200]}" if text else ""


def _spellings(key: str) -> re.Pattern[str]:
    """Return what finds a key as servers repeat it: plain, with strokes in front, as in an address, or as in JSON."""
    letters = (rf"(?:\\?{re.escape(one)}|%{ord(one):02x}|\\u00{ord(one):02x})" for one in key)
    return re.compile("".join(letters), re.IGNORECASE)


def _message(answer: Any) -> str:
    """Return what a refusal says, wherever this vendor puts it; empty where it is in none of the usual places."""
    while isinstance(answer, dict):
        answer = next((answer[name] for name in ("error", "message", "detail") if answer.get(name)), "")
    return answer if isinstance(answer, str) else json.dumps(answer) if answer else ""
