"""Read the user's own words from tool results: words typed at a rejection, answers to questions, verdicts on plans.

    host      rejection with words                      questions                           plans
    claude    the rejected call's error text            AskUserQuestion, `toolUseResult`    ExitPlanMode
    codex     none: the words are the next request      request_user_input, JSON            `<proposed_plan>`, Plan items
    opencode  the rejected call's error text            question, `metadata.answers`        plan_exit, plan in a file
    openclaw  none: the words are the next request      ask_user, `details`                 none

The hosts' tools and texts are similar, so one reader serves all. It takes the structured form of an answer where there is
one, because a question may contain any text. Text that the host itself put around the words is removed.

lorelog's own words are recognised, too: memories that hooks add to the result of a call, in front of it or after it, and the reasons of stopped
calls. Without that, a shown memory would be captured as an error, a note or the user's words, shown again, and so on. A call that a guard
blocked, or that was held once because of a rule, was not rejected by the user and is not an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.session import UserStatement
from lorelog.ingest.transcripts.actions import REJECTED, REJECTION_STARTS, parse_arguments
from lorelog.ingest.transcripts.statements import certain_rules

MAX_WORDS_CHARS = 20_000
"""Length at which words are cut when they are read. They are redacted and shortened later."""
MAX_QUESTION_CHARS = 400
_MAX_SUBJECT_CHARS = 300
_QUESTION_TOOLS = frozenset({"askuserquestion", "question", "request_user_input", "ask_user", "ask_user_question"})
_PLAN_TOOLS = frozenset({"exitplanmode", "exit_plan_mode", "plan_exit"})
_REJECTION_WORDS = re.compile(
    r"(?:the user said|reason for the rejection|with the following feedback|the user's feedback)\s*:[ \t]*\n?(.*)",
    re.IGNORECASE | re.DOTALL,
)
_REJECTED = re.compile(
    r"user (?:doesn't|does not) want to proceed|rejected by (?:the )?user|user (?:has )?(?:rejected|denied|declined)",
    re.IGNORECASE,
)
_INTERRUPTIONS = ("[Request interrupted by user", "aborted by user", "Tool execution aborted")
_HOST_ADVICE = "Note: The user's next message may contain a correction or preference"
_CLARIFY = ("The user wants to clarify these questions.", "The user has indicated they have provided enough answers")
"""Text of the host for a user who would rather talk about the questions. Answers given so far follow it."""
_APPROVED_PLAN = re.compile(r"^## Approved Plan([^:\n]*):\n(.*)", re.DOTALL | re.MULTILINE)
_NO_ANSWERS = frozenset({"", "unanswered", "(notes only)", "(no answer)", "(no option selected)", "none of the above"})
_NOTE_PREFIX = "user_note: "
_PROPOSED_PLAN = re.compile(r"<proposed_plan>\s*(.*?)\s*(?:</proposed_plan>|\Z)", re.DOTALL)

_BLOCK = re.compile(
    r"(?<!`)<lorelog-memory>[ \t]*(?:\n|\\n|\Z).*?(?:</lorelog-memory>|\Z)[ \t]*", re.DOTALL | re.IGNORECASE
)
"""A block to its end, or to the end of a text that the host cut off. The opening tag ends a line."""
_HELD = r"<lorelog-memory>.{0,4000}?</lorelog-memory>\s{0,20}Held once\."
_GUARDED = r"Blocked by lorelog guard [\w-]{1,80}:"
_STOPPED = re.compile(rf".{{0,300}}?(?:{_HELD}|{_GUARDED})", re.DOTALL)
_STOPPED_AT_START = re.compile(
    rf"\s*(?:Error: |Tool call blocked: |(?:[\w ]{{1,40}} )?blocked by PreToolUse hook: |PreToolUse[^\n]{{0,80}}: )?(?:{_HELD}|{_GUARDED})",
    re.DOTALL | re.IGNORECASE,
)


class PendingCall(Struct, frozen=True):
    """A tool call whose result may hold words of the user."""

    tool: str
    subject: str = ""
    """File or command of the call."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of a question or a plan; empty for other tools."""
    plan: str = ""
    """Text that the call wrote to a plan file."""

    @property
    def asks(self) -> bool:
        """True if the tool asks the user questions."""
        return self.tool.lower() in _QUESTION_TOOLS

    @property
    def shows_plan(self) -> bool:
        """True if the tool shows a plan for approval."""
        return self.tool.lower() in _PLAN_TOOLS


