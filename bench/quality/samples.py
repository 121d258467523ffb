"""Smaller and harder sets made of the given ones.

`sample` takes a part of a set: whole groups where it has groups, else questions with their answers and enough other
documents. A sitting of a conversation is taken whole, so that turns keep their neighbours.

`stressed` takes the words out of each question that its answer holds. What is left is what a person asks who remembers
the matter and not the words; stop words stay. Questions of which no word is left are left out.

`keyword_questions` asks as people type into a search box: one to five words of a document. Every document that has them all is an answer.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

from bench.quality.sets import JudgedSet, Question, Text

from lorelog.language.analyser import STOP_WORDS, WordAnalyser

SEED = 20
SAMPLE_BYTES, SAMPLE_QUESTIONS = 5_000_000, 1_000
"""The part of a set that the ranking is learned from, by default."""
_WORD = re.compile(r"\S+")
_MIN_WORDS = 2
_KEYWORD = re.compile(r"[^\W\d_][\w-]{3,}|[\u4e00-\u9fff]{2,4}")
_FEW = 8
"""Documents that a keyword may be in, at most; of a large set, a hundredth."""


def sample_bytes(given: JudgedSet, size: int = SAMPLE_BYTES, questions: int = SAMPLE_QUESTIONS) -> JudgedSet:
    """Return a set with documents of about so many bytes, and at least ten."""
    length = sum(len(text.text.encode()) for text in given.texts) / len(given.texts)
    return sample(given, max(int(size / length), 10), questions)


def sample(given: JudgedSet, documents: int, questions: int) -> JudgedSet:
    """Return a set with about as many documents and at most as many judged (and as many unanswerable) questions."""
    chosen = random.Random(f"{SEED} {given.name}")
    if len({text.group for text in given.texts}) > 1:
        texts = _whole_groups(given, documents, chosen)
        groups = {text.group for text in texts}
        asked = [item for item in given.judged if item.group in groups]
        judged = sorted(chosen.sample(asked, min(questions, len(asked))), key=asked.index)
        unanswered = [item for item in given.unanswerable if item.group in groups]
    else:
        judged, texts = _answers_and_others(given, documents, questions, chosen)
        unanswered = list(given.unanswerable)
    unanswered = sorted(chosen.sample(unanswered, min(questions, len(unanswered))), key=unanswered.index)
    return replace(given, texts=tuple(texts), questions=(*judged, *unanswered))


def _whole_groups(given: JudgedSet, documents: int, chosen: random.Random) -> list[Text]:
    groups = sorted({text.group for text in given.texts})
    chosen.shuffle(groups)
    sizes = {group: sum(text.group == group for text in given.texts) for group in groups}
    kept: set[str] = set()
    for group in groups:
        if not kept or sum(map(sizes.__getitem__, kept)) + sizes[group] <= documents:
            kept.add(group)
    return [text for text in given.texts if text.group in kept]


def _answers_and_others(
    given: JudgedSet, documents: int, questions: int, chosen: random.Random
) -> tuple[list[Question], list[Text]]:
    sittings: dict[str, list[int]] = {}
    for place, text in enumerate(given.texts):
        sittings.setdefault(_sitting(text), []).append(place)
    by_id = {text.id: _sitting(text) for text in given.texts}
    asked = list(given.judged)
    chosen.shuffle(asked)
    judged: list[Question] = []
    places: set[int] = set()
    for question in asked:
        answers = (name for name, gain in given.gains[question.id].items() if gain > 0 and name in by_id)
        new = places.union(*(sittings[by_id[name]] for name in answers))
        if len(judged) < questions and len(new) <= documents:
            places = new
            judged.append(question)
    others = list(sittings.values())
    chosen.shuffle(others)
    for sitting in others:
        if len(places) < documents:
            places.update(sitting)
    order = {item.id: place for place, item in enumerate(given.judged)}
    judged.sort(key=lambda item: order[item.id])
    return judged, [given.texts[place] for place in sorted(places)]


def _sitting(text: Text) -> str:
    return f"{text.session or text.date}" if text.is_turn else text.id


def stressed(given: JudgedSet, analyser: WordAnalyser) -> JudgedSet:
    """Return the set with questions that share no word with their answers."""
    words = {text.id: frozenset(analyser.words(f"{text.title}\n{text.text}")) for text in given.texts}
    asked = []
    for question in given.judged:
        answers = (words[name] for name, gain in given.gains[question.id].items() if gain > 0 and name in words)
        text = _without(question.text, frozenset[str]().union(*answers), analyser)
        if text:
            asked.append(replace(question, text=text))
    return replace(given, questions=(*asked, *given.unanswerable))


def _without(question: str, held: frozenset[str], analyser: WordAnalyser) -> str:
    """Return a question without the words that a text holds; empty if too little is left."""
    kept = [word for word in _WORD.findall(question) if _is_stop(word) or not held.intersection(analyser.words(word))]
    return " ".join(kept) if sum(not _is_stop(word) for word in kept) >= _MIN_WORDS else ""


def _is_stop(word: str) -> bool:
    return word.strip(".,;:!?()'\"").lower() in STOP_WORDS


def keyword_questions(given: JudgedSet, most: int) -> JudgedSet:
    """Return the set with questions of one to five words that few documents have, and those documents as their answers."""
    chosen = random.Random(f"{SEED} keywords {given.name}")
    texts: dict[str, dict[str, str]] = {}
    for text in given.texts:
        texts.setdefault(text.group, {})[text.id] = f"{text.title}\n{text.text}".lower()
    counts = {
        group: Counter(word for body in bodies.values() for word in set(_KEYWORD.findall(body)))
        for group, bodies in texts.items()
    }
    asked, gains = [], {}
    for text in chosen.sample(given.texts, min(most, len(given.texts))):
        bodies = texts[text.group]
        limit = max(_FEW, len(bodies) // 100)
        words = sorted({word for word in _KEYWORD.findall(bodies[text.id]) if counts[text.group][word] <= limit})
        if not words:
            continue
        taken = chosen.sample(words, min(len(words), chosen.choice((1, 1, 2, 3, 4, 5))))
        question = Question(f"keywords {text.id}", " ".join(taken), group=text.group)
        asked.append(question)
        gains[question.id] = {name: 1.0 for name, body in bodies.items() if all(word in body for word in taken)}
    return replace(given, questions=tuple(asked), gains=gains)
