"""Shape the texts of a note, and recognise what the sentences of an agent say.

Terminal escapes and Markdown are removed, an answer is split into pieces. A long text loses its middle, not its end: answers begin with the
subject and end with the conclusion.

A sentence announces a next step ("let me …"), states a finding, or asks the user. The phrases are English, which agents write most. A text
in another language is kept as it is: a sentence is dropped only if its form is known, because losing a result is worse than keeping an announcement.
Courtesies and first words are kept: without them a note is not shorter (0.3 % on 2,516 real turns).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from lorelog.language.analyser import sentence_end, split_sentences
from lorelog.light.delivery_files import shorten_line

_ESCAPE = re.compile(
    r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\^\[(?=\[))"
    r"(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|[PX^_][^\x1b\n]{0,500}\x1b\\|[ -/]*[0-Z\\^-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_LONE_COLOR = re.compile(r"(?<![\w\])])\[(?:\d{1,3};){0,6}\d{1,3}m")
"""A colour code that lost its escape character when it was stored."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^(\s*)(?:[-*+\u2022]|\d{1,3}[.)])\s+(.*)$")
_FENCE = re.compile(r"^\s*(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_RULE = re.compile(r"^\s*(?:(?:[-*_=]\s*){3,}|\|?(?:\s*:?-{2,}:?\s*\|)+\s*:?-*:?\s*\|?\s*)$")
"""A line between texts, or below the head of a table."""
_CODE_OR_EMPHASIS = re.compile(r"`[^`]*`|\*\*(\S.*?)\*\*|(?<!\w)__(\S[^_]*\s[^_]*)__(?!\w)")
_COMMENT_OR_IMAGE = re.compile(r"<!--.*?(?:-->|\Z)|\bdata:[\w/+.-]+;base64,[A-Za-z0-9+/=]{40,}", re.DOTALL)
_MAX_CODE_LINES = 3
"""More lines of code are useless on one line."""
_MAX_CODE_CHARS = 200
_MAX_HEADLINE_CHARS = 60
_MAX_NESTED_BLOCKS = 4
_MIN_PIECE_CHARS = 40
_MIN_CUT_PIECE_CHARS = 160
_PIECE_COST = 4
"""Characters that a piece costs beside its text: its bullet and the end of its line."""

Piece = tuple[bool, str]
"""A text, and whether it is an item of a list or a row of a table."""


def strip_escapes(text: str) -> str:
    """Return a text without terminal escapes and control characters."""
    return _CONTROL.sub("", _LONE_COLOR.sub("", _ESCAPE.sub("", text)).replace("\r\n", "\n").replace("\r", "\n"))


def flatten_markdown(text: str) -> str:
    """Return a text on one line, without its Markdown syntax."""
    text = _strip_invisible(text)
    lines = (strip_markdown(line) for line in text.splitlines() if not _FENCE.match(line) and not _RULE.match(line))
    return " ".join(" ".join(lines).replace("\0", "").split())


def _strip_invisible(text: str) -> str:
    return _COMMENT_OR_IMAGE.sub(lambda match: " " if match[0].startswith("<") else "[image]", text)


def strip_markdown(line: str) -> str:
    """Return a line without the marks of a heading and of emphasis; code and names such as `__init__` are unchanged."""
    heading = _HEADING.match(line)
    bare = heading[1] if heading else line
    return _CODE_OR_EMPHASIS.sub(lambda match: match[1] or match[2] or match[0], bare).strip()


def shorten_start(text: str, limit: int) -> str:
    """Return at most `limit` characters from the end of a text, cut between words if possible."""
    if len(text) <= limit:
        return text
    cut = text[len(text) - limit + 1 :]
    space = cut.find(" ", 0, limit // 3)
    return "…" + cut[space + 1 :].lstrip(" ,;:-")


def shorten_middle(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text: its beginning and, after `…`, its end."""
    if len(text) <= limit:
        return text
    head = shorten_line(text, limit * 3 // 5)
    return f"{head} {shorten_start(text, limit - len(head) - 1).lstrip('…')}"


def is_block_line(line: str) -> bool:
    """Return True for a line that is not prose: an item, a row of a table, a heading, a fence or a rule."""
    patterns = (_ITEM, _HEADING, _FENCE, _RULE)
    return line.lstrip().startswith("|") or any(pattern.match(line) for pattern in patterns)


def split_pieces(text: str) -> list[Piece]:
    """Return the list items, table rows, short code and paragraphs of a text; longer code is left out with its headline."""
    pieces: list[Piece] = []
    dropped = ""
    for is_code, lines in _split_code(_strip_invisible(text).replace("\0", "").splitlines()):
        if not is_code:
            pieces += _prose_pieces(lines)
        elif len(lines) > _MAX_CODE_LINES:
            dropped = _drop_headline(pieces) or dropped
        elif code := " ".join(" ".join(lines).replace("`", "'").split()):
            pieces.append((False, f"`{shorten_line(code, _MAX_CODE_CHARS)}`"))
    return pieces or ([(False, dropped)] if dropped else [])


def _drop_headline(pieces: list[Piece]) -> str:
    """Remove and return what only announces what follows; a longer sentence says something, and ends there."""
    dropped = ""
    while pieces and pieces[-1][1].endswith(":"):
        is_item, text = pieces.pop()
        *said, last = split_sentences(text) or [text]
        if len(last) > _MAX_HEADLINE_CHARS:
            said.append(f"{last[:-1]}.")
        else:
            dropped = f"{last[:-1]}."
        if said:
            pieces.append((is_item, " ".join(said)))
    return dropped


def _split_code(lines: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield runs of lines outside of code blocks and, with True, the code of each block.

    A fence with a language inside a block begins a nested one: agents show Markdown that contains fences. A block that
    is never closed counts as prose: losing text is worse than showing code.
    """
    prose: list[str] = []
    index = 0
    while index < len(lines):
        end = _find_block_end(lines, index) if _FENCE.match(lines[index]) else 0
        if not end:
            prose.append(lines[index])
            index += 1
            continue
        yield False, prose
        prose = []
        yield True, [line for line in lines[index + 1 : end] if line.strip() and not _FENCE.match(line)]
        index = end + 1
    yield False, prose


def _find_block_end(lines: Sequence[str], start: int) -> int:
    """Return the index of the fence that closes the block opened at `start`; 0 if there is none."""
    opened: list[str] = []
    for index in range(start, len(lines)):
        match = _FENCE.match(lines[index])
        if not match:
            continue
        fence, info = match["fence"], match["info"].strip()
        if not opened or (info and fence[0] == opened[-1][0]):
            opened.append(fence)
            if len(opened) > _MAX_NESTED_BLOCKS:
                return 0
        elif not info and fence[0] == opened[-1][0] and len(fence) >= len(opened[-1]):
            opened.pop()
            if not opened:
                return index
    return 0


def _prose_pieces(lines: Sequence[str]) -> Iterator[Piece]:
    prose: list[str] = []
    for line in [*lines, ""]:
        item, row, heading = _ITEM.match(line), line.lstrip().startswith("|"), _HEADING.match(line)
        apart = not line.strip() or _FENCE.match(line) or _RULE.match(line)
        if prose and (apart or item or row or heading):
            yield False, " ".join(prose)
            prose = []
        if apart:
            continue
        if item:
            yield True, strip_markdown(item[2])
        elif row:
            cells = (strip_markdown(cell) for cell in line.strip().strip("|").split("|"))
            yield True, " | ".join(cell for cell in cells if cell)
        elif heading:
            title = strip_markdown(line)
            yield False, title if title.endswith((":", ".", "!", "?")) or not title else f"{title}:"
        else:
            prose.append(strip_markdown(line))


def fit_pieces(pieces: Sequence[Piece], limit: int) -> tuple[list[Piece], list[Piece]]:
    """Return the first and the last pieces that fit the limit together; the second list is empty if all fit."""
    if sum(len(text) + _PIECE_COST for _, text in pieces) <= limit:
        return list(pieces), []
    if len(pieces) == 1:
        return [(pieces[0][0], shorten_middle(pieces[0][1], limit))], []
    head = _take_pieces(pieces, limit * 2 // 5, shorten_line)
    while len(head) > 1 and head[-1][1].endswith(":"):
        head.pop()  # a title without its text
    room = limit - sum(len(text) + _PIECE_COST for _, text in head)
    return head, _take_pieces(pieces[: len(head) - 1 : -1], room, shorten_start)[::-1]


def _take_pieces(pieces: Sequence[Piece], room: int, shorten: Callable[[str, int], str]) -> list[Piece]:
    """Return the first pieces that fit; the last one is shortened if it is the only one or much room is left."""
    taken: list[Piece] = []
    for is_item, text in pieces:
        cost = len(text) + _PIECE_COST
        if cost > room:
            if not taken or room > _MIN_CUT_PIECE_CHARS:
                taken.append((is_item, shorten(text, max(room - _PIECE_COST, _MIN_PIECE_CHARS))))
            break
        taken.append((is_item, text))
        room -= cost
    return taken


_IS = r"(?:['\u2019]s| is)"
_NEXT_STEP = re.compile(
    r"\A(?:[\w'\u2019]+[,.!:]?\s+(?:[\u2014\u2013-]\s+)?){0,3}(?:let(?: me|['\u2019]s)\b(?! know)|i['\u2019]m (?:now )?going to\b"
    r"|i (?:now |also |still |first )*(?:need|have|want) to\s"
    r"|(?:i['\u2019]ll|i will)\s+(?!wait|pause|stop|leave|hold|keep|not\b|never|always|remember|note|avoid|follow|respect|be\b|assume|need|have\b))"
    r"|\A(?:now|next|finally|[^.!?]*\blet me)\b[^.!?]*:\Z",
    re.IGNORECASE,
)
_FINDING = re.compile(
    r"\A(?!.*\b(?:likely|probably|might|maybe|perhaps|(?:could|may|should) be|seems?|looks like|yet|i['\u2019]m)\b).*"
    rf"(?:\broot cause\b|\bcaused by\b|\bturns? out\b|\b(?:that|this|which)(?:{_IS}| was) why\b|\bthat explains\b|\bbecause\b|\bdue to\b"
    r"|\bthe (?:\w+ )?(?:cause|culprit|bug|problem|issue|reason|difference|failure|error|mismatch)(?: here| now)? (?:is|was|comes? from|lies?)\b"
    r"|\b(?:found|discovered|confirmed|verified) (?:that|an?|the|\d)\b|\bpre-existing\b|\bflaky\b|\brace condition\b|\bdeadlock)",
    re.IGNORECASE | re.DOTALL,
)
"""A sentence that says why; guesses, and reasons for what the agent is doing, are not findings."""
_MIN_FINDING_CHARS = 40
_MAX_SENTENCE_CHARS = 300
_MAX_SCANNED_CHARS = 20_000


def is_next_step(sentence: str) -> bool:
    """Return True if a sentence only announces what the agent does next; False for a question."""
    bare = sentence.strip().strip("*_")
    return not bare.endswith("?") and bool(_NEXT_STEP.match(bare))


def strip_next_steps(text: str) -> str:
    """Return a text without the next steps at its end; empty if it says nothing else."""
    lines = text.rstrip().splitlines()
    while lines:
        last = lines[-1]
        if not last.strip():
            lines.pop()
            continue
        if is_block_line(last):
            break
        sentences = sentence_end().split(last.strip())
        kept = list(sentences)
        while kept and is_next_step(kept[-1]):
            kept.pop()
        if kept:
            if len(kept) < len(sentences):
                lines[-1] = " ".join(kept)
            break
        lines.pop()
    said = "\n".join(lines).strip()
    return "" if all(map(is_next_step, split_sentences(said))) else said


def find_findings(text: str) -> list[str]:
    """Return the sentences of a text that state a finding, whole and in order."""
    pieces = (piece for _, piece in split_pieces(text[:_MAX_SCANNED_CHARS]))
    return [
        sentence.strip() for piece in pieces for sentence in split_sentences(piece) if _is_finding(sentence.strip())
    ]


def _is_finding(sentence: str) -> bool:
    if not _MIN_FINDING_CHARS <= len(sentence) <= _MAX_SENTENCE_CHARS or sentence.endswith(("?", ":")):
        return False
    return bool(_FINDING.match(sentence)) and not is_next_step(sentence)


# -- what a short request answers ------------------------------------------------------------------------------------

_MAX_QUESTION_CHARS = 240
_MAX_OPTION_CHARS = 140
_MAX_OPTIONS = 3
_MIN_QUESTION_CHARS = 50
"""A shorter question is shown with the sentence before it."""
_OPTION = re.compile(
    r"^[-*+|>#\s]*(?:__\s*)?(?:(?:option|approach|alternative|choice)\s+)?\(?(\d{1,2}|[A-Ha-h])\)?"
    r"(?:\s*[.):|\u2014\u2013]|\s+-|(?:\*\*|__))\s*(.*)$",
    re.IGNORECASE,
)
_NAMED_LETTER = re.compile(r"\b(?:option|approach|alternative|choice)\s+([a-h])\b|\A([a-h])\W*\Z", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w#.])(?<!\ball )(?<!\bthe )\d{1,2}(?!\w)")
_MIN_SAID_WORDS = 4
"""Fewer words ("Done.") do not say what a request refers to."""


def find_question(asked: str, request: str) -> str:
    """Return the options that a short request chooses, the question it answers, or else the agent's last sentences."""
    chosen = _chosen_options(asked, request)
    if chosen:
        return "; ".join(shorten_line(option, _MAX_OPTION_CHARS) for option in chosen[:_MAX_OPTIONS])
    sentences = [sentence for _, piece in split_pieces(asked) for sentence in split_sentences(piece)]
    questions = [index for index, sentence in enumerate(sentences) if sentence.rstrip("*_)\"' ").endswith("?")]
    if not questions:
        said = [sentence for sentence in sentences if not is_next_step(sentence)]
        words = " ".join(said[-2:])
        return shorten_middle(words, _MAX_QUESTION_CHARS) if len(words.split()) >= _MIN_SAID_WORDS else ""
    last = questions[-1]
    question = sentences[last]
    if len(question) < _MIN_QUESTION_CHARS and last and not is_next_step(sentences[last - 1]):
        question = f"{sentences[last - 1]} {question}"
    return shorten_middle(question, _MAX_QUESTION_CHARS)


def _chosen_options(asked: str, request: str) -> list[str]:
    lowered = request.lower()
    keys = [*_NUMBER.findall(lowered), *(first or second for first, second in _NAMED_LETTER.findall(lowered))]
    if not keys:
        return []
    options: dict[str, str] = {}
    for line in asked.splitlines():
        if match := _OPTION.match(line):
            text = " ".join(part for _, part in split_pieces(line))
            options[match[1].lower()] = text if match[1].lower() in text.lower()[:12] else f"{match[1]}. {text}"
    return [options[key] for key in dict.fromkeys(keys) if key in options]
