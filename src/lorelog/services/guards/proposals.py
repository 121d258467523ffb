"""Candidates for guards, derived from what the user corrected. Rules only, without a model; precision before recall.

A sentence becomes a candidate if it forbids something that a tool call shows: a command ("use pnpm, not npm"), a file
("don't edit migrations/") or a text ("no default exports"). A sentence with a condition ("don't commit without asking")
does not, because a pattern cannot check the condition. Only the user switches a candidate on.

Only memories that were written on this machine count. What came with a repository, an import or a tool never becomes
a guard.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from lorelog.language.sentences import split_sentences
from lorelog.light.delivery_files import read_standing
from lorelog.light.guard_check import PERSON, CallView
from lorelog.light.shell_command import word_set
from lorelog.services.cues.directives import PROGRAMS, avoided_commands, chosen_programs
from lorelog.services.guards.guard_log import (
    MAX_MESSAGE_CHARS,
    Guard,
    GuardConditions,
    GuardDraft,
    guard_from_draft,
    guard_id,
)
from lorelog.services.guards.replay import PastCall

_TYPES = frozenset({"correction", "preference"})
_MAX_TEXT_CHARS = 600
"""Longer texts are descriptions rather than corrections."""


class StandingRule(Struct, frozen=True, kw_only=True):
    """A memory as the file of standing memories has it."""

    id: str
    type: str
    text: str
    date: str
    origin: str
    own: bool
    """True if it was written on this machine; False if it came with a repository or an import."""
    project: str

    @property
    def may_become_guard(self) -> bool:
        """False for text that is not the user's own word."""
        return self.own and self.origin in {"", "user"}


class GuardProposal(GuardConditions, frozen=True, kw_only=True):
    """A guard that a correction suggests."""

    id: str
    """The id that the guard will have."""
    example: str
    """A call that it would match."""
    correction: str
    memory: str
    date: str
    project: str
    created_by: str = PERSON

    def as_guard(self) -> Guard:
        """Return the guard that it suggests, which warns. A proposal is the user's own words."""
        text = " ".join(self.correction.split())
        draft = GuardDraft(
            **{name: getattr(self, name) for name in GuardConditions.__struct_fields__},
            message=text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…",
            memory=self.memory,
            project=self.project,
        )
        return guard_from_draft(draft, PERSON)


def read_standing_memories(files: Sequence[str], project: str) -> list[StandingRule]:
    """Return the memories of the project's file and of the global one, newest first; unreadable lines are skipped."""
    memories: list[StandingRule] = []
    for file, owner in zip(files, (project, ""), strict=True):
        for entry in read_standing((file,)):
            texts = {name: str(entry.get(name) or "") for name in ("id", "type", "text", "date", "origin")}
            memories.append(StandingRule(**texts, own=entry.get("own") is True, project=owner))
    return sorted(memories, key=lambda memory: memory.date, reverse=True)


def propose_guards(memories: Iterable[StandingRule], known: frozenset[str]) -> list[GuardProposal]:
    """Return proposals, newest correction first, without those whose guards exist already (`known` ids).

    A newer correction wins: what it recommends is not forbidden by an older one.
    """
    proposals: dict[str, GuardProposal] = {}
    recommended: set[str] = set()
    for memory in memories:
        if memory.type not in _TYPES or not memory.may_become_guard or len(memory.text) > _MAX_TEXT_CHARS:
            continue
        for candidate in derive_candidates(memory.text):
            if candidate.conditions.command.partition(" ")[0] in recommended:
                continue
            proposal = _make_proposal(memory, candidate)
            if proposal.id not in known and _matches_example(candidate):
                proposals.setdefault(proposal.id, proposal)
        recommended |= set(chosen_programs(memory.text))
    return list(proposals.values())


class GuardCandidate(Struct, frozen=True):
    """Conditions that a sentence suggests, and a call that they match."""

    conditions: GuardConditions
    example: PastCall


def _make_proposal(memory: StandingRule, candidate: GuardCandidate) -> GuardProposal:
    example = candidate.example
    return GuardProposal(
        **asdict(candidate.conditions),
        id=guard_id(memory.project, candidate.conditions),
        example=example.command or f"{' '.join(example.paths)}: {example.content}".rstrip(": "),
        correction=memory.text,
        memory=memory.id,
        date=memory.date,
        project=memory.project,
    )


def _matches_example(candidate: GuardCandidate) -> bool:
    guard = guard_from_draft(GuardDraft(**asdict(candidate.conditions), message=""), PERSON)
    return CallView(candidate.example.as_fields(), "/project").matches(guard.as_fields())


# -- sentences -------------------------------------------------------------------------------------------------------

