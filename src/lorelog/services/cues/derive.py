"""Derives cues from the text of a memory: the files, symbols, commands, errors, moments and days that it names.

Precision comes first: a memory shown at the wrong moment costs tokens and trust. So symbols must be distinctive names,
bare names of everyday programs count only where the text says to avoid them, and generic error types need a message.
For "use pnpm, not npm" the moment that matters is the one when `npm` is about to run: the cue is the command to avoid,
and for "use pnpm" alone the other programs of the same purpose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from lorelog.ingest.tracebacks import may_contain_error
from lorelog.language.lexicon import lexicon
from lorelog.light.shell_command import split_command, word_set
from lorelog.services.cues.cue import Cue, read_cues
from lorelog.services.cues.directives import SPAN, code_words, command_cues
from lorelog.services.freshness.mentions import MentionKind, find_mentions

MAX_DERIVED_CUES = 12
MAX_TEXT_CHARS = 4_000
_MIN_PROSE_SYMBOL, _MIN_CODE_SYMBOL = 7, 5
_MAX_MESSAGE_CHARS = 100
_MAX_CALL_WORDS = 3
_REJECTED_CALL = re.compile(
    r"rejected (?:(?P<edit>Edit|MultiEdit|Write|NotebookEdit|edit|write|apply_patch|patch)|Bash|bash|shell|exec|exec_command|shell_command|local_shell) "
    r"(?P<subject>\S.*)"
)
_READING_PROGRAMS = lexicon("reading_programs")
"""Programs that say nothing about the call they are part of."""
_COMMIT = re.compile(
    r"\b(?:before|prior to|when(?:ever)?|while|on|for|in|after)\s+(?:(?:you|we|I)\s+)?(?:(?:every|each|any|a|the)\s+)?(?:git\s+)?commit(?:s|ting)?\b"
    r"|\bcommit (?:messages?|subjects?|title|body|trailers?)\b|\bcommit-(?:nachricht|meldung|botschaft)\w*"
    r"|\b(?:never|don['\u2019]?t|do not|stop|always|only|niemals|nie|nicht|immer)\s+(?:\w+\s+)?commit(?:ting|ten|te)?\b|\bco-authored-by\b|\bsign(?:ed)?-off\b"
    r"|\b(?:vor|bei|nach) (?:dem|jedem|einem) commit\b|\b(?:beim|vorm) commit(?:ten)?\b",
    re.IGNORECASE,
)
_TEST = re.compile(
    r"\b(?:run|runs|running|execute|executing|start|starting|skip|skipping|launch|launching|trigger)\s+(?:[\w-]+\s+){0,3}?tests?\b(?!\w)"
    r"|\bbefore\s+(?:(?:you|we)\s+)?test(?:ing)?\b|\btests?\s+(?:run|suite)s?\b|\btests? (?:is|are) (?:off[ -]limits|slow|forbidden)\b"
    r"|\btests? (?:nicht |nie |niemals |immer )?(?:ausf\u00fchren|laufen lassen|starten)\b",
    re.IGNORECASE,
)
_E2E_TEST = re.compile(
    r"\b(?:e2e|end[- ]to[- ]end|integration|integrations|acceptance|functional|browser|playwright|cypress|akzeptanz)[- ]?(?:tests?|specs?|suite)\b",
    re.IGNORECASE,
)
_WRITING = re.compile(r"\b(?:write|add|create|extend|update|schreib\w*)\s+(?:[\w-]+\s+){0,3}\Z", re.IGNORECASE)
_FAILURE = re.compile(
    r"\b(?:when(?:ever)?|if|after|once)\s+(?:(?:a|the|any|your|some)\s+)?(?:tests?|builds?|commands?|calls?|ci|pipeline|something|it)\s+"
    r"(?:fails?|failed|breaks?|is red|goes red)\b|\bafter\s+(?:a|any|each|every)\s+(?:failure|failed\s+\w+)\b",
    re.IGNORECASE,
)
_SESSION = re.compile(
    r"\bat (?:the )?(?:start|beginning) of (?:a|each|every|the) session\b|\bwhen (?:a|the) session (?:starts|begins)\b",
    re.IGNORECASE,
)
_DAY = re.compile(r"\b(?:on|from|by|after|starting|until|due)\s+(\d{4}-\d\d-\d\d)\b", re.IGNORECASE)
_ERROR_NAME = re.compile(
    r"\b(?:[A-Z][\w.]*(?:Error|Exception|Warning|Fault)|E[A-Z]{4,}|TS\d{4}|E\d{4}|SIG(?:KILL|SEGV|ABRT|TERM))\b"
)
_SEEN_ERROR = re.compile(
    r"\b(?:when(?:ever)?|if|on|after|once|wenn|falls|bei)\b[^.;\n]{0,40}?\b(?:see|sees|says|get|gets|hit|hits|shows?|prints?|fails? with|"
    r"throws?|raises?|reports?|siehst|kommt|meldet)\s+(?:an? |the |die |den )?(?:`([^`\n]{6,80})`|(\w+))",
    re.IGNORECASE,
)
_GENERIC_ERRORS = lexicon("generic_errors")
_PRODUCT_NAMES = lexicon("product_names")
_COMMON_CODE = lexicon("common_code_names")
_BROAD_FILES = lexicon("broad_files")
_BROAD_FOLDERS = word_set("src lib app apps packages pkg code source sources dist build and/or")
_FILE_SUFFIXES = lexicon("file_suffixes")
_AVOIDED_SYMBOL = re.compile(
    r"\b(?:don['\u2019]?t|do not|never|stop|avoid|must not|should not|instead of|rather than|not|statt|anstatt|niemals|nie)\s+"
    r"(?:(?:use|using|call|calling|verwende|benutze)\s+)?`?((?:[A-Za-z_]\w*(?:\.|::|->|#))+[A-Za-z_]\w+)(?![\w/.@-]*[\w/@])",
    re.IGNORECASE,
)
_BANNED_SYMBOL = re.compile(
    r"(?<![\w/.@:-])((?:[A-Za-z_]\w*(?:\.|::|->|#))+[A-Za-z_]\w+)(?:\(\)|/\d)?`? (?:is|are|must|should|may) "
    r"(?:not|never|banned|forbidden|deprecated|off[ -]limits|prohibited)\b",
    re.IGNORECASE,
)
_FOLDER = re.compile(r"(?<![\w/.@`-])([\w.-]{3,40}/)(?=[\s.,;:)]|$)")


class DerivedCues:
    """Cues of texts, kept in a file by the hash of each text: deriving those of 5,000 memories takes seconds.

    Only those of the memories that there are now are written back, so nothing of a forgotten one stays.
    """

    def __init__(self, file: Path, version: str, *, is_read: bool = True) -> None:
        """Open the file, and read it unless only the cues of a few texts are derived."""
        self._file = file
        self._version = version
        self._known = self._read() if is_read else {}

    def of(self, text: str) -> tuple[tuple[Cue, ...], str]:
        """Return the cues of a text, and the key to keep them under."""
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        cues = self._known.get(key)
        return (derive_cues(text) if cues is None else read_cues(cues)), key

    def contents(self, fields: Iterable[str]) -> bytes:
        """Return the content of the file for what `derived_field` returned of each text."""
        version, cues = json.dumps(self._version), ", ".join(dict.fromkeys(fields))
        return f'{{"version": {version}, "cues": {{{cues}}}}}'.encode("utf-8", "replace")

    def _read(self) -> dict[str, list[str]]:
        with suppress(OSError, ValueError, AttributeError, KeyError):
            stored = json.loads(self._file.read_bytes())
            if stored.get("version") == self._version:
                return dict(stored["cues"])
        return {}


def derived_field(key: str, cues: Sequence[Cue]) -> str:
    """Return the cues of a text as a field of a JSON object."""
    return f'"{key}": {json.dumps([str(cue) for cue in cues], ensure_ascii=False)}'


@lru_cache(maxsize=4096)
def derive_cues(text: str) -> tuple[Cue, ...]:
    """Return the cues of a memory's text: the commands to avoid first, at most `MAX_DERIVED_CUES`."""
    text = text[:MAX_TEXT_CHARS]
    events = list(_find_events(text))
    errors = list(_find_errors(text))
    candidates = [
        *(f"command={command}" for command in command_cues(text, is_complete=bool(events or errors))),
        *(f"path={path}" for path in _find_paths(text)),
        *(f"error={error}" for error in errors),
        *(f"event={event}" for event in events),
        *(f"day={day}" for day in _DAY.findall(text)),
        *(f"symbol={symbol}" for symbol in _find_symbols(text) if symbol not in errors),
    ]
    return read_cues(candidates)[:MAX_DERIVED_CUES]


