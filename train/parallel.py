"""Gathers what is written in another script beside its English: sections of translated documents, sentences, names, words.

python -m train.parallel --mirrors DIR --out parallel.jsonl.gz [--most 25000]

Each line is `[script, question, passage, English question, English passage]`; what is not known is empty. Two documents are
taken as translations of each other by their paths, and their sections by the levels of their headings.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

from train.passages import one_line, sentences, tidy
from train.repository import Repository

SEED = 31
PASSAGE_LETTERS = 420
"""A passage in the other script, at most; its English may be twice as long."""
LANGUAGES = ("zh", "ja", "ko", "ru", "uk", "ar", "fa", "hi", "th", "el")
_FOREIGN = re.compile(
    r"[\u0370-\u03ff\u0400-\u052f\u0600-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
_ASKS = {
    "zh": ("什么", "哪些", "谁", "多少", "哪里", "为什么", "如何"),
    "ja": ("何", "誰", "どこ", "いつ", "なぜ", "どのように", "どれ"),
    "ko": ("무엇", "누가", "어디", "언제", "왜", "어떻게", "얼마나"),
    "ru": ("Что", "Кто", "Где", "Когда", "Почему", "Как", "Сколько", "Какой"),
    "uk": ("Що", "Хто", "Де", "Коли", "Чому", "Як", "Скільки"),
    "ar": ("ما", "من", "أين", "متى", "لماذا", "كيف", "كم"),
    "fa": ("چه", "کجا", "کی", "چرا", "چگونه", "چند"),
    "hi": ("क्या", "कौन", "कहाँ", "कब", "क्यों", "कैसे", "कितने"),
    "th": ("อะไร", "ใคร", "ที่ไหน", "เมื่อไร", "ทำไม", "อย่างไร"),
    "el": ("Τι", "Ποιος", "Πού", "Πότε", "Γιατί", "Πώς", "Πόσα"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    """A passage in another script with what asks for it, and the same in English."""

    language: str
    question: str
    passage: str
    english_question: str
    english: str


@dataclass(frozen=True, slots=True)
class Texts:
    """Where the texts of a language lie, and where their English is."""

    repository: Repository
    english: Repository
    layout: str


@dataclass(frozen=True, slots=True)
class Source:
    """A public repository that holds the same documents in several languages."""

    repository: str
    licence: str
    read: Callable[[Texts, str, Random], Iterator[Sample]]
    layout: str = ""
    """For documents: where a translation lies, then its English, with {} for the language; otherwise a path or pattern."""
    names: str = ""
    """What the languages are called there, as `zh=zh-cn`, where they are called otherwise."""
    english: str = ""
    """Another repository that holds the English."""


def documents(texts: Texts, language: str, random: Random) -> Iterator[Sample]:
    """Sections of a document whose headings have the same levels as in English, and paragraphs where their number is the same."""
    ours, theirs = texts.layout.split(" ")
    names = [path.removeprefix(ours) for path in texts.repository.paths(f"^{re.escape(ours)}.*\\.mdx?$")]
    random.shuffle(names)
    for start in range(0, len(names), 200):
        some = names[start : start + 200]
        found = dict(texts.repository.texts([ours + name for name in some]))
        english = dict(texts.english.texts([theirs + name for name in some]))
        for name in some:
            if ours + name in found and theirs + name in english:
                yield from aligned(found[ours + name], english[theirs + name], language, random)


def aligned(text: str, english: str, language: str, random: Random) -> Iterator[Sample]:
    ours, theirs = _sections(text), _sections(english)
    if [level for level, _, _ in ours] != [level for level, _, _ in theirs]:
        ours, theirs = ours[:1], theirs[:1]
    title, english_title = _title(text), _title(english)
    for (_, heading, body), (_, english_heading, english_body) in zip(ours, theirs, strict=True):
        asked, english_asked = heading or title, english_heading or english_title
        for passage, told in _parts(body, english_body, random):
            if not _is_translated(passage, told, language):
                continue
            if asked and random.random() < 0.4 and _FOREIGN.search(asked):
                yield Sample(language, asked, passage, english_asked, told)
            else:
                yield Sample(language, question(passage, language, random), passage, "", told)
            asked = english_asked = ""


def _title(text: str) -> str:
    found = re.search(r"\A---\n.*?^title:\s*(.+?)$.*?^---", text, re.DOTALL | re.MULTILINE)
    return found[1].strip("'\" ") if found else ""


def _sections(text: str) -> list[tuple[int, str, str]]:
    """Return level, heading and body of each section, without code."""
    text = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->", "", text.replace("\r", ""), flags=re.DOTALL)
    text = re.sub(r"^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for part in re.split(r"^(?=#{1,5} )", text, flags=re.MULTILINE):
        first, _, rest = part.partition("\n")
        level = len(first) - len(first.lstrip("#")) if first.startswith("#") else 0
        heading = one_line(re.sub(r"\{#.*?\}|[`*#]|\{\{.*?\}\}", "", tidy(first))) if level else ""
        found.append((level, heading, rest if level else part))
    return found


def _parts(body: str, english: str, random: Random) -> Iterator[tuple[str, str]]:
    """Yield passages that belong together: neighbouring paragraphs if both have as many, else how both begin."""
    ours, theirs = ([one_line(part) for part in tidy(_plain(text)).split("\n\n")] for text in (body, english))
    if len(ours) != len(theirs):
        if ours and theirs:
            yield " ".join(ours)[:PASSAGE_LETTERS], " ".join(theirs)[: 2 * PASSAGE_LETTERS]
        return
    place = 0
    while place < len(ours):
        target, end = random.choice((80, 160, 320)), place + 1
        while end < len(ours) and sum(map(len, ours[place:end])) < target:
            end += 1
        yield " ".join(ours[place:end])[:PASSAGE_LETTERS], " ".join(theirs[place:end])[: 2 * PASSAGE_LETTERS]
        place = end


def _plain(text: str) -> str:
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|^[>|].*$|https?://\S+", " ", text, flags=re.MULTILINE)
    return re.sub(r"[*_]{2,}|^\s*(?:[-*+]|\d+\.)\s+", "", text, flags=re.MULTILINE)


def _is_translated(passage: str, english: str, language: str) -> bool:
    letters = len(_FOREIGN.findall(passage))
    dense = language in {"zh", "ja", "ko"}
    ratio = len(english) / max(1, len(passage))
    low, high = (1.1, 6.0) if dense else (0.6, 1.8)
    return letters > max(12, len(passage) / 3) and not len(_FOREIGN.findall(english)) and low < ratio < high


def question(passage: str, language: str, random: Random) -> str:
    """Return a question made of one sentence of a passage: a part of it is asked for or left out."""
    said = [part for part in sentences(passage.replace("।", "。")) if 8 < len(part) < 200] or [passage[:120]]
    sentence = random.choice(said)
    asks = random.choice(_ASKS[language])
    if language in {"zh", "ja", "th"}:
        start, length = random.randrange(len(sentence)), random.randint(2, max(2, len(sentence) // 3))
        kept = f"{sentence[:start]}{asks}{sentence[start + length :]}"
        return kept.rstrip("。！；，、") + "？"
    words = sentence.rstrip(".!?。").split()
    kept_words = sorted(random.sample(range(len(words)), max(1, len(words) * 3 // 5)))
    return f"{asks} {' '.join(words[place] for place in kept_words)}?"


def lines(texts: Texts, language: str, random: Random) -> Iterator[Sample]:
    """Files in which a line is the translation of the same line of another; neighbouring lines are one passage."""
    ours, theirs, most = texts.layout.split(" ")
    found = dict(texts.repository.texts([ours, theirs]))
    if len(found) < 2:
        return
    pairs = list(zip(found[ours].splitlines(), found[theirs].splitlines(), strict=False))
    start = 0
    while start < len(pairs):
        some = pairs[start : start + random.randint(1, int(most))]
        passage, told = (" ".join(map(one_line, side)) for side in zip(*some, strict=True))
        yield Sample(
            language, question(passage, language, random), passage[:PASSAGE_LETTERS], "", told[: 2 * PASSAGE_LETTERS]
        )
        start += len(some)


def names(texts: Texts, language: str, _: Random) -> Iterator[Sample]:
    """CLDR: countries, languages, cities and the names and keywords of symbols, by their key."""
    for folder in texts.layout.split(" "):
        ours, theirs = (_named(texts.repository, f"{folder}/{which}.xml") for which in (language, "en"))
        for key, name in ours.items():
            if key in theirs and _FOREIGN.search(name):
                yield Sample(
                    language, name.partition(" | ")[0], name.replace(" | ", ", "), "", theirs[key].replace(" | ", ", ")
                )


def _named(repository: Repository, path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for _, text in repository.texts([path]):
        for node in ET.fromstring(text).iter():
            key = node.get("cp") or node.get("type")
            if node.tag in {"annotation", "language", "territory", "zone"} and key:
                name = one_line(node.text or "".join(city.text or "" for city in node.iter("exemplarCity")))
                if name and not node.get("alt"):
                    found.setdefault(f"{node.tag} {node.get('cp') and node.get('type')} {key}", name)
    return found


def words(texts: Texts, language: str, random: Random) -> Iterator[Sample]:
    """Wordnets by synset: the words of a language and those of English."""
    code = {"zh": "cmn", "ja": "jpn", "ko": "kor", "ru": "rus", "ar": "arb", "fa": "pes", "hi": "hin", "th": "tha",
            "el": "ell", "uk": "ukr"}[language]  # fmt: skip
    paths = texts.repository.paths(rf"^wns/(cow|arb|fas|ell|tha|wikt|cldr)/wn-(data|nodia|wikt|cldr)-{code}\.tab$")
    ours, theirs = _lemmas(texts.repository, paths), _lemmas(texts.repository, [texts.layout])
    both = [synset for synset in ours if synset in theirs]
    random.shuffle(both)
    for synset in both:
        passage, told = ", ".join(ours[synset][:3]), ", ".join(theirs[synset][:3])
        if _FOREIGN.search(passage):
            yield Sample(language, ours[synset][-1], passage, theirs[synset][-1], told)


def _lemmas(repository: Repository, paths: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for _, text in repository.texts(list(paths)):
        for line in text.split("\n"):
            parts = line.split("\t")
            if len(parts) > 2 and parts[1].endswith("lemma"):
                known = found.setdefault(parts[0], [])
                word = one_line(parts[2].replace("_", " ").replace("+", ""))
                if word not in known:
                    known.append(word)
    return found


def answers(texts: Texts, language: str, _: Random) -> Iterator[Sample]:
    """Paragraphs of Wikipedia, and what people asked of them: no English is known."""
    written_in, pattern = texts.layout.split(" ")
    if language != written_in:
        return
    for path, text in texts.repository.texts(texts.repository.paths(pattern)):
        for asked, told in _asked_lines(text) if path.endswith(".jsonl") else _asked(json.loads(text)):
            yield Sample(
                language, asked, told.partition(" [SEP] ")[2][:PASSAGE_LETTERS] or told[:PASSAGE_LETTERS], "", ""
            )


def _asked(whole: Any) -> Iterator[tuple[str, str]]:
    for paragraph in (paragraph for entry in whole["data"] for paragraph in entry["paragraphs"]):
        for item in paragraph["qas"]:
            yield item["question"], paragraph["context"]


def _asked_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        item = json.loads(line)
        yield item["question"], item["context"]


_BEGINNERS = "translations/{}/ "
_BEGINNERS_NAMES = "zh=zh-CN"
_NEWS = "NTREX-128/newstest2019-"
_NEWS_NAMES = "zh=zho-CN ja=jpn ko=kor ru=rus uk=ukr ar=arb fa=fas hi=hin th=tha el=ell"
_SENTENCES = "data/tatoeba/v1/tatoeba.{}-eng."
_SENTENCES_NAMES = "zh=cmn ja=jpn ko=kor ru=rus uk=ukr ar=ara fa=pes hi=hin th=tha el=ell"
SOURCES = (
    Source("mdn/translated-content", "CC-BY-SA-2.5", documents, "files/{}/ files/en-us/", "zh=zh-cn", "mdn/content"),
    Source("kubernetes/website", "CC-BY-4.0", documents, "content/{}/ content/en/", "zh=zh-cn"),
    Source("ethereum/ethereum-org-website", "MIT", documents, "public/content/translations/{}/ public/content/"),
    Source("microsoft/AI-For-Beginners", "MIT", documents, _BEGINNERS, _BEGINNERS_NAMES),
    Source("microsoft/Data-Science-For-Beginners", "MIT", documents, _BEGINNERS, _BEGINNERS_NAMES),
    Source("microsoft/Web-Dev-For-Beginners", "MIT", documents, _BEGINNERS, _BEGINNERS_NAMES),
    Source("microsoft/ai-agents-for-beginners", "MIT", documents, _BEGINNERS, _BEGINNERS_NAMES),
    Source("microsoft/IoT-For-Beginners", "MIT", documents, _BEGINNERS),
    Source("fastapi/fastapi", "MIT", documents, "docs/{}/docs/ docs/en/docs/"),
    Source("huggingface/course", "Apache-2.0", documents, "chapters/{}/ chapters/en/", "zh=zh-CN"),
    Source("huggingface/transformers", "Apache-2.0", documents, "docs/source/{}/ docs/source/en/"),
    Source("MicrosoftTranslator/NTREX", "CC-BY-SA-4.0", lines, f"{_NEWS}ref.{{}}.txt {_NEWS}src.eng.txt 3", _NEWS_NAMES),
    Source("facebookresearch/LASER", "CC-BY-2.0", lines, f"{_SENTENCES}{{}} {_SENTENCES}eng 1", _SENTENCES_NAMES),
    Source("unicode-org/cldr", "Unicode-3.0", names, "common/main common/annotations"),
    Source("omwn/omw-data", "CC-BY-SA-4.0", words, "wns/wikt/wn-wikt-eng.tab"),
    Source("DRCKnowledgeTeam/DRCD", "CC-BY-SA-3.0", answers, r"zh ^DRCD_(dev|test)\.json$"),
    Source("yahoojapan/JGLUE", "CC-BY-SA-4.0", answers, r"ja ^datasets/jsquad-v1.3/(valid|test)"),
    Source("husseinmozannar/SOQAL", "MIT", answers, r"ar ^data/arcd\.json$"),
    Source("iapp-technology/iapp-wiki-qa-dataset", "MIT", answers, r"th ^squad_format/data/test\.jsonl$"),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.parallel", description="Gathers text beside its English.")
    parser.add_argument("--mirrors", type=Path, required=True, metavar="DIR", help="clones, as owner+name below it")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=".jsonl.gz")
    parser.add_argument("--most", type=int, default=6_000, help="of each source and language")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    gathered: list[str] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        tasks = [(place, language, args.mirrors, args.most) for place in range(len(SOURCES)) for language in LANGUAGES]
        for (place, language, _, _), found in zip(tasks, pool.map(_gather, tasks), strict=True):
            print(f"{SOURCES[place].repository} {language}: {len(found)}", flush=True)
            gathered += found
    Random(SEED).shuffle(gathered)
    with gzip.open(args.out, "wt", encoding="utf-8", compresslevel=6) as out:
        out.writelines(f"{line}\n" for line in gathered)
    return 0


def _gather(task: tuple[int, str, Path, int]) -> list[str]:
    place, language, mirrors, most = task
    source = SOURCES[place]
    repository = Repository.find(mirrors, source.repository)
    if repository is None:
        return []
    english = Repository.find(mirrors, source.english or source.repository)
    if english is None:
        return []
    called = dict(part.split("=") for part in source.names.split())
    layout = source.layout
    if source.read in {documents, lines}:
        layout = layout.replace("{}", called.get(language, language))
    random, seen, found = Random(f"{SEED} {place} {language}"), set[tuple[str, str]](), list[str]()
    for sample in source.read(Texts(repository, english, layout), language, random):
        key = (sample.passage, "" if sample.english else sample.question)
        if key in seen:
            continue
        seen.add(key)
        found.append(
            json.dumps(
                [language, sample.question, sample.passage, sample.english_question, sample.english], ensure_ascii=False
            )
        )
        if len(found) >= most:
            break
    return found


if __name__ == "__main__":
    sys.exit(main())
