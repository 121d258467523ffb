"""Readers of the sources: each takes a repository and yields pairs of a question-like line and a passage."""

from __future__ import annotations

import csv
import json
import pickletools
import re
from collections.abc import Callable, Iterator
from random import Random
from xml.etree import ElementTree as ET

from train.passages import (
    Pair,
    braced_functions,
    cut,
    dialogue,
    foreign_question,
    go_functions,
    one_line,
    python_functions,
    said_within,
    sections,
    sentences,
    tidy,
)
from train.repository import Repository

Reader = Callable[[Repository, str, Random], Iterator[Pair]]
"""Takes the repository, a pattern for its paths, and the source of chance."""


def _shuffled(repository: Repository, pattern: str, random: Random) -> Iterator[tuple[str, str]]:
    paths = repository.paths(pattern)
    random.shuffle(paths)
    return repository.texts(paths)


def documents(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Markdown and reStructuredText: headings and their sections."""
    for path, text in _shuffled(repository, pattern, random):
        name = path.rpartition("/")[2].rpartition(".")[0].replace("-", " ").replace("_", " ")
        yield from sections(text, "" if name in {"index", "README", "_index"} else name, random)


def translations(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Documents in German or Chinese: half of the sections are asked for by their heading, half by one of their sentences."""
    for pair in documents(repository, pattern, random):
        yield Pair(foreign_question(pair.passage, random), pair.passage) if random.random() < 0.5 else pair


def python_code(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    for _, text in _shuffled(repository, pattern, random):
        yield from python_functions(text, random)


def go_code(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    for _, text in _shuffled(repository, pattern, random):
        yield from go_functions(text)


def braced_code(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Rust, Java and TypeScript: comments and what they describe."""
    languages = {"rs": "rust", "java": "java", "ts": "typescript", "tsx": "typescript", "js": "javascript"}
    for path, text in _shuffled(repository, pattern, random):
        yield from braced_functions(text, languages.get(path.rpartition(".")[2], ""), random)


def commits(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Commit subjects, and what was said and changed: as body and patch, or as the session of an agent."""
    for subject, body, patch in repository.commits(int(pattern)):
        if len(subject) < 12:
            continue
        said = re.sub(
            r"^(Co-authored|Signed-off|Reviewed|Change-Id|Fixes|Closes)[^\n]*$",
            "",
            body,
            flags=re.MULTILINE | re.IGNORECASE,
        ).strip()
        changed = re.findall(r"^diff --git a/(\S+)", patch, re.MULTILINE)
        shape = random.random()
        if shape < 0.5 and len(said) > 80:
            yield Pair(subject, said[:2000])
        elif shape < 0.75:
            yield Pair(subject, patch[: random.choice((600, 1200, 2000))])
        else:
            plain = " ".join(changed[:6])
            yield Pair(subject, f"User: {(said or subject)[:600]}\nAssistant: I changed {plain}.\n{patch[:1000]}")


def _xml(text: str) -> ET.Element | None:
    try:
        return ET.fromstring(text)
    except (ET.ParseError, ValueError):
        return None


def _words_of(node: ET.Element | None) -> str:
    return "" if node is None else one_line("".join(node.itertext()))


def articles(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Articles in JATS: title and abstract, a finding and the rest of the abstract, paragraphs with their headings."""
    seen: set[str] = set()
    for path, text in _shuffled(repository, pattern, random):
        name = path.rpartition("-v")[0]
        root = None if name in seen else _xml(text)
        if root is None:
            continue
        seen.add(name)
        title = _words_of(root.find(".//article-title"))
        abstracts = root.findall(".//abstract")
        whole = [
            re.sub(r"^10\.\S+?(?=eLife digest)|eLife digest\s*|\s*DOI:\s*\S+", "", _words_of(node))
            for node in abstracts
        ]
        whole = [part for part in whole if len(part) > 150]
        for part in whole:
            yield from _abstract(title, part, random)
        paragraphs = [
            (section, paragraph) for section in root.findall(".//body/sec") for paragraph in section.findall(".//p")
        ]
        for section, paragraph in random.sample(paragraphs, min(4, len(paragraphs))):
            passage = _words_of(paragraph)
            if len(passage) > 200:
                heading = _words_of(section.find("title"))
                asked = f"{heading}: {title}" if random.random() < 0.2 else said_within(passage, random)
                yield Pair(asked, passage[: random.choice((500, 1000, 2000))])


def _abstract(title: str, abstract: str, random: Random) -> Iterator[Pair]:
    """A title asks for an abstract, and so does what it found, said without it."""
    shown = abstract[:2400]
    yield Pair(title, f"{title} {shown}" if random.random() < 0.25 else shown)
    said = sentences(abstract)
    if len(said) > 4:
        finding = random.randrange(len(said) // 2, len(said))
        rest = " ".join(said[:finding] + said[finding + 1 :])
        yield Pair(
            re.sub(r"^(Here|Thus|Therefore|Together|Finally|However|Moreover),?\s+", "", said[finding])[:300],
            rest[:2400],
        )


def anthology(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Papers listed in the ACL Anthology's XML: title and abstract."""
    for _, text in _shuffled(repository, pattern, random):
        root = _xml(text)
        for paper in root.iter("paper") if root is not None else ():
            title, abstract = _words_of(paper.find("title")), _words_of(paper.find("abstract"))
            if len(abstract) > 150 and len(title) > 10:
                yield from _abstract(title, abstract, random)


def medical_answers(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """MedQuAD: questions and answers."""
    for _, text in _shuffled(repository, pattern, random):
        root = _xml(text)
        for pair in root.iter("QAPair") if root is not None else ():
            question, answer = _words_of(pair.find("Question")), _words_of(pair.find("Answer"))
            if len(answer) > 80:
                yield Pair(question.replace("(are) ", ""), answer[: random.choice((600, 1200, 2400))])
                for passage in list(cut(answer[2400:12000], random))[:2]:
                    yield Pair(said_within(passage, random), passage)


def friends_questions(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """FriendsQA: questions about dialogues, answered by one utterance."""
    for _, text in _shuffled(repository, pattern, random):
        for scene in json.loads(text)["data"]:
            for paragraph in scene["paragraphs"]:
                spoken = paragraph.get("utterances:") or paragraph.get("utterances") or []
                turns = [(" ".join(turn["speakers"]), turn["utterance"]) for turn in spoken]
                questions = [
                    (item["question"], int(item["answers"][0]["utterance_id"]))
                    for item in paragraph["qas"]
                    if item.get("answers")
                ]
                known = [(question, index) for question, index in questions if index < len(turns)]
                yield from dialogue(turns, known, random)


def chat_messages(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Topical-Chat: `{id: {"content": [{"agent", "message"}]}}`."""
    for _, text in _shuffled(repository, pattern, random):
        for entry in json.loads(text).values():
            yield from dialogue([(turn["agent"], turn["message"]) for turn in entry["content"]], [], random)


def assistant_dialogues(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Schema-Guided Dialogue and Taskmaster: turns of a user and an assistant."""
    for _, text in _shuffled(repository, pattern, random):
        for entry in json.loads(text):
            turns = [
                (str(turn.get("speaker", "user")), str(turn.get("utterance") or turn.get("text") or ""))
                for turn in entry.get("turns") or entry.get("utterances") or []
            ]
            yield from dialogue([turn for turn in turns if turn[1].strip()], [], random)


def meetings(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """QMSum: queries about spans of meeting transcripts."""
    for _, text in _shuffled(repository, pattern, random):
        for line in text.splitlines():
            entry = json.loads(line)
            turns = [(turn["speaker"], turn["content"]) for turn in entry["meeting_transcripts"]]
            for item in entry["specific_query_list"]:
                for start, end in item["relevant_text_span"][:2]:
                    near = turns[int(start) : min(int(end) + 1, int(start) + 12)]
                    if near:
                        yield Pair(item["query"], "\n".join(f"{who}: {said}" for who, said in near)[:2400])
                yield Pair(item["query"], item["answer"][:2400])
            yield from dialogue([turn for turn in turns if len(turn[1]) > 60], [], random)


def chat_logs(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """IRC logs: `[12:30] <name> words`."""
    for _, text in _shuffled(repository, pattern, random):
        turns = re.findall(r"^(?:\S+ \S+ )?\[[\d:]+\] <([^>]+)> (.+)$", text, re.MULTILINE)
        for start in range(0, len(turns) - 12, 12):
            yield from dialogue(turns[start : start + 12], [], random)


def facts(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """DSTC9: short questions and answers about places."""
    for _, text in _shuffled(repository, pattern, random):
        for places in json.loads(text).values():
            for place in places.values():
                for item in place["docs"].values():
                    name = place.get("name") or ""
                    yield Pair(item["title"], f"{name}: {item['body']}" if name else item["body"])


def titles(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Question titles in pickles, read as strings: nothing is unpickled."""
    for _, raw in repository.contents(repository.paths(pattern)):
        for _, value, _ in pickletools.genops(raw):
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            if isinstance(text, str) and text.count(" ") > 2:
                yield Pair(one_line(text), "")


def manual_pages(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Manual pages in roff: headings and their sections."""
    for path, text in _shuffled(repository, pattern, random):
        name = path.rpartition("/")[2].rpartition(".")[0]
        plain = re.sub(
            r'^\.\\".*$|^\.(?:PP|IP|TP|RS|RE|nf|fi|in|br|sp|ad|hy|TH|if|ie|el|de|ns|P|LP|EX|EE).*$',
            "",
            text,
            flags=re.MULTILINE,
        )
        plain = re.sub(
            r"^\.SH \"?([^\"\n]+)\"?", lambda match: f"\n## {match[1].capitalize()}", plain, flags=re.MULTILINE
        )
        plain = re.sub(r"^\.SS \"?([^\"\n]+)\"?", r"\n### \1", plain, flags=re.MULTILINE)
        plain = re.sub(r"^\.[A-Z]{1,2} ", "", plain, flags=re.MULTILINE)
        plain = re.sub(r"\\f[A-Z]|\\&|\\\(\w\w", "", plain).replace("\\-", "-")
        yield from sections(plain, name, random)


def cheat_sheets(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Comments and the commands below them."""
    for path, text in _shuffled(repository, pattern, random):
        name = path.rpartition("/")[2]
        for block in re.split(r"\n\s*\n", text):
            comment = one_line(" ".join(re.findall(r"^#+ ?(.*)$", block, re.MULTILINE)))
            command = "\n".join(line for line in block.split("\n") if line and not line.startswith("#"))
            if len(comment) > 8 and command:
                shown = f"{name}: {comment}\n{command}" if random.random() < 0.5 else f"{name}\n{command}"
                yield Pair(comment[:200], shown[:1200])


def books(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Chapters in XHTML: passages of several paragraphs."""
    for _, text in _shuffled(repository, pattern, random):
        for passage in cut(one_line(tidy(text)), random):
            yield Pair(said_within(passage, random), passage)


def docbook(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Documents in SGML: titles and their sections."""
    for path, text in _shuffled(repository, pattern, random):
        plain = re.sub(
            r"<title>(.*?)</title>", lambda match: f"\n## {one_line(tidy(match[1]))}\n", text, flags=re.DOTALL
        )
        plain = re.sub(r"<!--.*?-->|</?[a-z][^>]*>|<!\[CDATA\[|\]\]>", "", plain, flags=re.DOTALL)
        plain = re.sub(r"&(\w+);", lambda match: {"lt": "<", "gt": ">", "amp": "&"}.get(match[1], match[1]), plain)
        yield from sections(re.sub(r"^[ \t]+", "", plain, flags=re.MULTILINE), path.rpartition("/")[2][:-5], random)


def release_notes(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Notes of changes, a file each: the file's name says what, the text how and why."""
    for path, text in _shuffled(repository, pattern, random):
        name = re.sub(r"-[0-9a-f]{12,}$", "", path.rpartition("/")[2].rpartition(".")[0])
        told = re.sub(r"^---\n", "", text)
        told = re.sub(r"^(\s*- )[|>]-?\n\s*", r"\1", told, flags=re.MULTILINE)
        yield Pair(re.sub(r"[-_]+", " ", name), told[:2400])


_TURN = re.compile(
    r"(?:\d\d:\d\d:\d\d\t)?\*\*([^*:\n]{2,40}):?\*\*:?\s*(.*)|(?:\d\d:\d\d:\d\d\t)?([A-Z][\w.' -]{1,30}):\s+(.+)"
)
_NO_WORDS = re.compile(r"\d*|WEBVTT|[\d:.]+ --> [\d:.]+.*|---+|\\\[.*\\\]")


def spoken_turns(text: str) -> list[tuple[str, str]]:
    """Return who said what, from lines of `Name: words` as transcripts, subtitles and chats have them."""
    turns: list[tuple[str, str]] = []
    for line in text.split("\n"):
        found = _TURN.fullmatch(line.strip())
        if found:
            name, said = found[1] or found[3], found[2] or found[4] or ""
            if turns and turns[-1][0] == name and len(turns[-1][1]) < 600:
                turns[-1] = (name, f"{turns[-1][1]} {said}".strip())
            else:
                turns.append((name, said))
        elif turns and not _NO_WORDS.fullmatch(line.strip()):
            turns[-1] = (turns[-1][0], f"{turns[-1][1]} {line.strip().removeprefix('* ')}".strip())
    return [(name, re.sub(r"\\?\[\d+:\d+(?::\d+)?(?:\.\d+)?\\?\]", "", said)) for name, said in turns if said]


def transcripts(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Talks and meetings as they were spoken; files with few speakers are documents."""
    for path, text in _shuffled(repository, pattern, random):
        turns = spoken_turns(text)
        if len(turns) < 8:
            if path.endswith(".md"):
                yield from sections(text, path.rpartition("/")[2][:-3].replace("-", " "), random)
            continue
        size = random.randint(12, 40)
        for start in range(0, len(turns), size):
            yield from dialogue(turns[start : start + size], [], random)


def persona_chats(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Synthetic-Persona-Chat: conversations, and what is known of who speaks, asked of the turn that says it."""
    for _, text in _shuffled(repository, pattern, random):
        for row in csv.DictReader(text.splitlines(keepends=True)):
            turns = spoken_turns(row.get("Best Generated Conversation") or "")
            questions = []
            for speaker, column in (("User 1", "user 1 personas"), ("User 2", "user 2 personas")):
                for fact in filter(None, (row.get(column) or "").split("\n")):
                    words = set(re.findall(r"[a-z]{4,}", fact.lower()))
                    shared = [len(words & set(re.findall(r"[a-z]{4,}", said.lower()))) for _, said in turns]
                    if shared and max(shared) > 1:
                        asked = re.sub(r"\bI am\b|\bI'm\b", f"{speaker} is", re.sub(r"\b[Mm]y\b", "their", fact))
                        questions.append((re.sub(r"\bI\b", speaker, asked), shared.index(max(shared))))
            yield from dialogue(turns, questions, random)


def chat_units(repository: Repository, pattern: str, random: Random) -> Iterator[Pair]:
    """Molweni: `[{"edus": [{"text", "speaker"}]}]`."""
    for _, text in _shuffled(repository, pattern, random):
        for entry in json.loads(text):
            yield from dialogue([(turn["speaker"], turn["text"]) for turn in entry["edus"]], [], random)
