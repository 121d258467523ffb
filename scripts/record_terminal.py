"""Record how a sentence said in one agent reaches another before it acts, as the moving picture of the README.

    python scripts/record_terminal.py            write docs/assets/moment.svg
    python scripts/record_terminal.py --print    print what was recorded

The hooks, the journal and `lorelog deliveries` are real, in a temporary home with a daemon of its own. The two agents are
scripted: this script sends the hooks what Claude Code and Codex send them. The picture moves by CSS alone, stops after three
rounds, shows its last frame where motion is not wanted, and refers to no font or file elsewhere.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "assets" / "moment.svg"
CLAUDE, CODEX = "5e0c1a77-1b2c-4d3e-8f40-0a1b2c3d4e5f", "c0dec0de-1b2c-4d3e-8f40-0a1b2c3d4e5f"
SAID = "Add the price chart. From now on, use pnpm, not npm: npm install broke our lock file twice."
ANSWER = "The chart is on the product page. I used pnpm."
WANTED, INSTEAD = "npm install zod", "pnpm add zod"
PATIENCE_S = 90.0
"""Seconds in which the daemon must have captured the turn, and hooks must know of it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the picture: its style, its text, the seconds before it appears, and our remark beside it."""

    style: str
    text: str
    wait: float = 0.25
    note: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """A step of the story, with what was recorded in it."""

    title: str
    place: str
    lines: list[Line]


class Recording:
    """A project, a home and two agents that exist for one recording."""

    def __init__(self, place: Path) -> None:
        self.project, self.user = place / "shop", place / "user"
        self.project.mkdir()
        self.user.mkdir()
        subprocess.run(["git", "init", "-q", "-b", "main", str(self.project)], check=True)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("LORELOG_", "CLAUDE", "CODEX"))
        }
        self.environment = kept | {
            "HOME": str(self.user),
            "LORELOG_HOME": str(place / "home"),
            "LORELOG_HOOK_TIMEOUT_S": "20",  # a busy machine records the same
            "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("src", "encoder/src")),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TZ": "UTC",
        }

    def lorelog(self, *words: str, given: str = "") -> str:
        """Return what a command prints."""
        command = [sys.executable, "-m", "lorelog", *words]
        done = subprocess.run(
            command, cwd=self.project, env=self.environment, input=given, text=True, capture_output=True, check=True
        )
        return done.stdout

    def hook(self, host: str, moment: str, event: str, **fields: Any) -> dict[str, Any]:
        """Send a hook what its host sends, and return the answer."""
        session = CLAUDE if host == "claude" else CODEX
        payload = {"hook_event_name": event, "session_id": session, "cwd": str(self.project), **fields}
        payload["transcript_path"] = str(self.transcript(host))
        answer: dict[str, Any] = json.loads(self.lorelog("hook", host, moment, given=json.dumps(payload)))
        output: dict[str, Any] = answer.get("hookSpecificOutput", {})
        return output

    def transcript(self, host: str) -> Path:
        """Return where the host keeps the conversation."""
        folder = self.user / (".claude/projects/shop" if host == "claude" else ".codex/sessions")
        folder.mkdir(parents=True, exist_ok=True)
        return folder / (f"{CLAUDE}.jsonl" if host == "claude" else f"rollout-{CODEX}.jsonl")

    def converse(self) -> None:
        """Write the turn in Claude Code as Claude Code does, and send its hooks."""
        began = datetime.now(UTC) - timedelta(minutes=3)
        place = {"sessionId": CLAUDE, "cwd": str(self.project), "gitBranch": "main", "isSidechain": False}
        said = [("user", SAID), ("assistant", [{"type": "text", "text": ANSWER}])]
        lines = [
            {
                "type": role,
                "uuid": f"turn-{number + 1}",
                "timestamp": (began + timedelta(minutes=number)).isoformat(timespec="seconds").replace("+00:00", "Z"),
                "message": {"role": role, "content": content},
                **place,
            }
            for number, (role, content) in enumerate(said)
        ]
        self.transcript("claude").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        self.hook("claude", "session-start", "SessionStart", source="startup")
        self.hook("claude", "prompt", "UserPromptSubmit", prompt=SAID)
        self.hook("claude", "turn-end", "Stop", last_assistant_message=ANSWER)

    def kept(self) -> tuple[str, list[str]]:
        """Return the journal's path and its entry with the rule, once the daemon has written it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for journal in sorted(self.project.glob(".lorelog/memory/*.md")):
                if " type:preference " in (text := journal.read_text("utf-8")):
                    entry = next(part for part in text.split("\n### ") if " type:preference " in part)
                    lines = [f"### {entry.splitlines()[0]}", *entry.splitlines()[1:]]
                    return str(journal.relative_to(self.project)), [line for line in lines if line]
            time.sleep(0.3)
        raise SystemExit(f"the daemon captured nothing within {PATIENCE_S:.0f} s")

    def call(self, command: str, number: int) -> str:
        """Return why a call of Codex is held, or an empty string if it may run."""
        fields = {"tool_name": "Bash", "tool_use_id": f"call-{number}", "tool_input": {"command": command}}
        answer = self.hook("codex", "tool-before", "PreToolUse", **fields)
        return str(answer.get("permissionDecisionReason", "")) if answer.get("permissionDecision") == "deny" else ""

    def held(self, command: str) -> str:
        """Return why a call is held, once the daemon has listed the new rule for hooks."""
        end = time.monotonic() + PATIENCE_S
        for number in itertools.count(1):
            if reason := self.call(command, number):
                return reason
            if time.monotonic() > end:
                break
            time.sleep(0.3)
        raise SystemExit(f"{command!r} was not held")


