"""Counts the words with which users correct, answer and decide, and how many of them are in captured entries.

Responsible for the claim "all of it is kept". The transcripts are read a second time here, as plain JSON and without the
product's readers: words typed at rejections, answers to questions, plans shown for approval. Then the same sessions are
captured into an empty project, and each of the words must be in an entry of its own type, one entry for each. Typed
prompts that were recognised as corrections are listed with --show, for a person to judge.

    python -m bench.delivery.statements --data DIR [--made-up 200] [--show]
"""

import argparse
import gzip
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lorelog.surfaces.python.client import Lorelog

MARKS = ("the user said:\n", "The user said:\n", "reason for the rejection:", "with the following feedback:")
BOILERPLATE = ("The user wants to clarify these questions", "The user has indicated they have provided enough")
COMPARED_CHARS = 200
TYPES = {"rejection": {"correction", "preference"}, "answer": {"decision"}, "plan": {"plan"}}


@dataclass(frozen=True)
class Said:
    """Words of a user in a transcript."""

    channel: str
    words: str


def squeeze(text: str) -> str:
    """Return a text as its words and marks, without Markdown and white space."""
    return "".join(re.sub(r"[*#`]", "", text).split())


def rejected(text: str) -> str:
    """Return the words after the host's text, read as plainly as possible."""
    for mark in MARKS:
        if mark in text:
            words = text.split(mark, 1)[1].split("\n\nNote: The user's next message", maxsplit=1)[0].strip()
            return "" if words.startswith(BOILERPLATE) else words
    return ""


def read_claude(lines: list[str]) -> Iterator[Said]:
    """Yield the words of a Claude Code transcript."""
    asked: set[str] = set()
    seen: set[str] = set()
    for line in lines:
        try:
            record: dict[str, Any] = json.loads(line)
        except ValueError:  # an empty or torn line
            continue
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            identity = str(block.get("id") or block.get("tool_use_id") or "")
            if block.get("type") == "tool_use" and block.get("name") == "ExitPlanMode" and identity not in asked:
                asked.add(identity)
                yield Said("plan", block["input"].get("plan", ""))
            if block.get("type") != "tool_result" or identity in seen:
                continue
            seen.add(identity)
            text = block["content"] if isinstance(block["content"], str) else json.dumps(block["content"])
            if block.get("is_error") and text.startswith(
                ("The user doesn't want", "Permission for this tool use was denied")
            ):
                yield Said("rejection", rejected(text))
            details = record.get("toolUseResult")
            if isinstance(details, dict) and isinstance(details.get("answers"), dict) and "questions" in details:
                for answer in details["answers"].values():
                    yield Said("answer", answer if isinstance(answer, str) else ", ".join(answer))


def read_opencode(document: dict[str, Any]) -> Iterator[Said]:
    """Yield the words of an OpenCode export."""
    for message in document["messages"]:
        for part in message["parts"]:
            state = part.get("state") or {}
            if part.get("tool") == "question" and state.get("status") == "completed":
                for answer in state.get("metadata", {}).get("answers", ()):
                    yield Said("answer", ", ".join(answer))
            elif state.get("status") == "error":
                yield Said("rejection", rejected(str(state.get("error"))))


def unpack(data: Path, folder: Path) -> Iterator[tuple[str, Path, list[Said]]]:
    """Yield host, unpacked file and words of each transcript."""
    for path in sorted(data.glob("transcripts/*/*.gz")):
        plain = folder / path.name.removesuffix(".gz")
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        if path.parent.name == "opencode":
            yield "opencode", plain, list(read_opencode(json.loads(plain.read_text("utf-8"))))
        else:
            yield "claude", plain, list(read_claude(plain.read_text("utf-8").split("\n")))


WORDS = "use keep the old parser wrapper before tests cache port route in folder instead of new one and do not touch lock".split()
START = "The user doesn't want to proceed with this tool use. The tool use was rejected. "
ADVICE = "\n\nNote: The user's next message may contain a correction or preference. Pay close attention."