def pending_call(tool: str, arguments: object, subject: str) -> PendingCall:
    """Return the parts of a call that are needed to understand its result."""
    call = PendingCall(tool, subject.strip()[:_MAX_SUBJECT_CHARS])
    given = parse_arguments(arguments)
    if not isinstance(given, dict):
        return call
    if call.asks or call.shows_plan:
        asking = PendingCall(tool, "", given)
        question = next((item.get("question") for item in _questions(asking)), "")
        return replace(asking, subject=str(question or "")[:_MAX_SUBJECT_CHARS])
    path, content = given.get("file_path") or given.get("filePath"), given.get("content")
    is_plan = (
        isinstance(path, str)
        and isinstance(content, str)
        and path.endswith(".md")
        and path.split("/")[-2:-1] in (["plan"], ["plans"])
    )
    return replace(call, plan=str(content)[:MAX_WORDS_CHARS]) if is_plan else call


class CallResult(Struct, frozen=True):
    """Result of a call, as text and in the host's structured form."""

    text: str
    details: object = None
    failed: bool = False


def is_interruption(result: str) -> bool:
    """Return whether a host says in a call's result that the user stopped the call while it ran."""
    return any(mark in result[:200] for mark in _INTERRUPTIONS)


def is_rejection(result: str) -> bool:
    """Return whether a host says in a call's result that the user refused the call."""
    return bool(_REJECTED.search(result[:1_000]))


def call_outcome(result: str, *, stopped: bool) -> tuple[str, str]:
    """Return how a call that did not run ended, and the user's words about it: see `ToolAction.outcome`."""
    if stopped:
        return "stopped", ""
    return (
        ("rejected", rejection_words(result)) if is_rejection(result) else ("interrupted" * is_interruption(result), "")
    )


def read_reply(call: PendingCall, result: CallResult, key: str, plan: str = "") -> Iterator[UserStatement]:
    """Yield the user's words in the result of a call. `plan` is the plan's text if the call itself has none."""
    rejected = result.failed and result.text.removeprefix("Error: ").startswith(REJECTION_STARTS)
    words = rejection_words(result.text) if rejected else ""
    if call.asks:
        answers = _clarified_answers(call, result.text) if rejected else _given_answers(call, result)
        for number, (question, answer) in enumerate(answers, 1):
            yield _decision(call, question, answer, f"answer {key} {number}")
    elif call.shows_plan:
        yield from _plan_statement(call, result, key, plan)
    if words:
        context = _plan_title(call, plan) if call.shows_plan else f"{call.tool} {call.subject}".strip()
        kind = "preference" if certain_rules(words) else "correction"
        yield UserStatement(kind, words, f"rejected {context}", f"reply {key}")


def unanswered_plan(call: PendingCall, key: str, plan: str = "") -> UserStatement | None:
    return next(_plan_statement(call, CallResult(""), key, plan), None) if call.shows_plan else None


def rejection_words(text: str) -> str:
    """Return the words that the user typed when rejecting a call, without the host's own text."""
    match = _REJECTION_WORDS.search(text)
    words = match[1].partition(_HOST_ADVICE)[0] if match else ""
    return "" if words.lstrip().startswith(_CLARIFY) else words.strip()[:MAX_WORDS_CHARS]


def strip_shown_memory(text: str) -> str:
    """Return a tool's result, or a request, without the memories that lorelog added to it."""
    return _BLOCK.sub("", text).strip("\n") if "<lorelog-memory>" in text.lower() else text


def is_stopped_call(text: str, *, failed: bool) -> bool:
    """Return whether a result says that lorelog stopped the call, and not that it ran.

    Hosts put a few words in front of the reason. If the host does not mark the result as failed, the reason must be at
    its beginning: a command may print such a text.
    """
    return bool((_STOPPED if failed else _STOPPED_AT_START).match(text))


def proposed_plans(text: str) -> list[str]:
    """Return the plans that a Codex answer proposes."""
    return [plan[:MAX_WORDS_CHARS] for plan in _PROPOSED_PLAN.findall(text) if plan]


def _plan_statement(call: PendingCall, result: CallResult, key: str, written: str) -> Iterator[UserStatement]:
    details = result.details if isinstance(result.details, dict) else {}
    approved = _APPROVED_PLAN.search(result.text)
    candidates = (approved[2] if approved else "", call.arguments.get("plan"), details.get("plan"), written)
    plan = next((text for text in candidates if isinstance(text, str) and text.strip()), "")
    if result.failed:
        verdict = REJECTED
    elif approved or result.text.startswith(("User approved", "User has approved")):
        verdict = "approved by the user" + (", edited" if approved and "edited" in approved[1] else "")
    else:
        verdict = "shown to the user" if not result.text else ""
    if plan and verdict:
        yield UserStatement("plan", plan.strip()[:MAX_WORDS_CHARS], f"plan {verdict}", f"plan {key}")


def _plan_title(call: PendingCall, written: str) -> str:
    plan = call.arguments.get("plan")
    text = plan if isinstance(plan, str) and plan.strip() else written
    title = next((line.strip("# \t") for line in text.splitlines() if line.strip("# \t")), "")
    return f"plan: {title[:_MAX_SUBJECT_CHARS]}" if title else "plan"


