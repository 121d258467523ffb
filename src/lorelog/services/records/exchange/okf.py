"""Writes a bundle of the Open Knowledge Format, version 0.2: a folder of Markdown files with front matter, and an index.

Trust is computed, not copied: `verified` lists the verifications that count in this ledger, and only those. Text from tools and imports
is never listed as verified, and a record that another replaced is `deprecated`. Front matter values are written as JSON, which
is YAML.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lorelog.core.errors import StoreUnwritable, UsageError
from lorelog.core.record import REDACTION_KIND, UNTRUSTED_ORIGINS, Record, Trust, TrustTier
from lorelog.core.version import VERSION
from lorelog.records.kinds import search_text
from lorelog.records.trust import assess_records
from lorelog.services.records.exchange.formats import ExportedMemory
from lorelog.services.records.markdown import strip_control_chars
from lorelog.services.records.store import RecordStore

OKF_VERSION = "0.2"
_MAX_TITLE_CHARS = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MARKUP = re.compile(r"[*_`#>\[\]]+")


def write_bundle(
    path: str, memories: Iterable[ExportedMemory], store: RecordStore, projects: tuple[str, ...] | None
) -> dict[str, int]:
    """Write a bundle into a new folder, completely or not at all; return how much it holds. Raise UsageError if it exists."""
    target = Path(path)
    if os.path.lexists(target):
        raise UsageError(f"{target} exists", hint="choose another name: an export is never written over anything")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        temporary.mkdir(mode=0o700, parents=False)
        counts = _write_concepts(temporary, memories, store, projects)
        temporary.rename(target)
    except OSError as error:
        raise StoreUnwritable(
            f"{target} cannot be written: {error.strerror or error}", hint="nothing was written; choose another folder"
        ) from error
    finally:
        with suppress(OSError):
            shutil.rmtree(temporary)
    return counts


def _write_concepts(
    folder: Path, memories: Iterable[ExportedMemory], store: RecordStore, projects: tuple[str, ...] | None
) -> dict[str, int]:
    listed: dict[str, list[tuple[str, str]]] = {"memories": [], "records": []}
    for memory in memories:
        name = f"memories/{memory.at[:10] or 'undated'}-{_file_word(memory.memory)[-12:]}.md"
        listed["memories"].append((name, _write(folder / name, _memory_matter(memory), memory.text)))
    records = [record for record in store.ledger.read() if record.kind != REDACTION_KIND]
    trust = assess_records(records, store.signer)
    by_id = {record.id: record for record in reversed(records)}
    replaced = {record.supersedes for record in records if record.supersedes}
    for record in records:
        if (
            by_id[record.id] is not record
            or record.redacted
            or (projects is not None and record.project not in projects)
        ):
            continue
        name = f"records/{_file_word(record.id)}.md"
        matter = _record_matter(record, trust[record.id], by_id, is_replaced=record.id in replaced)
        listed["records"].append((name, _write(folder / name, matter, search_text(record))))
    _write_index(folder, listed)
    return {name: len(items) for name, items in listed.items()}


def _file_word(text: str) -> str:
    return _UNSAFE.sub("-", text).strip("-.")[:100] or "unnamed"


def _memory_matter(memory: ExportedMemory) -> dict[str, Any]:
    actor = {"user": "human:user", "import": f"process:import-{VERSION}"}.get(memory.origin, f"lorelog/{VERSION}")
    return {
        "type": memory.type or "note",
        "title": _title(memory.text),
        "tags": list(memory.tags),
        "generated": {"by": actor, "at": memory.at} if memory.at else {"by": actor},
        "stale_after": memory.expires,
        "lorelog": {"memory": memory.memory, "origin": memory.origin},
    }


def _record_matter(record: Record, trust: Trust, by_id: Mapping[str, Record], *, is_replaced: bool) -> dict[str, Any]:
    counted = () if trust.tainted or trust.tier is TrustTier.DIGEST else trust.verified_by
    verified = [{"by": _actor(by_id[name]), "at": by_id[name].at} for name in counted if name in by_id]
    return {
        "type": record.kind.replace("_", " "),
        "title": _title(search_text(record)),
        "generated": {"by": _actor(record), "at": record.at},
        "verified": verified,
        "status": "deprecated" if is_replaced else "",
        "lorelog": {"record": record.id, "trust": trust.tier.value, "task": record.task},
    }


def _actor(record: Record) -> str:
    """Return the writer of a record as an actor of OKF. Only a person's own record is a human's."""
    name = _file_word(record.agent or "unknown")
    if record.origin == "user":
        return f"human:{name}"
    return f"process:{name}" if record.origin in UNTRUSTED_ORIGINS else f"{name}/unversioned"


def _title(text: str) -> str:
    line = next((line for line in text.splitlines() if line.strip()), "")
    line = " ".join(_MARKUP.sub(" ", strip_control_chars(line)).split())
    return line if len(line) <= _MAX_TITLE_CHARS else line[: _MAX_TITLE_CHARS - 1].rstrip() + "…"


def _write(path: Path, matter: Mapping[str, Any], text: str) -> str:
    """Write one concept and return its title."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in matter.items() if value]
    data = "\n".join(("---", *lines, "---", "", text.strip("\n"), "")).encode("utf-8", "replace")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    return str(matter["title"] or path.stem)


def _write_index(folder: Path, listed: Mapping[str, list[tuple[str, str]]]) -> None:
    lines = ["---", f'okf_version: "{OKF_VERSION}"', "---", ""]
    for name, items in listed.items():
        if items:
            lines += [f"# {name.capitalize()}", ""]
            lines += [f"* [{_MARKUP.sub(' ', title).strip() or file}]({file})" for file, title in items]
            lines.append("")
    (folder / "index.md").write_text("\n".join(lines), "utf-8")
