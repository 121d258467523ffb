"""Recognise prompts that correct the agent or state a preference, without a model, and format statements as entries.

A wrong entry does harm: it is shown to every later session as a rule of the user. So precision comes before recall. Only
the beginning of a sentence decides ("don't …", "no, use …", "always …"): a task such as "write a function that never
blocks" has the same words elsewhere. Questions, quotes, code, logs and lists in a task description do not count.

Matching is done on a copy of the text, of the same length, in which code and quotes are blanked. Verbs decide where a product could be meant:
"don't commit yet" is said to an agent, "don't show the banner to guests" is a requirement. The lists hold only verbs of an agent's own work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

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


def _starts(alternatives: Iterable[str]) -> re.Pattern[str]:
    return re.compile("(?:" + "|".join(alternatives) + ")", _FLAGS)


_AGENT_VERBS = (
    "add|amend|answer|apologi[sz]e|apply|ask|assume|break|bother|build|bump|call|catch|change|check|clean|comment|commit|copy|create|"
    "deploy|disable|do|document|downgrade|drop|duplicate|edit|embed|ever|explain|export|fix|follow|force|format|generate|give|go|guess|"
    "hard-?code|ignore|implement|import|include|inline|install|introduce|invent|keep|leave|link|log|make|merge|mock|modify|move|name|open|"
    "over\\w+|pass|pin|prefer|print|publish|push|put|quote|read|reformat|refactor|regenerate|release|remove|rename|repeat|replace|reply|"
    "respond|restart|return any|revert|rewrite|run|skip|split|squash|stage|start|stash|stop|summari[sz]e|swallow|test|touch|trust|try|"
    "update|upgrade|use|verify|wait|wire|wrap|write|show me|tell me|close the file"
)
_VERB = rf"(?:{_AGENT_VERBS})\b"
_AFTER_MARKER = (
    rf"(?:{_VERB}|please\b|you\b|always\b|never\b|don'?t\b|do not\b|no\b|only\b|all new\b|every\b|keep\b|when\b|i want\b|i'd like\b|"
    r"we (?:use|always|never|don'?t|only|prefer)\b)"
)
_THING = (
    r"(?:file|branch|folder|directory|repo|table|one|port|version|place|way|test|database|package|module|function|line)"
)

_OPENING = _starts(
    (
        (
            r"(?:no|nope|nah)(?:[, ]+no)*(?:[,.!:;]|\s*[—–-])+\s*+(?!(?:problem|worries|thanks|thank|need|rush|idea|(?:it'?s|this is|that is|looks) (?:fine|ok|good)|but|there|"
            r"that'?s (?:fine|ok|all|it)|go ahead|all good|i'?m (?:good|fine)|nothing|none|not yet|not really|leave it|same|still)\b)\w"
        ),
        (
            r"(?:no|nope|nah) (?:let'?s|don'?t|do not|use|i (?:meant|mean|want|said)|it'?s|that'?s (?:not|wrong)|not(?! yet)|you|we (?:use|don'?t|want)|keep|"
            r"leave|put|just|stop|never|always|please|revert|undo|wait)\b"
        ),
        r"(?:wait|stop|hold on|hang on|whoa)(?:[,.!;]|\s*[—–-])+\s*+(?!for\b)\w{2}",
        r"wait (?:no|we|you|that'?s|this|it'?s|don'?t|i (?:meant|said|want)|not)\b",
        r"that(?:'s| is|s) (?:wrong|incorrect|not (?:right|correct|what|it\b|how|the (?:right|correct|one)))",
        r"(?:this|it)(?:'s| is|s) not (?:right|correct|what|how (?:we|i|it))\b",
        rf"wrong {_THING}\b|not (?:there|here|like (?:that|this)|(?:that|this) one)[,.;]|not the [\w.]+, (?:the|but|use)\b",
        r"you (?:didn'?t|did not) (?:update|add|run|read|use|follow|fix|do|test|check|remove|listen|commit)\b",
        rf"you (?:don'?t|do not) (?:need|have) to {_VERB}",
        r"i (?:need|want) (?:it|them|that|this) [^;\n]{1,40}, not \w",
        r"(?:that|this)(?:'s| is| was) not what (?:i|we)\b|not what i (?:meant|asked|want|said)",
        (
            r"you(?:'re| are)? (?:forgot (?!nothing)|misunderst\w+|misread|ignored (?:the|my|what)|missed the point|broke (?:the|it|this|that|our)\b|"
            r"shouldn'?t|should not|should have (?:been|run|read|told|\w+ed)\b|weren'?t supposed|were supposed|keep \w+ing|"
            r"(?:used|using) the wrong|were told)"
        ),
        r"you (?:removed|deleted|changed|renamed|overwrote|reverted) [^;\n]{1,60}[,.] (?:restore|put|undo|revert|bring)\b",
        r"(?:undo|revert|roll back) (?:that|this|it|those|these|your|what you|the last (?:change|edit))\b",
        r"instead,? (?!of)\w",
        r"(?:keep|bear) in mind[,:]? (?:that|we|you|our)\b",
        r"not [\w./-]+[,;]? (?:but|use|it'?s|i meant)\b(?! also)",
        r"i (?:asked for|told you|said (?:the|to|not|no|that|use|don'?t|only|we|you|in|a|option))\b",
    )
)
"""Beginnings of a prompt that reject what the agent did."""

_CORRECTION = _starts(
    (
        rf"(?:don'?t|do not|dont) {_VERB}(?! any library)",
        r"(?:i|that'?s what i|what i) (?:actually |really )?mean[t]?\b(?! by| to\b|,)",
        r"i (?:(?:didn'?t|did not) (?:mean|ask|say|want|tell)|never (?:meant|asked|said|wanted|told))\b",
        r"stop (?!(?:the|this|all|any|it|that|a|when|if|at|and|here|processing)\b)\w+ing\b",
        rf"let'?s not {_VERB}|no more \w+(?:[,.!]|\Z)",
        r"(?:leave|keep) [^;\n]{1,40} (?:as (?:is|it is|they are)|where (?:it is|they are)|alone|unchanged|untouched)\b",
        r"(?:it|this|that|we|they) (?:should|shall|must) (?:be|use|have|go|live|stay)\b[^;\n]{1,80}(?:, not \w|\binstead\b|\brather than\b)",
        r"i (?:don'?t|do not) want (?:you to|any|that|this|the|a|to see)\b",
        rf"you (?:must not|mustn'?t|may not|are not allowed to|aren'?t allowed to) {_VERB}",
        r"avoid (?:using|running|calling|\u00b7)|skip (?:the |all )?(?:[\w-]+ )?tests?\b",
        r"[^;\n]{1,80}[,;:] leave (?:it|them|that|those) (?:alone|as (?:is|it is|they are)|unchanged|untouched)\b",
        rf"[\w./\u00b7-]+ (?:is|are) [\w -]{{1,30}}[:,;] (?:never|always|don'?t|do not) {_VERB}",
        r"[^;,\n]{1,60} must (?:stay|remain|be left) (?:unchanged|untouched|as (?:is|it is|they are)|alone)\W*\Z",
        # German, French, Spanish, Chinese
        r"nein,? (?!danke)\w+|ich meinte\b|h[öo]r auf\b|lass das\b|(?:nimm|verwende|benutze?|nutze?) [^;\n]{1,60}\b(?:statt|anstatt|anstelle|nicht)\b",
        r"(?:du )?(?:darfst|sollst) (?:du )?(?:nicht|nie|niemals|keine?n?)\b|[^;\n]{1,60} (?:darfst|sollst) du (?:nicht|nie|niemals)\b",
        r"keine?n? [^;,\n]{1,40} (?:starten|ausführen|anlegen|schreiben|ändern|benutzen|verwenden|hinzufügen|löschen)\b",
        r"non,? (?!merci)\w+|je voulais dire\b|arrête(?:z)? d[e']|n(?:e |')\w+ (?:\w+ )?(?:pas|plus)\b",
        r"utilise[zr]? [^;\n]{1,60}\b(?:au lieu|plutôt|pas)\b",
        r"no (?:uses|hagas|pongas|toques|cambies|borres|añadas|ejecutes|crees|escribas|modifiques)\b|(?:quise|quería) decir\b|deja de\b",
        r"usa [^;\n]{1,60}\ben (?:vez|lugar) de\b",
        r"(?:不要|别|不对|不是这|请不要|停止|我的意思是|我是说|应该用|用[^，。\n]{1,20}(?:不要用|而不是|，不要))",
    )
)
"""Beginnings of a sentence that correct, at the start of a prompt."""

_SHORT_CORRECTION = _starts(
    (
        r"(?:use|run|put|call it|name it|write it in|do it in|go with|keep|take|try) [^,;\n]{1,60}(?:,| and) not \w",
        r"(?:use|call it|name it|go with|take|put it in|do it with) [^;\n]{1,80}\binstead\b",
        r"it(?:'s| is) [^,;\n]{1,40}, not \S",
        r"(?:use|take|go with|you should use) [^;\n]{1,60}\b(?:in place of|rather than|and not) \S",
        r"[\w./\u00b7-]+ (?:instead of|rather than|statt|anstatt|anstelle von) [\w./\u00b7-]+(?: (?:please|here|bitte|verwenden|benutzen|nutzen|nehmen))?\W*\Z",
        r"[\w./\u00b7-]+, not [\w./\u00b7-]+[.!]*\Z",
    )
)
"""As above, in a prompt that says nothing else: a longer one describes a task."""

_PREFERENCE = _starts(
    (
        rf"(?:from now on|from here on|going forward|in (?:the )?future|moving forward|next time)\b[,:\s]*+{_AFTER_MARKER}",
        rf"(?:always|never|only ever) {_VERB}",
        rf"(?:whenever|every time|each time) you (?:(?:see|get|hit)\b|(?!open\b){_VERB})",
        rf"ask (?:me )?(?:first )?before (?:you )?{_VERB}",
        rf"(?:when|before|after|whenever) (?:you |\w+ing\b)[^,;\n]{{0,60}}, (?:please )?(?:always|never|{_VERB})",
        (
            r"(?:remember|make a note|note for (?:the future|later|next time))[,:]? "
            r"(?:that\b|to (?!me\b)|we\b|you\b|our\b|never\b|always\b|this\b|i\b|not\b|the (?:rule|convention)\b|[\w-]+ (?:is|are|goes|lives)\b)"
        ),
        r"remember[:,] \w",
        (
            r"i(?:'d| would)? (?:really |strongly |generally |much |always )?prefer\b(?! (?:option|number|the (?:\w+st|\w+nd|\w+rd|\w+th|other|latter|"
            r"former)|that|this one|your|[a-d1-9])\b)"
        ),
        r"i(?:'d| would) (?:much )?rather (?:you\b|have [^;\n]{1,60} than\b)",
        (
            r"i (?:really )?(?:hate|dislike|don'?t like|do not like)\b(?! (?:this|that|these|the) (?:error|bug|issue|crash|failure|warning|problem|"
            r"message|flicker))"
        ),
        r"i (?:really )?(?:like it when|always want|never want|want you to (?:always|never))\b",
        r"(?:my|our) (?:preference|convention|policy|rule|style|standard|team rule) (?:is:? (?!in\b|outdated)|here is)",
        rf"(?:we|in this (?:repo|project|codebase|package),? we) (?:always|never|only|don'?t|do not|prefer to) (?:ship|{_VERB})",
        r"(?:we|in this (?:repo|project|codebase|package),? we) prefer\b",
        r"you (?:should|must|need to|have to) (?:always|never)\b|make sure (?:to|you) always\b|as a rule\b",
        # German, French, Spanish, Chinese
        (
            r"(?:immer|niemals|nie (?:wieder|mehr)|ab jetzt|ab sofort|von jetzt an|künftig|in zukunft|merke? dir|ich bevorzuge|ich mag (?:kein|es nicht)|"
            r"ich möchte (?:keine?|nicht|lieber))\b"
        ),
        r"(?:toujours|jamais|désormais|dorénavant|à partir de maintenant|je préfère|je n'aime pas|souviens-toi|retiens|n(?:e |')\w+ (?:\w+ )?jamais)\b",
        r"(?:siempre|nunca|a partir de ahora|de ahora en adelante|prefiero|no me gusta|recuerda que|recuerda:)\b",
        r"(?:从现在开始|从现在起|以后|今后|始终|总是|永远不要|永远别|每次|记住|请记住|记得|我更喜欢|我喜欢|我不喜欢|务必)",
    )
)
"""Beginnings of a sentence that state a rule for the future."""

_STANDING = re.compile(
    r"\b(?:from now on|going forward|in (?:the )?future|in mind|every time|next time|always|(?<!i )never|ever again|whenever|i (?:really )?prefer|"
    r"ab jetzt|künftig|immer|niemals|désormais|dorénavant|toujours|jamais|siempre|nunca|a partir de ahora)\b|从现在开始|以后|永远|总是|始终",
    _FLAGS,
)
"""Words that make a correction a rule for the future."""
_STRONG = _starts(
    (
        rf"(?:from now on|going forward)\b[,:\s]*+{_AFTER_MARKER}|for (?:all )?future (?:sessions|changes|tasks|work)",
        r"(?:please )?remember (?:that|to|this)\b|as a rule\b",
        r"ab jetzt|künftig|à partir de maintenant|désormais|a partir de ahora|从现在开始|请记住",
    )
)
"""Words that announce a rule for the future even within a long task."""
_RULE_END = re.compile(
    r"\b(?:from now on|going forward|in (?:the )?future|next time|ab jetzt|désormais)[.!]*\Z", _FLAGS
)
_OUTDATED = re.compile(r"\b(?:any ?more|any longer)\b", _FLAGS)
"""Words about a past rule: "we don't use this module anymore"."""
_IMPERATIVE = re.compile(
    r"(?:(?:no|nope|nah|nein|stop|wait)\W+)?(?:please )?(?:don'?t|do not|dont|never|stop \w+ing)\b", _FLAGS
)
"""A prohibition, which is a rule whatever else it says: "don't call it any more"."""
_TASK_START = re.compile(r"(?:write|create|build|implement|develop|design|generate)\b", _FLAGS)
_RESUME = re.compile(
    r"\A\W*(?:continue|go on|go ahead|proceed|carry on|resume|keep going|try again|retry|again|yes|yep|ok(?:ay)?|sure|weiter|continuez?|"
    r"sigue|继续|please continue|continue please|where were we|you can continue|never ?mind|nvm)\b\W*(?:\w+\W*){0,4}\Z",
    _FLAGS,
)
"""A prompt that lets an interrupted agent go on."""
_QUESTION_START = re.compile(
    r"(?:why|what(?! i mean)|how|when(?! you\b| \w+ing\b)|where|who|which|is|are|can|could|would|should|do(?! not\b)|does|did|have|has|will|"
    r"shall|may|was|were|isn'?t|aren'?t|warum|wieso|was|wie|pourquoi|comment|por qué|qué|cómo|为什么|怎么)\b",
    _FLAGS,
)


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
        question = line.rstrip().endswith(("?", "？", "吗")) or bool(_QUESTION_START.match(rest))
        yield _Sentence(match.start(), match.end(), rest or bare.strip(), bool(item), question)


def _kind_of(sentence: _Sentence, before: list[_Sentence], masked: str, *, is_long: bool) -> str:
    words = sentence.masked
    is_task_list = sentence.is_item and bool(before) and not before[0].is_item
    is_outdated = _OUTDATED.search(words) and not _IMPERATIVE.match(words)
    if sentence.is_question or is_outdated or (is_task_list and not is_long):
        return ""
    if is_long:
        return "preference" if _STRONG.match(words) else ""
    if _PREFERENCE.match(words) or _RULE_END.search(words):
        return "preference"
    if all(map(_is_acknowledgement, before)) and _corrects(sentence, masked):
        return "preference" if _STANDING.search(words) else "correction"
    return ""


def _corrects(sentence: _Sentence, masked: str) -> bool:
    """Return True if the first sentence of a prompt corrects. An opening may be a sentence: "No. Use …"."""
    words = sentence.masked
    opening = masked[sentence.start + masked[sentence.start : sentence.end].find(words) :]
    if _OPENING.match(opening):
        return True
    if _CORRECTION.match(words):
        return not _is_followed_by_task(opening[len(words) :])
    return len(opening.strip()) <= _MAX_SHORT_CORRECTION_CHARS and bool(_SHORT_CORRECTION.match(words))


def _is_followed_by_task(rest: str) -> bool:
    """Return True if a constraint is followed by the task it belongs to: "Don't use a library. Write …"."""
    return any(_TASK_START.match(sentence.masked) for sentence in _sentences(rest))


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
