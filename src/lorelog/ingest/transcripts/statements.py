"""What a user said: the typed sentences that certainly state a rule, and how words, answers and plans are formatted as entries.

Whether a sentence is meant to last needs understanding, which words do not give. So only an explicit request to remember, or an
explicit rule for the future, at the beginning of a sentence counts ("remember that …", "from now on …"), and only if nothing in it
points at the conversation. Everything else waits for a person. English, German, French, Spanish, Chinese;
docs/decisions/delivery.md has what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from lorelog.core.session import UserStatement
from lorelog.language.analyser import sentence_end

MAX_PROMPT_CHARS = 700
"""A longer prompt describes a task."""
_MIN_RULE_CHARS = 6
_NOT_PROSE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[\s\S]*?(?:^[ \t]*\1[ \t]*$|\Z)|^(?:[ \t]*[>|$#<+]|\t| {4})[^\n]*$"
    r'|`[^`\n]*`|"[^"\n]*"|“[^”\n]*”|«[^»\n]*»|「[^」\n]*」',
    re.MULTILINE,
)
"""Code, quotes and lines of logs."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?=\S)[^.!?。！？\n]+)*[.!?。！？]*")
_FORM = re.compile(
    r"\s*(?:please,? |bitte |s'il te plaît,? |por favor,? |请)?(?:"
    r"remember(?: that|,? to|:)|(?:from (?:now|here) on|going forward)[,:]?(?= )|"
    r"(?=(?:always|never|don't|do not|use)\b[^\n]*\bfrom now on[.!]*\Z)|"
    r"merke? dir(?:,? dass|:)|(?:ab (?:jetzt|sofort)|von (?:jetzt|nun) an)[,:]?(?= )|"
    r"(?:souviens-toi|rappelle-toi|retiens)(?: que| de| qu'|:)|(?:à partir de maintenant|désormais|dorénavant)[,:]?(?= )|"
    r"recuerda(?: que|:)|(?:a partir de ahora|de ahora en adelante)[,:]?(?= )|"
    r"记住[，：:]?|从现在(?:开始|起)[，：:]?)(?P<rule>[^\n]*)",
    re.IGNORECASE,
)
_POINTING = re.compile(
    r"\b(?!(?<=\bin )this (?:repo|repository|project|codebase)\b)(?:th(?:is|at|ese|ose|em|ey|ere)|it|its|here|he|she|above|below|yet|again|same|other|another|previous|last|next|earlier|"
    r"diese[rsmn]?|das|hier|oben|cela|ceci|cette?|ces|ça|ici|esto|eso|est[ae]s?|es[ae]s?|aquí)\b|这|那|上面|它",
    re.IGNORECASE,
)


def certain_rules(text: str) -> tuple[str, ...]:
    """Return the sentences of a typed text that certainly state a rule for later sessions."""
    text = text.strip("\n").removeprefix("- ").replace("\u2019", "'")
    if len(text) > MAX_PROMPT_CHARS:
        return ()
    # Of the same length, so that the words are taken from the text itself.
    prose = _NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", "·", match[0]), text)
    return tuple(
        " ".join(text[match.start() : match.end()].split()) for match in _SENTENCE.finditer(prose) if _is_rule(match[0])
    )


def _is_rule(sentence: str) -> bool:
    form = _FORM.match(sentence)
    if (
        not form
        or sentence.rstrip().endswith(("?", "？", "吗"))
        or len(form["rule"].strip(" .!。！")) < _MIN_RULE_CHARS
    ):
        return False
    return not _POINTING.search(form["rule"])


MAX_STATEMENT_CHARS = 2000
"""Length of the words in an entry; the middle of longer ones is left out."""
MAX_CONTEXT_CHARS = 400
MAX_ASKED_CHARS = 1500
_MIN_ASKED_CHARS = 80
_TAIL_CHARS = 600
_FENCE_LINE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,2}[.)])[ \t]+")

RedactText = Callable[[str], str]


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
    asked = "\n\n".join(kept)
    if len(asked) <= MAX_ASKED_CHARS:
        return asked
    # Half a secret would not be recognised, so the cut is not within a sentence.
    _, newline, rest = asked[-MAX_ASKED_CHARS:].partition("\n")
    return rest.strip() if newline else " ".join(sentence_end().split(asked[-MAX_ASKED_CHARS:])[1:])


def format_statement(statement: UserStatement, clean: RedactText = str) -> str:
    """Return a statement as bullets: the words, then what they are about. Empty if nothing is left of the words."""
    words = _bullet(_cut_middle(clean(statement.text), MAX_STATEMENT_CHARS))
    if not words:
        return ""
    context = " ".join(_plain(clean(statement.context)).split())
    if len(context) > MAX_CONTEXT_CHARS:
        context = context[: MAX_CONTEXT_CHARS - 1].rstrip() + "…"
    return f"- {words}\n- About: {context}" if context else f"- {words}"


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
