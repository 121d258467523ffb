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

from msgspec import Struct
from msgspec.structs import replace

from lorelog.code.names import name_parts
from lorelog.core.code import CodeVerb, UseKind
from lorelog.core.code_reply import CodeReply
from lorelog.core.errors import NotFound
from lorelog.language import lexicon
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


_KIND = (
    "(?:function|method|class|struct|interface|trait|enum|type|module|package|variable|constant|field|property|attribute|macro|symbol|"
    "decorator|fixture|component|hook|exception|file|header)"
)
_IDENTIFIER = r"(?:[^\W\d]|\$)[\w$]*"
_NAME = rf"{_IDENTIFIER}(?:(?:\.|::|->|\#){_IDENTIFIER})*"
_MODULE = r"[@\w$.~][\w$./:@+~-]{0,199}"
_OPEN, _CLOSE = "[`'\"“‘«<]", "[`'\"”’»>]"
_PATH = r"[\w$.~@+-]*/[\w$./~@+-]*|[\w$.@+-]+\.[a-z][a-z+]{0,4}"
_PLACE = rf"(.+) (?:in|under|below|within|inside) {_OPEN}?({_PATH}){_CLOSE}?"
_SUBJECT = (
    rf"((?:the|a|an|our|my|its|this|that) )?({_KIND} (?:called |named )?)?({_OPEN})?(<NAME>)(\([^()]{{0,80}}\))?(?(3){_CLOSE})( {_KIND})?"
    rf"(?: (?:of|on|from|in|(?:defined|declared) (?:in|on|by)) (?:the )?(?:class |module )?{_OPEN}?({_NAME}){_CLOSE}?(?: class| module)?)?"
)
"""Article, kind, quote, name, arguments, kind, and the enclosing class or module."""
_FRAME = (
    r"(?:please |(?:can|could|would) you |(?:tell|show|give) (?:me|us) |do you know ){0,3}(.*?)( transitively| indirectly| recursively)?"
    r"(?: in (?:this|the|our|my) (?:project|repo|repository|code|codebase))?(?: (?:anywhere|here|now|please|from))?[ ?!.;,]*"
)
"""A question without its polite beginning, and without the adverbs at its end."""
_VERBS = {
    "imports": ("import|require|include", "imported|required|included", "import|importer"),
    "callers": ("call|invoke", "called|invoked", "caller|call site"),
    "references": ("use|reference", "used|referenced", "usage|use|reference|occurrence"),
    "write": ("set|assign|write|modify|change", "set|assigned|written|modified|changed", "assignment"),
    "read": ("read", "read", "read"),
    "definition": ("define|declare|implement", "defined|declared|implemented", "definition|declaration|implementation|signature"),
}  # fmt: skip
"""Verbs, participles and nouns by what they ask for: a verb of the code index, or the uses that read or write."""
_VERB_OF = {word: verb for verb, words in _VERBS.items() for word in "|".join(words).split("|")}
_DOES, _DONE, _NOUN = (f"(?P<word>{'|'.join(words)})" for words in zip(*_VERBS.values(), strict=True))
_WHERE = "where(?: is| are| was|['’]s) "
_FIND = "(?:(?:where can i find|what is|find|show|list) )?(?:all )?(?:the )?"
_THINGS = "(?:functions?|methods?|class(?:es)?|modules?|files?|places?|tests?|symbols?|code)"
_WORDINGS = (
    ("any", rf"(?:(?:who|what|which)(?: {_THINGS})?|{_FIND}{_THINGS})(?: that)? {_DOES}s?(?: to)? (?P<subject>.+)"),
    ("any", rf"{_WHERE}(?P<subject>.+?) {_DONE}"),
    ("any", rf"where (?P<subject>.+) is {_DONE}"),
    ("any", rf"where do (?:we|you|i|they) {_DOES} (?P<subject>.+)"),
    ("code", rf"(?:how |by (?:whom|what) )?is (?P<subject>.+?) (?:ever |still )?{_DONE}"),
    ("capital", rf"{_FIND}{_NOUN}s? (?:of|to) (?P<subject>.+)"),
    ("any", rf"(?:go|jump) to (?:the )?{_NOUN} of (?P<subject>.+)"),
    ("outline", rf"(?:what(?: is|['’]s)|(?:what|which) {_THINGS} are|{_FIND}(?:outline|{_THINGS})) (?:in|of) (?P<subject>.+)"),
    ("outline", "what does (?P<subject>.+) (?:define|contain|export)"),
    ("code", rf"{_WHERE}(?P<subject>.+)"),
    ("code", "where does (?P<subject>.+) (?:live|come from)"),
    ("code", rf"{_FIND}(?P<subject>.+?)(?:['’]s)? (?:definition|declaration|signature)"),
    ("code", "(?:go to|jump to|locate|open|find) (?P<subject>.+)"),
)  # fmt: skip
"""How a name must be written to count as one, and a wording; the first that matches is used.

A wording without a word of `_VERBS` asks for the outline of a file or for a definition.
"""


