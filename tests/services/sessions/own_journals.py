"""Journals for tests that count as written on this machine, and the session start that shows them."""

from __future__ import annotations

from pathlib import Path

from lorelog.light.delivery_files import DeliveryFiles, entry_digest, parse_entries
from lorelog.light.session_start import RecentJournals, ShownMemory, render_session_start


def own_all(file: str, *folders: Path) -> None:
    """Write the list of own entries: everything in the journals of these folders."""
    lines = ["stamp"]
    for journal in sorted(path for folder in folders for path in folder.glob("*.md") if path.is_file()):
        text = journal.read_text("utf-8", "replace")
        lines += [str(journal.resolve()), *map(entry_digest, parse_entries(text, journal.name[:10]))]
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text("".join(f"{line}\n" for line in lines), "utf-8")


def start_session(
    tenant: Path, journals: Path, budget: int = 600, *, deletions: str = "tombstones.jsonl", is_default: bool = False
) -> ShownMemory:
    """Return what a session of the journals' project is shown on 2026-11-15."""
    project = str(journals.parents[1])
    files = DeliveryFiles(str(tenant), project)
    own_all(files.own, journals)
    recent = RecentJournals(project, (str(journals),), "2026-11-15", str(tenant / deletions), files.own)
    return render_session_start(recent, files, budget, ("", "", is_default))
