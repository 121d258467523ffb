"""One request for every operation, over notes that `write_notes` has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTES = "# A\n\nan otter in the river\n\n## B\n\na beaver's dam\n"


def write_notes(directory: Path) -> None:
    """Write a note, a conversation, and a judged question."""
    (directory / "notes").mkdir(parents=True)
    (directory / "notes" / "a.md").write_text(NOTES, "utf-8")
    (directory / "q.jsonl").write_text('{"id": "q", "text": "otter"}\n', "utf-8")
    (directory / "r.tsv").write_text("q\ta.md\t1\n", "utf-8")
    said = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "hi"}}
    (directory / "t.jsonl").write_text(json.dumps(said) + "\n", "utf-8")


def requests(identity: str) -> dict[str, dict[str, Any]]:
    """Return requests by operation, in an order in which all of them work; `identity` is a section of the notes."""
    return {
        "memory.search": {"query": "otter", "explain": True},
        "memory.expand": {"id": identity},
        "memory.get": {"id": identity},
        "memory.transcript": {"place": "./t.jsonl"},
        "memory.list": {"documents": True},
        "memory.add": {"text": "a heron", "tags": ["bird"]},
        "memory.add_batch": {"memories": [{"text": "one"}, {"text": "two", "type": "fact"}]},
        "memory.delete": {"id": identity},
        "memory.restore": {"id": identity},
        "memory.index": {},
        "memory.stats": {},
        "memory.health": {},
        "memory.metrics": {},
        "memory.evaluate": {"queries": "q.jsonl", "qrels": "r.tsv"},
        "session.recall": {"host": "claude", "session": "s", "prompt": "an otter", "k": 3, "min_relevance": 0.0},
        "session.capture": {"host": "claude", "session": "s", "transcript": "t.jsonl", "everything": True},
        "session.status": {},
        "roots.list": {},
        "roots.add": {"paths": ["notes"]},
        "roots.remove": {"paths": ["notes"]},
        "memory.reset": {},
    }
