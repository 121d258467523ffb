"""Candidates for guards, derived from what the user corrected. Rules only, without a model; precision before recall.

A sentence becomes a candidate if it forbids something that a tool call shows: a command ("use pnpm, not npm"), a file
("don't edit migrations/") or a text ("no default exports"). A sentence with a condition ("don't commit without asking")
does not, because a pattern cannot check the condition. A candidate is switched on by nobody but the user.

Only memories that were written on this machine count. What came with a repository, an import or a tool never becomes
a guard.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lorelog.core.dataclasses import dataclass
from lorelog.core.patterns import lazy_pattern
from lorelog.services.delivery.guard_check import PERSON, WARN, CallView
from lorelog.services.guards.guard_log import (
    MAX_MESSAGE_CHARS,
    GuardConditions,
    GuardDraft,
    guard_from_draft,
    guard_id,
)
from lorelog.services.guards.past_calls import PastCall

_TYPES = frozenset({"correction", "preference"})
_MAX_STANDING_BYTES = 8_000_000
_MAX_TEXT_CHARS = 600
"""Longer texts are descriptions rather than corrections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRule:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardProposal:
    """A guard that a correction suggests."""

    id: str
    """The id that the guard will have."""
    draft: GuardDraft
    memory: StandingRule
    example: str
    """A call that it would match."""


def read_standing_memories(files: Sequence[str], project: str) -> list[StandingRule]:
    """Return the memories of the project's file and of the global one, newest first; unreadable lines are skipped."""
    memories: list[StandingRule] = []
    for file, owner in zip(files, (project, ""), strict=True):
        try:
            with Path(file).open("rb") as stream:
                data = stream.read(_MAX_STANDING_BYTES)
        except OSError:
            continue
        for line in data.split(b"\n"):
            try:
                entry = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict) and isinstance(entry.get("id"), str) and isinstance(entry.get("text"), str):
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
        recommended |= set(recommended_programs(memory.text))
    return list(proposals.values())


@dataclass(frozen=True, slots=True)
class GuardCandidate:
    """Conditions that a sentence suggests, and a call that they match."""

    conditions: GuardConditions
    example: PastCall


def _make_proposal(memory: StandingRule, candidate: GuardCandidate) -> GuardProposal:
    text = " ".join(memory.text.split())
    draft = GuardDraft(
        conditions=candidate.conditions,
        message=text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…",
        action=WARN,
        memory=memory.id,
        project=memory.project,
    )
    example = candidate.example
    shown = example.command or f"{' '.join(example.paths)}: {example.content}".rstrip(": ")
    return GuardProposal(id=guard_id(draft.project, draft.conditions), draft=draft, memory=memory, example=shown)


def _matches_example(candidate: GuardCandidate) -> bool:
    guard = guard_from_draft(GuardDraft(conditions=candidate.conditions, message=""), PERSON)
    return CallView(candidate.example.as_fields(), "/project").matches(guard.as_fields())


# -- sentences -------------------------------------------------------------------------------------------------------

