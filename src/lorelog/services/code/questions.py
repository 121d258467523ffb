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

from msgspec import Struct
from msgspec.structs import replace

from lorelog.code.names import name_parts
from lorelog.core.code import CodeVerb, UseKind
from lorelog.core.code_reply import CodeReply
from lorelog.core.errors import NotFound
from lorelog.language.lexicon import lexicon
from lorelog.services.code import CodeScope

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
_VERBS = {
    "imports": ("import|require|include", "imported|required|included", "import|importer"),
    "callers": ("call|invoke", "called|invoked", "caller|call site"),
    "references": ("use|reference|refer", "used|referenced", "usage|use|reference|occurrence"),
    "write": ("set|assign|write|modify|change|update", "set|assigned|written|modified|changed|updated", "assignment"),
    "read": ("read", "read", "read"),
    "definition": (
        "define|declare|implement",
        "defined|declared|implemented|introduced|located",
        "definition|declaration|implementation|signature",
    ),
}
"""Verbs, participles and nouns by what they ask for: a verb of the code index, or the uses that read or write."""
_ANSWERS = {word: answer for answer, words in _VERBS.items() for word in "|".join(words).split("|")}
_DOES, _DONE, _NOUN = ("|".join(words) for words in zip(*_VERBS.values(), strict=True))
_PARTS = {
    "<does>": f"(?P<word>{_DOES})",
    "<done>": f"(?:being |ever |actually |still )?(?P<word>{_DONE})",
    "<noun>": f"(?P<word>{_NOUN})",
    "<where>": r"(?:from |in )?where(?: (?:is|are|was|gets?)|['’]s) ",
    "<find>": r"(?:(?:where (?:can|do) \w+ find|what is|find|show|list|get|see|search for|look up) )?(?:all )?(?:the )?",
    "<we>": r"(?:we|you|i|they|people|the code|our code)",
    "<things>": "(?:functions?|methods?|class(?:es)?|modules?|files?|places?|tests?|symbols?|code)",
}
_WORDINGS = r"""
any     (?:who|what|which)(?: <things>)?(?: that)? (?:\w+ly |ever )?<does>s?(?: to)? (?P<subject>.+)
any     <where>(?P<subject>.+?) <done>
any     where (?P<subject>.+) (?:is|gets) <done>
any     where do(?:es)? <we> <does> (?P<subject>.+)
code    (?:how |by (?:whom|what) )?is (?P<subject>.+?) <done>
any     <find><things> (?:that )?<does>(?:s|ing)? (?P<subject>.+)
capital <find><noun>s? (?:of|to|for) (?P<subject>.+)
outline (?:what(?: is|['’]s)|(?:what|which) <things> are) (?:defined )?in (?:the file )?(?P<subject>.+)
outline what does (?:the file )?(?P<subject>.+) (?:define|contain|export)
outline <find>(?:outline|structure|definitions|<things>) (?:of|in) (?:the file )?(?P<subject>.+)
any     (?:go to|goto|jump to) (?:the )?(?:definition|declaration) of (?P<subject>.+)
code    <where>(?P<subject>.+)
code    where does (?P<subject>.+) (?:live|come from)
code    <find>(?P<subject>.+?)(?:['’]s)? (?:definition|declaration|signature)
code    (?:go to|goto|jump to|locate|open|find|look up) (?P<subject>.+)
"""
"""How a name must be written to count as one, and a wording; the first that matches is used.

A wording without a word of `_ANSWERS` asks for the outline of a file or for a definition.
"""


@cache
def _wordings() -> tuple[tuple[str, re.Pattern[str]], ...]:
    source = _WORDINGS.strip()
    for part, pattern in _PARTS.items():
        source = source.replace(part, pattern)
    rows = (line.split(maxsplit=1) for line in source.splitlines())
    return tuple((form, re.compile(pattern, re.IGNORECASE)) for form, pattern in rows)


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
        for form, pattern in _wordings():
            match = pattern.fullmatch(body)
            question = _build_question(match, form, path) if match else None
            if question is not None:
                is_deep = frame["transitive"] and question.verb is CodeVerb.CALLERS
                return replace(question, depth=3) if is_deep else question
    return None


def _build_question(wording: re.Match[str], form: str, path: str) -> CodeQuestion | None:
    subject = wording["subject"]
    if form == "outline":
        file = subject.strip("`'\"“”‘’")
        is_path = re.fullmatch(r"[\w$./~@+-]+/[\w$./~@+-]*|[\w$.@+-]+\.[A-Za-z][A-Za-z+]{0,4}", file) is not None
        return CodeQuestion(CodeVerb.OUTLINE, "", path=file) if is_path and not path else None
    answer = _ANSWERS[(wording.groupdict().get("word") or "define").lower()]
    use = {"read": UseKind.READ, "write": UseKind.WRITE}.get(answer)
    verb = CodeVerb.REFERENCES if use else CodeVerb(answer)
    match = _subject_pattern(module=verb is CodeVerb.IMPORTS).fullmatch(subject)
    # "callers of x" asks about code; so does "who sets x" only if x looks like it
    form = "code" if use else "any" if form == "capital" and verb is CodeVerb.CALLERS else form
    if match is None or not _is_name(match, form):
        return None
    name, owner = match["name"], match["owner"] or ""
    if owner and not path and re.fullmatch(r"[\w$.@+-]+\.[a-z][a-z+]{0,4}", owner):
        owner, path = "", owner  # "in engine.py"
    if verb is not CodeVerb.IMPORTS:
        *around, name = name_parts(name)
        owner = ".".join([*name_parts(owner), *around])
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
    from lorelog.services.code.navigation import CodeNavigator, CodeQueryOptions, SymbolQuery

    navigator = CodeNavigator(scope)
    path = f"{scope.root.rstrip('/')}/{question.path.strip('/')}" if question.path else ""
    options = CodeQueryOptions(limit=MAX_ANSWERS, uses=frozenset({question.use} if question.use else ()), below=path)
    query = SymbolQuery(question.name, question.container)
    if question.verb is CodeVerb.OUTLINE:
        with suppress(NotFound):
            reply = navigator.outline(path, None, MAX_ANSWERS)
            return reply if reply.files else None
        return None
    if question.verb is CodeVerb.IMPORTS:
        reply = navigator.find_imports(question.name, options)
        return reply if reply.total else None
    if question.verb is CodeVerb.DEFINITION:
        reply = navigator.find_definition(replace(query, path=path), MAX_ANSWERS)
    elif question.verb is CodeVerb.CALLERS:
        reply = navigator.find_callers(query, options, question.depth)
    else:
        reply = navigator.find_references(query, options)
    if reply.definitions:
        return replace(reply, definitions=reply.definitions[:MAX_ANSWERS])
    return reply if reply.total and question.container else None  # without a container, any common word would match
