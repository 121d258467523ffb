"""Hits and memories as a person reads them: location first, then confidence, date, labels and one short id."""

from __future__ import annotations

from lorelog.surfaces.cli.render import (
    RECORD_TIERS,
    join_fields,
    known_width,
    link_file,
    one_line,
    printable,
    short_path,
    shorten_ids,
    stylize,
    wrap,
    wrap_marked,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from lorelog.operations.operation import Json
    from lorelog.surfaces.cli.render import Field

INDENT = "   "
_BARS = {"strong": ("●●●", "green"), "likely": ("●●○", "yellow"), "weak": ("●○○", "dim")}
_MIN_ID_CHARS = 8


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return the first characters of each id of a hit or memory: 8, or as many as tell it from the others."""
    return shorten_ids(ids, _MIN_ID_CHARS)


def record_ids(hits: Sequence[Json]) -> dict[str, str]:
    """Return the short record id of each hit that comes from a record."""
    found = {
        hit["id"]: hit["grounding_refs"][0]["artifact_id"]
        for hit in hits
        if hit["trust"]["tier"] in RECORD_TIERS and hit["grounding_refs"]
    }
    if not found:
        return {}
    from lorelog.surfaces.cli.render.records import short_record_ids

    short = short_record_ids(found.values())
    return {hit: short[record] for hit, record in found.items()}


def format_date(item: Json) -> str:
    """Return a day or minute; `undated` if the text has no date, so that the file's last change is not taken for one."""
    return "undated" if item["date_source"] == "file" or not item["date"] else item["date"].replace("T", " ")


def format_head(lead: str, fields: Iterable[Field]) -> str:
    """Return the first line or lines of an entry; later ones are indented."""
    return lead + join_fields(fields, INDENT, known_width())


def location_fields(item: Json, lines: str, identity: str) -> list[Field]:
    """Return location, confidence, date, labels and id of a hit or a memory."""
    place = f"{short_path(item['source'])}:{lines}"
    return [
        (place, link_file(item["source"], stylize(place, "cyan")), 2),
        *confidence_fields(item.get("confidence")),
        field(format_date(item)),
        *label_fields(item),
        field(identity, "dim"),
    ]


def record_fields(hit: Json, record: str) -> list[Field]:
    """Return id, confidence, date, type and writer of a record. Its file is generated, so its path is not shown."""
    writer = hit["heading"].partition(" by ")[2]
    label = f"{one_line(hit['type'])}{f' by {one_line(writer)}' if writer else ''}"
    return [
        field(f"record {record}", "cyan"),
        *confidence_fields(hit.get("confidence")),
        field(format_date(hit)),
        field(label),
    ]


def confidence_fields(word: str | None) -> list[Field]:
    """Return a bar and the word; nothing in an index that is too small for it."""
    if word is None:
        return []
    bar, style = _BARS[word]
    return [field(f"{bar} {word}", style)]


def label_fields(item: Json) -> list[Field]:
    """Return the type and each tag: a line break may come between them."""
    labels = [label for label in (item["type"], *(f"#{tag}" for tag in item["tags"])) if label]
    return [field(one_line(label), gap=1 if number else 2) for number, label in enumerate(labels)]


def field(text: str, style: str = "", *, gap: int = 2) -> Field:
    """Return a field of a head."""
    return text, stylize(text, style) if style else text, gap


def format_snippet(hit: Json) -> str:
    """Return the snippet with the matching words marked, wrapped."""
    return wrap_marked(printable(hit["snippet"]), hit["matches"], INDENT)


def format_change(change: Json, other: str) -> str:
    """Return a line about a value that another hit, which `other` names, states differently."""
    about, value, instead = (one_line(change[name]) for name in ("about", "value", "other_value"))
    date = change["other_date"].replace("T", " ")[:16] or "undated"
    subject = f"{about} " if about else ""
    if change["role"] == "was":
        return f"was: {subject}{value} (superseded by {other}, {date}: {instead})"
    if change["role"] == "now":
        return f"now: {subject}{value} ({other}, {date}, says {instead})"
    return f"conflict: {subject}{value}, but {instead} in {other} ({date}); the dates do not tell which is current"


def wrap_styled(text: str, style: str) -> str:
    """Return a text in a style, wrapped and indented; '' for an empty one."""
    return "\n".join(
        INDENT + stylize(line.removeprefix(INDENT), style) for line in wrap(text, INDENT).split("\n") if line
    )


def format_row(hit: Json) -> str:
    """Return a hit as tab-separated fields: id, path, line, confidence, date, and the snippet's text."""
    cells: list[Any] = [hit["id"], hit["source"], hit["start_line"], hit["confidence"] or "", format_date(hit)]
    text = hit["packed"]["text"] if hit.get("packed") else hit["snippet"]
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return "\t".join(one_line(str(cell)) for cell in (*cells, first))
