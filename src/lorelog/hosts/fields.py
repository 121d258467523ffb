"""What the dialects have in common: reading one field of a payload that anything may stand in, and Claude's way to answer."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_LONGEST = 512
"""Characters of an id. Longer is none, and could be conversation."""
_LONGEST_PATH = 4_096


def word(payload: Mapping[str, Any], name: str) -> str:
    """Return an id or a name; nothing where something else stands there."""
    value = payload.get(name)
    return value if isinstance(value, str) and len(value) <= _LONGEST and value.isprintable() else ""


def place(payload: Mapping[str, Any], name: str) -> str:
    """Return an absolute path; nothing where something else stands there."""
    value = payload.get(name)
    if not isinstance(value, str) or not value.startswith("/") or len(value) > _LONGEST_PATH or "\0" in value:
        return ""
    return value


def answer_mark(text: object) -> str:
    """Return what tells one answer from another without holding any of it; nothing where there is no answer."""
    if not isinstance(text, str) or not text.strip():
        return ""
    # What Python 3.11 has below `hashlib`, which takes 4 ms to import because it loads OpenSSL.
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    digest: str = sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:16]


def hook_answer(event: str, context: str, notice: str) -> dict[str, Any]:
    """Return the answer of a hook in the form that Claude Code gave the others; nothing said is an empty object."""
    answer: dict[str, Any] = {}
    if notice:
        answer["systemMessage"] = notice
    if context:
        answer["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": context}
    return answer
