"""Asking an agent's own model through its plugin, for agents whose program cannot be run once: OpenCode, OpenClaw.

Only the plugin, inside the agent, can ask. So a request lies in a folder until the plugin fetches it, and its answer comes
back the same way:

    daemon  post ID.json ──> plugin takes it (renamed to ID.taken) ──> asks the agent's model ──> ID.answer ──> daemon

A request that nobody fetches is withdrawn after a few seconds, because an agent that has ended will not come any more; one
that was fetched is waited for as long as a model may take. The text is redacted before it is posted, and all of it is gone
when the waiting ends. Standard library only: `take` and `give` run in a hook.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.ports import Completion

FETCH_S = 15.0
"""Seconds after which nobody will fetch a request any more."""
_EXTRA = {"openclaw": 500, "opencode": 4000}
"""Tokens that a host puts around what it is asked: OpenCode its own instructions, 11 kB of them."""
_LOOK_S = 0.1
_STALE_S = 3600.0
_MOST_BYTES = 1 << 20


def folder_of(home: str | os.PathLike[str]) -> Path:
    """Return where requests lie: of all tenants, since a plugin does not know whose session it is in."""
    return Path(home) / "summaries"


class PluginLanguage:
    """Writes by leaving a request for the plugin of an agent, and waiting for the answer."""

    provider = "host"

    def __init__(self, folder: Path, host: str, session: str, timeout_s: float, *, fetch_s: float = FETCH_S) -> None:
        self.model = f"{host}/plugin"
        self.extra_tokens = _EXTRA.get(host, 4000)
        self._folder = folder
        self._host = host
        self._session = session
        self._timeout_s = timeout_s
        self._fetch_s = min(fetch_s, timeout_s)

    def complete(self, system: str, text: str, most_tokens: int) -> Completion:
        name = uuid.uuid4().hex
        request = {
            "id": name,
            "host": self._host,
            "session": self._session,
            "system": system,
            "text": text,
            "max_tokens": most_tokens,
            "until": time.time() + self._fetch_s + 1.0,
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sweep(self._folder)
            _put(self._folder, f"{name}.json", request)
            return _completion(self._wait(name))
        except OSError as error:
            raise ModelUnavailable(f"{self._folder} cannot be written: {error.strerror}") from error
        finally:
            for ending in ("json", "taken", "answer"):
                with suppress(OSError):
                    (self._folder / f"{name}.{ending}").unlink()

    def _wait(self, name: str) -> dict[str, Any]:
        started = time.monotonic()
        waiting, answer = self._folder / f"{name}.json", self._folder / f"{name}.answer"
        while time.monotonic() - started < self._timeout_s:
            if answer.exists():
                return _read(answer)
            if time.monotonic() - started > self._fetch_s and _withdrawn(waiting):
                raise ModelUnavailable(f"no plugin of {self._host} came for a summary")
            time.sleep(_LOOK_S)
        raise ModelUnavailable(f"the plugin of {self._host} did not answer within {self._timeout_s:g} s")


def take(
    folder: Path, host: str, session: str, wait_s: float, is_there: Callable[[], bool] = lambda: True
) -> dict[str, Any] | None:
    """Return the oldest request for a session's plugin, which is nobody else's from then on; wait for one for a while.

    `is_there` says whether there is still someone to answer it.
    """
    deadline = time.monotonic() + wait_s
    while is_there():
        for path in _oldest_first(folder):
            request = _read(path)
            if request.get("host") != host or request.get("session") not in {"", session} or _is_over(request):
                continue
            try:
                path.rename(path.with_suffix(".taken"))
            except OSError:
                continue  # withdrawn, or another plugin was faster
            return request
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_S)
    return None


def give(folder: Path, name: str, answer: dict[str, Any]) -> bool:
    """Hand an answer in; return whether anyone still waits for it."""
    if not name.isalnum() or not (folder / f"{name}.taken").exists():
        return False
    counts = {one: value for one in ("tokens_in", "tokens_out") if isinstance(value := answer.get(one), int)}
    try:
        _put(folder, f"{name}.answer", {"text": str(answer.get("text", ""))[:_MOST_BYTES], **counts})
    except OSError:
        return False
    return True


def _completion(answer: dict[str, Any]) -> Completion:
    text = answer.get("text")
    if not isinstance(text, str):
        raise ModelFault("the plugin answered without text")
    counts = (answer.get(name, 0) for name in ("tokens_in", "tokens_out"))
    tokens_in, tokens_out = (one if isinstance(one, int) and one > 0 else 0 for one in counts)
    return Completion(text, tokens_in, tokens_out)


def _put(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Write a file that is there whole or not at all, for its owner's eyes."""
    draft = folder / f".{name}.tmp"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123
        file.write(json.dumps(content).encode())
    draft.rename(folder / name)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes()[:_MOST_BYTES])
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_over(request: dict[str, Any]) -> bool:
    """Say whether nobody waits for it any more: whoever did was killed."""
    until = request.get("until")
    return not isinstance(until, float) or until < time.time()


def _withdrawn(waiting: Path) -> bool:
    """Take a request back; return False when it was fetched."""
    try:
        waiting.unlink()
    except FileNotFoundError:
        return False
    return True


def _oldest_first(folder: Path) -> list[Path]:
    found: list[tuple[float, Path]] = []
    for path in folder.glob("[!.]*.json"):
        try:
            found.append((path.stat().st_mtime, path))
        except OSError:
            continue
    return [path for _, path in sorted(found)]


def _sweep(folder: Path) -> None:
    """Remove what a killed process left behind."""
    limit = time.time() - _STALE_S
    for path in folder.iterdir():
        try:
            if path.stat().st_mtime < limit:
                path.unlink()
        except OSError:
            continue
