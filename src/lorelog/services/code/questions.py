"""Recognises questions about code in plain English: "who calls parse_config", "where is Engine defined".

Such a question has an exact answer in the code index, which goes above the text hits. Precision before recall: what is
not clearly such a question is left to the search, which answers everything. So a question must be one of the known
wordings from its first word to its last, and a plain word counts as a name only where the wording says that it is one:
"where is the configuration defined" may ask about an idea, "where is the function configuration defined" does not.
Whether there is such a name is the index's to say; where it has none, nothing goes above the hits.

Pure: no index, no files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import NamedTuple

from lorelog.core.code import UseKind
from lorelog.core.code_answers import CodeVerb

MOST_LETTERS = 300
"""Of a question; a longer one is a prompt, and asks for more than a place."""


@dataclass(frozen=True, slots=True)
class CodeQuestion:
    """A question that the code index answers."""

    verb: CodeVerb
    name: str
    """The symbol or module that is asked about; of an outline, empty."""
    container: str = ""
    """The class, or whatever else is said to be around it."""
    path: str = ""
    """The file or folder that is named with it."""
    depth: int = 1
    use: UseKind | None = None
    """The only way of using it that is asked for."""


class _Written(IntEnum):
    """How a name must be written, so that the words around it leave no doubt."""

    ANY = 0
    CAPITAL = 1
    CODE = 2


class _Wording(NamedTuple):
    verb: CodeVerb
    pattern: str
    """With one group: where the name stands."""
    written: _Written = _Written.ANY
    use: UseKind | None = None


_KINDS = (
    "function|method|class|struct|interface|trait|protocol|enum|type|module|package|library|variable|constant|global|field|"
    "property|attribute|macro|symbol|decorator|fixture|component|hook|exception|identifier|helper|procedure|subroutine|"
    "namespace|object|handler|callback|coroutine|generator|dataclass|mixin|routine|file|header|crate"
)
_JOINTS = re.compile(r"\.|::|->|#")
_WORD = r"(?:[^\W\d]|\$)[\w$]*"
_NAME = rf"{_WORD}(?:(?:\.|::|->|\#){_WORD})*"
_MODULE = r"[@\w$.~][\w$./:@+~-]{0,199}"
_OPEN, _CLOSE = "[`'\"“‘«<]", "[`'\"”’»>]"
_AROUND = (
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
_FAR = re.compile(r"\s+(?:transitively|indirectly|directly\s+or\s+indirectly|recursively)$", re.IGNORECASE)
_END = re.compile(r"\s*[?!.;,]*\s*$")
_OWNER_LAST = re.compile(r"^(.+?) (?:defined|declared|implemented|located) (?:in|on|by) (.+)$", re.IGNORECASE)
_FILE = re.compile(r"[\w$.@+-]+\.[A-Za-z][A-Za-z+]{0,4}")

_ANY, _CAPITAL, _CODE = _Written.ANY, _Written.CAPITAL, _Written.CODE
_OFTEN = r"(?:\w+ly |ever |still )?"
_BEING = r"(?:being |ever |actually |still )?"
_WRITES = r"(?:sets?|assigns?|writes?|modif(?:y|ies)|changes?|mutates?|updates?)"
_WRITTEN = r"(?:set|assigned|written|modified|changed|mutated|updated)"
_DEFINED = r"(?:defined|declared|implemented|introduced|located)"
_WORDINGS: dict[str, tuple[_Wording, ...]] = {
    "who": (
        _Wording(CodeVerb.IMPORTS, rf"{_OFTEN}(?:imports?|requires?|includes?) (.+)"),
        _Wording(CodeVerb.CALLERS, rf"{_OFTEN}(?:calls?|invokes?) (.+)"),
        _Wording(CodeVerb.CALLERS, rf"{_OFTEN}(?:runs?|triggers?|executes?) (.+)", _CODE),
        _Wording(CodeVerb.REFERENCES, rf"{_OFTEN}(?:uses?|references?|refers? to) (.+)"),
        _Wording(CodeVerb.REFERENCES, r"(?:mentions?|touch(?:es)?|rel(?:y|ies) on|consumes?|depends? on) (.+)", _CODE),
        _Wording(CodeVerb.REFERENCES, rf"{_WRITES} (.+)", _CODE, UseKind.WRITE),
        _Wording(CodeVerb.REFERENCES, r"reads? (.+)", _CODE, UseKind.READ),
        _Wording(CodeVerb.DEFINITION, r"(?:defines?|declares?) (.+)"),
        _Wording(CodeVerb.DEFINITION, r"(?:implements?|contains?) (.+)", _CAPITAL),
    ),
    "where is": (
        _Wording(CodeVerb.IMPORTS, rf"(.+?) {_BEING}(?:imported|included|required)"),
        _Wording(CodeVerb.CALLERS, rf"(.+?) {_BEING}(?:called|invoked)"),
        _Wording(CodeVerb.CALLERS, rf"(.+?) {_BEING}(?:run|executed|triggered)", _CODE),
        _Wording(CodeVerb.REFERENCES, rf"(.+?) {_BEING}(?:used|referenced|referred to)"),
        _Wording(CodeVerb.REFERENCES, rf"(.+?) {_BEING}{_WRITTEN}", _CODE, UseKind.WRITE),
        _Wording(CodeVerb.REFERENCES, rf"(.+?) {_BEING}read", _CODE, UseKind.READ),
        _Wording(
            CodeVerb.DEFINITION,
            r"(?:the )?(?:definition|declaration|implementation|source|source code|code) (?:of|for) (.+)",
            _CAPITAL,
        ),
        _Wording(CodeVerb.DEFINITION, rf"(.+?) {_BEING}{_DEFINED}"),
        _Wording(CodeVerb.DEFINITION, rf"(.+? {_DEFINED} (?:in|on|by) .+)", _CAPITAL),
        _Wording(CodeVerb.DEFINITION, r"(.+?)(?: at)?", _CODE),
    ),
    "where": (
        _Wording(CodeVerb.IMPORTS, rf"do(?:es)? {_WE} (?:import|include|require) (.+)"),
        _Wording(CodeVerb.CALLERS, rf"do(?:es)? {_WE} (?:call|invoke) (.+)"),
        _Wording(CodeVerb.REFERENCES, rf"do(?:es)? {_WE} (?:use|reference|refer to) (.+)"),
        _Wording(CodeVerb.DEFINITION, rf"do(?:es)? {_WE} (?:define|declare|implement) (.+)"),
        _Wording(CodeVerb.DEFINITION, r"does (.+) (?:live|come from|reside)", _CODE),
        _Wording(
            CodeVerb.DEFINITION,
            rf"(?:can|do) {_WE} find (?:the )?(?:definition|declaration|source|code) (?:of|for) (.+)",
            _CAPITAL,
        ),
        _Wording(CodeVerb.DEFINITION, rf"(?:can|do) {_WE} find (.+)", _CODE),
        _Wording(CodeVerb.IMPORTS, r"(.+) (?:is|are|gets) (?:imported|included|required)"),
        _Wording(CodeVerb.CALLERS, r"(.+) (?:is|are|gets) (?:called|invoked)"),
        _Wording(CodeVerb.REFERENCES, r"(.+) (?:is|are|gets) (?:used|referenced)"),
        _Wording(CodeVerb.DEFINITION, rf"(.+) (?:is|are|gets) {_DEFINED}"),
    ),
    "what": (
        _Wording(CodeVerb.OUTLINE, r"(?:is|'s) (?:defined |inside )?(?:in )?(?:the )?(?:file )?(.+)"),
        _Wording(CodeVerb.OUTLINE, r"does (?:the )?(?:file )?(.+) (?:define|contain|export|have)"),
        _Wording(
            CodeVerb.OUTLINE,
            r"(?:functions|classes|methods|symbols) are (?:there )?(?:defined )?(?:in|of) (?:the file )?(.+)",
        ),
        _Wording(CodeVerb.DEFINITION, r"is (?:the )?signature of (.+)", _CAPITAL),
        _Wording(CodeVerb.DEFINITION, r"(?:file|module) is (.+) (?:in|defined in|defined|declared in)", _CAPITAL),
        _Wording(CodeVerb.DEFINITION, r"(?:file|module) has (.+)", _CODE),
    ),
    "how": (
        _Wording(CodeVerb.REFERENCES, r"is (.+) (?:used|referenced)", _CODE),
        _Wording(CodeVerb.DEFINITION, r"is (.+) (?:defined|implemented)", _CODE),
    ),
    "is": (
        _Wording(CodeVerb.IMPORTS, rf"(.+?) {_BEING}imported", _CODE),
        _Wording(CodeVerb.CALLERS, rf"(.+?) {_BEING}(?:called|invoked)", _CODE),
        _Wording(CodeVerb.REFERENCES, rf"(.+?) {_BEING}(?:used|referenced)", _CODE),
    ),
    "by": (_Wording(CodeVerb.CALLERS, r"(?:whom|what) is (.+) called"),),
    "": (
        _Wording(CodeVerb.IMPORTS, r"(?:imports?|importers?) (?:of|for) (.+)", _CAPITAL),
        _Wording(CodeVerb.IMPORTS, r"(?:files|modules|places|code) (?:that |which )?import(?:s|ing)? (.+)"),
        _Wording(CodeVerb.CALLERS, r"(?:callers?|call sites?|callsites?) (?:of|to|for) (.+)"),
        _Wording(CodeVerb.CALLERS, r"(?:invocations?|calls) (?:of|to) (.+)", _CAPITAL),
        _Wording(CodeVerb.CALLERS, r"(?:functions|methods|code|places|tests) (?:that |which )?call(?:s|ing)? (.+)"),
        _Wording(CodeVerb.CALLERS, r"(.+?)(?:'s|’s)? callers", _CODE),
        _Wording(
            CodeVerb.REFERENCES,
            r"(?:usages?|uses|references?|refs|occurrences|use sites?) (?:of|to|for) (.+)",
            _CAPITAL,
        ),
        _Wording(CodeVerb.REFERENCES, r"(.+?)(?:'s|’s)? (?:usages?|references)", _CODE),
        _Wording(CodeVerb.OUTLINE, r"outline (?:of )?(?:the )?(?:file )?(.+)"),
        _Wording(
            CodeVerb.OUTLINE,
            r"(?:structure|symbols|contents|definitions|functions|classes|methods)(?: and (?:functions|classes|methods))? "
            r"(?:of|in|defined in) (?:the file )?(.+)",
        ),
        _Wording(
            CodeVerb.DEFINITION, r"(?:definitions?|declarations?|implementations?|signature) (?:of|for) (.+)", _CAPITAL
        ),
        _Wording(CodeVerb.DEFINITION, r"(.+?)(?:'s|’s)? (?:definition|declaration|signature)", _CODE),
        _Wording(CodeVerb.DEFINITION, r"(?:go to|goto|jump to) (?:the )?(?:definition|declaration) of (.+)"),
        _Wording(CodeVerb.DEFINITION, r"(?:go to|goto|jump to|locate|open|find|look up) (.+)", _CODE),
    ),
}
"""By how a question begins, once it is put plainly. Where several wordings fit, the first does."""
_NO_NAMES = (
    " a an all and any anyone anything are as be been by call called calls class code data defined did do does each else "
    "every everyone everything file files for from function functions get had has have he her here him his how i if import "
    "imported imports in into is it its me method methods module my name no nobody none not nothing of on one ones or other "
    "our out people project repo reference references she so some someone something stuff symbol than that the their them "
    "then there these they thing things this those to type up us use used user users uses variable was we what when where "
    "which who whom whose why will with you your "
    """Words that are never meant as names, unless marked as code."""
)


def find_question(text: str) -> CodeQuestion | None:
    """Return what a question asks of the code, or None where it is not clearly about code."""
    if len(text) > MOST_LETTERS or "\n" in text.strip():
        return None
    bare = _without_lead(_END.sub("", " ".join(text.split())))
    for tail in _TAILS:
        bare = tail.sub("", bare)
    far = _FAR.search(bare) is not None
    bare = _FAR.sub("", bare)
    for words, path in _places(bare):
        for beginning, rest in _plainly(words):
            for wording, pattern in _patterns(beginning):
                found = pattern.fullmatch(rest)
                question = _read(wording, found[1], path, far=far) if found else None
                if question is not None:
                    return question
    return None


def _without_lead(text: str) -> str:
    """Return a question without what is said out of politeness."""
    for _ in range(3):
        led = _LEAD.match(text)
        if led is None:
            break
        text = text[led.end() :]
    return text


def _places(text: str) -> Iterator[tuple[str, str]]:
    """Yield the question, and where it ends with a path ("… in src/"), first without that."""
    placed = _PLACE.search(text)
    if placed:
        yield text[: placed.start()], placed["path"]
    yield text, ""


def _plainly(text: str) -> Iterator[tuple[str, str]]:
    """Yield how a question begins, in our words, and the rest of it."""
    for beginning, pattern in (("who", _WHO), ("where is", _WHERE)):
        found = pattern.match(text)
        if found:
            yield beginning, text[found.end() :]
    first, _, rest = text.partition(" ")
    first = first.casefold().replace("’", "'")
    if first in {"what's", "which"}:
        yield "what", f"is {rest}" if first == "what's" else rest
    elif first in _WORDINGS:
        yield first, rest
    found = _FIND.match(text)
    if found:
        yield "", text[found.end() :]
    yield "", text


@cache
def _patterns(beginning: str) -> tuple[tuple[_Wording, re.Pattern[str]], ...]:
    """Return the wordings that begin so; made when first asked for, since few questions are about code."""
    return tuple((one, re.compile(one.pattern, re.IGNORECASE)) for one in _WORDINGS[beginning])


@cache
def _named(*, module: bool) -> re.Pattern[str]:
    return re.compile(_AROUND.replace("<NAME>", _MODULE if module else _NAME), re.IGNORECASE)


def _read(wording: _Wording, said: str, path: str, *, far: bool) -> CodeQuestion | None:
    if wording.verb is CodeVerb.OUTLINE:
        file = said.strip("`'\"“”‘’")
        return CodeQuestion(wording.verb, "", path=file) if _is_path(file) and not path else None
    found = _named(module=wording.verb is CodeVerb.IMPORTS).fullmatch(_OWNER_LAST.sub(r"\1 in \2", said))
    if found is None or not _is_name(found, wording):
        return None
    name, owner = found["name"], found["owner"] or ""
    if owner and not path and _FILE.fullmatch(owner) and owner.rpartition(".")[2].islower():
        owner, path = "", owner  # "in engine.py"
    if wording.verb is not CodeVerb.IMPORTS:
        *around, name = _JOINTS.split(name)
        owner = ".".join([*filter(None, _JOINTS.split(owner)), *around])
    depth = 3 if far and wording.verb is CodeVerb.CALLERS else 1
    return CodeQuestion(wording.verb, name, owner, path, depth, wording.use)


def _is_path(text: str) -> bool:
    whole = re.fullmatch(r"[\w$./~@+-]+", text) is not None
    return whole and ("/" in text or _FILE.fullmatch(text) is not None)


def _is_name(found: re.Match[str], wording: _Wording) -> bool:
    """Say whether what stands where a name should stand is one."""
    name, owner = found["name"], found["owner"] or ""
    if bool(found["open"]) != bool(found["close"]) or _is_plain(owner):
        return False
    if found["open"] or found["call"] or _looks_like_code(name):
        return True
    if _is_plain(name):
        return False
    if found["before"] or found["after"]:
        return True
    if owner:
        return _looks_like_code(owner) or owner[0].isupper()
    least = max(wording.written, _Written.CAPITAL) if found["article"] else wording.written
    return least is _Written.ANY or (least is _Written.CAPITAL and name[0].isupper())


def _is_plain(word: str) -> bool:
    return bool(word) and f" {word.casefold()} " in _NO_NAMES


def _looks_like_code(name: str) -> bool:
    """Say whether a word is written as names are and words are not: joined, humped, or all in capitals."""
    return (
        any(mark in name for mark in ("_", "$", ".", "::", "->", "#", "/"))
        or re.search(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d|\d[A-Za-z]", name) is not None
        or (name.isupper() and len(name) > 2)
    )