def parse_question(text: str) -> CodeQuestion | None:
    """Parse a question about code; return None if the text is not clearly one."""
    frame = _fullmatch(_FRAME, " ".join(text.split())) if len(text) <= MAX_QUESTION_CHARS else None
    if frame is None or "\n" in text.strip():
        return None
    place = _fullmatch(_PLACE, frame[1])
    for body, path in ((frame[1], ""), *([place.groups()] if place else [])):
        for form, wording in _WORDINGS:
            match = _fullmatch(wording, body)
            question = _build_question(match, form, path) if match else None
            if question is not None:
                return replace(question, depth=3) if frame[2] and question.verb is CodeVerb.CALLERS else question
    return None


def _fullmatch(pattern: str, text: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, text, re.IGNORECASE)  # compiled once: `re` caches patterns


def _build_question(wording: re.Match[str], form: str, path: str) -> CodeQuestion | None:
    if form == "outline":
        file = wording["subject"].strip("`'\"“”‘’")
        return CodeQuestion(CodeVerb.OUTLINE, "", path=file) if _fullmatch(_PATH, file) and not path else None
    answer = _VERB_OF[(wording.groupdict().get("word") or "define").lower()]
    use = {"read": UseKind.READ, "write": UseKind.WRITE}.get(answer)
    verb = CodeVerb.REFERENCES if use else CodeVerb(answer)
    is_import = verb is CodeVerb.IMPORTS
    match = _fullmatch(_SUBJECT.replace("<NAME>", _MODULE if is_import else _NAME), wording["subject"])
    # "callers of x" asks about code; so does "who sets x" only if x looks like it
    form = "code" if use else "any" if form == "capital" and verb is CodeVerb.CALLERS else form
    if match is None or not _is_name(match, form):
        return None
    name, owner = match[4], match[7] or ""
    if owner and not path and _fullmatch(_PATH, owner):
        owner, path = "", owner  # "in engine.py"
    if not is_import:
        *around, name = name_parts(name)
        owner = ".".join([*name_parts(owner), *around])
    return CodeQuestion(verb, name, owner, path, use=use)


def _is_name(match: re.Match[str], form: str) -> bool:
    """Return True if the matched word is written as a name of the form that the wording requires."""
    article, kind, quote, name, arguments, kind_after, owner = match.groups()
    if owner and owner.casefold() in lexicon("no_names"):
        return False
    if quote or arguments or _looks_like_code(name):
        return True
    if name.casefold() in lexicon("no_names"):
        return False
    if kind or kind_after or owner:
        return bool(kind or kind_after or _looks_like_code(owner) or owner[0].isupper())
    return (form == "any" and not article) or (form != "code" and name[0].isupper())


def _looks_like_code(name: str) -> bool:
    """Return True for a word with separators, in camel case, or in capitals."""
    is_mixed = re.search(r"[_$./#]|::|->|[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d|\d[A-Za-z]", name)
    return is_mixed is not None or (name.isupper() and len(name) > 2)


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