def _questions(call: PendingCall) -> list[dict[str, Any]]:
    questions = call.arguments.get("questions")
    if not isinstance(questions, list):
        questions = [call.arguments] if isinstance(call.arguments.get("question"), str) else []
    return [question for question in questions if isinstance(question, dict)]


def _decision(call: PendingCall, question: str, answer: str, key: str) -> UserStatement:
    asked = " ".join(question.split())
    if len(asked) > MAX_QUESTION_CHARS:  # the question itself stands at the end
        asked = f"…{asked[-MAX_QUESTION_CHARS:]}"
    asking = next((item for item in _questions(call) if item.get("question") == question), {})
    options = asking.get("options")
    labelled = [
        (option["label"], str(option.get("description") or "").strip(" ."))
        for option in (options if isinstance(options, list) else ())
        if isinstance(option, dict) and isinstance(option.get("label"), str) and option["label"]
    ]
    parts = [reason for label, reason in labelled if label in answer and reason]
    others = "; ".join(label for label, _ in labelled if label not in answer)
    parts += [f"not chosen: {others}"] if others else []
    text = f"{asked} → {answer}" if asked else answer
    return UserStatement("decision", text[:MAX_WORDS_CHARS], "; ".join(parts)[:MAX_WORDS_CHARS], key)


def _given_answers(call: PendingCall, result: CallResult) -> Iterator[tuple[str, str]]:
    """Yield each question with its answer, where there is one. Answers that a host marks as secret are left out."""
    text = result.text.strip()
    details = result.details if isinstance(result.details, dict) and "answers" in result.details else None
    if details is None:
        start = text if text.startswith("{") else text[text.rfind("\n\n{") + 2 :] if "\n\n{" in text else ""
        parsed = parse_arguments(start)
        details = parsed if isinstance(parsed, dict) else {}
    for number, asking in enumerate(_questions(call)):
        question = asking.get("question")
        if not isinstance(question, str) or asking.get("isSecret") is True:
            continue
        names = [question, *(asking.get(name) for name in ("id", "questionId", "header"))]
        answer = _structured_answer(details, names, number)
        if answer is None:
            answer = _quoted_answer(result.text, question)
        if answer:
            yield question, answer


def _structured_answer(details: Mapping[str, Any], names: list[Any], number: int) -> str | None:
    """Return an answer from the structured form; empty if the question has none there, None if there is no such form."""
    answers = details.get("answers")
    while isinstance(answers, dict) and set(answers) == {"answers"}:
        answers = answers["answers"]
    if isinstance(answers, list):
        value = answers[number] if number < len(answers) else None
    elif isinstance(answers, dict):
        value = next((answers[name] for name in names if isinstance(name, str) and name in answers), None)
    else:
        return None
    while isinstance(value, dict):
        value = value.get("answers", value.get("answer"))
    values = value if isinstance(value, list) else [value]
    words = [text.removeprefix(_NOTE_PREFIX).strip() for text in values if isinstance(text, str)]
    words = [text for text in words if text.lower() not in _NO_ANSWERS]
    annotations = details.get("annotations")
    note = annotations.get(names[0]) if isinstance(annotations, dict) else None
    if isinstance(note, dict) and isinstance(note.get("notes"), str) and note["notes"].strip():
        words.append(note["notes"].strip())
    return ", ".join(words)


def _quoted_answer(text: str, question: str) -> str:
    """Return an answer from `"question"="answer"`, up to the next question or the end of the list."""
    opening = f'"{question}"="'
    start = text.find(opening)
    if start < 0:
        return ""
    rest = text[start + len(opening) :]
    ends = [at for at in (rest.find('", "'), rest.find('". You can now'), rest.rfind('"')) if at >= 0]
    answer = rest[: min(ends)] if ends else rest
    return "" if answer.strip().lower() in _NO_ANSWERS else answer.strip()


def _clarified_answers(call: PendingCall, text: str) -> Iterator[tuple[str, str]]:
    """Yield the answers and notes that the user had given before asking to talk about the questions."""
    match = _REJECTION_WORDS.search(text)
    if not match or not match[1].lstrip().startswith(_CLARIFY):
        return
    rest = match[1].partition(_HOST_ADVICE)[0]
    questions = [item["question"] for item in _questions(call) if isinstance(item.get("question"), str)]
    starts = [(rest.find(f'- "{question}"'), question) for question in questions]
    places = sorted(place for place in starts if place[0] >= 0)
    for number, (start, question) in enumerate(places):
        end = places[number + 1][0] if number + 1 < len(places) else len(rest)
        lines = (line.strip().partition(": ") for line in rest[start + len(question) : end].splitlines())
        if words := [words.strip() for label, _, words in lines if label in ("Answer", "User notes") and words.strip()]:
            yield question, ", ".join(words)