_SUBCOMMANDS = word_set(
    """
    install i ci add run test tests build start publish push pull commit rebase reset stash checkout merge clean apply
    destroy deploy up down upgrade update init exec rm delete sync migrate prune restore lint format watch dev serve
    """
)
_FORBID = (
    r"(?:(?:please\s+)?(?:don't|dont|don’t|do not|never|must not|mustn't|should not|shouldn't|may not|can't)\s+(?:ever\s+)?"
    r"(?:want\s+(?:you\s+)?to\s+)?|stop\s+|no\s+more\s+|avoid\s+)"
)
_EDIT = re.compile(
    rf"\b{_FORBID}(?:touch|edit|modify|change|delete|remove|rewrite|overwrite|move|rename|write\s+to)(?:ing)?\s+"
    r"(?:anything\s+(?:in|under|below)\s+|(?:any\s+)?files?\s+(?:in|under|below)\s+)?(?:the\s+|my\s+|our\s+)?"
    r"(?:`([^`\n]{2,80})`|([~\w@./*-]+))(\s+(?:folder|directory|dir|file|files))?",
    re.IGNORECASE,
)
_WRITE = re.compile(
    rf"\b(?:{_FORBID}(?:use|using|add|adding|write|writing|leave|leaving|put|insert|introduce)|no(?:\s+more)?)\s+"
    r"(?:any\s+|the\s+|new\s+)?(?:`([^`\n]{2,60})`|([@#\w][\w.@(): -]{1,40}))",
    re.IGNORECASE,
)
_GIT_VERB = re.compile(
    rf"\b{_FORBID}(?P<verb>commit|push)(?:t?ing)?\b(?:\s+(?:directly\s+|straight\s+)?(?:to|on|onto)\s+(?:the\s+)?`?(?P<branch>[\w/-]+)`?)?",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:without|unless|until|till|before|after|when|while|if|except|except\s+for|only|yet|but|for\s+now|this\s+time|"
    r"for\s+(?!(?:this|the|our)\s+(?:project|repo|repository|codebase)\b)\w+|right\s+now|at\s+once|at\s+the\s+same\s+time|proactively|too\s+much|so\s+much|too\s+many)\b",
    re.IGNORECASE,
)
_HARMLESS_REST = re.compile(
    r"\s*(?:$|[,:)—–-]|\b(?:please|here|anymore|any\s+more|again|ever|at\s+all|because|since|as|it|they|that|this|we|i|you|and|in\s+(?:this|the|our)\s+"
    r"(?:repo|repository|project|codebase|code\s+base|code)|in\s+(?:production|commits?)|for\s+(?:this|the)\s+project)\b)",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"^\s*(?:why|should|could|would|can|what|how|do|does|did|is|are)\b", re.IGNORECASE)
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")
_SCRIPT_FILES = ("*.ts", "*.tsx", "*.js", "*.jsx", "*.mjs", "*.cjs", "*.vue", "*.svelte")
_CODE_FILES = (
    *_SCRIPT_FILES,
    "*.py",
    "*.go",
    "*.rs",
    "*.java",
    "*.kt",
    "*.rb",
    "*.php",
    "*.cs",
    "*.swift",
    "*.c",
    "*.cpp",
)
_KNOWN_TEXTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"console\.logs?\b", "console.log(", _SCRIPT_FILES),
    (r"default exports?\b|export default\b", "export default", _SCRIPT_FILES),
    (r"@ts-ignore\b", "@ts-ignore", _SCRIPT_FILES),
    (r"@ts-nocheck\b", "@ts-nocheck", _SCRIPT_FILES),
    (r"eslint-disable\b", "eslint-disable", _SCRIPT_FILES),
    (r"any types?\b|(?:the )?type any\b|(?:the )?`any` type\b", ": any", ("*.ts", "*.tsx")),
    (r"debugger statements?\b", "debugger;", _SCRIPT_FILES),
    (r"inline styles?\b", "style={", ("*.tsx", "*.jsx")),
    (r"print statements?\b|print\(\)|prints\b", "print(", ("*.py",)),
    (r"(?:# ?)?type: ?ignore\b", "type: ignore", ("*.py",)),
    (r"(?:# ?)?noqa\b", "noqa", ("*.py",)),
    (r"breakpoint\(\)", "breakpoint(", ("*.py",)),
    (r"unwrap\(\)", ".unwrap()", ("*.rs",)),
    (r"fmt\.println\b", "fmt.Println(", ("*.go",)),
    (r"system\.out\.println\b", "System.out.println(", ("*.java", "*.kt")),
    (r"thread\.sleep\b", "Thread.sleep(", ("*.java", "*.kt")),
)
_CODE_SIGNS = frozenset("(.@:_")
_NO_BRANCHES = frozenset(("it", "this", "that", "git", "github", "remote", "me"))