def derive_call_cues(context: str, project: str) -> tuple[Cue, ...]:
    """Return the cue of a call that the user rejected, given what a statement is about: `rejected Bash npm install x`."""
    match = _REJECTED_CALL.match(context)
    if not match:
        return ()
    subject = match["subject"].removesuffix("\u2026").strip()
    if match["edit"]:
        path = subject.removeprefix(project.rstrip("/") + "/") if project else subject
        return () if " " in path or path.startswith("/") or path in _BROAD_FILES else read_cues([f"path={path}"])
    commands = [code_words(" ".join(words[:_MAX_CALL_WORDS])) for words in split_command(subject)]
    telling = [words for words in commands if len(words) > 1 and words[0] not in _READING_PROGRAMS]
    return read_cues([f"command={' '.join(telling[-1])}"]) if telling else ()


def _find_paths(text: str) -> Iterator[str]:
    for mention in find_mentions(text):
        path = mention.text
        name = path.rpartition("/")[2]
        if mention.kind is not MentionKind.PATH or path.startswith("../") or name.isdigit():  # Repo.all/1 is a function
            continue
        if "/" in path.strip("/"):
            if path.strip("/") not in _BROAD_FOLDERS and not path.replace("/", "").isdigit():
                yield path
        elif name not in _BROAD_FILES and _is_file_name(name, text):
            yield name
    for folder in _FOLDER.findall(text):
        if folder.rstrip("/") not in _BROAD_FOLDERS:
            yield folder
    for span in SPAN.findall(text):
        if (re.fullmatch(r"[\w.@-]+/", span) and span.rstrip("/") not in _BROAD_FOLDERS) or (
            re.fullmatch(r"[\w.@*?/-]*[*?][\w.@*?/-]*", span) and ("/" in span or span.startswith("*."))
        ):
            yield span