def record() -> list[Scene]:
    """Play the story, and return it with what lorelog really answered."""
    with tempfile.TemporaryDirectory(prefix="lorelog-recording-") as place:
        story = Recording(Path(place))
        try:
            return list(_play(story))
        finally:
            story.lorelog("daemon", "stop")


def _play(story: Recording) -> Iterator[Scene]:
    story.transcript("codex").write_text("", "utf-8")
    story.hook("codex", "session-start", "SessionStart", source="startup")  # it is open already, and is shown nothing
    story.converse()
    yield Scene("Said once", "you, in Claude Code", [Line("typed", f"> {SAID}", 0.6)])
    path, entry = story.kept()
    shown = [Line("soft" if line.startswith(("<!--", "###")) else "ink", _short(line)) for line in entry]
    yield Scene(
        "Kept", f"{path}, a Markdown file. No model was asked", [Line(kept.style, kept.text, 0.5) for kept in shown]
    )
    held = story.held(WANTED)
    if story.call(INSTEAD, 0):
        raise SystemExit(f"{INSTEAD!r} was held")
    told = [line for line in re.sub(r"</?lorelog-memory>\n?", "", held).splitlines() if line.strip()]
    reason = [Line("warn", _short(line), 0.5) for line in told if line.startswith("- ")]
    after = [Line("soft", line) for line in told if not line.startswith("- ") and "Quoted lines" not in line]
    lines = [
        Line("typed", f"$ {WANTED}", 1.0, "Codex is about to run this; lorelog's hook answers:"),
        *reason,
        *after,
        Line("typed", f"$ {INSTEAD}", 1.6, "Codex runs this instead"),
    ]
    yield Scene("Delivered before the act, with its reason", "in Codex, in another window, which nobody told", lines)
    memory = re.findall(r"memory ([0-9a-f]{8})", held)[0]
    source = [line for line in story.lorelog("show", memory).splitlines() if line.strip()]
    shown = [
        Line("ink", line) for line in source if SAID.endswith(line.lstrip("- ")) or not line.startswith(("###", "20"))
    ]
    yield Scene(
        "Yours to check",
        "its lines, who said it, and the conversation",
        [Line("typed", f"$ lorelog show {memory}", 1.2), *shown],
    )


def _short(line: str) -> str:
    """Return a line without the parts of a comment that name places of the recording."""
    if line.startswith("<!--"):
        kept = [word for word in line.split() if word.startswith(("<!--", "host:", "type:", "origin:", "-->"))]
        return " ".join(kept)
    return re.sub(r"(memory [0-9a-f]{8})[0-9a-f-]+", r"\1…", line)


WIDTH, MARGIN, STEP, CELL, COLUMNS = 900, 26, 21, 7.8, 104
ROUNDS, REST_S, KEYS_PER_S = 3, 7.0, 34.0
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
_STYLE = f"""
text {{ font: 13px {_FONTS}; white-space: pre; fill: #e2e5e7 }}
.title {{ font: 650 15px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif; fill: #62c6b0 }}
.place {{ font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif; fill: #9ca5ad }}
.number {{ font: 650 12px system-ui, sans-serif; fill: #08211c; text-anchor: middle }}
.soft {{ fill: #9ca5ad }} .warn {{ fill: #e6b45a }} .typed {{ font-weight: 600 }}
.frame {{ fill: #131517; stroke: #2b3035 }} .panel {{ fill: #191c1f }} .dot {{ fill: #62c6b0 }}
.clip {{ transform-box: fill-box; transform-origin: left }}
"""


