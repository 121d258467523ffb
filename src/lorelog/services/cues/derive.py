"""Derives cues from the text of a memory: the commands, files, symbols, errors and days that it names.

Only what stands there is read: code spans, paths and globs, known programs with their literal words, names of code. What a
sentence means is not judged. Of several commands, those directly after "use", "run", "prefer" or "with" are left out: for "use pnpm, not npm" the moment
that matters is the one when `npm` is about to run. For "use pnpm" alone it is a run of another program of the same purpose.
A program whose name is also an everyday word ("make", "just") or a language counts in code only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from lorelog.language import lexicon
from lorelog.light.shell_command import split_command, word_set
from lorelog.services.cues.cue import Cue, read_cues
from lorelog.services.freshness.mentions import Mention, MentionKind, find_mentions

MAX_DERIVED_CUES = 12
MAX_TEXT_CHARS = 4_000
LANGUAGES = word_set("go java ruby python python3 php swift node dart julia lua perl scala elixir crystal nim zig haxe")
"""Programs that are also languages."""
_FAMILY_OF = {name: frozenset(line.split()) for line in lexicon("tool_families") for name in line.split()}
"""Programs that are used in place of each other."""
_SUBCOMMANDS = word_set(
    """
    install i ci add run test build start publish push pull commit rebase reset stash checkout merge clean apply amend cherry-pick
    destroy deploy up down upgrade update init exec rm delete sync migrate prune restore lint format watch dev serve compose
    """
)
"""Words of a command outside of code, after the name of a program."""
_MAX_CODE_WORDS = 8
_MIN_PROSE_SYMBOL, _MIN_CODE_SYMBOL = 7, 5
_NAMED = re.compile(
    r"(?<!`)`([^`\n]{2,120})`(?!`)|(?<![\w`./@:-])([A-Za-z][\w.+-]*[\w+])(?![\w+]|[:/@=]\w)((?: [a-z-][\w-]*)*)"
)
"""A code span, or a word with the words after it."""
_CHOSEN = re.compile(
    r"(?<!never )(?<!n't )(?<!not )(?<!dont )(?<!avoid )(?<!stop )\b(?:use|uses|using|run|runs|prefer|with|to)\s+\Z",
    re.IGNORECASE,
)
_PREFERRED = re.compile(r",?\s+(?:instead of|rather than|over|not|statt)\b", re.IGNORECASE)
_PROGRAM = re.compile(r"(?:\./|[\w.-]+/)*[a-z][a-z0-9+-]*(?:[._][a-z0-9]+)*")
_PLACEHOLDER = re.compile(r"[<\[{$(].*|\.{2,}|…|[A-Z][A-Z_]{2,}|.*[<>{}…\s].*")
_PATTERN = re.compile(
    r"[\w.@-]+/|[\w.@*?/-]*/[\w.@*?/-]*[*?][\w.@*?/-]*|[\w.@*?/-]*[*?][\w.@*?-]*/[\w.@*?/-]*|\*\.[\w.@*?/-]+"
)
"""A folder or a glob in code."""
_FOLDER = re.compile(r"(?<![\w/.@`-])([\w.-]{3,40}/)(?=[\s.,;:)]|$)")
_BROAD_FOLDERS = word_set("src lib app apps packages pkg code source sources dist build and/or")
_DAY = re.compile(r"\b(?:on|from|by|after|starting|until|due)\s+(\d{4}-\d\d-\d\d)\b", re.IGNORECASE)
_ERROR = re.compile(
    r"\b(?:[A-Z][\w.]*(?:Error|Exception|Warning|Fault)|E[A-Z]{4,}|TS\d{4}|E\d{4}|SIG(?:KILL|SEGV|ABRT|TERM))\b"
)


@lru_cache(maxsize=4096)
def derive_cues(text: str) -> tuple[Cue, ...]:
    """Return the cues of a memory's text: commands first, at most `MAX_DERIVED_CUES`."""
    text = text[:MAX_TEXT_CHARS]
    mentions, spans = find_mentions(text), [named[1] for named in _NAMED.finditer(text) if named[1]]
    errors = [name for name in _ERROR.findall(text) if name.rpartition(".")[2] not in lexicon("generic_errors")]
    candidates = [
        *(f"command={command}" for command in _find_commands(text)),
        *(f"path={path}" for path in _find_paths(text, mentions, spans)),
        *(f"error={name.rpartition('.')[2]}" for name in errors),
        *(f"day={day}" for day in _DAY.findall(text)),
        *(f"symbol={symbol}" for symbol in _find_symbols(mentions, " ".join(spans))),
    ]
    return read_cues(candidates)[:MAX_DERIVED_CUES]


