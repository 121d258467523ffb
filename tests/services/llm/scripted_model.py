"""A language model that says what a test wants, and the receipts of its calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lorelog.core.ports import Completion


class ScriptedLanguageModel:
    """Gives its answers in turn, the last one again and again; an error is raised."""

    provider = "test"
    model = "one"
    extra_tokens = 40

    def __init__(self, *answers: str | BaseException, tokens: tuple[int, int] = (100, 20)) -> None:
        self.answers = list(answers) or ["done"]
        self.tokens = tokens
        self.asked: list[tuple[str, str, int]] = []

    def complete(self, system: str, text: str, max_tokens: int) -> Completion:
        self.asked.append((system, text, max_tokens))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return Completion(answer, *self.tokens)


def receipts_in(folder: Path) -> list[dict[str, Any]]:
    path = folder / "receipts.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
