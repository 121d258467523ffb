"""Recognise prompts that correct the agent or state a preference, without a model, and format statements as entries.

A wrong entry does harm: it is shown to every later session as a rule of the user. So precision comes before recall. Only
the beginning of a sentence decides ("don't …", "no, use …", "always …"): a task such as "write a function that never
blocks" has the same words elsewhere. Questions, quotes, code, logs and lists in a task description do not count.

Matching is done on a copy of the text, of the same length, in which code and quotes are blanked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from lorelog.core.session import UserStatement
from lorelog.ingest.transcripts import statement_patterns as patterns
from lorelog.ingest.transcripts.turn_note import strip_injected_context

MAX_STATEMENT_CHARS = 2000
"""Length of the words in an entry; the middle of longer ones is left out."""
MAX_CONTEXT_CHARS = 400
MAX_ASKED_CHARS = 1500
_MIN_ASKED_CHARS = 80
_TAIL_CHARS = 600
_MAX_PROMPT_CHARS = 700
"""A longer prompt is a task description; only a rule for the future is recognised in it."""
_SHORT_PROMPT_CHARS = 300
"""A prompt up to this length is kept whole."""
_MAX_SHORT_CORRECTION_CHARS = 70
_MAX_INTERRUPTION_CHARS = 400
_MAX_READ_CHARS = 20_000
_MAX_SENTENCES = 60

_FLAGS = re.IGNORECASE
_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_FENCE_LINE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_QUOTE_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_QUOTED = re.compile(r'`[^`\n]{1,300}`|"[^"\n]{1,300}"|“[^”\n]{1,300}”|«[^»\n]{1,300}»|「[^」\n]{1,300}」')
_MACHINE_LINE = re.compile(
    r"^(?:\t| {4,}|\s*at \S+ ?\(|\s*File \"|\s*[+-]{1,3} |[$%#] |\d{4}-\d\d-\d\d[T ]|\[?\d\d:\d\d:\d\d|"
    r"\s*(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|Traceback|Exception|error\[|npm ERR|E   )\b|\s*[\w./-]+:\d+[: ]|\s*[{}<\[|]|"
    r"\s*(?:def|class|import|from|const|let|var|function|return|if|for|public|private|SELECT)\b.*[:;{(=]\s*$).*$",
    re.MULTILINE,
)
_SENTENCE = re.compile(r"(?:[ \t]*\d{1,2}[.)][ \t]+)?[^.!?。！？\n]+(?:[.!?](?=\S)[^.!?。！？\n]+)*[.!?。！？]*")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,2}[.)])[ \t]+")
_LEAD_IN = re.compile(
    r"(?:(?:and|also|but|so|ok(?:ay)?|please|pls|btw|fyi|hey|hi|hm+|ah|oh|well|right|yes|yep|yeah|thanks|thank you|great|good|"
    r"perfect|cool|nice|sorry|actually|again|just|one more thing|looks? good|(?:for|in) (?:this|our) (?:repo|project|codebase)|bitte|also|und|et|y|por favor|s'il te plaît|请)"
    r"(?=[\s,.!:;—–-])[\s,.!:;—–-]*)+",
    _FLAGS,
)
_OTHER_INPUT = re.compile(r"\A\s*(?:/[\w:-]+|! |Implement (?:the following |the |this )?plan\b|<)", _FLAGS)
_PLAN_APPROVAL = re.compile(r"\A\s*Implement the plan\b[^\n]{0,200}", _FLAGS)

RedactText = Callable[[str], str]


class _Sentence(Struct, frozen=True):
    start: int
    end: int
    masked: str
    """The sentence without its list mark and its lead-in ("ok, please …")."""
    is_item: bool
    is_question: bool


def recognise_prompt(text: str, *, interrupted: bool = False) -> tuple[str, str] | None:
    """Return kind and words of a prompt that corrects or states a preference; None for any other prompt.

    With `interrupted`, the prompt was typed after the user stopped the agent: a short one is a correction.
    """
    prompt = strip_injected_context(text[:_MAX_READ_CHARS])
    if not prompt or _OTHER_INPUT.match(prompt):
        return None
    masked = _mask(prompt.replace("\u2019", "'"))
    prose = " ".join(masked.split())
    sentences = list(_sentences(masked))
    if not prose or not sentences:
        return None
    is_long = len(prose) > _MAX_PROMPT_CHARS
    carrying = [
        (number, kind)
        for number, sentence in enumerate(sentences)
        if (kind := _kind_of(sentence, sentences[:number], masked, is_long=is_long))
    ]
    if not carrying and interrupted and _is_correction_after_stop(prose, sentences):
        return "correction", prompt[:_MAX_READ_CHARS]
    if not carrying:
        return None
    kind = "preference" if any(found == "preference" for _, found in carrying) else "correction"
    return kind, _carried_words(prompt, sentences, [number for number, _ in carrying])


def rejection_kind(words: str) -> str:
    """Return the kind of words typed at a rejection: a rule for the future, or a correction of this call."""
    return (
        "preference"
        if patterns.STANDING.search(_mask(words[:_MAX_READ_CHARS].replace("\u2019", "'")))
        else "correction"
    )


def is_plan_approval(text: str) -> bool:
    """Return True if a request is the one that Codex sends when the user approves a plan."""
    return bool(_PLAN_APPROVAL.match(text))


def last_question(text: str) -> str:
    """Return the end of an assistant's text that the next prompt answers: the last paragraph, with its options.

    Paragraphs are added from the end while they are list items or short: options stand below their question.
    """
    kept: list[str] = []
    for paragraph in reversed(text[-5 * MAX_ASKED_CHARS :].strip().split("\n\n")):
        if not paragraph.strip():
            continue
        kept.insert(0, paragraph.strip())
        if not _LIST_ITEM.match(paragraph) and sum(map(len, kept)) >= _MIN_ASKED_CHARS:
            break
    return "\n\n".join(kept)[-MAX_ASKED_CHARS:]


def format_statement(statement: UserStatement, clean: RedactText = str) -> str:
    """Return a statement as bullets: the words, then what they are about. Empty if nothing is left of the words."""
    words = _bullet(_cut_middle(clean(statement.text), MAX_STATEMENT_CHARS))
    if not words:
        return ""
    context = " ".join(_plain(clean(statement.context)).split())
    if len(context) > MAX_CONTEXT_CHARS:
        context = context[: MAX_CONTEXT_CHARS - 1].rstrip() + "…"
    return f"- {words}\n- About: {context}" if context else f"- {words}"


def _mask(text: str) -> str:
    """Return a text of the same length with code, quotes and lines of machines blanked."""
    for pattern in (_FENCED, _QUOTE_LINE, _MACHINE_LINE, _QUOTED):
        text = pattern.sub(_blank, text)
    return text


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "\u00b7" if len(match[0]) < 300 and "\n" not in match[0] else " ", match[0])


def _sentences(masked: str) -> Iterator[_Sentence]:
    for count, match in enumerate(_SENTENCE.finditer(masked)):
        if count >= _MAX_SENTENCES:
            return
        line = match[0]
        if not line.strip(" \t\u00b7.!?"):
            continue
        item = _LIST_ITEM.match(line)
        bare = line[item.end() :] if item else line.lstrip()
        lead = _LEAD_IN.match(bare)
        rest = (bare[lead.end() :] if lead else bare).strip()
        question = line.rstrip().endswith(("?", "？", "吗")) or bool(patterns.QUESTION_START.match(rest))
        yield _Sentence(match.start(), match.end(), rest or bare.strip(), bool(item), question)


def _kind_of(sentence: _Sentence, before: list[_Sentence], masked: str, *, is_long: bool) -> str:
    words = sentence.masked
    is_task_list = sentence.is_item and bool(before) and not before[0].is_item
    is_outdated = patterns.OUTDATED.search(words) and not patterns.IMPERATIVE.match(words)
    if sentence.is_question or is_outdated or (is_task_list and not is_long):
        return ""
    if is_long:
        return "preference" if patterns.STRONG.match(words) else ""
    if patterns.PREFERENCE.match(words) or patterns.RULE_END.search(words):
        return "preference"
    if all(map(_is_acknowledgement, before)) and _corrects(sentence, masked):
        return "preference" if patterns.STANDING.search(words) else "correction"
    return ""


def _corrects(sentence: _Sentence, masked: str) -> bool:
    """Return True if the first sentence of a prompt corrects. An opening may be a sentence: "No. Use …"."""
    words = sentence.masked
    opening = masked[sentence.start + masked[sentence.start : sentence.end].find(words) :]
    if patterns.OPENING.match(opening):
        return True
    if patterns.CORRECTION.match(words):
        return not _is_followed_by_task(opening[len(words) :])
    return len(opening.strip()) <= _MAX_SHORT_CORRECTION_CHARS and bool(patterns.SHORT_CORRECTION.match(words))


def _is_followed_by_task(rest: str) -> bool:
    """Return True if a constraint is followed by the task it belongs to: "Don't use a library. Write …"."""
    return any(patterns.TASK_START.match(sentence.masked) for sentence in _sentences(rest))


def _is_acknowledgement(sentence: _Sentence) -> bool:
    return len(sentence.masked) <= 25 and not sentence.is_question and not sentence.is_item


def _is_correction_after_stop(prose: str, sentences: list[_Sentence]) -> bool:
    return (
        4 <= len(prose) <= _MAX_INTERRUPTION_CHARS
        and not patterns.RESUME.match(prose)
        and not all(sentence.is_question for sentence in sentences)
        and "\u00b7\u00b7\u00b7\u00b7" not in prose[:4]
    )


def _carried_words(prompt: str, sentences: list[_Sentence], carrying: list[int]) -> str:
    """Return a short prompt whole; of a longer one the sentences that carry the statement, each with the next."""
    if len(prompt) <= _SHORT_PROMPT_CHARS:
        return prompt.strip()
    kept: dict[int, None] = {}
    for number in carrying:
        kept[number] = None
        if number + 1 < len(sentences) and "\n" not in prompt[sentences[number].end : sentences[number + 1].start]:
            kept[number + 1] = None
    pieces: list[str] = []
    for number in sorted(kept):
        words = " ".join(prompt[sentences[number].start : sentences[number].end].split())
        if pieces and number - 1 not in kept:
            pieces.append("…")
        pieces.append(words)
    return " ".join(pieces)


def _cut_middle(text: str, limit: int) -> str:
    text = _plain(text)
    if len(text) <= limit:
        return text
    # Without fences: the cut may be inside one, and the text after it would become code.
    text = "\n".join(line for line in text.splitlines() if not _FENCE_LINE.match(line))
    return f"{text[: limit - _TAIL_CHARS - 5].rstrip()}\n[…]\n{text[-_TAIL_CHARS:].lstrip()}"


def _plain(text: str) -> str:
    """Return a text without the characters and comment marks that a journal cannot hold."""
    return text.replace("\0", "").replace("\r\n", "\n").replace("<!--", "<!- -").replace("-->", "- ->").strip()


def _bullet(text: str) -> str:
    """Return lines as the content of one bullet: headings as bold lines, further lines indented, fences closed."""
    lines: list[str] = []
    fence = ""
    for raw in text.splitlines():
        line, bare = raw, raw.strip()
        mark = _FENCE_LINE.match(raw)
        if mark and not fence:
            fence = mark[1]
        elif mark and bare.strip(fence[0]) == "" and len(bare) >= len(fence):
            fence = ""
        elif not fence and bare.startswith("#") and bare.lstrip("#").startswith(" "):
            line = f"**{bare.lstrip('#').strip(' *#')}**" if bare.strip("# *") else ""
        if not line.strip() and (not lines or not lines[-1]):
            continue
        lines.append(f"  {line.rstrip()}" if lines and line.strip() else line.strip())
    return "\n".join([*lines, *([f"  {fence}"] if fence else [])]).strip()
