"""Deliveries on real transcripts: every tool call is replayed with the memories of earlier sessions.

Sessions are taken in order of time. Each tool call runs through the real hook; afterwards the session is captured, so
that what was said in it can be delivered to later ones. Sessions in directories of the same name are one project:
several people work in clones of one repository. Nothing is judged: deliveries are counted, and written to `--out` to be
read. That file quotes the transcripts; do not commit it.

    python -m bench.delivery.replay --data DIR [--out FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.delivery.hook_calls import Bench, Payload, ToolUse

from lorelog.core.errors import LorelogError

_OPENCODE_TOOLS = {"bash": "Bash", "edit": "Edit", "write": "Write", "read": "Read", "grep": "Grep", "glob": "Glob"}
_OPENCODE_ARGUMENTS = {"filePath": "file_path", "oldString": "old_string", "newString": "new_string"}
_MAX_OUTPUT_CHARS = 20_000


@dataclass
class RecordedSession:
    """A transcript: its tool calls in order."""

    path: Path
    host: str
    session: str = ""
    started: str = ""
    directory: str = ""
    calls: list[ToolUse] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """Replay all transcripts and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, required=True, help="directory with transcripts/claude_code and transcripts/opencode"
    )
    parser.add_argument("--out", type=Path, help="write every delivery to this file")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        bench = Bench(Path(folder).resolve())
        sessions = sorted(read_sessions(options.data / "transcripts", bench.root), key=lambda item: item.started)
        with bench.active():
            lines, calls = replay(bench, sessions)
    print("| real transcripts | |\n|---|--:|")
    print(f"| sessions | {len(sessions)} |\n| tool calls | {calls:,} |\n| deliveries | {len(lines)} |")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", "utf-8")
        print(f"\nRead them in {options.out}.")
    return 0


def replay(bench: Bench, sessions: Sequence[RecordedSession]) -> tuple[list[str], int]:
    """Replay the calls of all sessions; return a line for each delivery, and the number of calls."""
    projects: dict[str, Path] = {}
    lines: list[str] = []
    count = 0
    for recorded in sessions:
        name = recorded.directory.partition("/.worktrees/")[0].rpartition("/")[2]
        if name not in projects:
            projects[name] = bench.make_project(f"project-{len(projects)}")
        root = projects[name]
        for number, use in enumerate(recorded.calls):
            count += 1
            placed = _placed(use, recorded.directory, root)
            text = bench.call(placed, recorded.session, number, root)
            if text:
                lines.append(f"{recorded.started[:16]} {recorded.session[:8]} | {placed} | {' '.join(text.split())}")
        try:
            bench.capture(root, recorded.path, recorded.session, recorded.host)
        except LorelogError as error:
            print(f"not captured: {recorded.path.name}: {error.message}", file=sys.stderr)
    return lines, count


def read_sessions(folder: Path, target: Path) -> Iterator[RecordedSession]:
    """Unpack the transcripts and yield their sessions."""
    for packed in sorted(folder.glob("*/*.gz")):
        path = target / "transcripts" / packed.name.removesuffix(".gz")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        recorded = _read_claude(path) if path.suffix == ".jsonl" else _read_opencode(path)
        if recorded.calls:
            yield recorded


def _read_claude(path: Path) -> RecordedSession:
    recorded = RecordedSession(path, "claude", path.stem)
    positions: dict[str, int] = {}
    for text in path.read_text("utf-8").split("\n"):
        try:
            line = json.loads(text)
        except ValueError:  # an empty or torn line
            continue
        recorded.session = line.get("sessionId") or recorded.session
        recorded.started = recorded.started or line.get("timestamp") or ""
        recorded.directory = recorded.directory or line.get("cwd") or ""
        content = (line.get("message") or {}).get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                positions[block["id"]] = len(recorded.calls)
                recorded.calls.append(ToolUse(block["name"], block.get("input") or {}))
            elif block.get("type") == "tool_result" and block.get("is_error") and block["tool_use_id"] in positions:
                index = positions[block["tool_use_id"]]
                recorded.calls[index] = replace(recorded.calls[index], output=_text(block.get("content")))
    return recorded


def _read_opencode(path: Path) -> RecordedSession:
    export = json.loads(path.read_text("utf-8"))
    info = export.get("info") or {}
    recorded = RecordedSession(path, "opencode", str(info.get("id") or path.stem))
    created = (info.get("time") or {}).get("created") or 0
    recorded.started = _iso_time(created)
    recorded.directory = str(info.get("directory") or "")
    for message in export.get("messages") or ():
        for part in message.get("parts") or ():
            state = part.get("state") or {}
            if part.get("type") == "tool" and isinstance(state.get("input"), dict):
                arguments = {_OPENCODE_ARGUMENTS.get(key, key): value for key, value in state["input"].items()}
                name = _OPENCODE_TOOLS.get(part.get("tool"), str(part.get("tool")))
                recorded.calls.append(ToolUse(name, arguments, _text(state.get("error"))))
    return recorded


def _iso_time(milliseconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def _text(content: Any) -> str:
    if isinstance(content, list):
        content = "\n".join(str(block.get("text") or "") for block in content if isinstance(block, dict))
    return str(content or "")[:_MAX_OUTPUT_CHARS]


def _placed(use: ToolUse, directory: str, root: Path) -> ToolUse:
    """Return a call with the session's directory replaced by the project's."""
    if not directory or directory == os.sep:
        return use
    text = json.dumps(use.arguments).replace(json.dumps(directory)[1:-1], json.dumps(str(root))[1:-1])
    arguments: Payload = json.loads(text)
    return replace(use, arguments=arguments, output=use.output.replace(directory, str(root)))


if __name__ == "__main__":
    sys.exit(main())