class Picture:
    """An SVG that grows downwards, and the times at which its parts appear."""

    def __init__(self) -> None:
        self.y, self.now = MARGIN, 0.8
        self.parts: list[str] = []
        self.shown: list[tuple[str, float, float, int]] = []
        """What appears: its name, when it begins and ends, and in how many steps."""

    def scene(self, number: int, scene: Scene) -> None:
        """Draw a step of the story."""
        rows = [(line, part) for line in scene.lines for part in _wrapped(line.text)]
        height = len(rows) * STEP + 16
        self.now += 0.5
        caption = self._appears(self.now, self.now + 0.4, faint=True)
        self.parts.append(
            f'<g id="{caption}"><circle class="dot" cx="{MARGIN + 10}" cy="{self.y + 9}" r="10"/>'
            f'<text class="number" x="{MARGIN + 10}" y="{self.y + 13}">{number}</text>'
            f'<text class="title" x="{MARGIN + 30}" y="{self.y + 14}">{escape(scene.title)}</text>'
            f'<text class="place" x="{MARGIN + 48 + 8.3 * len(scene.title)}" y="{self.y + 14}">{escape(scene.place)}</text></g>'
        )
        self.y += 28
        self.parts.append(
            f'<rect class="panel" x="{MARGIN}" y="{self.y}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="6"/>'
        )
        self.y += 8
        before: Line | None = None
        for line, part in rows:
            self.now += line.wait if line is not before else 0.0
            before = line
            self._line(line.style, part, line.note)
        self.now += 0.9
        self.y += 8 + 18

    def _line(self, style: str, text: str, note: str) -> None:
        took = len(text) / KEYS_PER_S if style == "typed" else 0.3
        name = self._appears(self.now, self.now + took, steps=len(text) if style == "typed" else 1)
        x, width = MARGIN + 14, len(text) * CELL
        words = f'<text class="{style}" x="{x}" y="{self.y + 15}" textLength="{width:.1f}">{escape(text)}</text>'
        if style == "typed":
            rect = f'<rect class="clip" id="{name}" x="{x}" y="{self.y}" width="{width + 1:.1f}" height="{STEP}"/>'
            words = f'<clipPath id="c{name}">{rect}</clipPath><g clip-path="url(#c{name})">{words}</g>'
        else:
            words = f'<g id="{name}">{words}</g>'
        self.parts.append(words)
        if note:
            beside = self._appears(self.now + took, self.now + took + 0.3)
            remark = f'<text class="place" x="{x + width + 22:.1f}" y="{self.y + 15}">{escape(note)}</text>'
            self.parts.append(f'<g id="{beside}">{remark}</g>')
        self.y += STEP
        self.now += took

    def _appears(self, begin: float, end: float, *, steps: int = 0, faint: bool = False) -> str:
        name = f"m{len(self.shown)}"
        self.shown.append((name, begin, end, -1 if faint else steps))
        return name

    def render(self, description: str) -> str:
        """Return the SVG."""
        length, height = self.now + REST_S, self.y - 18 + MARGIN
        rules = []
        for name, begin, end, steps in self.shown:
            start, stop = (f"{100 * moment / length:.2f}%" for moment in (begin, end))
            typed = steps > 1
            hidden = "transform: scaleX(0)" if typed else f"opacity: {0.3 if steps < 0 else 0}"
            visible = "transform: none" if typed else "opacity: 1"
            pace = f"; animation-timing-function: steps({steps})" if typed else ""
            rules.append(
                f"@keyframes {name} {{ 0% {{ {hidden} }} {start} {{ {hidden}{pace} }} {stop}, 100% {{ {visible} }} }}"
            )
            rules.append(f"#{name} {{ animation: {name} {length:.1f}s linear {ROUNDS} forwards }}")
        moving = "\n".join(rules)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">\n'
            f"<title>Said once, kept, delivered before the act, with its reason</title>\n<desc>{escape(description)}</desc>\n"
            f"<style>{_STYLE}@media (prefers-reduced-motion: no-preference) {{\n{moving}\n}}\n</style>\n"
            f'<rect class="frame" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, subsequent_indent="  ", break_long_words=False) or [""]


def draw(scenes: list[Scene]) -> str:
    """Return the picture of a story."""
    picture = Picture()
    for number, scene in enumerate(scenes, start=1):
        picture.scene(number, scene)
    return picture.render(" ".join(f"{scene.title}: {' '.join(line.text for line in scene.lines)}" for scene in scenes))


def main() -> int:
    """Record the story and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write no file")
    printed = parser.parse_args().print
    scenes = record()
    if printed:
        for scene in scenes:
            print(f"\n{scene.title}: {scene.place}", *(f"  {line.text}" for line in scene.lines), sep="\n")
        return 0
    PICTURE.write_text(draw(scenes), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}, {PICTURE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
