"""Recognise prompts that correct the agent or state a preference, without a model, and format statements as entries.

A wrong entry does harm: it is shown to every later session as a rule of the user. So precision comes before recall. Only
the beginning of a sentence decides ("don't …", "no, use …", "always …"): a task such as "write a function that never
blocks" has the same words elsewhere. Questions, quotes, code, logs and lists in a task description do not count.

Matching is done on a copy of the text, of the same length, in which code and quotes are blanked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lorelog.core.session import UserStatement
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
_MAX_INTERRUPTION_CHARS = 400
_MAX_READ_CHARS = 20_000
_MAX_SENTENCES = 60

_FLAGS = re.IGNORECASE
_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_FENCE_LINE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_QUOTE_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_INLINE_CODE = re.compile(r"`[^`\n]{1,300}`")
_QUOTED = re.compile(r'"[^"\n]{1,300}"|“[^”\n]{1,300}”|«[^»\n]{1,300}»|「[^」\n]{1,300}」')
_MACHINE_LINE = re.compile(
    r"^(?:\t| {4,}|\s*at \S+ ?\(|\s*File \"|\s*[+-]{1,3} |[$%#] |\d{4}-\d\d-\d\d[T ]|\[?\d\d:\d\d:\d\d|"
    r"\s*(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|Traceback|Exception|error\[|npm ERR|E   )\b|\s*[\w./-]+:\d+[: ]|\s*[{}<\[|]|"
    r"\s*(?:def|class|import|from|const|let|var|function|return|if|for|public|private|SELECT)\b.*[:;{(=]\s*$).*$",
    re.MULTILINE,
)
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?=\S)[^.!?。！？\n]+)*[.!?。！？]*")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,2}[.)])[ \t]+")
_LEAD_IN = re.compile(
    r"(?:(?:and|also|but|so|ok(?:ay)?|please|pls|btw|fyi|hey|hi|hm+|ah|oh|well|right|yes|yep|yeah|thanks|thank you|great|good|"
    r"perfect|cool|nice|sorry|actually|again|just|one more thing|looks? good|bitte|also|und|et|y|por favor|s'il te plaît|请)"
    r"(?=[\s,.!:;—–-])[\s,.!:;—–-]*)+",
    _FLAGS,
)
_OTHER_INPUT = re.compile(r"\A\s*(?:/[\w:-]+|! |Implement (?:the following |the |this )?plan\b|<)", _FLAGS)
_PLAN_APPROVAL = re.compile(r"\A\s*Implement the plan\b[^\n]{0,200}", _FLAGS)

_OPENING = re.compile(
    r"(?:"
    r"(?:no|nope|nah)[,.!:;—–-]+\s*(?!(?:problem|worries|thanks|thank|need|rush|idea|it'?s (?:fine|ok)|that'?s (?:fine|ok|all|it)|"
    r"go ahead|all good|i'?m (?:good|fine)|nothing|not yet|not really|leave it)\b)\w{2}"
    r"|(?:no|nope) (?:don'?t|do not|use|i (?:meant|mean|want|said)|it'?s|that'?s (?:not|wrong)|not|you|we (?:use|don'?t|want)|keep|leave|put|"
    r"just|stop|never|always|please|revert|undo|wait)\b"
    r"|(?:wait|stop|hold on|hang on|whoa)[,.!;—–-]+\s*(?!for\b)\w{2}"
    r"|wait (?:no|we|you|that'?s|this|it'?s|don'?t|i (?:meant|said|want)|not)\b"
    r"|(?:that|this|it)(?:'s| is|s) (?:wrong|incorrect|not (?:right|correct|what|it\b|how))"
    r"|(?:that|this)(?:'s| is| was) not what (?:i|we)\b|not what i (?:meant|asked|want|said)"
    r"|you(?:'re| are)? (?:forgot|misunderst\w+|misread|ignored|missed the point|broke|shouldn'?t|should not|should have|weren'?t supposed|"
    r"were supposed|keep \w+ing|used the wrong|are using the wrong|were told)\b"
    r"|(?:undo|revert|roll back) (?:that|this|it|those|these|your|what you|the last (?:change|edit))\b"
    r"|(?:instead,? (?!of)\w|rather than \w)"
    r"|not [\w./-]+[,;]? (?:but|use|it'?s|i meant)\b|i (?:said|asked for|told you)\b"
    r")",
    _FLAGS,
)
"""Beginnings of a prompt that reject what the agent did."""
_CORRECTION = re.compile(
    r"(?:"
    r"(?:don'?t|do not|dont) (?!(?:you|we|i|they|know|think|see|understand|care|worry|mind|believe|remember|recall|have|get it|forget|seem|"
    r"hesitate|bother replying|know)\b)\w+"
    r"|(?:i|that'?s what i|what i) (?:actually |really )?mean[t]?\b(?! by)|i (?:didn'?t|did not|never) (?:mean|ask|say|want|tell)\b"
    r"|stop (?!(?:the|this|all|any|it|that|a|when|if|at|and|here|processing)\b)\w+ing\b"
    r"|(?:let'?s not|no more \w+|enough with) \w*"
    r"|(?:use|run|put|call it|name it|write it in|do it in|go with|keep|take|try) [^,;\n]{1,60}(?:,| and) not \w"
    r"|(?:use|call it|name it|go with|take|put it in|do it with) [^;\n]{1,80}\binstead\b"
    r"|(?:it|this|that|we|they) (?:should|shall|must) (?:be|use|have|go|live|stay)\b[^;\n]{1,80}(?:, not \w|\binstead\b|\brather than\b)"
    r"|you (?:should(?:n'?t| not)? have|weren'?t supposed|were supposed|forgot|keep \w+ing)\b"
    r"|i don'?t want (?:you to|any|to|that|this|the|it|a)\b|i do not want\b"
    # German, French, Spanish, Chinese
    r"|nein,? (?!danke)\w+|ich meinte\b|h[öo]r auf\b|lass das\b|(?:nimm|verwende|benutze?|nutze?) [^;\n]{1,60}\b(?:statt|anstatt|und nicht)\b"
    r"|non,? (?!merci)\w+|je voulais dire\b|arrête(?:z)? d[e']|n(?:e |')\w+ (?:\w+ )?(?:pas|plus)\b|utilise[zr]? [^;\n]{1,60}\b(?:au lieu|plutôt|pas)\b"
    r"|(?:no (?:uses|hagas|pongas|toques|cambies|borres|añadas|ejecutes|crees|escribas|modifiques)|quise decir|quería decir|deja de|"
    r"usa [^;\n]{1,60}\ben (?:vez|lugar) de)\b"
    r"|(?:不要|别|不对|不是这|请不要|停止|我的意思是|我是说|应该用|用[^，。\n]{1,20}(?:不要用|而不是|，不要))"
    r")",
    _FLAGS,
)
_PREFERENCE = re.compile(
    r"(?:"
    r"(?:from now on|from here on|going forward|in (?:the )?future|moving forward)\b,? ?(?!(?:we|i|they) (?:may|might|could|will|plan|want|would)|"
    r"there|this|it |the )"
    r"|next time\b,? (?!it|the |this|that|a |i )"
    r"|(?:always|never|only ever) (?!(?:mind|had|been|seen|a |an |the case|happens|works|fails)\b)\w+"
    r"|(?:whenever|every time|each time) you\b"
    r"|(?:remember|keep in mind|bear in mind|don'?t forget|make a note|note for (?:the future|later|next time)|for the record)"
    r"[,:]? (?:that\b|to\b|we\b|you\b|our\b|never\b|always\b|this\b|i\b|not\b|the (?:rule|convention)|[\w-]+ (?:is|are|goes|lives)\b)"
    r"|remember[:,] \w"
    r"|i(?:'d| would)? (?:really |strongly |generally |much |always )?(?:prefer|rather)\b|i (?:really )?(?:hate|dislike|don'?t like|do not like|like it when|"
    r"always want|never want|want you to (?:always|never))\b"
    r"|(?:my|our) (?:preference|convention|policy|rule|style|standard|team rule) (?:is|here is)\b"
    r"|(?:we|in this (?:repo|project|codebase|package),? we) (?:always|never|only|don'?t|do not|prefer to|prefer)\b(?! (?:have|know|need|see|seem|get|want|think|support|care|yet))"
    r"|you (?:should|must|can|need to|have to) (?:always|never)\b|make sure (?:to|you) always\b|as a rule\b"
    # German, French, Spanish, Chinese
    r"|(?:immer|niemals|ab jetzt|ab sofort|von jetzt an|künftig|in zukunft|merk(?:e)? dir|ich bevorzuge|ich mag (?:kein|es nicht)|ich möchte (?:keine?|nicht|lieber))\b"
    r"|(?:toujours|jamais|désormais|dorénavant|à partir de maintenant|je préfère|je n'aime pas|souviens-toi|retiens|n(?:e |')\w+ (?:\w+ )?jamais)\b"
    r"|(?:siempre|nunca|a partir de ahora|de ahora en adelante|prefiero|no me gusta|recuerda que|recuerda:)\b"
    r"|(?:从现在开始|从现在起|以后|今后|始终|总是|永远不要|永远别|每次|记住|请记住|记得|我更喜欢|我喜欢|我不喜欢|务必)"
    r")",
    _FLAGS,
)
_STANDING = re.compile(
    r"\b(?:from now on|going forward|in (?:the )?future|every time|next time|always|never|whenever|i (?:really )?prefer|ab jetzt|künftig|immer|niemals|"
    r"désormais|dorénavant|toujours|jamais|siempre|nunca|a partir de ahora)\b|从现在开始|以后|永远|总是|始终",
    _FLAGS,
)
_STRONG = re.compile(
    r"(?:from now on|going forward|for (?:all )?future (?:sessions|changes|tasks|work)|please remember|remember (?:that|to|this)\b|as a rule|"
    r"ab jetzt|künftig|à partir de maintenant|désormais|a partir de ahora|从现在开始|请记住)",
    _FLAGS,
)
"""Words that announce a rule for the future even within a long task."""
_RULE_END = re.compile(
    r"\b(?:from now on|going forward|in (?:the )?future|next time|ab jetzt|désormais)[.!]*\Z", _FLAGS
)
_RESUME = re.compile(
    r"\A\W*(?:continue|go on|go ahead|proceed|carry on|resume|keep going|try again|retry|again|yes|yep|ok(?:ay)?|sure|weiter|continuez?|"
    r"sigue|继续|please continue|continue please|where were we|you can continue|never ?mind|nvm)\b\W*(?:\w+\W*){0,4}\Z",
    _FLAGS,
)
_QUESTION_START = re.compile(
    r"(?:why|what|how|when|where|who|which|is|are|can|could|would|should|do|does|did|have|has|will|shall|may|was|were|isn'?t|aren'?t|"
    r"warum|wieso|was|wie|pourquoi|comment|por qué|qué|cómo|为什么|怎么)\b",
    _FLAGS,
)

RedactText = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Sentence:
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
        if (kind := _kind_of(sentence, sentences[:number], is_long=is_long))
    ]
    if not carrying and interrupted and _is_correction_after_stop(prose, sentences):
        return "correction", prompt[:_MAX_READ_CHARS]
    if not carrying:
        return None
    kind = "preference" if any(found == "preference" for _, found in carrying) else "correction"
    return kind, _carried_words(prompt, sentences, [number for number, _ in carrying])


def rejection_kind(words: str) -> str:
    """Return the kind of words typed at a rejection: a rule for the future, or a correction of this call."""
    return "preference" if _STANDING.search(_mask(words[:_MAX_READ_CHARS].replace("\u2019", "'"))) else "correction"


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
    for pattern in (_FENCED, _QUOTE_LINE, _MACHINE_LINE, _INLINE_CODE, _QUOTED):
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
        question = line.rstrip().endswith(("?", "？", "吗")) or bool(_QUESTION_START.match(rest))
        yield _Sentence(match.start(), match.end(), rest or bare.strip(), bool(item), question)


def _kind_of(sentence: _Sentence, before: list[_Sentence], *, is_long: bool) -> str:
    words = sentence.masked
    if sentence.is_question:
        return ""
    if is_long:
        return "preference" if _STRONG.match(words) else ""
    if sentence.is_item and before and not before[0].is_item:
        return ""  # a list within a task description
    if _PREFERENCE.match(words) or _RULE_END.search(words):
        return "preference"
    is_first = all(_is_acknowledgement(earlier) for earlier in before)
    if is_first and (_OPENING.match(words) or _CORRECTION.match(words)):
        return "preference" if _STANDING.search(words) else "correction"
    return ""


def _is_acknowledgement(sentence: _Sentence) -> bool:
    return len(sentence.masked) <= 25 and not sentence.is_question and not sentence.is_item


def _is_correction_after_stop(prose: str, sentences: list[_Sentence]) -> bool:
    return (
        4 <= len(prose) <= _MAX_INTERRUPTION_CHARS
        and not _RESUME.match(prose)
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
