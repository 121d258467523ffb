"""The two hook moments by which a plugin lends lorelog its agent's model: it fetches a text and submits its summary.

For agents whose program cannot be run for a single prompt (OpenCode, OpenClaw). The plugin runs both in the background:

    lorelog hook openclaw summary-request   <- {"session": ID}       -> {"summarize": {"id","system","text","max_tokens"}}
    lorelog hook openclaw summary           <- {"id","text","tokens_in","tokens_out"}                                  -> {}

The first waits a few seconds, because turns are captured in the background too. `"summarize": null` means that there is
nothing to summarize, and `{}` that the user has not chosen the agent's model, so the plugin need not ask again. Nothing
here raises: a plugin always gets valid JSON, and sentences are extracted from a turn whose summary does not arrive.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorelog.core.errors import LorelogError

SUMMARY_WAIT_S = 8.0
"""How long a plugin waits for a text to summarize."""


def answer_summary(host: str, moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    import signal

    from lorelog.light.daemon_connection import find_address

    signal.setitimer(signal.ITIMER_REAL, 0)  # cancel the deadline of hooks that an agent waits for
    home = str(find_address(None, environment).home)
    return request_summary(host, payload, home) if moment == "summary-request" else submit_summary(payload, home)


def request_summary(host: str, payload: dict[str, Any], home: str, wait_s: float = SUMMARY_WAIT_S) -> dict[str, Any]:
    """Return a text to summarize, or {} if the user has not chosen the agent's model (summarize.provider = host)."""
    from lorelog.wiring import user_settings

    try:
        if user_settings(Path(home)).summarize_options({}).provider != "host":
            return {}
    except LorelogError:
        return {}
    from lorelog.services.sessions.summarizer import requests_folder, take_request

    session = payload.get("session")
    parent = os.getppid()  # the agent: stop waiting if it exits
    session_id = session if isinstance(session, str) else ""
    request = take_request(requests_folder(home), host, session_id, wait_s, lambda: os.getppid() == parent)
    if request is None:
        return {"summarize": None}
    return {"summarize": {name: request.get(name) for name in ("id", "system", "text", "max_tokens")}}


def submit_summary(payload: dict[str, Any], home: str) -> dict[str, Any]:
    """Pass a summary on to the process that waits for it."""
    from lorelog.services.sessions.summarizer import requests_folder, submit_answer

    submit_answer(requests_folder(home), str(payload.get("id", "")), payload)
    return {}