class MadeUpSession:
    """Lines of a Claude Code transcript."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines: list[str] = []

    def write(self, kind: str, content: object, **more: object) -> None:
        """Add a line."""
        count = len(self.lines)
        record = {
            "type": kind,
            "uuid": f"{self.number:08x}-0000-4000-8000-{count:012x}",
            "sessionId": f"made-{self.number}",
            "timestamp": f"2026-03-05T10:{count % 60:02}:00Z",
            "message": {"role": kind, "content": content},
        }
        self.lines.append(json.dumps(record | more))


def made_up(count: int, folder: Path) -> Iterator[tuple[str, Path, list[Said]]]:
    """Yield sessions with random rejections, answers and plans in the wordings of several versions."""
    chance = random.Random(7)
    for number in range(count):
        session = MadeUpSession(number)
        for turn in range(chance.randint(1, 4)):
            session.write("user", f"request {turn} of session {number}")
            for call in range(chance.randint(0, 4)):
                identity = f"toolu_{number}_{turn}_{call}"
                words = f"{' '.join(chance.choices(WORDS, k=chance.randint(1, 60)))} {number}.{turn}.{call}"
                write_call(chance.randrange(4), identity, words, session, chance)
            session.write("assistant", [{"type": "text", "text": "Done."}])
        path = folder / f"made-{number}.jsonl"
        path.write_text("\n".join(session.lines) + "\n")
        yield "claude", path, list(read_claude(session.lines))


def write_call(choice: int, identity: str, words: str, session: MadeUpSession, chance: random.Random) -> None:
    """Write a call with words of the user: a question, an approved plan, a rejected plan, or a rejected command."""
    questions = [
        {"question": f"Which {identity}?", "options": [{"label": words, "description": "x"}, {"label": "other"}]}
    ]
    plan = f"# Plan {identity}\n\n" + "\n".join(f"{step}. {words}" for step in range(chance.randint(1, 40)))
    choices: list[dict[str, object]] = [{"questions": questions}, {"plan": plan}, {"plan": plan}, {"command": "make x"}]
    given = choices[choice]
    name = ["AskUserQuestion", "ExitPlanMode", "ExitPlanMode", "Bash"][choice]
    session.write("assistant", [{"type": "tool_use", "id": identity, "name": name, "input": given}])
    marks = (
        "To tell you how to proceed, the user said:\n",
        "The user provided the following reason for the rejection:  ",
    )
    rejection = START + chance.choice(marks) + words + chance.choice(("", ADVICE))
    text = ["User has answered.", "User has approved your plan.", rejection, rejection][choice]
    result = {"type": "tool_result", "tool_use_id": identity, "content": text, "is_error": choice > 1}
    answers = (
        {"toolUseResult": {"questions": questions, "answers": {f"Which {identity}?": words}}} if choice == 0 else {}
    )
    session.write("user", [result], **answers)


def capture(host: str, transcript: Path, folder: Path) -> list[tuple[str, str]]:
    """Capture a session into an empty project; return type and text of every entry."""
    project, home = folder / "project", folder / "home"
    for place in (project, home):
        place.mkdir(parents=True)
    with Lorelog(project, home=home, settings={"embedding.provider": "none"}) as memory:
        for _ in range(2):  # the second one writes nothing
            memory.capture(
                host, transcript.stem, transcript=transcript, directory=project, moment="session-end", everything=True
            )
    entries: list[tuple[str, str]] = []
    for journal in sorted((project / ".lorelog" / "memory").glob("*.md")) or sorted(home.rglob("20*.md")):
        for entry in journal.read_text("utf-8").split("\n### ")[1:]:
            kind = re.search(r" type:(\w+)", entry)
            entries.append((kind[1] if kind else "", entry.partition("-->\n")[2]))
    return entries


def match(said: list[Said], entries: list[tuple[str, str]]) -> Iterator[tuple[Said, bool]]:
    """Yield each of the words with whether an entry holds it; every entry counts for one of them."""
    left = [(kind, squeeze(text)) for kind, text in entries]
    for item in said:
        words = squeeze(item.words)[:COMPARED_CHARS]
        found = next((entry for entry in left if entry[0] in TYPES[item.channel] and words in entry[1]), None)
        if found is not None:
            left.remove(found)
        yield item, found is not None


def main() -> int:
    """Measure and print a table; exit with 1 if any of the words is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with transcripts/")
    parser.add_argument("--made-up", type=int, default=40, help="number of made-up sessions")
    parser.add_argument("--show", action="store_true", help="print the recognised prompts, and what is missing")
    options = parser.parse_args()
    counts: Counter[tuple[str, str, bool]] = Counter()
    lengths: list[int] = []
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        groups = (("real", unpack(options.data, folder)), ("made-up", made_up(options.made_up, folder)))
        number = 0
        for group, sessions in groups:
            for host, transcript, words in sessions:
                number += 1
                entries = capture(host, transcript, folder / str(number))
                lengths += [len(text) for kind, text in entries if kind != "turn"]
                for item, found in match([item for item in words if item.words.strip()], entries):
                    counts[group, item.channel, found] += 1
                    if not found and options.show:
                        print(f"missing {item.channel} in {transcript.name}: {item.words[:200]!r}")
                if options.show and group == "real":
                    for kind, text in entries:
                        if kind in {"correction", "preference"}:
                            print(f"{transcript.name[:20]} {kind}: {text.strip()!r}")
    print("| sessions | said | in transcripts | in entries |\n|---|---|--:|--:|")
    for group in ("real", "made-up"):
        for channel in TYPES:
            kept, missing = counts[group, channel, True], counts[group, channel, False]
            print(f"| {group} | {channel} | {kept + missing} | {kept} |")
    print(f"\n{len(lengths)} entries, longest {max(lengths, default=0):,} characters")
    return 1 if any(not found for _, _, found in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
