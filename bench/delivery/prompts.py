"""Measures how often a prompt brings memories of earlier sessions that answer it, and that do not, by threshold.

    python -m bench.delivery.prompts --data DIR

The notes of `retrieval/small_projects` become the memories of twelve projects with the built-in model. Prompts with an
answer are its questions; prompts without one are its questions of the category none, and what was typed in the real transcripts. Each prompt is a new session
and brings at most `session.hits` memories, of which the table keeps those at or above a threshold. A project of 15 notes
has little to confuse a prompt with, so all is measured again with the 180 notes in one project.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.quality.sets import load

from lorelog import Lorelog
from lorelog.light.delivery_log import estimate_tokens

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
K = 2
POOL = "all"


@dataclass(frozen=True)
class PromptOutcome:
    """What a prompt brought: relevance of each memory, whether it answers, and its tokens."""

    kind: str
    hits: tuple[tuple[float, bool, int], ...]

    def shown(self, least: float) -> list[tuple[float, bool, int]]:
        """Return the memories at or above a threshold."""
        return [hit for hit in self.hits if hit[0] >= least]


def write_journals(data: Path, folder: Path, *, pooled: bool) -> tuple[dict[str, Path], dict[str, str]]:
    """Write the notes of each group as journals; return the projects, and the documents by memory id."""
    notes = load(data, "small_projects")
    documents: dict[str, str] = {}
    days: dict[tuple[str, str], list[str]] = {}
    for number, text in enumerate(notes.texts, 1):
        memory = f"01a1dd23-0000-7000-8000-{number:012x}"
        documents[memory] = text.id
        days.setdefault((POOL if pooled else text.group, text.date), []).append(
            f"### 10:00\n<!-- memory:{memory} type:fact -->\n- {text.text}\n"
        )
    for (group, day), entries in days.items():
        journal = folder / group / "notes" / f"{day}.md"
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_text(f"# {day}\n\n" + "\n".join(entries), "utf-8")
    return {group: folder / group for group in sorted({group for group, _ in days})}, documents


def prompts_by_group(data: Path, groups: list[str]) -> dict[str, list[tuple[str, str, frozenset[str]]]]:
    """Return for each project its prompts: kind, text, and the documents that answer it."""
    judged = load(data, "small_projects")
    prompts: dict[str, list[tuple[str, str, frozenset[str]]]] = {group: [] for group in groups}
    for question in judged.questions:
        answers = frozenset(name for name, gain in judged.gains.get(question.id, {}).items() if gain > 0)
        kind = f"answered, {question.category}" if answers else "not answered, questions"
        prompts[question.group if question.group in prompts else POOL].append((kind, question.text, answers))
    for number, text in enumerate(typed_prompts(data)):
        prompts[groups[number % len(groups)]].append(("not answered, typed in real sessions", text, frozenset()))
    return prompts


def typed_prompts(data: Path) -> Iterator[str]:
    """Yield what was typed in real sessions."""
    for path in sorted((data / "transcripts" / "claude_code").glob("*.gz")):
        for line in gzip.decompress(path.read_bytes()).decode("utf-8", "replace").splitlines():
            record: dict[str, Any] = json.loads(line)
            given = (record.get("message") or {}).get("content")
            content = given if record.get("type") == "user" and isinstance(given, str) else ""
            if not record.get("isMeta") and len(content) >= 10 and not content.startswith(("<", "Caveat:", "[Request")):
                yield content[:2000]
    for path in sorted((data / "transcripts" / "opencode").glob("*.gz")):
        for message in json.loads(gzip.decompress(path.read_bytes()))["messages"]:
            texts = [part["text"] for part in message["parts"] if part.get("type") == "text" and part.get("text")]
            if message["info"]["role"] == "user" and texts and len(texts[0]) >= 10:
                yield texts[0][:2000]


def measure(data: Path, folder: Path, *, pooled: bool) -> Iterator[PromptOutcome]:
    """Yield the outcome of each prompt."""
    projects, documents = write_journals(data, folder, pooled=pooled)
    prompts = prompts_by_group(data, list(projects))
    for group, project in projects.items():
        with Lorelog(project, home=folder / "home") as memory:
            memory.index([project / "notes"])
            for number, (kind, text, answers) in enumerate(prompts[group]):
                session = f"{group}-{number}"
                hits = memory.recall(text, host="claude", session=session, k=K, min_relevance=0.0)
                yield PromptOutcome(
                    kind,
                    tuple(
                        (hit.relevance, documents.get(hit.memory, "") in answers, estimate_tokens(hit.text))
                        for hit in hits
                    ),
                )


def print_table(outcomes: list[PromptOutcome]) -> None:
    """Print the share of prompts by threshold."""
    print("| prompts | number |" + "".join(f" {least} |" for least in THRESHOLDS))
    print("|---|--:|" + "--:|" * len(THRESHOLDS))
    for kind in sorted({outcome.kind for outcome in outcomes} | {"answered", "not answered"}):
        chosen = [outcome for outcome in outcomes if outcome.kind.startswith(kind)]
        cells = ""
        for least in THRESHOLDS:
            shown = [hits for outcome in chosen if (hits := outcome.shown(least))]
            right = sum(any(is_answer for _, is_answer, _ in hits) for hits in shown)
            if kind.startswith("answered"):
                cells += f" {100 * right / len(chosen):.0f} ({100 * (len(shown) - right) / len(chosen):.1f}) |"
            else:
                cells += f" {100 * len(shown) / len(chosen):.1f} |"
        print(f"| {kind} | {len(chosen)} |{cells}")


def main() -> int:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with retrieval/ and transcripts/")
    options = parser.parse_args()
    print("Prompts with an answer: % that bring it (and % that bring only other memories).")
    print("Prompts without one: % that bring something.")
    for pooled in (False, True):
        with TemporaryDirectory() as folder:
            outcomes = list(measure(options.data, Path(folder), pooled=pooled))
        print(f"\n### {'180 notes in one project' if pooled else '15 notes in each project'}\n", flush=True)
        print_table(outcomes)
        for least in THRESHOLDS:
            tokens = [sum(size for _, _, size in outcome.shown(least)) for outcome in outcomes]
            print(f"{least}: {sum(tokens) / len(tokens):.1f} tokens of text per prompt, at most {max(tokens)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
