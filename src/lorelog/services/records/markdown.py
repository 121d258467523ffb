"""Safe Markdown from untrusted text.

A record's text may have been written to deceive. None of it may become a link, heading, badge, HTML or comment, so
everything is escaped. Badges are code spans, which escaped text cannot produce.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from lorelog.core.record import UNTRUSTED_ORIGINS, Json, Record, Trust, TrustTier

_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_INLINE_MARKUP = re.compile(r"[\\`*\[\]<>&~|$]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK_START = re.compile(r"(?:[#=+-]|[0-9]{1,9}(?=[.)]))")
_SLUG = re.compile(r"(?!x-)[a-z0-9][a-z0-9-]{0,63}")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_BACKTICK_RUNS = re.compile(r"`+")
_HEADING_PUNCTUATION = re.compile(r"[^\w\- ]")

DIGEST_BADGE = "`[digest]`"


def strip_control_chars(text: str) -> str:
    """Return valid text without characters that control a terminal or the direction of writing."""
    whole = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return _CONTROL_CHARS.sub("\ufffd", whole)


def escape_inline(text: str, max_chars: int | None = None) -> str:
    """Return Markdown that shows the text literally, on one line."""
    line = " ".join(strip_control_chars(text).split())
    if max_chars is not None and len(line) > max_chars:
        line = line[: max_chars - 1].rstrip() + "…"
    return _escape_block_line(line)


def quote_markdown(text: str) -> list[str]:
    """Return Markdown as a quotation. It keeps its formatting, but not HTML or images.

    Tags are escaped inside code as well: a hidden tag relies on a wrong guess of where code ends.
    """
    lines = _TAG.sub("&lt;", strip_control_chars(text).replace("![", "\\![")).strip("\n").split("\n")
    return [f"> {line}".rstrip() for line in lines]


def quote_text(text: str, indent: str = "") -> list[str]:
    """Return text of several lines as a quotation that shows each line literally."""
    lines = strip_control_chars(text).strip("\n").split("\n")
    return [f"{indent}> {_escape_block_line(line)}".rstrip() for line in lines]


def fence_text(text: str, indent: str = "") -> list[str]:
    """Return text as a fenced block. The fence is longer than any inside."""
    whole = strip_control_chars(text).strip("\n")
    fence = "`" * max(3, 1 + max(map(len, _BACKTICK_RUNS.findall(whole)), default=0))
    return [f"{indent}{line}".rstrip() for line in (f"{fence}text", *whole.split("\n"), fence)]


def id_slug(identity: str) -> str:
    """Return an id that is safe in file names and anchors; most ids are unchanged."""
    if _SLUG.fullmatch(identity):
        return identity
    return f"x-{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def heading_anchor(heading: str) -> str:
    """Return a heading's anchor by GitHub's rule."""
    return _HEADING_PUNCTUATION.sub("", heading.strip().lower()).replace(" ", "-")


def record_heading(record: Record) -> str:
    """Return a record's heading on its page."""
    return f"{re.sub(r'[^a-z_]', '', record.kind) or 'record'} {id_slug(record.id)}"


def short_id(identity: str) -> str:
    """Return the first 13 characters of an id.

    Fewer are not enough: the first eight of a UUIDv7 are a time, which records of the same minute share.
    """
    return identity if len(identity) <= 13 else identity[:13]


def trust_badge(record: Record, trust: Mapping[str, Trust]) -> str:
    """Return a record's trust as a badge."""
    own = trust.get(record.id)
    if own is None:
        return "`[not judged]`"
    badges = []
    if own.tainted:
        badges.append(f"`[tainted: {record.origin}]`" if record.origin in UNTRUSTED_ORIGINS else "`[tainted]`")
    proven = own.signed if own.tier is TrustTier.VERIFIED else bool(own.signed_by)
    if own.tier is TrustTier.VERIFIED or own.verified_by:
        badges.append("`[verified, signed]`" if proven else "`[verified]`")
    elif not badges:
        badges.append("`[record]`")
    return " ".join(badges)


def render_field(name: str, value: Json, *, data: bool) -> Sequence[str]:
    """Return a record's field as Markdown; as a fenced block if `data` (text from an untrusted origin)."""
    label = f"- {name.replace('_', ' ')}:"
    if isinstance(value, list):
        texts = [_flatten_value(item) for item in value]
        if data:
            return [label, "", *fence_text("\n".join(texts), "  "), ""]
        return [label, *(f"  - {escape_inline(item)}" for item in texts if item.strip())]
    text = _flatten_value(value)
    if data:
        return [label, "", *fence_text(text, "  "), ""]
    if "\n" in text.strip():
        return [label, "", *quote_text(text, "  "), ""]
    return [f"{label} {escape_inline(text)}"]


def _flatten_value(value: Json) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_flatten_value(item)}" for name, item in sorted(value.items()))
    if isinstance(value, list):
        return "; ".join(map(_flatten_value, value))
    return "" if value is None else str(value)


def _escape_block_line(line: str) -> str:
    text = _INLINE_MARKUP.sub(r"\\\g<0>", line.strip())
    block = _BLOCK_START.match(text)
    if block is None:
        return text
    at = block.end() if block[0][0].isdigit() else 0
    return f"{text[:at]}\\{text[at:]}"