def derive_candidates(text: str) -> list[GuardCandidate]:
    """Return the candidates of a correction; none for sentences with a condition, and for questions."""
    found: dict[GuardConditions, GuardCandidate] = {}
    for whole in split_sentences(text.replace("; ", "\n")):
        sentence = whole.rstrip(".!; ")
        is_question = _QUESTION.match(sentence) and not sentence.lower().startswith("do not")
        if is_question or "?" in sentence or _CONDITION.search(re.sub(r"`[^`]*`", "x", sentence)):
            continue
        for candidate in (*_forbidden_commands(sentence), *_protected_files(sentence), *_forbidden_texts(sentence)):
            found.setdefault(candidate.conditions, candidate)
    return list(found.values())


def _forbidden_commands(sentence: str) -> Iterator[GuardCandidate]:
    """Yield the commands that a sentence says not to run: a known program, its verb and options."""
    verbs = set()
    for match in _GIT_VERB.finditer(sentence):
        verb, branch = match["verb"].lower(), match["branch"] or ""
        if not _HARMLESS_REST.match(sentence[match.end() :]) or branch.lower() in _NO_BRANCHES:
            continue
        verbs.add(verb)
        if branch:
            yield _run_candidate(f"git push *{branch} *", f"git push origin {branch}")
        elif not re.match(r"\s+(?:it|this|that)\b", sentence[match.end() :]):
            yield _run_candidate(f"git {verb} *", "git push" if verb == "push" else "git commit -m fix")
    for command in avoided_commands(sentence):
        words = command.split()
        is_verb = len(words) < 2 or words[1].startswith("-") or words[1] in _SUBCOMMANDS or f"`{command}`" in sentence
        is_said = words[:1] == ["git"] and words[-1] in verbs
        if words[0] not in PROGRAMS or not is_verb or is_said or any(mark in command for mark in "|;&<>$\"'"):
            continue
        position = sentence.lower().rfind(words[-1].lower())
        if position >= 0 and not _HARMLESS_REST.match(sentence[position + len(words[-1]) :].lstrip("`")):
            continue
        first_option = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
        stem, options = " ".join(words[:first_option]), words[first_option:]
        example = f"{stem} install" if stem in {"npm", "yarn", "pnpm", "pip"} else command
        yield _run_candidate(f"{stem} *" + "".join(f"{option} *" for option in options), example)


def _run_candidate(pattern: str, example: str) -> GuardCandidate:
    return GuardCandidate(GuardConditions(command=pattern), PastCall(tool="Bash", kind="run", command=example))


def _protected_files(sentence: str) -> Iterator[GuardCandidate]:
    for match in _EDIT.finditer(sentence):
        name, is_folder = (match[1] or match[2]).strip().rstrip(".,"), (match[3] or "").strip().lower()
        is_folder_word = is_folder in {"folder", "directory", "dir"}
        looks_like_path = (
            "/" in name.strip("/") or name.endswith("/") or bool(_EXTENSION.search(name)) or name.startswith(".")
        )
        if not (looks_like_path or is_folder_word) or " " in name or not re.search(r"\w{2}", name):
            continue
        if not _HARMLESS_REST.match(sentence[match.end() :]):
            continue
        example = name.replace("**", "a").replace("*", "a").rstrip("/")
        if is_folder_word or name.endswith("/"):
            example += "/example.txt"
        conditions = GuardConditions(paths=(name.rstrip("/"),))
        yield GuardCandidate(conditions, PastCall(tool="Edit", kind="edit", paths=(example,)))


def _forbidden_texts(sentence: str) -> Iterator[GuardCandidate]:
    for match in _WRITE.finditer(sentence):
        words = match[1] or match[2]
        is_quoted = bool(match[1])
        for known, content, files in _KNOWN_TEXTS:
            if re.match(rf"(?:{known})", words.strip(), re.IGNORECASE):
                yield _text_candidate(content, files)
                break
        else:
            token = words.strip()
            is_code = is_quoted and " " not in token and bool(set(token) & _CODE_SIGNS) and not _EXTENSION.search(token)
            if is_code and "*" not in token and _HARMLESS_REST.match(sentence[match.end() :]):
                yield _text_candidate(token.removesuffix(")"), _CODE_FILES)


def _text_candidate(content: str, files: tuple[str, ...]) -> GuardCandidate:
    example = PastCall(tool="Edit", kind="edit", paths=(f"src/example{files[0].lstrip('*')}",), content=f"{content}…")
    return GuardCandidate(GuardConditions(content=content, paths=files), example)