_PROGRAMS = frozenset(
    """
    npm npx yarn pnpm bun bunx node deno pip pip3 pipx poetry pipenv conda mamba uv uvx hatch python python3 make cmake
    docker docker-compose podman kubectl helm terraform brew apt apt-get sudo curl wget grep rg sed awk find rm mv git gh
    cargo rustc go mvn gradle ./gradlew jest mocha vitest pytest tox nox ruff black isort flake8 mypy eslint prettier tsc
    webpack vite next rails rake bundle gem composer php dotnet swift xcodebuild sqlite3 psql mysql redis-cli ssh scp rsync
    """.split()  # noqa: SIM905
)
_SUBCOMMANDS = frozenset(
    """
    install i ci add run test tests build start publish push pull commit rebase reset stash checkout merge clean apply
    destroy deploy up down upgrade update init exec rm delete sync migrate prune restore lint format watch dev serve
    """.split()  # noqa: SIM905
)
_SENTENCE_END = lazy_pattern(r"[.!?;]+(?=\s|$)|\n+")
_FORBID = (
    r"(?:(?:please\s+)?(?:don't|dont|don’t|do not|never|must not|mustn't|should not|shouldn't|may not|can't)\s+(?:ever\s+)?"
    r"(?:want\s+(?:you\s+)?to\s+)?|stop\s+|no\s+more\s+|avoid\s+)"
)
_QUOTED = r"`([^`\n]{2,80})`"
_BARE_WORDS = r"((?:\./)?[a-z][\w./-]*(?:\s+(?:--?[\w=-]+|[a-z][\w:./-]*)){0,4})"
_RUN = lazy_pattern(
    rf"\b{_FORBID}(?:run|running|use|using|execute|executing|call|calling|do)\s+(?:{_QUOTED}|{_BARE_WORDS})",
    re.IGNORECASE,
)
_PREFER = lazy_pattern(
    rf"\b(?:use|using|run|with)\s+(?:{_QUOTED}|([\w./-]+))\s*(?:,\s*|\s+)(?:and\s+)?(?:not|instead\s+of|rather\s+than|never)\s+"
    rf"(?:{_QUOTED}|([\w./-]+))",
    re.IGNORECASE,
)
_EDIT = lazy_pattern(
    rf"\b{_FORBID}(?:touch|edit|modify|change|delete|remove|rewrite|overwrite|move|rename|write\s+to)(?:ing)?\s+"
    r"(?:anything\s+(?:in|under|below)\s+|(?:any\s+)?files?\s+(?:in|under|below)\s+)?(?:the\s+|my\s+|our\s+)?"
    rf"(?:{_QUOTED}|([~\w@./*-]+))(\s+(?:folder|directory|dir|file|files))?",
    re.IGNORECASE,
)
_WRITE = lazy_pattern(
    rf"\b(?:{_FORBID}(?:use|using|add|adding|write|writing|leave|leaving|put|insert|introduce)|no(?:\s+more)?)\s+"
    r"(?:any\s+|the\s+|new\s+)?(?:`([^`\n]{2,60})`|([@#\w][\w.@(): -]{1,40}))",
    re.IGNORECASE,
)
_FORCE_PUSH = lazy_pattern(rf"\b(?:{_FORBID}|no\s+)force[- ]push(?:ing|es)?\b", re.IGNORECASE)
_PUSH_TO = lazy_pattern(
    rf"\b{_FORBID}(?:push|pushing|commit|committing)\s+(?:directly\s+|straight\s+)?(?:to|on|onto)\s+(?:the\s+)?`?([\w/-]+)`?",
    re.IGNORECASE,
)
_GIT_VERB = lazy_pattern(
    rf"\b{_FORBID}(commit|committing|push|pushing|rebase|rebasing|stash|stashing|amend)\b", re.IGNORECASE
)
_CONDITION = lazy_pattern(
    r"\b(?:without|unless|until|till|before|after|when|while|if|except|except\s+for|only|yet|but|for\s+now|this\s+time|"
    r"for\s+(?!(?:this|the|our)\s+(?:project|repo|repository|codebase)\b)\w+|right\s+now|at\s+once|at\s+the\s+same\s+time|proactively|too\s+much|so\s+much|too\s+many)\b",
    re.IGNORECASE,
)
_HARMLESS_REST = lazy_pattern(
    r"\s*(?:$|[,:)—–-]|\b(?:please|here|anymore|any\s+more|again|ever|at\s+all|because|since|as|it|they|that|this|we|i|you|and|in\s+(?:this|the|our)\s+"
    r"(?:repo|repository|project|codebase|code\s+base|code)|in\s+(?:production|commits?)|for\s+(?:this|the)\s+project)\b)",
    re.IGNORECASE,
)
_QUESTION = lazy_pattern(r"^\s*(?:why|should|could|would|can|what|how|do|does|did|is|are)\b", re.IGNORECASE)
_EXTENSION = lazy_pattern(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")
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


def derive_candidates(text: str) -> list[GuardCandidate]:
    """Return the candidates of a correction; none for sentences with a condition, and for questions."""
    found: dict[GuardConditions, GuardCandidate] = {}
    for sentence, is_question in _sentences(text):
        if is_question or _CONDITION.search(_without_quotes(sentence)):
            continue
        for candidate in (
            *_preferred_commands(sentence),
            *_git_rules(sentence),
            *_forbidden_commands(sentence),
            *_protected_files(sentence),
            *_forbidden_texts(sentence),
        ):
            found.setdefault(candidate.conditions, candidate)
    return list(found.values())


def recommended_programs(text: str) -> Iterator[str]:
    """Yield the programs that a text tells to use."""
    for sentence, _ in _sentences(text):
        for match in _PREFER.finditer(sentence):
            wanted = (match[1] or match[2]).split()[0]
            if wanted in _PROGRAMS:
                yield wanted


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    start = 0
    for end in [*_SENTENCE_END.finditer(text), None]:
        sentence = text[start : end.start() if end else len(text)].strip()
        mark = end[0] if end else ""
        if sentence:
            yield sentence, "?" in mark or bool(_QUESTION.match(sentence) and not sentence.lower().startswith("do not"))
        start = end.end() if end else len(text)


def _without_quotes(sentence: str) -> str:
    return re.sub(r"`[^`]*`", "x", sentence)


def _preferred_commands(sentence: str) -> Iterator[GuardCandidate]:
    for match in _PREFER.finditer(sentence):
        wanted, unwanted = (match[1] or match[2]).strip(), (match[3] or match[4]).strip().rstrip(".,")
        if wanted == unwanted or not _HARMLESS_REST.match(sentence[match.end() :]):
            continue
        if match[3] or wanted.split()[0] in _PROGRAMS or match[1]:
            yield from _command_candidate(unwanted)


def _forbidden_commands(sentence: str) -> Iterator[GuardCandidate]:
    for match in _RUN.finditer(sentence):
        if match[1]:
            if _HARMLESS_REST.match(sentence[match.end() :]):
                yield from _command_candidate(match[1])
            continue
        words = match[2].split()
        command = _leading_command(words)
        rest = " ".join(words[len(command) :]) + sentence[match.end() :]
        if command and _HARMLESS_REST.match(rest):
            yield from _command_candidate(" ".join(command))


def _leading_command(words: list[str]) -> list[str]:
    """Return the words of a command at the beginning of a text: a known program, its verb, and options."""
    if not words or words[0] not in _PROGRAMS:
        return []
    count = 1
    while count < len(words) and (words[count].startswith("-") or (count == 1 and words[count] in _SUBCOMMANDS)):
        count += 1
    return words[:count]


def _command_candidate(command: str) -> Iterator[GuardCandidate]:
    words = command.strip().rstrip(".,").split()
    if not words or words[0] not in _PROGRAMS or any(mark in command for mark in "|;&<>$\"'"):
        return
    first_option = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    stem = " ".join(words[:first_option])
    options = words[first_option:]
    pattern = f"{stem} *" + "".join(f"{option} *" for option in options)
    example = (
        " ".join(words) if len(words) > 1 else f"{stem} install" if stem in {"npm", "yarn", "pnpm", "pip"} else stem
    )
    yield GuardCandidate(GuardConditions(command=pattern), PastCall(tool="Bash", kind="run", command=example))


def _git_rules(sentence: str) -> Iterator[GuardCandidate]:
    if _FORCE_PUSH.search(sentence):
        yield _run_candidate("git push *--force *", "git push --force origin main")
    for match in _PUSH_TO.finditer(sentence):
        branch = match[1]
        if branch.lower() not in {"it", "this", "that", "git", "github", "remote", "me"} and _HARMLESS_REST.match(
            sentence[match.end() :]
        ):
            yield _run_candidate(f"git push *{branch} *", f"git push origin {branch}")
    for match in _GIT_VERB.finditer(sentence):
        verb = {"committing": "commit", "pushing": "push", "rebasing": "rebase", "stashing": "stash"}.get(
            match[1].lower(), match[1].lower()
        )
        rest = sentence[match.end() :]
        if re.match(r"\s+(?:to|on|onto|directly|straight|it|this|that)\b", rest) or not _HARMLESS_REST.match(rest):
            continue
        if verb == "amend":
            yield _run_candidate("git commit *--amend *", "git commit --amend")
        else:
            yield _run_candidate(f"git {verb} *", f"git {verb} {'-m fix' if verb == 'commit' else ''}".strip())


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
