"""Questions about code in plain English are recognised, and other texts are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.code import CodeVerb, UseKind
from lorelog.services.code.questions import MAX_QUESTION_CHARS, CodeQuestion, parse_question

DEFINITION, REFERENCES, CALLERS = CodeVerb.DEFINITION, CodeVerb.REFERENCES, CodeVerb.CALLERS
IMPORTS, OUTLINE = CodeVerb.IMPORTS, CodeVerb.OUTLINE

QUESTIONS = {
    "who calls parse_config": CodeQuestion(CALLERS, "parse_config"),
    "Who calls `parse_config`?": CodeQuestion(CALLERS, "parse_config"),
    "what calls Engine.search()": CodeQuestion(CALLERS, "search", "Engine"),
    "callers of open_engine": CodeQuestion(CALLERS, "open_engine"),
    "find all callers of open_engine": CodeQuestion(CALLERS, "open_engine"),
    "show me the callers of open_engine": CodeQuestion(CALLERS, "open_engine"),
    "which functions call chunk_markdown?": CodeQuestion(CALLERS, "chunk_markdown"),
    "what functions call chunk in src/ingest/": CodeQuestion(CALLERS, "chunk", path="src/ingest/"),
    "where is chunk_markdown called from?": CodeQuestion(CALLERS, "chunk_markdown"),
    "where is chunk invoked": CodeQuestion(CALLERS, "chunk"),
    "who calls parse_config transitively": CodeQuestion(CALLERS, "parse_config", depth=3),
    "where do we call open_engine": CodeQuestion(CALLERS, "open_engine"),
    "is parse_config ever called": CodeQuestion(CALLERS, "parse_config"),
    "call sites of fuse": CodeQuestion(CALLERS, "fuse"),
    "what tests call fuse_convex": CodeQuestion(CALLERS, "fuse_convex"),
    "can you tell me who calls parse_config?": CodeQuestion(CALLERS, "parse_config"),
    "by what is parse_config called": CodeQuestion(CALLERS, "parse_config"),
    "where is Engine defined": CodeQuestion(DEFINITION, "Engine"),
    "where's Engine defined?": CodeQuestion(DEFINITION, "Engine"),
    "where is the function parse defined": CodeQuestion(DEFINITION, "parse"),
    "where is the parse function defined": CodeQuestion(DEFINITION, "parse"),
    "where is class Engine defined": CodeQuestion(DEFINITION, "Engine"),
    "where is MOST_HITS defined in this repo": CodeQuestion(DEFINITION, "MOST_HITS"),
    "where is Store.put defined": CodeQuestion(DEFINITION, "put", "Store"),
    "where is put defined in Store": CodeQuestion(DEFINITION, "put", "Store"),
    "where is the method search of Engine defined": CodeQuestion(DEFINITION, "search", "Engine"),
    "where is parse defined in engine.py": CodeQuestion(DEFINITION, "parse", path="engine.py"),
    "where is std::vector::push_back declared": CodeQuestion(DEFINITION, "push_back", "std.vector"),
    "where do we define MOST_HITS": CodeQuestion(DEFINITION, "MOST_HITS"),
    "definition of find_question": CodeQuestion(DEFINITION, "find_question"),
    "find the definition of Searcher": CodeQuestion(DEFINITION, "Searcher"),
    "go to definition of run": CodeQuestion(DEFINITION, "run"),
    "which file defines Searcher": CodeQuestion(DEFINITION, "Searcher"),
    "what defines Searcher": CodeQuestion(DEFINITION, "Searcher"),
    "where can I find the definition of Searcher": CodeQuestion(DEFINITION, "Searcher"),
    "where is find_question": CodeQuestion(DEFINITION, "find_question"),
    "where does find_question live": CodeQuestion(DEFINITION, "find_question"),
    "find parse_config": CodeQuestion(DEFINITION, "parse_config"),
    "what is the signature of open_engine": CodeQuestion(DEFINITION, "open_engine"),
    "show open_engine's signature": CodeQuestion(DEFINITION, "open_engine"),
    "where is `main` defined": CodeQuestion(DEFINITION, "main"),
    "please show me where Engine is defined": CodeQuestion(DEFINITION, "Engine"),
    "where is AuthService implemented?": CodeQuestion(DEFINITION, "AuthService"),
    "how is AuthService implemented": CodeQuestion(DEFINITION, "AuthService"),
    "who uses Engine": CodeQuestion(REFERENCES, "Engine"),
    "what uses parse_config": CodeQuestion(REFERENCES, "parse_config"),
    "where is Hit used": CodeQuestion(REFERENCES, "Hit"),
    "where is MOST_HITS referenced": CodeQuestion(REFERENCES, "MOST_HITS"),
    "find usages of Hit": CodeQuestion(REFERENCES, "Hit"),
    "find all references to Hit": CodeQuestion(REFERENCES, "Hit"),
    "show references to `run`": CodeQuestion(REFERENCES, "run"),
    "usages of the Engine class": CodeQuestion(REFERENCES, "Engine"),
    "which classes use HttpClient": CodeQuestion(REFERENCES, "HttpClient"),
    "Could you find all references to UserSession please": CodeQuestion(REFERENCES, "UserSession"),
    "where is max_retries set": CodeQuestion(REFERENCES, "max_retries", use=UseKind.WRITE),
    "who sets max_retries": CodeQuestion(REFERENCES, "max_retries", use=UseKind.WRITE),
    "where is max_retries modified?": CodeQuestion(REFERENCES, "max_retries", use=UseKind.WRITE),
    "who reads LORELOG_HOME": CodeQuestion(REFERENCES, "LORELOG_HOME", use=UseKind.READ),
    "what imports requests": CodeQuestion(IMPORTS, "requests"),
    "which files import numpy": CodeQuestion(IMPORTS, "numpy"),
    "who imports os.path": CodeQuestion(IMPORTS, "os.path"),
    "what requires lodash/fp": CodeQuestion(IMPORTS, "lodash/fp"),
    "where is numpy imported": CodeQuestion(IMPORTS, "numpy"),
    "where do we import tantivy": CodeQuestion(IMPORTS, "tantivy"),
    "imports of lorelog.core.errors": CodeQuestion(IMPORTS, "lorelog.core.errors"),
    "find files that import rich": CodeQuestion(IMPORTS, "rich"),
    "which modules import `core.errors`?": CodeQuestion(IMPORTS, "core.errors"),
    "what includes <vector>": CodeQuestion(IMPORTS, "vector"),
    "outline of src/engine.py": CodeQuestion(OUTLINE, "", path="src/engine.py"),
    "what is in src/engine.py": CodeQuestion(OUTLINE, "", path="src/engine.py"),
    "what functions are in engine.py": CodeQuestion(OUTLINE, "", path="engine.py"),
    "what does engine.py define": CodeQuestion(OUTLINE, "", path="engine.py"),
    "symbols in src/core/": CodeQuestion(OUTLINE, "", path="src/core/"),
}

OTHERS = [
    "why did we choose redis",
    "why is parse_config called twice",
    "when was Engine defined",
    "where is the configuration defined",
    "where is the deploy key stored",
    "who decided to use redis",
    "who called yesterday",
    "what calls did we have with the client",
    "how do we import the data from the old system",
    "how do I use the cache",
    "what did we use before redis",
    "where are my notes",
    "where is it defined",
    "who uses it",
    "who calls me",
    "what is in it",
    "what is the plan for the release",
    "who calls the doctor",
    "where is the meeting",
    "where do we go from here",
    "find the bug",
    "open the door",
    "what imports did the customs office see last year",
    "how is everything used",
    "references for the job application",
    "what uses the most memory",
    "who calls parse_config and why did we change it last week",
    "where is Engine defined and who wrote it",
    "what is parse_config",
    "explain parse_config",
    "fix the callers of parse_config",
    "where is the definition of done",
    "definition of done",
    "calls to action",
    "import of goods",
    "usage of the cache",
    "who runs the tests",
    "where is main street",
    "what happened to Engine",
    "parse_config",
    "what changed in engine.py last week",
    "why does what imports requests fail",
    "where is the code for the landing page",
    "where was the database set up",
    "who changes the oil",
    "",
    "?",
    "who calls parse_config\nwho calls parse_config",
    "who calls `parse_config",
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_about_code_is_understood(text: str) -> None:
    """The verb, name, path and depth of a question are parsed."""
    assert parse_question(text) == QUESTIONS[text]


@pytest.mark.parametrize("text", OTHERS)
def test_other_questions_are_left_to_the_search(text: str) -> None:
    """Questions about reasons, times, people or ideas are not questions about a symbol."""
    assert parse_question(text) is None


@given(st.text(max_size=400))
def test_any_text_is_accepted(text: str) -> None:
    """No text makes the parser fail, and a long prompt is not a question about code."""
    question = parse_question(text)

    assert question is None or len(text) <= MAX_QUESTION_CHARS


@given(
    st.sampled_from(["who calls {}", "where is {} defined", "where is {} used", "what imports {}"]),
    st.from_regex(r"[a-z]{1,8}_[a-z]{1,8}", fullmatch=True),
    st.sampled_from(["", "?", " ?", " please", " in this project", " anywhere?"]),
)
def test_snake_case_names_are_found_in_every_wording(wording: str, name: str, ending: str) -> None:
    """A name with an underscore is found, however the question ends."""
    question = parse_question(wording.format(name) + ending)

    assert question is not None
    assert question.name == name
