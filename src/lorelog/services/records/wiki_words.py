"""Markdown that says what it is meant to say, whatever the text in it tries.

A record's text is somebody's, and may have been written to deceive. None of it may become a link, a heading, a badge, HTML or a
comment: it is escaped to the letter. Badges are set as code, which escaped text cannot be.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from lorelog.core.record import FOREIGN, Json, Record, Tier, Trust

_DRIVING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_ESCAPED = re.compile(r"[\\`*\[\]<>&~|$]|(?<![^\W_])_|_(?![^\W_])")
_BEGINS = re.compile(r"(?:[#=+-]|[0-9]{1,9}(?=[.)]))")
_SLUG = re.compile(r"(?!x-)[a-z0-9][a-z0-9-]{0,63}")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_RUNS = re.compile(r"`+")
_HEADING = re.compile(r"[^\w\- ]")

DIGEST_BADGE = "`[digest]`"


def plain(text: str) -> str:
    """Return a text of whole characters, in which nothing drives a terminal or turns the direction of writing."""
    whole = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return _DRIVING.sub("\ufffd", whole)


def escaped(text: str, most: int | None = None) -> str:
    """Return a text as Markdown that shows it to the letter, on one line."""
    line = " ".join(plain(text).split())
    if most is not None and len(line) > most:
        line = line[: most - 1].rstrip() + "…"
    return _block_line(line)


def authored(text: str) -> list[str]:
    """Return Markdown that somebody wrote, as a quotation. It keeps its form, but no HTML and no images.

    In code, too: where code ends is what whoever hides a tag would have us get wrong.
    """
    lines = _TAG.sub("&lt;", plain(text).replace("![", "\\![")).strip("\n").split("\n")
    return [f"> {line}".rstrip() for line in lines]


def quoted_lines(text: str, indent: str = "") -> list[str]:
    """Return a text of several lines as a quotation that shows each to the letter."""
    lines = plain(text).strip("\n").split("\n")
    return [f"{indent}> {_block_line(line)}".rstrip() for line in lines]


def fenced(text: str, indent: str = "") -> list[str]:
    """Return a text as a block of data. Its fence is longer than any within."""
    whole = plain(text).strip("\n")
    fence = "`" * max(3, 1 + max(map(len, _RUNS.findall(whole)), default=0))
    return [f"{indent}{line}".rstrip() for line in (f"{fence}text", *whole.split("\n"), fence)]


def slug(identity: str) -> str:
    """Return an id as it can stand in a file's name and in an anchor. Most are what they are."""
    if _SLUG.fullmatch(identity):
        return identity
    return f"x-{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def anchor(heading: str) -> str:
    """Return the anchor that a heading has wherever Markdown is shown, by GitHub's rule."""
    return _HEADING.sub("", heading.strip().lower()).replace(" ", "-")


def heading_of(record: Record) -> str:
    """Return the heading of a record on the page where it stands."""
    return f"{re.sub(r'[^a-z_]', '', record.kind) or 'record'} {slug(record.id)}"


def short(identity: str) -> str:
    """Return as much of an id as tells it from others to a reader.

    The first characters of a UUIDv7 are a time, which records of one minute share; so they are not enough.
    """
    return identity if len(identity) <= 13 else identity[:13]


def badge(record: Record, trust: Mapping[str, Trust]) -> str:
    """Return what a record is worth, at a glance."""
    own = trust.get(record.id)
    if own is None:
        return "`[not judged]`"
    badges = []
    if own.tainted:
        badges.append(f"`[tainted: {record.origin}]`" if record.origin in FOREIGN else "`[tainted]`")
    proven = own.signed if own.tier is Tier.VERIFIED else bool(own.signed_by)
    if own.tier is Tier.VERIFIED or own.verified_by:
        badges.append("`[verified, signed]`" if proven else "`[verified]`")
    elif not badges:
        badges.append("`[record]`")
    return " ".join(badges)


def value_lines(name: str, value: Json, *, data: bool) -> Sequence[str]:
    """Return a field of a record as Markdown; as a block of data where nobody here has answered for it."""
    label = f"- {name.replace('_', ' ')}:"
    if isinstance(value, list):
        texts = [_flat(one) for one in value]
        if data:
            return [label, "", *fenced("\n".join(texts), "  "), ""]
        return [label, *(f"  - {escaped(one)}" for one in texts if one.strip())]
    text = _flat(value)
    if data:
        return [label, "", *fenced(text, "  "), ""]
    if "\n" in text.strip():
        return [label, "", *quoted_lines(text, "  "), ""]
    return [f"{label} {escaped(text)}"]


def _flat(value: Json) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_flat(one)}" for name, one in sorted(value.items()))
    if isinstance(value, list):
        return "; ".join(map(_flat, value))
    return "" if value is None else str(value)


def _block_line(line: str) -> str:
    text = _ESCAPED.sub(r"\\\g<0>", line.strip())
    begins = _BEGINS.match(text)
    if begins is None:
        return text
    at = begins.end() if begins[0][0].isdigit() else 0
    return f"{text[:at]}\\{text[at:]}"
