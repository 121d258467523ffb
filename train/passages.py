"""Text to passages and question-like lines: sections of documents, functions of code, notes as agents write them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

MIN_LETTERS = 40
MAX_LETTERS = 2400
"""About 512 tokens of English."""

_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])")
_WORD = re.compile(r"[A-Za-zÄÖÜäöüß][\w'-]+")
_STOP = frozenset(
    [
        "about",
        "after",
        "again",
        "all",
        "also",
        "and",
        "any",
        "are",
        "because",
        "been",
        "before",
        "being",
        "between",
        "both",
        "but",
        "can",
        "could",
        "does",
        "down",
        "each",
        "for",
        "from",
        "further",
        "had",
        "has",
        "have",
        "having",
        "her",
        "here",
        "him",
        "his",
        "how",
        "into",
        "its",
        "itself",
        "just",
        "let",
        "more",
        "most",
        "must",
        "not",
        "now",
        "off",
        "once",
        "only",
        "other",
        "our",
        "out",
        "over",
        "own",
        "same",
        "she",
        "should",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "too",
        "under",
        "until",
        "very",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "use",
        "used",
        "using",
    ]
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A question-like line and the passage it belongs to; one of them may be empty."""

    question: str
    passage: str


def tidy(text: str) -> str:
    """Return a text without markup that says nothing, without trailing blanks, and with at most one empty line."""
    text = re.sub(r"<!--.*?-->|\{[{%].*?[}%]\}", " ", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)\s]*\)", r"\1", text)
    text = re.sub(r"</?[A-Za-z][^>]{0,200}>", " ", text)
    text = re.sub(r"[ \t]+", " ", text)
    return re.sub(r"\s*\n\s*\n\s*", "\n\n", text).strip()


def one_line(text: str) -> str:
    return " ".join(text.split())


def sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE.split(one_line(text)) if len(part.strip()) > 8]


def cut(text: str, random: Random) -> Iterator[str]:
    """Yield passages of different lengths, cut between lines or sentences."""
    target = random.choice((250, 400, 600, 800, 1000, 1400, 2000))
    parts = text.split("\n") if text.count("\n") > 3 else sentences(text)
    joint = "\n" if text.count("\n") > 3 else " "
    passage: list[str] = []
    size = 0
    for part in parts:
        passage.append(part[:MAX_LETTERS])
        size += len(passage[-1]) + 1
        if size >= target:
            yield joint.join(passage)[:MAX_LETTERS].strip()
            passage, size = [], 0
            target = random.choice((250, 400, 600, 800, 1000, 1400, 2000))
    if size >= MIN_LETTERS:
        yield joint.join(passage)[:MAX_LETTERS].strip()


def keywords(text: str, random: Random) -> str:
    """Return a few of a text's telling words, in their order, as one types them into a search box."""
    words = [word for word in _WORD.findall(text[:1500]) if len(word) > 3 and word.lower() not in _STOP]
    if len(words) < 4:
        return ""
    start = random.randrange(max(1, len(words) - 12))
    near = words[start : start + 12]
    chosen = sorted(random.sample(range(len(near)), min(len(near), random.randint(3, 6))))
    return " ".join(near[index] for index in chosen).lower()


def sections(text: str, title: str, random: Random) -> Iterator[Pair]:
    """Yield the sections of a Markdown or reStructuredText document with their headings."""
    front = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if front:
        found = re.search(r"^title:\s*(.+)$", front[1], re.MULTILINE)
        title = found[1].strip("'\" ") if found else title
        text = text[front.end() :]
    text = re.sub(r"^([^\n]{3,80})\n([=\-~^\"'*+#])\2{2,}[ ]*$", r"\n## \1", text, flags=re.MULTILINE)
    heading = title
    for part in re.split(r"^(?=#{1,5} )", text, flags=re.MULTILINE):
        first, _, rest = part.partition("\n")
        if first.startswith("#"):
            heading = one_line(re.sub(r"\{#.*?\}|[`*#]", "", tidy(first)))
        else:
            rest = part
        body = tidy(rest)
        if len(body) < MIN_LETTERS:
            continue
        for number, passage in enumerate(cut(body, random)):
            with_heading = f"{heading}\n{passage}" if heading and random.random() < 0.3 else passage
            yield Pair(heading_question(heading, title, passage, random, is_first=number == 0), with_heading)


def heading_question(heading: str, title: str, passage: str, random: Random, *, is_first: bool) -> str:
    """Return a line that asks for a section: its heading, with the document's title or as a question, or its words."""
    if not is_first or len(heading) < 5:
        return said_within(passage, random)
    shape = random.random()
    whole = f"{title}: {heading}" if title and title != heading else heading
    if shape < 0.3 and len(heading) > 13:
        return heading
    if shape < 0.6 or len(heading) <= 13:
        return whole
    if shape < 0.75:
        return random.choice(("how to {}", "what is {}", "{}?", "how does {} work", "when do I need {}")).format(
            heading[:1].lower() + heading[1:]
        )
    return said_within(passage, random)


