"""The two moments in which a plugin lends us its agent's model: it fetches what is to be summarized, and hands the summary in.

For agents whose own program cannot be run once (OpenCode, OpenClaw). The plugin runs both in the background, after a turn:

    lorelog hook openclaw summary-request   <- {"session": ID}       -> {"summarize": {"id","system","text","max_tokens"}}
    lorelog hook openclaw summary           <- {"id","text","tokens_in","tokens_out"}                                  -> {}

The first waits for a few seconds, because the turn is captured in the background too. `"summarize": null` means that nothing came,
and `{}` that the agent's own model is not chosen, so that a plugin need not ask again. Nothing here raises: a plugin gets
valid JSON whatever happens, and a turn whose summary does not come has its sentences taken out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorelog.core.errors import LorelogError

MOMENTS = ("summary-request", "summary")
WAIT_S = 8.0
"""Seconds that a plugin waits for something to summarize."""


def answer_summary(host: str, moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Answer a plugin in one of these moments."""
    import signal

    from lorelog.surfaces.daemon.address import find_address

    signal.setitimer(signal.ITIMER_REAL, 0)  # other hooks must answer at once, because somebody waits for them
    home = str(find_address(None, environment).home)
    return request_summary(host, payload, home) if moment == "summary-request" else hand_in_summary(payload, home)


def request_summary(host: str, payload: dict[str, Any], home: str, wait_s: float = WAIT_S) -> dict[str, Any]:
    """Return what the plugin is to have summarized; nothing where a person has not chosen the agent's own model."""
    if not _is_wanted(home):
        return {}
    from lorelog.services.session.host_summaries import folder_of, take

    session = payload.get("session")
    parent = os.getppid()  # the agent: one that has ended meanwhile could not answer
    wanted = session if isinstance(session, str) else ""
    request = take(folder_of(home), host, wanted, wait_s, lambda: os.getppid() == parent)
    if request is None:
        return {"summarize": None}
    return {"summarize": {name: request.get(name) for name in ("id", "system", "text", "max_tokens")}}


def hand_in_summary(payload: dict[str, Any], home: str) -> dict[str, Any]:
    """Pass a summary on to whoever waits for it."""
    from lorelog.services.session.host_summaries import folder_of, give

    give(folder_of(home), str(payload.get("id", "")), payload)
    return {}


def _is_wanted(home: str) -> bool:
    from lorelog.wiring_settings import settings_of_person

    try:
        return settings_of_person(Path(home)).summarizing({}).provider == "host"
    except LorelogError:
        return False