def _find_commands(text: str) -> list[str]:
    """Return the commands that a text names; those to use only if there are no others."""
    chosen: dict[str, bool] = {}
    """Commands to use, and whether they stand in code."""
    others: dict[str, None] = {}
    for command, in_code, is_chosen, _ in _named_commands(text):
        if is_chosen:
            chosen[command if in_code else command.partition(" ")[0]] = in_code
        else:
            others[command] = None
    for name, in_code in chosen.items() if not others else ():
        alternatives = sorted(_FAMILY_OF.get(name, frozenset()) - chosen.keys())
        others |= dict.fromkeys(alternatives or ([name] if in_code else []))
    return list(others)


def _named_commands(text: str) -> Iterator[tuple[str, bool, bool, bool]]:
    """Yield each command: its words, whether it stands in code, is to be used, and is what another one is used for."""
    position, instead = 0, -2
    while named := _NAMED.search(text, position):
        words = _code_words(named[1]) if named[1] else _prose_words(named[2], named[3])
        position = named.end() if named[1] else named.end(2)
        before = text[max(0, named.start() - 20) : named.start()].replace("\u2019", "'")
        preferred = _PREFERRED.match(text, position)
        if words:
            is_chosen = bool(_CHOSEN.search(before) or preferred)
            yield " ".join(words), bool(named[1]), is_chosen, named.start() - 1 == instead
            instead = preferred.end() if preferred else -2


def find_choices(text: str) -> tuple[list[str], list[str]]:
    """Return the commands that a text says to use, and those that it names directly as what they replace."""
    named = list(_named_commands(text[:MAX_TEXT_CHARS]))
    return [command for command, _, is_chosen, _ in named if is_chosen], [each[0] for each in named if each[3]]


def _code_words(span: str) -> list[str]:
    """Return the literal words of a command in code, without what follows a placeholder; empty if it is not a command."""
    words = next(iter(split_command(span.strip().removeprefix("$ "))), [])[:_MAX_CODE_WORDS]
    programs = lexicon("programs")
    if not words or not _PROGRAM.fullmatch(words[0]):
        return []
    if words[0] not in programs and (len(words) < 2 or words[0] in lexicon("code_keywords")):
        return []
    end = next((number for number, word in enumerate(words) if number and _PLACEHOLDER.fullmatch(word)), len(words))
    return words[:end]


def _prose_words(word: str, rest: str) -> list[str]:
    """Return a known program and the options and subcommands after it."""
    name = word.lower()
    if name not in lexicon("programs") or name in lexicon("program_words") or name in LANGUAGES:
        return []
    words = [name]
    for following in rest.split():
        if not following.startswith("-") and following not in _SUBCOMMANDS:
            break
        words.append(following)
    return words


def _find_paths(text: str, mentions: Sequence[Mention], spans: Sequence[str]) -> Iterator[str]:
    for mention in mentions:
        path = mention.text
        name = path.rpartition("/")[2]
        if mention.kind is not MentionKind.PATH or path.startswith("../") or name.isdigit():  # Repo.all/1 is a function
            continue
        if "/" in path.strip("/"):
            if path.strip("/") not in _BROAD_FOLDERS and not path.replace("/", "").isdigit():
                yield path
        elif name not in lexicon("broad_files") and _is_file_name(name, text):
            yield name
    patterns = (*_FOLDER.findall(text), *filter(_PATTERN.fullmatch, spans))
    yield from (path for path in patterns if path.rstrip("/") not in _BROAD_FOLDERS)


def _is_file_name(name: str, text: str) -> bool:
    """Return True for a name with a suffix of a file: `pool.py`, but neither `example.com` nor Node.js."""
    stem, _, suffix = name.rpartition(".")
    if not stem:
        return name in ("Makefile", "Dockerfile", "Justfile", "Procfile")
    is_product = name[0].isupper() and suffix == "js" and f"`{name}`" not in text
    return suffix.lower() in lexicon("file_suffixes") and not is_product


def _find_symbols(mentions: Sequence[Mention], code: str) -> Iterator[str]:
    """Yield the names of code that are hardly used by chance."""
    for mention in mentions:
        name, last = mention.text, mention.text.rpartition(".")[2]
        in_code = name in code
        if mention.kind not in (MentionKind.SYMBOL, MentionKind.SETTING) or "-" in name or _ERROR.fullmatch(name):
            continue
        if name in lexicon("product_names") or name in lexicon("common_code_names"):
            continue
        is_joined = "_" in name.strip("_") or re.search(r"[a-z\d][A-Z]", name) is not None
        is_long = len(name) >= (_MIN_CODE_SYMBOL if in_code else _MIN_PROSE_SYMBOL)
        is_distinct = in_code and len(last) >= 3 if "." in name else is_joined and (in_code or name[0].islower())
        if is_distinct and is_long and last not in lexicon("file_suffixes"):
            yield name