def said_within(passage: str, random: Random) -> str:
    """Return a sentence of a passage, or some of its words."""
    said = [sentence for sentence in sentences(passage) if 20 < len(sentence) < 220]
    return random.choice(said) if said and random.random() < 0.5 else keywords(passage, random)


_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_CHINESE_ASKS = ("什么", "哪些", "谁", "多少", "哪里", "什么时候", "为什么", "如何", "哪一个")
_GERMAN_ASKS = ("Was", "Wer", "Wann", "Wo", "Warum", "Wie", "Welche", "Wie viele", "Wozu")


def foreign_question(passage: str, random: Random) -> str:
    """Return a question in German or Chinese, made of one sentence of a passage: a part of it is asked for, or left out."""
    said = [sentence for sentence in sentences(passage) if 12 < len(sentence) < 160]
    if not said:
        return said_within(passage, random)
    sentence = random.choice(said)
    if len(_CHINESE.findall(sentence)) * 3 > len(sentence):
        start, length = random.randrange(len(sentence)), random.randint(2, max(2, len(sentence) // 4))
        return f"{sentence[:start]}{random.choice(_CHINESE_ASKS)}{sentence[start + length :].rstrip('。！；，')}？"
    words = _WORD.findall(sentence)
    kept = sorted(random.sample(range(len(words)), max(1, len(words) * 3 // 5))) if words else []
    return f"{random.choice(_GERMAN_ASKS)} {' '.join(words[place] for place in kept)}?"


def python_functions(source: str, random: Random) -> Iterator[Pair]:
    """Yield functions and classes with the first line of their docstrings; half of them without the docstring."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    lines = source.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        documented = ast.get_docstring(node)
        if not documented or len(documented) < 12:
            continue
        first = one_line(documented.split("\n\n")[0])[:200]
        body = lines[node.lineno - 1 : min(node.end_lineno or node.lineno, node.lineno + 60)]
        if random.random() < 0.5 and isinstance(node.body[0], ast.Expr):
            start, end = node.body[0].lineno, node.body[0].end_lineno or node.body[0].lineno
            body = lines[node.lineno - 1 : start - 1] + lines[end : min(node.end_lineno or end, end + 60)]
        indent = len(body[0]) - len(body[0].lstrip()) if body else 0
        code = "\n".join(line[indent:] if not line[:indent].strip() else line for line in body).strip()
        if len(code) < 60:
            continue
        shape = random.random()
        if shape < 0.25:
            first = f"python {keywords(first, random) or first.lower()}"
        elif shape < 0.4:
            first = f"how to {first[:1].lower()}{first[1:].rstrip('.')} in python"
        yield Pair(first, code[:MAX_LETTERS])


_GO_FUNCTION = re.compile(r"((?:^//[^\n]*\n)+)(^func [^\n]*\{\n.*?^\}\n)", re.MULTILINE | re.DOTALL)


def go_functions(source: str) -> Iterator[Pair]:
    """Yield Go functions with the first sentence of their comments."""
    for comment, code in _GO_FUNCTION.findall(source):
        said = one_line(comment.replace("//", " "))
        if len(said) > 15:
            yield Pair((sentences(said) or [said])[0][:200], (comment + code if len(code) % 2 else code)[:1600])


_DECLARATION = re.compile(r"\b(fn|class|struct|enum|trait|interface|record|function|impl|type|const)\b|\(")


def braced_functions(source: str, language: str, random: Random) -> Iterator[Pair]:
    """Yield functions and classes of Rust, Java and TypeScript with the first sentence of their comments."""
    lines = source.split("\n")
    place = 0
    while place < len(lines):
        start, comment = place, []
        while place < len(lines) and lines[place].lstrip().startswith(("///", "/**", "*")):
            comment.append(lines[place].strip())
            place += 1
        while comment and place < len(lines) and lines[place].lstrip().startswith(("@", "#[")):
            place += 1
        if not comment:
            place += 1
            continue
        code = _block(lines, place)
        said = re.sub(r"^(///?|/\*\*|\*/?)|\*/$", " ", "\n".join(comment), flags=re.MULTILINE)
        said = re.split(r"\n\s*(?:@\w+|#+ \w|```)", said)[0]
        said = one_line(re.sub(r"\{@\w+ ([^}]*)\}|</?\w+>|[`\[\]]", r" \1", said))
        if len(said) < 15 or len(code) < 60:
            continue
        first = (sentences(said) or [said])[0][:200]
        shown = "\n".join(line.strip() for line in lines[start:place]) + "\n" + code if random.random() < 0.4 else code
        if random.random() < 0.2:
            first = f"{language} {keywords(first, random) or first.lower()}"
        yield Pair(first, shown[:MAX_LETTERS])


def _block(lines: Sequence[str], start: int) -> str:
    """Return a declaration with its body, up to the brace below its first letter, or nothing."""
    if start >= len(lines) or not _DECLARATION.search(lines[start]):
        return ""
    indent = len(lines[start]) - len(lines[start].lstrip())
    for end in range(start + 1, min(len(lines), start + 60)):
        if re.fullmatch(r"\}[;,)]*", lines[end][indent:].rstrip()) and not lines[end][:indent].strip():
            return "\n".join(line[indent:] for line in lines[start : end + 1])
    return ""


_NAMES = [
    "Alice",
    "Ben",
    "Carla",
    "Dmitri",
    "Elena",
    "Farid",
    "Grace",
    "Hiro",
    "Ines",
    "Jonas",
    "Kavya",
    "Liam",
    "Mara",
    "Nils",
    "Olga",
    "Pedro",
    "Quinn",
    "Rosa",
    "Sami",
    "Tara",
    "Umar",
    "Vera",
    "Will",
    "Xenia",
    "Yusuf",
    "Zoe",
    "Anna",
    "Marcus",
    "Priya",
    "Tom",
    "Sofia",
    "Leo",
    "Nina",
    "Oscar",
    "Ruth",
    "Ivan",
    "Clara",
    "Hugo",
    "Maya",
    "Felix",
    "Joanna",
    "Caleb",
]
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def random_date(random: Random) -> str:
    day, month, year = random.randint(1, 28), random.randint(1, 12), random.randint(2018, 2026)
    return random.choice(
        (f"{year}-{month:02}-{day:02}", f"{day} {_MONTHS[month - 1]}, {year}", f"{_MONTHS[month - 1]} {day}, {year}")
    )


def dialogue(turns: Sequence[tuple[str, str]], questions: Sequence[tuple[str, int]], random: Random) -> Iterator[Pair]:
    """Yield a conversation as single turns and as sessions, with what asks for them.

    `questions` are asked of a turn by its index, or of the whole conversation (-1). Speakers get names of ours.
    """
    fresh = random.sample(_NAMES, len(_NAMES))
    names: dict[str, str] = {}
    said: list[str] = []
    for speaker, text in turns:
        name = names.setdefault(speaker, fresh[len(names) % len(fresh)])
        said.append(f"{name}: {one_line(text)}")
    date = random_date(random)
    for question, index in questions:
        asked = question
        for speaker, name in names.items():
            asked = re.sub(rf"\b{re.escape(speaker)}\b", name, asked) if len(speaker) > 2 else asked
        if index >= 0:
            near = said[max(0, index - random.randint(0, 1)) : index + 1]
            yield Pair(asked, "\n".join(near)[:MAX_LETTERS])
        else:
            yield Pair(asked, _session(said, date, random))
    for index, (_, text) in enumerate(turns):
        if len(text) < 30 or random.random() < 0.3:
            continue
        shown = said[index] if random.random() < 0.7 else f"[{date}] {said[index]}"
        yield Pair(_turn_question(turns, said, index, random), shown[:MAX_LETTERS])
    if len(said) > 4:
        yield Pair(keywords(" ".join(text for _, text in turns), random), _session(said, date, random))


def _turn_question(turns: Sequence[tuple[str, str]], said: Sequence[str], index: int, random: Random) -> str:
    shape = random.random()
    if index and shape < (0.6 if "?" in turns[index - 1][1] else 0.25):
        return _asked(turns[index - 1][1])
    name = said[index].partition(":")[0]
    about = keywords(turns[index][1], random)
    if not about:
        return one_line(turns[index][1])[:160]
    forms = (
        "What did {0} say about {1}?",
        "When did {0} talk about {1}?",
        "What does {0} think of {1}?",
        "Who mentioned {1}?",
        "Why does {0} want {1}?",
        "{0} {1}",
        "{1}",
    )
    return random.choice(forms).format(name, about)


def _asked(turn: str) -> str:
    """Return what a turn asks: its last question and what stands before it, or how it begins."""
    said = one_line(turn)
    end = said.rfind("?") + 1
    if not end or len(said) <= 250:
        return said[:250]
    kept = said[max(0, end - 250) : end]
    return kept[kept.find(" ") + 1 :] if end > 250 else kept


def _session(said: Sequence[str], date: str, random: Random) -> str:
    size = random.randint(4, 24)
    start = random.randrange(max(1, len(said) - size + 1))
    head = f"{date}\n" if random.random() < 0.5 else ""
    return (head + "\n".join(said[start : start + size]))[:MAX_LETTERS]


def as_note(passage: str, random: Random) -> str:
    """Return a passage as it lies in an agent's memory: below a date, as a list, among commands, as a session."""
    date = random_date(random)
    said = sentences(passage)[:8]
    shape = random.randrange(6)
    if shape == 0 and len(said) > 1:
        return f"## {date}\n" + "\n".join(f"- {sentence}" for sentence in said)
    if shape == 1 and said:
        return f"- {date}: {said[0]}" + "".join(f"\n  - {sentence}" for sentence in said[1:4])
    if shape == 2:
        return f"### {date} {random.randint(7, 22):02}:{random.randint(0, 59):02}\n\n{passage}"
    if shape == 3 and said:
        command = random.choice(
            ("git commit -am wip", "make test", "pytest -q", "npm run build", "docker compose up -d")
        )
        return f"**User**: {said[0]}\n**Assistant**: {' '.join(said[1:]) or 'Done.'}\n```\n$ {command}\n```"
    if shape == 4 and said:
        return "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(said, 1))
    return f"> {passage}" if len(passage) < 400 else f"# Notes\n\n{passage}"
