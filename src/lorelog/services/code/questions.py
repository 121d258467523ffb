"""Recognise questions about code in plain English ("who calls parse_config") and answer them from the code index.

The exact answer is shown above the search hits. Precision before recall: unless a text is clearly such a question, it
is left to the search, which answers everything. A question must match a known wording from its first word to its last,
and a plain word counts as a name only where the wording says so: "where is the configuration defined" may ask about an
idea, "where is the function configuration defined" does not. If the index does not have the name, nothing is shown
above the hits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.code import CodeReply, CodeVerb, UseKind
from lorelog.core.errors import NotFound
from lorelog.services.code.scope import CodeScope

if TYPE_CHECKING:
    from lorelog.services.code.navigation import CodeNavigator

MAX_QUESTION_CHARS = 300
"""A longer text is a prompt, and asks for more than a location."""
MAX_ANSWERS = 10
"""Answers shown above the search hits; `lorelog code` shows all."""


class CodeQuestion(Struct, frozen=True):
    """A question that the code index answers."""

    verb: CodeVerb
    name: str
    """The symbol or module; empty for an outline."""
    container: str = ""
    """The enclosing class or module, as far as given."""
    path: str = ""
    """The file or folder to search in, or to outline."""
    depth: int = 1
    use: UseKind | None = None
    """The only kind of use to return."""


class _NameForm(IntEnum):
    """How a name must be written to count as one."""

    ANY = 0
    CAPITAL = 1
    CODE = 2


class _QuestionPattern(NamedTuple):
    verb: CodeVerb
    pattern: str
    """A regular expression whose only group is the name."""
    form: _NameForm = _NameForm.ANY
    use: UseKind | None = None


_KINDS = (
    "function|method|class|struct|interface|trait|protocol|enum|type|module|package|library|variable|constant|global|field|"
    "property|attribute|macro|symbol|decorator|fixture|component|hook|exception|identifier|helper|procedure|subroutine|"
    "namespace|object|handler|callback|coroutine|generator|dataclass|mixin|routine|file|header|crate"
)
_NAME_SEPARATORS = re.compile(r"\.|::|->|#")
_WORD = r"(?:[^\W\d]|\$)[\w$]*"
_NAME = rf"{_WORD}(?:(?:\.|::|->|\#){_WORD})*"
_MODULE = r"[@\w$.~][\w$./:@+~-]{0,199}"
_OPEN, _CLOSE = "[`'\"“‘«<]", "[`'\"”’»>]"
_NAME_TEMPLATE = (
    r"(?P<article>(?:the|a|an|our|my|its|this|that)\s+)?"
    rf"(?P<before>(?:{_KINDS})\s+(?:called\s+|named\s+)?)?"
    rf"(?P<open>{_OPEN})?(?P<name><NAME>)(?P<call>\([^()]{{0,80}}\))?(?P<close>{_CLOSE})?"
    rf"(?P<after>\s+(?:{_KINDS}))?"
    rf"(?:\s+(?:of|on|from|in)\s+(?:the\s+)?(?:class|module|struct|interface|type)?\s*{_OPEN}?(?P<owner>{_NAME}){_CLOSE}?"
    r"(?:\s+(?:class|module|struct|interface|type))?)?"
)

_LEAD = re.compile(
    r"(?:(?:please|hey|ok|okay|so|and|now)[,:]?\s+|"
    r"(?:can|could|would|will)\s+you\s+(?:please\s+)?(?:tell|show|give|help|(?=find|list|look))\s*(?:me\s+|us\s+)?|"
    r"(?:tell|show|give)\s+(?:me|us)\s+|(?:do\s+you|does\s+anyone|anybody|anyone)\s+know\s+|"
    r"i\s+(?:want|need|would\s+like)\s+to\s+(?:know|see|find\s+out)\s+|"
    r"(?:i\s+am\s+|i'm\s+)?looking\s+for\s+|find\s+out\s+)",
    re.IGNORECASE,
)
_WHO = re.compile(
    r"(?:who|what|which|how\s+many)(?:\s+(?:all|else|ones|code|(?:other\s+)?(?:functions?|methods?|class(?:es)?|modules?|"
    r"files?|places?|tests?|packages?|scripts?|components?|callers?|code\s+paths?|"
    r"parts?\s+of\s+(?:the|our)\s+(?:code|codebase|project|repo))))?(?:\s+(?:that|which))?\s+"
    r"(?=(?:\w+ly\s+|ever\s+|still\s+)?(?:call|invoke|run|trigger|execute|use|reference|refer|mention|touch|rely|relies|"
    r"consume|depend|import|include|require|read|set|assign|write|modif|change|mutate|update|define|declare|implement|contain)"
    r"(?:s|es|ies|y)?\s)",
    re.IGNORECASE,
)
_FIND = re.compile(
    r"(?:(?:find|show|list|get|see|search(?:\s+for)?|look\s+up|print)\s+(?:me\s+)?)(?:all\s+)?(?:of\s+)?(?:the\s+)?|"
    r"all\s+(?:of\s+)?(?:the\s+)?|the\s+",
    re.IGNORECASE,
)
_WHERE = re.compile(r"(?:from\s+|in\s+)?where(?:\s+all)?(?:\s+(?:is|are|was|were|gets?)|'s|’s)\s+", re.IGNORECASE)
_WE = r"(?:we|you|i|they|people|the code|our code)"
_PLACE = re.compile(
    rf"\s+(?:in|under|below|within|inside)\s+{_OPEN}?(?P<path>[\w$.~@+-]*/[\w$./~@+-]*|[\w$-]+\.[a-z][a-z+]{{0,4}}){_CLOSE}?$"
)
_TAILS = (
    re.compile(
        r",?\s+(?:anywhere|somewhere|everywhere|here|currently|right\s+now|exactly|now|please|at\s+all|actually|from)$",
        re.IGNORECASE,
    ),
    re.compile(
        r",?\s+(?:in|across|within)\s+(?:this|the|our|my)\s+(?:whole\s+|entire\s+)?"
        r"(?:project|repo|repository|code|codebase|code\s+base|source|sources|tree|workspace)$",
        re.IGNORECASE,
    ),
)
_TRANSITIVE = re.compile(r"\s+(?:transitively|indirectly|directly\s+or\s+indirectly|recursively)$", re.IGNORECASE)
_END = re.compile(r"\s*[?!.;,]*\s*$")
_OWNER_LAST = re.compile(r"^(.+?) (?:defined|declared|implemented|located) (?:in|on|by) (.+)$", re.IGNORECASE)
_FILE = re.compile(r"[\w$.@+-]+\.[A-Za-z][A-Za-z+]{0,4}")

_ANY, _CAPITAL, _CODE = _NameForm.ANY, _NameForm.CAPITAL, _NameForm.CODE
_OFTEN = r"(?:\w+ly |ever |still )?"
_BEING = r"(?:being |ever |actually |still )?"
_WRITES = r"(?:sets?|assigns?|writes?|modif(?:y|ies)|changes?|mutates?|updates?)"
_WRITTEN = r"(?:set|assigned|written|modified|changed|mutated|updated)"
_DEFINED = r"(?:defined|declared|implemented|introduced|located)"
_PATTERNS_BY_OPENING: dict[str, tuple[_QuestionPattern, ...]] = {
    "who": (
        _QuestionPattern(CodeVerb.IMPORTS, rf"{_OFTEN}(?:imports?|requires?|includes?) (.+)"),
        _QuestionPattern(CodeVerb.CALLERS, rf"{_OFTEN}(?:calls?|invokes?) (.+)"),
        _QuestionPattern(CodeVerb.CALLERS, rf"{_OFTEN}(?:runs?|triggers?|executes?) (.+)", _CODE),
        _QuestionPattern(CodeVerb.REFERENCES, rf"{_OFTEN}(?:uses?|references?|refers? to) (.+)"),
        _QuestionPattern(
            CodeVerb.REFERENCES, r"(?:mentions?|touch(?:es)?|rel(?:y|ies) on|consumes?|depends? on) (.+)", _CODE
        ),
        _QuestionPattern(CodeVerb.REFERENCES, rf"{_WRITES} (.+)", _CODE, UseKind.WRITE),
        _QuestionPattern(CodeVerb.REFERENCES, r"reads? (.+)", _CODE, UseKind.READ),
        _QuestionPattern(CodeVerb.DEFINITION, r"(?:defines?|declares?) (.+)"),
        _QuestionPattern(CodeVerb.DEFINITION, r"(?:implements?|contains?) (.+)", _CAPITAL),
    ),
    "where is": (
        _QuestionPattern(CodeVerb.IMPORTS, rf"(.+?) {_BEING}(?:imported|included|required)"),
        _QuestionPattern(CodeVerb.CALLERS, rf"(.+?) {_BEING}(?:called|invoked)"),
        _QuestionPattern(CodeVerb.CALLERS, rf"(.+?) {_BEING}(?:run|executed|triggered)", _CODE),
        _QuestionPattern(CodeVerb.REFERENCES, rf"(.+?) {_BEING}(?:used|referenced|referred to)"),
        _QuestionPattern(CodeVerb.REFERENCES, rf"(.+?) {_BEING}{_WRITTEN}", _CODE, UseKind.WRITE),
        _QuestionPattern(CodeVerb.REFERENCES, rf"(.+?) {_BEING}read", _CODE, UseKind.READ),
        _QuestionPattern(
            CodeVerb.DEFINITION,
            r"(?:the )?(?:definition|declaration|implementation|source|source code|code) (?:of|for) (.+)",
            _CAPITAL,
        ),
        _QuestionPattern(CodeVerb.DEFINITION, rf"(.+?) {_BEING}{_DEFINED}"),
        _QuestionPattern(CodeVerb.DEFINITION, rf"(.+? {_DEFINED} (?:in|on|by) .+)", _CAPITAL),
        _QuestionPattern(CodeVerb.DEFINITION, r"(.+?)(?: at)?", _CODE),
    ),
    "where": (
        _QuestionPattern(CodeVerb.IMPORTS, rf"do(?:es)? {_WE} (?:import|include|require) (.+)"),
        _QuestionPattern(CodeVerb.CALLERS, rf"do(?:es)? {_WE} (?:call|invoke) (.+)"),
        _QuestionPattern(CodeVerb.REFERENCES, rf"do(?:es)? {_WE} (?:use|reference|refer to) (.+)"),
        _QuestionPattern(CodeVerb.DEFINITION, rf"do(?:es)? {_WE} (?:define|declare|implement) (.+)"),
        _QuestionPattern(CodeVerb.DEFINITION, r"does (.+) (?:live|come from|reside)", _CODE),
        _QuestionPattern(
            CodeVerb.DEFINITION,
            rf"(?:can|do) {_WE} find (?:the )?(?:definition|declaration|source|code) (?:of|for) (.+)",
            _CAPITAL,
        ),
        _QuestionPattern(CodeVerb.DEFINITION, rf"(?:can|do) {_WE} find (.+)", _CODE),
        _QuestionPattern(CodeVerb.IMPORTS, r"(.+) (?:is|are|gets) (?:imported|included|required)"),
        _QuestionPattern(CodeVerb.CALLERS, r"(.+) (?:is|are|gets) (?:called|invoked)"),
        _QuestionPattern(CodeVerb.REFERENCES, r"(.+) (?:is|are|gets) (?:used|referenced)"),
        _QuestionPattern(CodeVerb.DEFINITION, rf"(.+) (?:is|are|gets) {_DEFINED}"),
    ),
    "what": (
        _QuestionPattern(CodeVerb.OUTLINE, r"(?:is|'s) (?:defined |inside )?(?:in )?(?:the )?(?:file )?(.+)"),
        _QuestionPattern(CodeVerb.OUTLINE, r"does (?:the )?(?:file )?(.+) (?:define|contain|export|have)"),
        _QuestionPattern(
            CodeVerb.OUTLINE,
            r"(?:functions|classes|methods|symbols) are (?:there )?(?:defined )?(?:in|of) (?:the file )?(.+)",
        ),
        _QuestionPattern(CodeVerb.DEFINITION, r"is (?:the )?signature of (.+)", _CAPITAL),
        _QuestionPattern(
            CodeVerb.DEFINITION, r"(?:file|module) is (.+) (?:in|defined in|defined|declared in)", _CAPITAL
        ),
        _QuestionPattern(CodeVerb.DEFINITION, r"(?:file|module) has (.+)", _CODE),
    ),
    "how": (
        _QuestionPattern(CodeVerb.REFERENCES, r"is (.+) (?:used|referenced)", _CODE),
        _QuestionPattern(CodeVerb.DEFINITION, r"is (.+) (?:defined|implemented)", _CODE),
    ),
    "is": (
        _QuestionPattern(CodeVerb.IMPORTS, rf"(.+?) {_BEING}imported", _CODE),
        _QuestionPattern(CodeVerb.CALLERS, rf"(.+?) {_BEING}(?:called|invoked)", _CODE),
        _QuestionPattern(CodeVerb.REFERENCES, rf"(.+?) {_BEING}(?:used|referenced)", _CODE),
    ),
    "by": (_QuestionPattern(CodeVerb.CALLERS, r"(?:whom|what) is (.+) called"),),
    "": (
        _QuestionPattern(CodeVerb.IMPORTS, r"(?:imports?|importers?) (?:of|for) (.+)", _CAPITAL),
        _QuestionPattern(CodeVerb.IMPORTS, r"(?:files|modules|places|code) (?:that |which )?import(?:s|ing)? (.+)"),
        _QuestionPattern(CodeVerb.CALLERS, r"(?:callers?|call sites?|callsites?) (?:of|to|for) (.+)"),
        _QuestionPattern(CodeVerb.CALLERS, r"(?:invocations?|calls) (?:of|to) (.+)", _CAPITAL),
        _QuestionPattern(
            CodeVerb.CALLERS, r"(?:functions|methods|code|places|tests) (?:that |which )?call(?:s|ing)? (.+)"
        ),
        _QuestionPattern(CodeVerb.CALLERS, r"(.+?)(?:'s|’s)? callers", _CODE),
        _QuestionPattern(
            CodeVerb.REFERENCES,
            r"(?:usages?|uses|references?|refs|occurrences|use sites?) (?:of|to|for) (.+)",
            _CAPITAL,
        ),
        _QuestionPattern(CodeVerb.REFERENCES, r"(.+?)(?:'s|’s)? (?:usages?|references)", _CODE),
        _QuestionPattern(CodeVerb.OUTLINE, r"outline (?:of )?(?:the )?(?:file )?(.+)"),
        _QuestionPattern(
            CodeVerb.OUTLINE,
            r"(?:structure|symbols|contents|definitions|functions|classes|methods)(?: and (?:functions|classes|methods))? "
            r"(?:of|in|defined in) (?:the file )?(.+)",
        ),
        _QuestionPattern(
            CodeVerb.DEFINITION, r"(?:definitions?|declarations?|implementations?|signature) (?:of|for) (.+)", _CAPITAL
        ),
        _QuestionPattern(CodeVerb.DEFINITION, r"(.+?)(?:'s|’s)? (?:definition|declaration|signature)", _CODE),
        _QuestionPattern(CodeVerb.DEFINITION, r"(?:go to|goto|jump to) (?:the )?(?:definition|declaration) of (.+)"),
        _QuestionPattern(CodeVerb.DEFINITION, r"(?:go to|goto|jump to|locate|open|find|look up) (.+)", _CODE),
    ),
}
"""Patterns by the opening of a question. The first pattern that matches is used."""
_STOPWORDS = (
    " a an all and any anyone anything are as be been by call called calls class code data defined did do does each else "
    "every everyone everything file files for from function functions get had has have he her here him his how i if import "
    "imported imports in into is it its me method methods module my name no nobody none not nothing of on one ones or other "
    "our out people project repo reference references she so some someone something stuff symbol than that the their them "
    "then there these they thing things this those to type up us use used user users uses variable was we what when where "
    "which who whom whose why will with you your "
)
"""Words that are not names unless they are marked as code."""


def parse_question(text: str) -> CodeQuestion | None:
    """Parse a question about code; return None if the text is not clearly one."""
    if len(text) > MAX_QUESTION_CHARS or "\n" in text.strip():
        return None
    bare = _strip_lead(_END.sub("", " ".join(text.split())))
    for tail in _TAILS:
        bare = tail.sub("", bare)
    transitive = _TRANSITIVE.search(bare) is not None
    bare = _TRANSITIVE.sub("", bare)
    for words, path in _split_path(bare):
        for opening, rest in _split_opening(words):
            for wording, pattern in _compiled_patterns(opening):
                match = pattern.fullmatch(rest)
                question = _build_question(wording, match[1], path, transitive=transitive) if match else None
                if question is not None:
                    return question
    return None


def _strip_lead(text: str) -> str:
    """Remove polite phrases from the start of a question."""
    for _ in range(3):
        lead = _LEAD.match(text)
        if lead is None:
            break
        text = text[lead.end() :]
    return text


def _split_path(text: str) -> Iterator[tuple[str, str]]:
    """Yield the question without the path it ends with ("… in src/"), then the whole question."""
    ending = _PLACE.search(text)
    if ending:
        yield text[: ending.start()], ending["path"]
    yield text, ""


def _split_opening(text: str) -> Iterator[tuple[str, str]]:
    """Yield possible openings of a question, each with the rest of the text."""
    for opening, pattern in (("who", _WHO), ("where is", _WHERE)):
        match = pattern.match(text)
        if match:
            yield opening, text[match.end() :]
    first, _, rest = text.partition(" ")
    first = first.casefold().replace("’", "'")
    if first in {"what's", "which"}:
        yield "what", f"is {rest}" if first == "what's" else rest
    elif first in _PATTERNS_BY_OPENING:
        yield first, rest
    match = _FIND.match(text)
    if match:
        yield "", text[match.end() :]
    yield "", text


@cache
def _compiled_patterns(opening: str) -> tuple[tuple[_QuestionPattern, re.Pattern[str]], ...]:
    """Compile the patterns of an opening on first use: few searches are questions about code."""
    return tuple((wording, re.compile(wording.pattern, re.IGNORECASE)) for wording in _PATTERNS_BY_OPENING[opening])


@cache
def _name_pattern(*, module: bool) -> re.Pattern[str]:
    return re.compile(_NAME_TEMPLATE.replace("<NAME>", _MODULE if module else _NAME), re.IGNORECASE)


def _build_question(wording: _QuestionPattern, subject: str, path: str, *, transitive: bool) -> CodeQuestion | None:
    if wording.verb is CodeVerb.OUTLINE:
        file = subject.strip("`'\"“”‘’")
        return CodeQuestion(wording.verb, "", path=file) if _is_path(file) and not path else None
    pattern = _name_pattern(module=wording.verb is CodeVerb.IMPORTS)
    match = pattern.fullmatch(_OWNER_LAST.sub(r"\1 in \2", subject))
    if match is None or not _is_name(match, wording):
        return None
    name, owner = match["name"], match["owner"] or ""
    if owner and not path and _FILE.fullmatch(owner) and owner.rpartition(".")[2].islower():
        owner, path = "", owner  # "in engine.py"
    if wording.verb is not CodeVerb.IMPORTS:
        *around, name = _NAME_SEPARATORS.split(name)
        owner = ".".join([*filter(None, _NAME_SEPARATORS.split(owner)), *around])
    return CodeQuestion(
        verb=wording.verb,
        name=name,
        container=owner,
        path=path,
        depth=3 if transitive and wording.verb is CodeVerb.CALLERS else 1,
        use=wording.use,
    )


def _is_path(text: str) -> bool:
    whole = re.fullmatch(r"[\w$./~@+-]+", text) is not None
    return whole and ("/" in text or _FILE.fullmatch(text) is not None)


def _is_name(match: re.Match[str], wording: _QuestionPattern) -> bool:
    """Return True if the matched word is written as a name of the form that the wording requires."""
    name, owner = match["name"], match["owner"] or ""
    if bool(match["open"]) != bool(match["close"]) or _is_stopword(owner):
        return False
    if match["open"] or match["call"] or _looks_like_code(name):
        return True
    if _is_stopword(name):
        return False
    if match["before"] or match["after"]:
        return True
    if owner:
        return _looks_like_code(owner) or owner[0].isupper()
    form = max(wording.form, _NameForm.CAPITAL) if match["article"] else wording.form
    return form is _NameForm.ANY or (form is _NameForm.CAPITAL and name[0].isupper())


def _is_stopword(word: str) -> bool:
    return bool(word) and f" {word.casefold()} " in _STOPWORDS


def _looks_like_code(name: str) -> bool:
    """Return True for a word with separators, in camel case, or in capitals."""
    return (
        any(mark in name for mark in ("_", "$", ".", "::", "->", "#", "/"))
        or re.search(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d|\d[A-Za-z]", name) is not None
        or (name.isupper() and len(name) > 2)
    )


def answer_question(text: str, scope: CodeScope) -> CodeReply | None:
    """Answer a question from the code; None if it is not about code, or if the code does not have the name."""
    question = parse_question(text)
    if question is None:
        return None
    # Imported late: most searches are not questions about code, and the resolver is large.
    from lorelog.services.code.navigation import CodeNavigator

    navigator = CodeNavigator(scope)
    return _run_question(question, navigator, scope.root) if navigator.has_index else None


def _run_question(question: CodeQuestion, navigator: CodeNavigator, root: str) -> CodeReply | None:
    from lorelog.services.code.lookup import SymbolQuery
    from lorelog.services.code.navigation import CodeQueryOptions

    path = f"{root.rstrip('/')}/{question.path.strip('/')}" if question.path else ""
    if question.verb is CodeVerb.OUTLINE:
        return _outline(navigator, path)
    options = CodeQueryOptions(limit=MAX_ANSWERS, uses=frozenset({question.use} if question.use else ()), below=path)
    if question.verb is CodeVerb.IMPORTS:
        reply = navigator.find_imports(question.name, options)
        return reply if reply.total else None
    query = SymbolQuery(question.name, question.container)
    if question.verb is CodeVerb.DEFINITION:
        reply = navigator.find_definition(replace(query, path=path), MAX_ANSWERS)
    elif question.verb is CodeVerb.CALLERS:
        reply = navigator.find_callers(query, options, question.depth)
    else:
        reply = navigator.find_references(query, options)
    if reply.definitions:
        return replace(reply, definitions=reply.definitions[:MAX_ANSWERS])
    return reply if reply.total and question.container else None  # without a container, any common word would match


def _outline(navigator: CodeNavigator, path: str) -> CodeReply | None:
    try:
        reply = navigator.outline(path, None, MAX_ANSWERS)
    except NotFound:
        return None
    return reply if reply.files else None
