"""Agents' programs that judge badly: real child processes that answer with something else, or never."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.models.test_chat_programs import CLAUDE, SAYING, AgentPrograms
from tests.services.review.test_judge import said

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.options import LanguageOptions
from lorelog.models.chat import open_language_model
from lorelog.services.llm.metered import LlmBudget, MeteredLlm
from lorelog.services.llm.receipts import Receipts
from lorelog.services.review.judge import Judge

STATEMENTS = [said("use tabs", 1), said("why is it slow?", 2)]


def judge_with(folder: Path, name: str, then: str, timeout_s: float = 20.0) -> dict[str, tuple[str, str]]:
    """Return labels and wordings by a program that runs this code after it has read its input."""
    agents = AgentPrograms(folder)
    agents.make(name, then)
    model = open_language_model(LanguageOptions("host", timeout_s=timeout_s), "", agents.environment, (name,))
    assert model is not None
    llm = MeteredLlm(model, Receipts.of_tenant(folder), LlmBudget(500_000, timeout_s))
    verdicts = Judge(llm.ask).judge(STATEMENTS)
    return {key: (verdict.label, verdict.wording) for key, verdict in verdicts.items()}


def answering(name: str, answer: str) -> str:
    """Return code that prints an answer in the format of an agent."""
    place = f"line.replace({CLAUDE['result']!r}, json.dumps({answer!r})[1:-1])"
    return f"def print(line): sys.stdout.write({place} + chr(10))\n{SAYING[name]}"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("claude", "The first one is a rule, the second one is a question."),
        ("codex", "Die erste Aussage ist eine Regel."),
        ("qwen", '[{"n": 1, "label": "law"}]'),
        ("gemini", '[{"n": 7, "label": "rule"}, {"n": "s1", "label": "rule"}]'),
        ("copilot", '[{"n": 1, "label": "rule"}]\n[{"n": 1, "label": "rule"}]'),
        ("opencode", '[{"n": 1, "label": "rule", "wording": "use ta'),
    ],
)
def test_an_answer_without_a_valid_entry_decides_nothing(tmp_path: Path, name: str, answer: str) -> None:
    """Prose, other labels, other ids, two lists and broken JSON fail the judge, and every statement stays open."""
    with pytest.raises(ModelFault, match="no usable answer"):
        judge_with(tmp_path, name, answering(name, answer))


@pytest.mark.parametrize(
    ("answer", "decided"),
    [
        (
            'Here: [{"n": 2, "label": "question"}, {"n": 1, "label": "rule"}, {"n": 1, "label": "other"}]',
            {"s2": ("question", "")},
        ),
        ('[{"n": 1, "label": "rule", "wording": "Alice wants tabs on Fridays."}]', {"s1": ("rule", "use tabs")}),
        (
            '[{"n": 1, "label": "rule", "wording": "Alice deploys on Fridays."}, {"n": 2, "label": "other"}]',
            {"s2": ("other", "")},
        ),
    ],
)
def test_of_half_a_list_and_of_an_invented_rule_the_sound_part_counts(
    tmp_path: Path, answer: str, decided: dict[str, tuple[str, str]]
) -> None:
    """Missing and contradictory entries, and a rule about something else, leave their statement open; an invented wording becomes the user's words."""
    assert judge_with(tmp_path, "qwen", answering("qwen", answer)) == decided


def test_a_program_that_never_answers_is_ended(tmp_path: Path) -> None:
    """At the deadline the judge is unavailable; nothing is decided."""
    with pytest.raises(ModelUnavailable, match="did not exit within"):
        judge_with(tmp_path, "opencode", "time.sleep(600)", timeout_s=0.5)