def _is_file_name(name: str, text: str) -> bool:
    """Return True for a name with a suffix of a file: `pool.py`, but neither `example.com` nor Node.js."""
    stem, _, suffix = name.rpartition(".")
    if not stem:
        return name in ("Makefile", "Dockerfile", "Justfile", "Procfile")
    return suffix.lower() in _FILE_SUFFIXES and not (name[0].isupper() and suffix == "js" and f"`{name}`" not in text)


def _find_symbols(text: str) -> Iterator[str]:
    spans = " ".join(SPAN.findall(text))
    if "console.log" in text:
        yield "console.log"
    for name in (*_AVOIDED_SYMBOL.findall(text), *_BANNED_SYMBOL.findall(text)):
        if name.rpartition(".")[2] not in _FILE_SUFFIXES:
            yield name
    folders = {folder.rstrip("/") for folder in _FOLDER.findall(text)}
    for mention in find_mentions(text):
        if mention.kind not in (MentionKind.SYMBOL, MentionKind.SETTING):
            continue
        name = mention.text
        in_code = name in spans
        if (
            name in _PRODUCT_NAMES
            or name in _COMMON_CODE
            or name in folders
            or _ERROR_NAME.fullmatch(name)
            or "-" in name
        ):
            continue
        if _is_distinctive(name, in_code=in_code):
            yield name


def _is_distinctive(name: str, *, in_code: bool) -> bool:
    """Return True for a name that is hardly used by chance."""
    if len(name) < (_MIN_CODE_SYMBOL if in_code else _MIN_PROSE_SYMBOL):
        return False
    if "." in name:
        last = name.rpartition(".")[2]
        return in_code and last not in _FILE_SUFFIXES and len(last) >= 3
    return _has_joint(name) and (in_code or "_" in name or name[0].islower())


def _find_errors(text: str) -> Iterator[str]:
    if may_contain_error(text) or _ERROR_NAME.search(text):
        # Most rules name no error, and the patterns of stack traces take 25 ms to compile.
        from lorelog.ingest.tracebacks.finder import bare_type, find_traces, normalize_message

        for located in find_traces(text):
            trace = located.trace
            message = re.sub(r"<path>|<url>|#", "*", normalize_message(trace.message))[:_MAX_MESSAGE_CHARS].strip()
            kind = bare_type(trace.type) if trace.type else ""
            if kind and message:
                yield f"{kind}: {message}"
        for name in _ERROR_NAME.findall(text):
            if bare_type(name) not in _GENERIC_ERRORS:
                yield bare_type(name)
    for code, bare in _SEEN_ERROR.findall(text):
        if code or (len(bare) >= _MIN_PROSE_SYMBOL and _has_joint(bare)):
            yield code or bare


def _has_joint(name: str) -> bool:
    """Return True for a name of several words: `snake_case` or `camelCase`."""
    return "_" in name.strip("_") or bool(re.search(r"[a-z\d][A-Z]", name))


def _find_events(text: str) -> Iterator[str]:
    e2e = _E2E_TEST.search(text)
    if e2e and not _WRITING.search(text, 0, e2e.start()):
        yield "e2e-test"
    elif _TEST.search(text):
        yield "test"
    for event, pattern in (("commit", _COMMIT), ("failure", _FAILURE), ("session-start", _SESSION)):
        if pattern.search(text):
            yield event
