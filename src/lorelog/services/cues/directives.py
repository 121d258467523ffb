"""Directives in a text: the commands that it says not to run, and the programs that it says to use.

"never run `X`", "use X, not Y", "switch from Y to X", "X statt Y". A command in code may be any program: its first word
must look like one. A bare word counts only if it is a known program, and if its name is also an everyday word ("make",
"just"), only beside another program or after a verb of running. All words of a command in code are kept: a rule about
`php artisan migrate:fresh` is not about `php -l`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from lorelog.language.lexicon import lexicon
from lorelog.light.shell_command import split_command, word_set

TOOL_FAMILIES = tuple(frozenset(line.split()) for line in lexicon("tool_families"))
"""Programs that are used in place of each other."""
PROGRAMS = lexicon("programs")
"""Programs that a bare word names where a text says to avoid it."""
LANGUAGES = word_set("go java ruby python python3 php swift node dart julia lua perl scala elixir crystal nim zig haxe")
"""Programs that are also languages: "never use python for scripts" is about code, too."""
EVERYDAY_WORDS = lexicon("program_words")
"""Programs whose names are also words: outside of code they need a program to compare with, or a verb of running."""
_MAX_CODE_WORDS, _MAX_BARE_WORDS = 8, 4
_FLAGS = re.IGNORECASE
FAMILY_OF = {name: family for family in TOOL_FAMILIES for name in family}
SPAN = re.compile(r"(?<!`)`([^`\n]{2,120})`(?!`)")
_RUN_VERB = (
    r"(?:run|running|execute|executing|invoke|invoking|start|starting|launch|launching|type|typing|trigger|triggering)"
)
_USE_VERB = r"(?:use|using|call|calling|do|doing|try|trying|rely on|relying on|reach for|go back to|suggest|suggesting)"
_LEAD = re.compile(
    r"(?<![\w'-])(?P<lead>"
    r"(?P<contrast>instead of|rather than|in place of|as opposed to|over|replaces|replacing|(?:and|but|und) not|not|statt|anstatt|"
    r"anstelle von|anstelle|(?:und )?nicht|away from|(?:switch|migrat|mov|chang|convert)\w*(?: \w+){0,2}? from|replaced?|"
    r"(?:wechsel|umstell)\w* von)"
    r"|don['\u2019]?t|do not|never|stop|avoid|no more|not to|must not|mustn['\u2019]t|should not|shouldn['\u2019]t|cannot|can['\u2019]t|"
    r"may not|refrain from|no longer|without|no|niemals|nie(?: wieder| mehr)?|keine?n?|ohne)"
    r"\s+(?:(?:ever|please|just|again|directly|simply|bitte|einfach|mehr)\s+(?!`))*"
    rf"(?:(?P<run>{_RUN_VERB})\s+|(?P<use>{_USE_VERB})\s+)?(?:(?:the|any|a|an|your|our|das|den|die)\s+)?(?:command\s+)?",
    _FLAGS,
)
_BARE = re.compile(r"(?:\./)?[a-z][a-z0-9_.+-]*(?: (?:-{1,2}[A-Za-z][\w-]*|[a-z][\w:.@/-]*)){0,4}", _FLAGS)
_BANNED = re.compile(
    r"\s+(?:(?:is|are|ist|sind) (?:banned|forbidden|prohibited|not allowed|disallowed|off[ -]limits|deprecated|gone|dead|verboten|tabu)\b"
    r"|(?:must|should|may|shall) (?:not|never) be (?:used|run|called|executed)\b|(?:darf|soll|sollte) nicht\b"
    r"|nicht (?:mehr )?(?:benutzen|verwenden|nutzen|ausführen|aufrufen|starten|laufen lassen)\b)",
    _FLAGS,
)
_CHOSEN_LEAD = re.compile(
    r"\b(?:use|uses|using|run|runs|running|prefer|with|via|call|execute|through|by|to|verwende|nimm|benutze?|nutze?|mit)\s+\Z",
    _FLAGS,
)
_CHOOSE = re.compile(
    r"\b(?:use|uses|using|prefer|switch(?:ed)? to|migrated? to|moved? to|verwende|nimm|benutze?|nutze?)\s+`?([a-z][a-z0-9_.-]*)`?(?![\w-])",
    _FLAGS,
)
_CLAUSE_END = re.compile(
    r"`?\s*(?:\Z|[.,;:!?)\n\u2013\u2014]|-\s|(?:for|in|here|to|when|as|on|at|any ?more|again|please|any|but|and|because|since|so|unless|until|without|directly|is|it|we|mehr|verwenden|benutzen|nutzen|nehmen|ausf\u00fchren|von|zu|f\u00fcr)\b)",
    _FLAGS,
)
_PROGRAM = re.compile(r"(?:\./|[\w.-]+/)*[a-z][a-z0-9+-]*(?:[._][a-z0-9]+)*|[A-Z][a-z]+[a-z0-9-]*")
_PLACEHOLDER = re.compile(r"[<\[{$(].*|\.{2,}|\u2026|[A-Z][A-Z_]{2,}|.*[<>{}\u2026\s].*")
_WORD_BEFORE = re.compile(r"([\w./+-]+)`?[\s,;:]*\Z")
_TO_PARTNER = re.compile(r"`?\s+(?:to|with|by|by using|zu|auf|durch)\s+`?([a-z][\w.+-]*)", _FLAGS)
_GIT_VERBS = re.compile(
    r"\b(?:don['\u2019]?t|do not|never|stop|avoid|no more|must not|should not|niemals|nie)\s+(?:(?:ever|please|just|again)\s+)*"
    r"(?P<verb>force[- ]push(?:ing)?|push(?:ing)?|rebas(?:e|ing)|cherry-pick(?:ing)?|amend(?:ing)?|stash(?:ing)?)"
    r"(?=\s*(?:\Z|[.,;:!?]|(?:to|directly|straight|without|until|unless|anything|yet|before|on|origin|main|master|commits?|the branch)\b))",
    _FLAGS,
)
_GIT_COMMANDS = {
    "force": "git push --force", "push": "git push", "rebas": "git rebase", "cherry": "git cherry-pick", "amend": "git commit --amend",
    "stash": "git stash",
}  # fmt: skip
_ORDERS = frozenset({"don't", "dont", "do not", "never", "must not", "should not", "niemals"})
_KEYWORDS = lexicon("code_keywords")
"""First words of code that are not programs."""
_GENERIC_NOUNS = word_set(
    "file files code changes test tests command commands locally manually yourself anymore statt verwenden benutzen nutzen ausführen"
)
_SUBCOMMANDS = word_set("get set go up out off new put use make stop next last first own like keep let say t d m")
"""Function words that are also arguments: `docker compose up`, `go get`."""


class _Term(Struct, frozen=True):
    """A command that a text names."""

    words: tuple[str, ...]
    in_code: bool
    end: int


def avoided_commands(text: str) -> tuple[str, ...]:
    """Return the commands that a text says not to run."""
    named = {words[0] for span in SPAN.findall(text) if (words := code_words(span)) and len(words) > 1}
    found = [*_after_leads(text, named), *_before_bans(text, named)]
    found += [
        command
        for match in _GIT_VERBS.finditer(text)
        for start, command in _GIT_COMMANDS.items()
        if match["verb"].lower().startswith(start)
    ]
    return tuple(dict.fromkeys(found))


def chosen_programs(text: str) -> tuple[str, ...]:
    """Return the programs of a known purpose that a text says to use."""
    avoided = {command.split()[0] for command in avoided_commands(text)}
    names = (match[1].lower().rstrip(".") for match in _CHOOSE.finditer(text))
    return tuple(dict.fromkeys(name for name in names if name in FAMILY_OF and name not in avoided))


def command_cues(text: str, *, is_complete: bool) -> Iterator[str]:
    """Yield the commands whose run a text is about.

    These are the commands to avoid, the programs in whose place others are chosen, and commands in code. A command that the
    text tells to run counts only if nothing else says when the text matters (not `is_complete`): running it is right.
    """
    avoided = avoided_commands(text)
    for command in avoided:
        yield command
        if command.endswith(" --force") and command.startswith("git "):
            yield command.removesuffix("--force") + "-f"
    chosen = chosen_programs(text)
    named = {command.split()[0] for command in avoided}
    for name in chosen:
        if not named & FAMILY_OF[name]:
            yield from sorted(FAMILY_OF[name] - set(chosen))
    for match in SPAN.finditer(text):
        words = code_words(match[1])
        is_known = len(words) > 1 and words[0].removeprefix("./") in PROGRAMS
        if is_known and not ((avoided or is_complete) and _is_chosen(text, match)):
            yield " ".join(words)


def code_words(span: str) -> tuple[str, ...]:
    """Return the literal words of a command in code, without what follows a placeholder; empty if it is not a command."""
    span = span.strip().removeprefix("$ ")
    if span.startswith("-") or "\n" in span:
        return ()
    words = next(iter(split_command(span)), [])[:_MAX_CODE_WORDS]
    if not words or not _PROGRAM.fullmatch(words[0]) or (words[0] in _KEYWORDS and words[0] not in PROGRAMS):
        return ()
    if words[0][0].isupper() and len(words) < 2:
        return ()
    kept = [words[0]]
    for word in words[1:]:
        if _PLACEHOLDER.fullmatch(word):
            break
        kept.append(word)
    return tuple(kept)


def _is_chosen(text: str, span: re.Match[str]) -> bool:
    """Return True if a text tells to run the command in code, or prefers it to another."""
    after = _LEAD.match(text, len(text[: span.end()]) + len(text[span.end() :]) - len(text[span.end() :].lstrip(" ,;")))
    return bool(_CHOSEN_LEAD.search(text[max(0, span.start() - 30) : span.start()])) or bool(
        after and after["contrast"]
    )


def _after_leads(text: str, named: set[str]) -> Iterator[str]:
    for lead in _LEAD.finditer(text):
        term = _read_term(text, lead.end())
        if term is None:
            continue
        partner = _WORD_BEFORE.search(text, max(0, lead.start() - 60), lead.start()) if lead["contrast"] else None
        after = _TO_PARTNER.match(text, term.end) if lead["contrast"] else None
        is_beside_program = any(found and found[1].lower() in PROGRAMS | named for found in (partner, after))
        if lead["lead"].lower().startswith("replace") and not (after or lead["lead"].lower() == "replaces"):
            continue
        if _is_plausible(text, term, lead, is_known=is_beside_program, named=named):
            yield " ".join(term.words)


def _before_bans(text: str, named: set[str]) -> Iterator[str]:
    for ban in _BANNED.finditer(text):
        before = text[max(0, ban.start() - 120) : ban.start()]
        span = re.search(r"`([^`\n]{2,120})`\Z", before)
        bare = re.search(r"(?<![\w`.-])([a-z][a-z0-9+-]+)\Z", before)
        if span:
            words = code_words(span[1])
            if len(words) > 1 or (words and words[0] in PROGRAMS):
                yield " ".join(words)
        elif bare and bare[1] in (PROGRAMS - EVERYDAY_WORDS - LANGUAGES) | named:
            yield bare[1]


def _read_term(text: str, position: int) -> _Term | None:
    span = SPAN.match(text, position)
    if span:
        words = code_words(span[1])
        return _Term(words, in_code=True, end=span.end()) if words else None
    bare = _BARE.match(text, position)
    if not bare:
        return None
    end = position
    kept: list[str] = []
    for word in bare[0].split(" "):
        plain = word.rstrip(".,")
        if len(kept) == _MAX_BARE_WORDS or (kept and _ends_command(plain.lower())):
            break
        end += len(plain) + bool(kept)
        kept.append(plain if kept else plain.lower())
        if plain != word:
            break
    if text[end : end + 1] in (":", "/", "@", "=") and text[end + 1 : end + 2].isalnum():  # git:app is a name
        return None
    return _Term(tuple(kept), in_code=False, end=end)


def _ends_command(word: str) -> bool:
    is_prose = word in lexicon("function_words") and word not in _SUBCOMMANDS
    return is_prose or word in _GENERIC_NOUNS or word in PROGRAMS


def _is_plausible(text: str, term: _Term, lead: re.Match[str], *, is_known: bool, named: set[str]) -> bool:
    """Return True if a term after words of prohibition or contrast is a command."""
    program = term.words[0].removeprefix("./")
    if term.in_code:
        return len(term.words) > 1 or program in PROGRAMS | named or bool(lead["run"]) or is_known
    if program not in PROGRAMS and program not in named:
        return False
    if program in named and program not in PROGRAMS:
        return True
    ends_clause = bool(_CLAUSE_END.match(text, term.end))
    if program in LANGUAGES:
        return bool(lead["run"]) or (is_known and ends_clause)
    if program in EVERYDAY_WORDS:
        return (is_known or bool(lead["run"] or lead["use"])) and ends_clause
    is_order = lead["lead"].lower().replace("\u2019", "'") in _ORDERS  # "don't npm install anything"
    return ends_clause or bool(lead["run"] or lead["use"]) or (is_order and len(term.words) > 1)
