"""Recognise questions about code in plain English ("who calls parse_config") and answer them from the code index.

The exact answer is shown above the search hits. Precision before recall: unless a text is clearly such a question, it
is left to the search, which answers everything. A question must match a known wording from its first word to its last,
and a plain word counts as a name only where the wording says so: "where is the configuration defined" may ask about an
idea, "where is the function configuration defined" does not. If the index does not have the name, nothing is shown
above the hits.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.code import CodeVerb, UseKind
from lorelog.core.code_reply import CodeReply
from lorelog.core.errors import NotFound
from lorelog.language.lexicon import lexicon
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


_KINDS = (
    "function|method|class|struct|interface|trait|enum|type|module|package|library|variable|constant|field|property|attribute|macro|symbol|"
    "decorator|fixture|component|hook|exception|helper|namespace|object|handler|file|header|crate"
)
_SEPARATORS = r"\.|::|->|\#"
_WORD = r"(?:[^\W\d]|\$)[\w$]*"
_NAME = rf"{_WORD}(?:(?:{_SEPARATORS}){_WORD})*"
_OPEN, _CLOSE = "[`'\"“‘«<]", "[`'\"”’»>]"
_SUBJECT = (
    r"(?P<article>(?:the|a|an|our|my|its|this|that) )?"
    rf"(?P<before>(?:{_KINDS}) (?:called |named )?)?"
    rf"(?P<open>{_OPEN})?(?P<name><NAME>)(?P<call>\([^()]{{0,80}}\))?(?P<close>{_CLOSE})?(?P<after> (?:{_KINDS}))?"
    rf"(?: (?:of|on|from|in|(?:defined|declared) (?:in|on|by)) (?:the )?(?:(?:class|module) )?{_OPEN}?(?P<owner>{_NAME}){_CLOSE}?(?: class| module)?)?"
)
_FRAME = re.compile(
    r"(?P<lead>(?:(?:please|hey|ok|okay|so|and|now),? |(?:can|could|would) you (?:please )?(?:tell |show |help |(?=find|list))(?:me |us )?|"
    r"(?:tell|show|give) (?:me|us) |(?:do you|does anyone) know |i (?:want|need) to (?:know|see) ){0,3})"
    r"(?P<body>.*?)"
    rf"(?: (?:in|under|below|within|inside) {_OPEN}?(?P<path>[\w$.~@+-]*/[\w$./~@+-]*|[\w$-]+\.[a-z][a-z+]{{0,4}}){_CLOSE}?)?"
    r"(?P<transitive> (?:transitively|indirectly|recursively))?"
    r"(?:,? (?:in|across) (?:this|the|our|my) (?:whole |entire )?(?:project|repo|repository|code|codebase))?"
    r"(?:,? (?:anywhere|somewhere|here|currently|exactly|now|please|from))?[ ?!.;,]*",
    re.IGNORECASE,
)
"""A question without its polite beginning, and without the place and the adverbs at its end."""
_PARTS = {
    "<who>": r"(?:who|what|which)(?: (?:functions?|methods?|class(?:es)?|modules?|files?|places?|tests?|code))?(?: that)? (?:\w+ly |ever )?",
    "<where>": r"(?:from |in )?where(?: (?:is|are|was|gets?)|['’]s) ",
    "<find>": r"(?:(?:find|show|list|get|see|search for|look up) )?(?:all )?(?:the )?",
    "<being>": r"(?:being |ever |actually |still )?",
    "<we>": r"(?:we|you|i|they|people|the code|our code)",
    "<write>": r"(?:set|assign|write|modify|change|update)s?",
    "<written>": r"(?:set|assigned|written|modified|changed|updated)",
    "<defined>": r"(?:defined|declared|implemented|introduced|located)",
}
_WORDINGS = """
imports    any     <who>(?:imports?|requires?|includes?) (.+)
callers    any     <who>(?:calls?|invokes?) (.+)
references any     <who>(?:uses?|references?|refers? to) (.+)
write      code    <who><write> (.+)
read       code    <who>reads? (.+)
definition any     <who>(?:defines?|declares?) (.+)
imports    any     <where>(.+?) <being>(?:imported|included|required)
callers    any     <where>(.+?) <being>(?:called|invoked)
references any     <where>(.+?) <being>(?:used|referenced)
write      code    <where>(.+?) <being><written>
read       code    <where>(.+?) <being>read
definition any     <where>(.+?) <being><defined>
definition capital <where>(.+? <defined> (?:in|on|by) .+)
definition code    <where>(.+)
imports    any     where do(?:es)? <we> (?:import|include|require) (.+)
callers    any     where do(?:es)? <we> (?:call|invoke) (.+)
references any     where do(?:es)? <we> (?:use|reference) (.+)
definition any     where do(?:es)? <we> (?:define|declare|implement) (.+)
definition code    where does (.+) (?:live|come from)
definition capital where (?:can|do) <we> find (?:the )?definition of (.+)
callers    any     where (.+) (?:is|gets) (?:called|invoked)
references any     where (.+) (?:is|gets) (?:used|referenced)
definition any     where (.+) (?:is|gets) <defined>
outline    any     what(?: is|['’]s) (?:defined )?in (?:the file )?(.+)
outline    any     what does (?:the file )?(.+) (?:define|contain|export)
outline    any     (?:what|which) (?:functions|classes|methods|symbols) are (?:defined )?in (?:the file )?(.+)
definition capital what is the signature of (.+)
references code    how is (.+) (?:used|referenced)
definition code    how is (.+) (?:defined|implemented)
callers    code    is (.+?) <being>(?:called|invoked)
references code    is (.+?) <being>(?:used|referenced)
callers    any     by (?:whom|what) is (.+) called
imports    capital <find>(?:imports?|importers?) of (.+)
imports    any     <find>(?:files|modules|places|code) (?:that )?import(?:s|ing)? (.+)
callers    any     <find>(?:callers?|call sites?) (?:of|to|for) (.+)
callers    any     <find>(?:functions|methods|code|places|tests) (?:that )?call(?:s|ing)? (.+)
references capital <find>(?:usages?|uses|references?|occurrences) (?:of|to|for) (.+)
outline    any     <find>(?:outline|structure|symbols|definitions|functions|classes|methods) (?:of|in) (?:the file )?(.+)
definition capital <find>(?:definitions?|declarations?|implementations?|signature) (?:of|for) (.+)
definition code    <find>(.+?)(?:['’]s)? (?:definition|declaration|signature)
definition any     (?:go to|goto|jump to) (?:the )?(?:definition|declaration) of (.+)
definition code    (?:go to|goto|jump to|locate|open|find|look up) (.+)
"""
"""The answer that a wording asks for, how its name must be written to count as one, and its pattern; the first that matches is used."""


_Wording = tuple[CodeVerb, str, re.Pattern[str], UseKind | None]
"""Verb, form of the name (`any` word, a `capital` letter, or `code`), pattern, and the only kind of use to return."""


@cache
def _wordings() -> tuple[_Wording, ...]:
    rows = []
    for line in _WORDINGS.strip().splitlines():
        answer, form, pattern = line.split(maxsplit=2)
        for part, source in _PARTS.items():
            pattern = pattern.replace(part, source)
        use = {"read": UseKind.READ, "write": UseKind.WRITE}.get(answer)
        verb = CodeVerb.REFERENCES if use else CodeVerb(answer)
        rows.append((verb, form, re.compile(pattern, re.IGNORECASE), use))
    return tuple(rows)


@cache
def _subject_pattern(*, module: bool) -> re.Pattern[str]:
    name = r"[@\w$.~][\w$./:@+~-]{0,199}" if module else _NAME
    return re.compile(_SUBJECT.replace("<NAME>", name), re.IGNORECASE)


def parse_question(text: str) -> CodeQuestion | None:
    """Parse a question about code; return None if the text is not clearly one."""
    frame = _FRAME.fullmatch(" ".join(text.split())) if len(text) <= MAX_QUESTION_CHARS else None
    if frame is None or "\n" in text.strip():
        return None
    place = f" in {frame['path']}" if frame["path"] else ""
    for body, path in ((frame["body"], frame["path"] or ""), (f"{frame['body']}{place}", "")):
        for wording in _wordings():
            match = wording[2].fullmatch(body)
            question = _build_question(wording, match[1], path) if match else None
            if question is not None:
                is_deep = frame["transitive"] and question.verb is CodeVerb.CALLERS
                return replace(question, depth=3) if is_deep else question
    return None


def _build_question(wording: _Wording, subject: str, path: str) -> CodeQuestion | None:
    verb, form, _, use = wording
    if verb is CodeVerb.OUTLINE:
        file = subject.strip("`'\"“”‘’")
        is_path = re.fullmatch(r"[\w$./~@+-]+/[\w$./~@+-]*|[\w$.@+-]+\.[A-Za-z][A-Za-z+]{0,4}", file) is not None
        return CodeQuestion(verb, "", path=file) if is_path and not path else None
    match = _subject_pattern(module=verb is CodeVerb.IMPORTS).fullmatch(subject)
    if match is None or not _is_name(match, form):
        return None
    name, owner = match["name"], match["owner"] or ""
    if owner and not path and re.fullmatch(r"[\w$.@+-]+\.[a-z][a-z+]{0,4}", owner):
        owner, path = "", owner  # "in engine.py"
    if verb is not CodeVerb.IMPORTS:
        *around, name = re.split(_SEPARATORS, name)
        owner = ".".join([*filter(None, re.split(_SEPARATORS, owner)), *around])
    return CodeQuestion(verb, name, owner, path, use=use)


def _is_name(match: re.Match[str], form: str) -> bool:
    """Return True if the matched word is written as a name of the form that the wording requires."""
    name, owner = match["name"], match["owner"] or ""
    if bool(match["open"]) != bool(match["close"]) or owner.casefold() in lexicon("no_names"):
        return False
    if match["open"] or match["call"] or _looks_like_code(name):
        return True
    if name.casefold() in lexicon("no_names"):
        return False
    if match["before"] or match["after"]:
        return True
    if owner:
        return _looks_like_code(owner) or owner[0].isupper()
    return (form == "any" and not match["article"]) or (form != "code" and name[0].isupper())


def _looks_like_code(name: str) -> bool:
    """Return True for a word with separators, in camel case, or in capitals."""
    return re.search(r"[_$./#]|::|->|[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d|\d[A-Za-z]", name) is not None or (
        name.isupper() and len(name) > 2
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
    from lorelog.services.code.navigation import CodeQueryOptions, SymbolQuery

    path = f"{root.rstrip('/')}/{question.path.strip('/')}" if question.path else ""
    if question.verb is CodeVerb.OUTLINE:
        with suppress(NotFound):
            reply = navigator.outline(path, None, MAX_ANSWERS)
            return reply if reply.files else None
        return None
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
