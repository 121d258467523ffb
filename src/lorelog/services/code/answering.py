"""Answers a question in words from the code, where it is one about code and the code has something to say."""

from __future__ import annotations

from dataclasses import replace

from lorelog.core.code_answers import CodeReply, CodeVerb
from lorelog.core.errors import NotFound
from lorelog.services.code.asking import Bounds, CodeAsker
from lorelog.services.code.finding import Wanted
from lorelog.services.code.questions import CodeQuestion, find_question
from lorelog.services.code.sight import CodeSight

MOST = 10
"""Above the hits of a search; `lorelog code` shows all."""


def answer_question(text: str, sight: CodeSight) -> CodeReply | None:
    """Return what the code says to a question; None where it is not about code, or where nothing here has the name."""
    question = find_question(text)
    if question is None:
        return None
    asker = CodeAsker(sight)
    return _answer(question, asker, sight.root) if asker.knows_code else None


def _answer(question: CodeQuestion, asker: CodeAsker, root: str) -> CodeReply | None:
    path = f"{root.rstrip('/')}/{question.path.strip('/')}" if question.path else ""
    if question.verb is CodeVerb.OUTLINE:
        return _outline(asker, path)
    if question.verb is CodeVerb.IMPORTS:
        reply = asker.find_imports(question.name, Bounds(MOST, below=path))
        return reply if reply.total else None
    wanted = Wanted(question.name, question.container)
    if question.verb is CodeVerb.DEFINITION:
        reply = asker.find_definition(replace(wanted, path=path), MOST)
    elif question.verb is CodeVerb.CALLERS:
        reply = asker.find_callers(wanted, Bounds(MOST, below=path), question.depth)
    else:
        uses = frozenset({question.use} if question.use else ())
        reply = asker.find_references(wanted, Bounds(MOST, uses=uses, below=path))
    if reply.definitions:
        return replace(reply, definitions=reply.definitions[:MOST])
    return reply if reply.total and question.container else None  # a word that many files use is not yet a name


def _outline(asker: CodeAsker, path: str) -> CodeReply | None:
    try:
        reply = asker.outline(path, None, MOST)
    except NotFound:
        return None
    return reply if reply.files else None
