"""Finds values that a text states: "the HTTP timeout is 5 s", "port: 8080", "we use pnpm", "raised the limit from 5 to 30".

Rules only, and precision first: a pair of values that is no pair makes a reader distrust the right note. So a statement counts
only if its subject, its attribute and its scope are in the sentence, and every word of them is part of the key that two statements
must share: "the timeout in staging" and "the timeout in production" are two subjects. Questions, guesses, examples, past
values, commands, quotations and code blocks state nothing. A text that gives one subject two values lists alternatives and states neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

SHORT_TEXT_CHARS = 400
"""A longer text is about more than one thing."""
MAX_TEXT_CHARS = 4_000
"""Statements are looked for in the first characters of a text."""
_MAX_SENTENCE_CHARS = 400
_MAX_KEY_WORDS = 9
_MAX_SUBJECT_WORDS = 7
_MAX_REPLACED_CHARS = 40
_MAX_VERSION_DIGITS = 3
_CACHED_TEXTS = 4096
_NEGATED = "negated"
_AXES = frozenset(("switch", "need", "permission", "support"))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UNITS = {
    name: (unit, factor)
    for unit, factor, names in (
        ("s", 1e-6, "us µs microsecond microseconds"),
        ("s", 1e-3, "ms millisecond milliseconds"),
        ("s", 1.0, "s sec secs second seconds"),
        ("s", 60.0, "min mins minute minutes"),
        ("s", 3600.0, "h hr hrs hour hours"),
        ("s", 86400.0, "d day days"),
        ("s", 604800.0, "week weeks"),
        ("month", 1.0, "month months"),
        ("month", 12.0, "year years"),
        ("byte", 1.0, "b byte bytes"),
        ("byte", 1e3, "kb k"),
        ("byte", 1024.0, "kib ki"),
        ("byte", 1e6, "mb m"),
        ("byte", 1048576.0, "mib mi"),
        ("byte", 1e9, "gb g"),
        ("byte", 1073741824.0, "gib gi"),
        ("byte", 1e12, "tb"),
        ("%", 1.0, "% percent"),
    )
    for name in names.split()
}
_SWITCHES = {
    name: (axis, state)
    for axis, state, names in (
        ("switch", "on", "enabled on true active"),
        ("switch", "off", "disabled off false inactive"),
        ("need", "on", "required mandatory"),
        ("need", "off", "optional"),
        ("permission", "on", "allowed permitted"),
        ("permission", "off", "forbidden prohibited banned disallowed"),
        ("support", "on", "supported"),
        ("support", "off", "unsupported"),
    )
    for name in names.split()
}
TOOL_PURPOSES = {
    "package manager": "npm yarn pnpm bun",
    "python package manager": "pip poetry pipenv conda uv pdm hatch rye",
    "test runner": "jest vitest mocha jasmine ava",
    "python test runner": "pytest nose nose2 unittest",
    "browser test": "cypress playwright selenium puppeteer",
    "bundler": "webpack vite parcel rollup esbuild turbopack rspack",
    "linter": "eslint biome oxlint tslint standard",
    "python linter": "flake8 pylint ruff pycodestyle",
    "formatter": "black yapf autopep8",
    "type checker": "mypy pyright pyre ty basedpyright",
    "database": "postgres postgresql mysql mariadb sqlite mongodb cockroachdb oracle dynamodb",
    "cache": "redis memcached valkey dragonfly",
    "queue": "rabbitmq kafka sqs nats celery sidekiq pulsar",
    "container": "docker podman",
    "build": "maven gradle bazel ant sbt",
    "ci": "jenkins circleci travis buildkite gitlab-ci drone",
    "cloud": "aws gcp azure heroku vercel netlify fly.io render hetzner digitalocean",
    "orm": "prisma drizzle typeorm sequelize sqlalchemy peewee tortoise",
    "frontend framework": "react vue svelte angular solidjs preact",
    "web framework": "flask django fastapi express koa fastify hono starlette gin echo fiber",
    "infrastructure": "terraform pulumi opentofu cloudformation",
    "tracker": "jira linear trello asana shortcut",
    "chat": "slack discord teams mattermost zulip",
    "search engine": "elasticsearch opensearch meilisearch typesense solr algolia",
    "error tracker": "sentry rollbar bugsnag honeybadger",
    "state": "redux zustand mobx jotai pinia vuex",
    "styling": "tailwind bootstrap bulma",
    "auth": "auth0 cognito keycloak okta clerk",
    "branching": "trunk-based gitflow",
}
"""Tools that are used in place of each other, by their purpose."""
_TOOLS = {name: purpose for purpose, names in TOOL_PURPOSES.items() for name in names.split()}
_SAME_TOOLS = {"postgresql": "postgres"}
_NEVER_ALONE = _words(
    "standard express render teams echo linear solid black state rye hatch drone ant ava on off true false active inactive"
)
"""Names and switches that are everyday words, too."""
_NAMED = frozenset(part for name in (*_TOOLS, *_SWITCHES) for part in name.replace("-", ".").split("."))
_TURNING = _words("enable enabled disable disabled turn turned switched")
_SYNONYMS = dict(
    pair.split(":")
    for pair in """
    maximum:max minimum:min db:database configuration:config env:environment prod:production dev:development repository:repo
    javascript:js typescript:ts seconds:second defaults:default timeouts:timeout nodejs:node app:application
    applications:application
    """.split()  # noqa: SIM905
)
_LIGHT = _words(
    """
    a an the our its my your their this these that s be been is are was were has have had having will we i you they it also
    value values setting settings option options parameter now currently current still just only already again back up down here
    use uses used using with to at on of in as and set sets raised raise raises increased increase increases lowered lower lowers bumped
    bump bumps changed change changes cut reduced reduce reduces updated update updates switched switch switches moved move moves tuned pinned pin
    pins upgraded upgrade upgrades downgraded extended shortened doubled halved configured new newly finally note decision outcome
    from by than equal equals exactly must should do does done for after per
    """
)
_CHANGE_VERBS = _words(
    """
    raised raise raises increased increase increases lowered lower lowers bumped bump bumps changed change changes cut cuts reduced reduce
    reduces updated update updates switched switch switches moved move moves set sets tuned pinned pin pins upgraded upgrade upgrades downgraded
    downgrade extended extend shortened shorten renamed rename grew
    """
)
_STATE_VERBS = _words(
    """
    listens listen expires expire refreshes rotates rotate stored kept lives live located hosted deployed deploys deploy served serves
    published written cached limited capped fixed mapped points goes times retries retry polls poll syncs runs run starts logs log
    requires require needs need supports support allows allow allowed keeps keep waits wait equal named called
    """
)
_FILLERS = _words("now currently still just only always exactly already again a an the back up down out set value")
_PREPOSITIONS = _words("to at on of in after as under every for")
_STATE_PREPOSITIONS = _words("on in after every at as under for")
_ATTRIBUTES = _words(
    """
    timeout timeouts ttl port version limit limits interval delay retries size length depth threshold budget quota capacity concurrency
    workers replicas threads connections python node nodejs go ruby java php rust postgres redis mysql kubernetes django rails react
    """
)
"""Nouns that a value may follow directly: "port 8080", "Python 3.12"."""
_PAST = _words(
    "was were previously formerly originally initially earlier once before old former previous ago yesterday until"
)
_HEDGES = _words(
    """
    maybe perhaps might could would consider considering suppose propose proposed proposal suggest suggested suggests eg example examples
    instance try tried trying plan planned plans planning want wants wanted asked typically usually often sometimes roughly approximately
    approx about around almost nearly between ranges range todo wip draft wonder whether idea ideas sample fake dummy mock placeholder
    measured took takes hypothetical imagine like hope expect expected guess probably likely evaluating evaluate compared compare
    """
)
_QUALIFIERS = tuple(
    (phrase, word)
    for word, phrases in (
        ("min", "at least|no less than|more than|>=|≥"),
        ("max", "at most|no more than|less than|fewer than|up to|<=|≤"),
    )
    for phrase in phrases.split("|")
)
_GENERIC_SUBJECTS = _words(
    """
    fix command problem issue error reason cause answer result output trick file files function culprit solution workaround root step
    test tests bug pr line lines page phase part chapter section item figure table commit id date time count total score duration elapsed
    exit code status errors warnings user task todo difference thing way point question request reply message name type key input
    number one two first second third next last other same what it this that there which who ended outcome found commands
    default required optional max min maximum minimum size value values unique data string boolean integer list map object template
    summary note notes day week today tomorrow example title description author see link url priority severity
    """
)
"""A subject of only these words says nothing about what it is."""
_CONDITIONS = _words("when if unless whether once while except depending not")
_OR_MORE = _words("or newer later higher above more greater and up")
_BRACKETS = frozenset("[](){}<>$\\")
_PRONOUNS = _words("it this that these there they he she what who which i")
_AUXILIARIES = _words("is are was were been has have be now got and")
_COPULAS = _words("is are now be been")
_EQUALITIES = _words("defaults default equal mapped limited points goes configured")
_ACTORS = _words("we i have has also now agent he she they user")
_JOINTS = _words("and but so because then that – — -")
_POSSESSIVE_VERBS = _words("requires require needs need supports keeps allows retries has expects")
_EVENTS = _words("support supports added adds add fixed fixes removed deprecated introduced released returns shows")
"""A subject with these words tells of an event or of one of several."""
_LABELS = _words(
    """
    decision decided outcome note notes fact update updated found finding result conclusion tldr summary reminder important info change changed fyi
    preference rule convention correction lesson learned now new config configuration setting settings user feedback fixed done
    """
)
_CHOOSERS = _words(
    "we i they team project repo repository app codebase everyone everybody all always please will should must let now currently"
)
_NO_CHOICE = _words("not if when unless cannot can without can't don't how why who to or")
_SKIPPED_LABELS = ("- files:", "- commands:", "- errors:", "- user asked:", "- went on with:", "- ended:")

_LINE_START = re.compile(r"\s*(?:[-*+•]|\d+[.)])?\s*(?:\[[ xX]\]\s*)?")
_MARKUP = re.compile(r"[;{}(\[]\s*$|</|/>|^\s+[\w.-]+:(?:\s|$)|[{}]{2}|\{%")
"""Lines of code, of HTML, of templates, and of indented YAML; a piece of a code block may have no fence."""
_MARK = re.compile(r"[\d`\"]")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=\S)")
_NUMBER = r"(?<![\w.,:/#$€£@\\-])(?:v(?=\d))?\d+(?:[.,_]\d+)*"
_UNIT = (
    r"(?:\s?-?(?:milliseconds?|microseconds?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|percent|bytes?"
    r"|ms|µs|us|[KMGT]i?B|[KMG]i|kb|mb|gb|s|h|d|B|k|m)\b|\s?%)"
)
_VALUE = re.compile(
    rf"`(?P<code>[^`\n]{{1,60}})`|\"(?P<quoted>[^\"\n]{{1,40}})\"|(?P<day>\b\d{{4}}-\d\d-\d\d\b)"
    rf"|(?P<number>{_NUMBER})(?P<unit>{_UNIT})?(?![\w@°]|[./:-]\w|\s?[x×]\s?\d)"
)
_NAME = re.compile(r"(?<![\w`\"./-])[A-Za-z][\w.-]*\w(?![\w`\"/])")
_QUANTITY = re.compile(rf"v?(?P<number>\d+(?:[.,_]\d+)*)(?P<unit>{_UNIT})?")
_KEY_WORD = re.compile(r"[a-z0-9]+(?:[+#]+)?|[^\W\d_a-z]+")
_TAIL_CUT = re.compile(
    r"[,;()—–]|\s-\s|\b(?:because|since|so|but|and|which|until|instead|rather|from|to avoid|while|where|after|before|that|not|was|it|we|this|as)\b"
)
_LEFT_CUT = re.compile(
    r"[,;()—–]|\s-\s|\b(?:and|but|so|because|since|that|while|then|which|where|or|until|as|therefore|thus|now)\b"
)
_ALTERNATIVE = re.compile(r"\s*(?:,|/|or|and|\||-|–|to|\.\.+|…)\s*(?:or\s+)?[`\"\d]|\s*[=+*]")
_SCOPE_START = re.compile(
    r"(?:in|on|for|with|without|under|during|at|when|if|unless|inside|within|using|by|per|outside|behind|before|after|except)\b",
    2,
)
_CHOICE = re.compile(
    r"^(?P<who>[^,;()\n]{0,60}?)\b(?:use|uses|using|chose|choose|picked|prefer|prefers|adopted|standardi[sz]ed on|settled on|went with|go with|going with"
    r"|deploys? to|runs? on|host(?:ed)? on)\s+(?P<tool>`?[\w@./+#-]*\w`?)(?P<rest>[^\n]*)",
    2,
)
_SWITCH = re.compile(
    r"\b(?:switch(?:ed|es|ing)?|migrat(?:ed|es|e|ing)|mov(?:ed|es|e|ing)|chang(?:ed|es|e|ing)|went|converted|port(?:ed|ing)?)\b(?P<what>[^.,;]{0,40}?)"
    r"\s+(?:away\s+)?from\s+(?P<old>`?[\w@./+#-]*\w`?)\s+(?:over\s+)?to\s+(?P<new>`?[\w@./+#-]*\w`?)(?P<rest>[^\n]*)"
    r"|\breplac(?:ed|es|e|ing)\s+(?P<old2>`?[\w@./+#-]*\w`?)\s+(?:with|by)\s+(?P<new2>`?[\w@./+#-]*\w`?)(?P<rest2>[^\n]*)"
    r"|\b(?:use|uses|using|prefer|chose|picked|adopted)\s+(?P<new3>`?[\w@./+#-]*\w`?)\s*(?:,?\s*(?:instead of|rather than|in place of|not|over))\s+(?P<old3>`?[\w@./+#-]*\w`?)(?P<rest3>[^\n]*)",
    2,
)
_ABANDONED = re.compile(
    r"\b(?:no longer (?:use|using|uses|run|on)|stopped using|do not use|don't use|never use|dropped|removed|got rid of|abandoned|moved off|moved away from)\s+"
    r"(?P<tool>`?[\w@./+#-]*\w`?)(?P<rest>[^\n]*)",
    2,
)
_TURNED = re.compile(
    r"^(?:(?:we|i)\s+)?(?:have\s+|now\s+)?(?P<how>enabled?|disabled?|turn(?:ed)? on|turn(?:ed)? off|switched on|switched off)\s+(?P<what>[^.,;\n]{3,60})",
    2,
)
_CHOICE_VERB = re.compile(
    r"\b(?:use|uses|using|chose|choose|picked|prefers?|adopted|standardi[sz]ed|settled|go(?:ing)? with|went|deploys?|runs? on|host|switch|migrat|mov(?:ed|e|ing)|chang|port"
    r"|replac|no longer|stopped|don't|do not|never|dropped|removed|got rid|abandoned|converted)",
    2,
)


class StatedValue(Struct, frozen=True):
    """A value that a sentence states for a subject."""

    key: frozenset[str]
    """Words of subject, attribute and scope."""
    kind: str
    """What values may be compared with: a unit, `number`, `code`, a switch, a tool's purpose."""
    value: str
    shown: str
    """The value as written."""
    about: str
    """The subject as written."""
    sentence: str
    replaces: str = ""
    """The value that the sentence itself says was replaced."""


def find_stated_values(text: str, terms: Sequence[str] = ()) -> tuple[StatedValue, ...]:
    """Return the values that a text states, each subject once.

    With the terms of a question, a long text is read only in the lines that have one of them: reading all of twenty hits would take
    longer than the search.
    """
    text = text[:MAX_TEXT_CHARS]
    if terms and len(text) > SHORT_TEXT_CHARS:
        text = _asked_lines(text, terms)
    return _find_cached(text) if text else ()


def _asked_lines(text: str, terms: Sequence[str]) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):
        return text
    lines: dict[int, str] = {}
    for term in terms:
        at = lowered.find(term)
        while at >= 0:
            start, end = lowered.rfind("\n", 0, at) + 1, lowered.find("\n", at)
            if start not in lines:
                is_skipped = lowered.count("```", 0, start) % 2 or _is_below_label(lowered, start)
                lines[start] = "" if is_skipped else text[start : end if end >= 0 else None]
            at = lowered.find(term, end) if end >= 0 else -1
    return "\n".join(lines[start] for start in sorted(lines) if lines[start])


def _is_below_label(lowered: str, start: int) -> bool:
    """Return whether a line is in a list whose items state nothing, such as the commands of a turn."""
    bullet = start if lowered.startswith("- ", start) else lowered.rfind("\n- ", 0, start) + 1
    return lowered.startswith(_SKIPPED_LABELS, bullet)


@lru_cache(maxsize=_CACHED_TEXTS)
def _find_cached(text: str) -> tuple[StatedValue, ...]:
    found: dict[tuple[str, frozenset[str]], StatedValue | None] = {}
    for sentence in _sentences(text):
        for stated in _statements_of(sentence):
            place = (stated.kind, stated.key)
            earlier = found.get(place, stated)
            # Two values of one subject: a list of alternatives.
            found[place] = stated if earlier is not None and earlier.value == stated.value else None
    return tuple(stated for stated in found.values() if stated is not None)


def _sentences(text: str) -> Iterator[str]:
    is_skipped = False
    is_code = text.startswith("---\n")
    for line in text.removeprefix("---\n").split("\n"):
        stripped = line.lstrip()
        if is_code and line == "---":  # the end of the front matter
            is_code = False
            continue
        if stripped.startswith(("```", "~~~")):
            is_code = not is_code
            continue
        if is_code or not stripped or stripped[0] in "#|><{" or stripped.startswith("[ ") or _MARKUP.search(line):
            continue
        if line.startswith("- "):
            is_skipped = line.lower().startswith(_SKIPPED_LABELS)
        if is_skipped:
            continue
        start = _LINE_START.match(line)
        body = line[start.end() :] if start else line
        if "?" in body or len(body) < 5:
            continue
        for sentence in _SENTENCE.split(body.replace("**", "").replace("__", "")):
            if len(sentence) <= _MAX_SENTENCE_CHARS:
                yield sentence.strip().rstrip(".;!")


def key_words(text: str) -> frozenset[str]:
    """Return the words of a text that tell subjects apart, in one form."""
    words = (_SYNONYMS.get(word, word) for word in _KEY_WORD.findall(text.lower()))
    return frozenset(_singular(word) for word in words if word not in _LIGHT)


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _statements_of(sentence: str) -> Iterator[StatedValue]:
    lowered = sentence.lower()
    words = frozenset(_KEY_WORD.findall(lowered))
    named = words & _NAMED
    if not named and _MARK.search(sentence) is None and words.isdisjoint(_TURNING):
        return
    if words.isdisjoint(_HEDGES) and "e.g." not in lowered and "such as" not in lowered:
        yield from _values_of(sentence, is_turning=not words.isdisjoint(_TURNING), has_names=bool(named))
        if named:
            yield from _choices_of(sentence)


def _values_of(sentence: str, *, is_turning: bool, has_names: bool) -> Iterator[StatedValue]:
    if is_turning and (turned := _TURNED.match(sentence)):
        state = "on" if turned["how"].lower().startswith("enable") or turned["how"].lower().endswith("on") else "off"
        what = _cut_tail(turned["what"])
        if subject := _subject_key(what):
            yield StatedValue(subject, "switch", state, state, what.strip(), sentence)
    for match in _VALUE.finditer(sentence):
        unit = match["unit"] if match["number"] else None
        if (parsed := _parse_value(match)) and (stated := _read_value(sentence, match.span(), parsed, unit)):
            yield stated
    for match in _NAME.finditer(sentence) if has_names else ():
        name = match[0].lower()
        is_value = name in _SWITCHES or (name in _TOOLS and name not in _NEVER_ALONE)
        if is_value and (stated := _read_value(sentence, match.span(), _parse_name(name), None)):
            yield stated


def _read_value(sentence: str, span: tuple[int, int], parsed: tuple[str, str], unit: str | None) -> StatedValue | None:
    """Return the statement of a value at a place of a sentence; None if nothing is stated there."""
    (kind, value), (start, end) = parsed, span
    left, right = sentence[:start].rstrip(), sentence[end:]
    if (
        _ALTERNATIVE.match(right)
        or left.count("(") > left.count(")")
        or left.endswith(("(", "[", "/", "-", "–", "+", "~", "<", "|"))
    ):
        return None
    attributed = _read_left(left, kind)
    if attributed is None:
        return None
    subject, extra, replaces = attributed
    if extra == _NEGATED:
        value, extra = ("off" if value == "on" else "on"), ""
    tail = _read_tail(right)
    scope = _leading_scope(sentence, left)
    if scope is None:
        return None
    key = _subject_key(subject)
    if key is None or (kind.startswith("tool:") and not _fits_purpose(key, kind)):
        return None
    if kind.startswith("tool:"):
        key = key - key_words(kind[5:]) - _words("primary main tool manager") | {kind}
    key |= key_words(f"{extra} {scope} {tail}")
    if not 0 < len(key) <= _MAX_KEY_WORDS:
        return None
    shown = sentence[start:end].strip('`"')
    replaced = _QUANTITY.fullmatch(replaces)
    old = _parse_quantity(replaced["number"], replaced["unit"] or unit) if replaced else None
    about = _without_article(" ".join(subject.split()))
    return StatedValue(key, kind, value, shown, about, sentence, old[1] if old else replaces)


def _read_tail(right: str) -> str:
    """Return the words after a value that belong to its subject; "or newer" makes it a minimum."""
    words = _cut_tail(right).lower().split()
    if words[:1] == ["or"] or words[:2] == ["and", "up"]:
        return " ".join(("minimum", *(word for word in words if word not in _OR_MORE)))
    return " ".join(words)


def _without_article(subject: str) -> str:
    first, _, rest = subject.partition(" ")
    return rest if rest and first.lower() in ("the", "a", "an", "our") else subject


def _fits_purpose(key: frozenset[str], kind: str) -> bool:
    """Return whether a subject names what a tool is for; "the error is Postgres" does not."""
    return bool(key & key_words(kind[5:])) or (kind == "tool:database" and "store" in key)


def _parse_value(match: re.Match[str]) -> tuple[str, str] | None:
    """Return a value's kind and its comparable form."""
    text = match["code"] or match["quoted"]
    if text:
        text = text.strip()
        if quantity := _QUANTITY.fullmatch(text):
            return _parse_quantity(quantity["number"], quantity["unit"])
        lowered = text.lower()
        if lowered in _SWITCHES or lowered in _TOOLS:
            return _parse_name(lowered)
        return ("code", text) if (text and " " not in text) or match["code"] else None
    if match["day"]:
        return "day", match["day"]
    return _parse_quantity(match["number"], match["unit"])


def _parse_name(name: str) -> tuple[str, str]:
    if name in _SWITCHES:
        return _SWITCHES[name]
    return f"tool:{_TOOLS[name]}", _SAME_TOOLS.get(name, name)


def _parse_quantity(number: str, unit: str | None) -> tuple[str, str] | None:
    plain = number.lstrip("v").replace("_", "")
    groups = plain.split(",")
    if len(groups) > 1:
        if not all(len(group) == 3 for group in groups[1:]):
            return None
        plain = "".join(groups)
    whole, _, fraction = plain.partition(".")
    if len(fraction) > _MAX_VERSION_DIGITS and "." not in fraction:  # not a version: 3.10 is not 3.1
        plain = f"{whole}.{fraction.rstrip('0')}".rstrip(".")
    if unit is None or not unit.strip(" -"):
        return "number", plain.lstrip("0") or "0"
    raw = unit.strip(" -")
    name, factor = _UNITS.get(raw.lower(), ("", 0.0))
    if not name or plain.count(".") > 1:
        return None
    if raw in ("m", "M", "k", "g", "G"):
        return f"number {raw}", plain
    return name, f"{float(plain) * factor:.9g}"


class _Attribution(NamedTuple):
    """What the words before a value say: whose value it is."""

    tokens: list[str]
    """Words up to the verb, the last clause of which is the subject."""
    extra: str = ""
    """Further words of the key."""
    replaces: str = ""
    has_changed: bool = False
    """Whether a verb of change attributes the value: then a past tense is no past value."""


def _read_left(left: str, kind: str) -> tuple[str, str, str] | None:
    """Return subject, further key words and the replaced value; None if the words before a value attribute it to nothing."""
    tokens, extra = _drop_qualifier(left)
    if kind in _AXES and tokens and tokens[-1].lower() in ("not", "longer"):
        tokens = _drop_last(tokens[: -2 if tokens[-1].lower() == "longer" else -1], _FILLERS)
        extra = _NEGATED
    found = _attribute(tokens, kind) if tokens else None
    subject = _read_subject(found) if found is not None else ""
    return (subject, f"{extra} {found.extra}".strip(), found.replaces) if found is not None and subject else None


def _drop_qualifier(left: str) -> tuple[list[str], str]:
    lowered = left.lower()
    for phrase, word in _QUALIFIERS:
        if lowered.endswith(phrase):
            return _drop_last(left[: -len(phrase)].split(), _FILLERS), word
    return _drop_last(left.split(), _FILLERS), ""


def _drop_last(tokens: list[str], words: frozenset[str]) -> list[str]:
    while tokens and tokens[-1].lower() in words:
        tokens = tokens[:-1]
    return tokens


def _attribute(tokens: list[str], kind: str) -> _Attribution | None:
    rest, last = tokens[:-1], tokens[-1].lower()
    found = None
    if last in ("=", ":="):
        found = _Attribution(rest)
    elif last.endswith(":") and len(last) > 1:
        found = _Attribution([*rest, tokens[-1].rstrip(":")])
    elif last in ("is", "are", "equals") or (last == "be" and rest and rest[-1].lower() in ("must", "should", "to")):
        found = _Attribution(rest)
    elif kind in _AXES:
        pass
    elif last in _PREPOSITIONS and not (last == "of" and kind == "code"):
        found = _attribute_by_preposition(rest, last)
    elif last.strip("`") in _ATTRIBUTES and not kind.startswith(("tool:", "code", "day")):
        found = _Attribution(tokens) if len(tokens) <= _MAX_SUBJECT_WORDS + 3 else None
    elif last in _POSSESSIVE_VERBS:
        found = _Attribution(rest, last)
    return found


def _attribute_by_preposition(tokens: list[str], preposition: str) -> _Attribution | None:
    tokens, replaces = _take_replaced(tokens) if preposition == "to" else (tokens, "")
    tokens = _drop_last(tokens, _FILLERS)
    if not tokens:
        return None
    rest, last = tokens[:-1], tokens[-1].lower()
    found = None
    if preposition == "of":
        found = _Attribution(tokens) if last.strip("`") in _ATTRIBUTES else None
    elif last in _CHANGE_VERBS and preposition in ("to", "at"):  # "the timeout was raised to"
        found = _Attribution(_drop_last(rest, _AUXILIARIES), "", replaces, has_changed=True)
    elif last in _EQUALITIES and preposition == "to":
        found = _Attribution(_drop_last(rest, _COPULAS), "default" if last.startswith("default") else "", replaces)
    elif last in _STATE_VERBS and preposition in _STATE_PREPOSITIONS:
        found = _Attribution(_drop_last(rest, _COPULAS), f"{last} {preposition}")
    elif last == "is" and preposition in ("on", "in", "at", "to"):
        found = _Attribution(rest, preposition)
    elif preposition in ("to", "at"):  # "raised the timeout from 5 s to"
        clause = tokens[_clause_start(tokens) :]
        while clause and clause[0].lower() in _ACTORS:
            clause = clause[1:]
        if clause and clause[0].lower() in _CHANGE_VERBS:
            found = _Attribution(clause[1:], "", replaces, has_changed=True)
    return found


def _take_replaced(tokens: list[str]) -> tuple[list[str], str]:
    """Return the words before "from 5 s", and the value that was replaced."""
    lowered = [token.lower() for token in tokens]
    if "from" not in lowered:
        return tokens, ""
    at = len(lowered) - 1 - lowered[::-1].index("from")
    old = " ".join(tokens[at + 1 :]).strip('`"')
    return (tokens[:at], old) if len(old) <= _MAX_REPLACED_CHARS else (tokens, "")


def _clause_start(tokens: list[str]) -> int:
    start = 0
    for number, token in enumerate(tokens):
        if token.endswith((",", ";", ":", ")")) or token.lower() in _JOINTS:
            start = number + 1
    return start


def _read_subject(found: _Attribution) -> str:
    """Return the words since the last clause, and a label in front of them that is not generic; empty if they are no subject."""
    text = " ".join(found.tokens)
    label, separator, rest = text.partition(": ")
    if separator:
        text = rest
        if frozenset(_KEY_WORD.findall(label.lower())) <= _LABELS:
            label = ""
    else:
        label = ""
    cuts = [match.end() for match in _LEFT_CUT.finditer(text)]
    text = text[cuts[-1] :] if cuts else text
    tokens = text.lower().split()
    words = frozenset(tokens)
    is_past = not found.has_changed and not words.isdisjoint(_PAST)
    if not tokens or is_past or tokens[0] in _PRONOUNS or not words.isdisjoint(_CONDITIONS) or "n't" in text:
        return ""
    return f"{label} {text}" if label else text


def _leading_scope(sentence: str, left: str) -> str | None:
    """Return the phrase in front that limits the statement; None if it is not known where it ends."""
    if not _SCOPE_START.match(sentence):
        return ""
    head, comma, _ = left.partition(",")
    if comma:
        return head if len(head.split()) <= 8 else None
    return None if _LEFT_CUT.search(left) else ""


def _subject_key(subject: str) -> frozenset[str] | None:
    words = frozenset(_KEY_WORD.findall(subject.lower()))
    key = key_words(subject)
    if not _BRACKETS.isdisjoint(subject):
        return None
    if not key or len(subject.split()) > _MAX_SUBJECT_WORDS + 3 or len(key) > _MAX_SUBJECT_WORDS:
        return None
    if words <= _GENERIC_SUBJECTS | _LIGHT or words & _PAST or words & _EVENTS:
        return None
    return key


def _cut_tail(text: str) -> str:
    cut = _TAIL_CUT.search(text)
    return text[: cut.start()] if cut else text


def _choices_of(sentence: str) -> Iterator[StatedValue]:
    """Yield the tools that a sentence says are used, were exchanged or are not used any more."""
    if not _CHOICE_VERB.search(sentence):
        return
    for match in _SWITCH.finditer(sentence):
        old = match["old"] or match["old2"] or match["old3"]
        new = match["new"] or match["new2"] or match["new3"]
        rest = match["rest"] or match["rest2"] or match["rest3"] or ""
        if stated := _make_choice(sentence, new, rest, match["what"] or "", replaces=old):
            yield stated
        return
    if abandoned := _ABANDONED.search(sentence):
        name = abandoned["tool"].strip("`").lower()
        if name in _TOOLS:
            purpose = f"tool:{_TOOLS[name]}"
            name = _SAME_TOOLS.get(name, name)
            scope = key_words(_cut_tail(abandoned["rest"]))
            yield StatedValue(scope | {purpose}, purpose, f"not {name}", f"not {abandoned['tool']}", "", sentence, name)
        return
    if choice := _CHOICE.match(sentence):
        who = _choosers(choice["who"])
        if who is not None and (stated := _make_choice(sentence, choice["tool"], choice["rest"], who)):
            yield stated


def _choosers(text: str) -> str | None:
    """Return the words in front of a choice that limit it; None if they make it no statement."""
    label, separator, who = text.rpartition(": ")
    words = frozenset(_KEY_WORD.findall(text.lower()))
    if words & (_PAST | _NO_CHOICE):
        return None
    named = " ".join(word for word in _KEY_WORD.findall(who.lower()) if word not in _CHOOSERS)
    is_generic = frozenset(_KEY_WORD.findall(label.lower())) <= _LABELS
    return named if not separator or is_generic else f"{label} {named}"


def _make_choice(sentence: str, tool: str, rest: str, what: str, replaces: str = "") -> StatedValue | None:
    name = tool.strip("`").lower()
    if name not in _TOOLS or _ALTERNATIVE.match(rest) or rest.lstrip().startswith(("and ", "or ", ", ", "/", "+ ")):
        return None
    if name in _NEVER_ALONE and "`" not in tool and not tool[:1].isupper():
        return None
    purpose = f"tool:{_TOOLS[name]}"
    scope = key_words(_cut_tail(rest)) | (key_words(what) - key_words(purpose[5:]))
    if _SCOPE_START.match(sentence):
        scope |= key_words(sentence.partition(",")[0]) if "," in sentence else frozenset()
    old = replaces.strip("`").lower()
    key = scope - _words("everywhere throughout") | {purpose}
    if len(key) > _MAX_KEY_WORDS:
        return None
    about = purpose[5:]
    return StatedValue(
        key, purpose, _SAME_TOOLS.get(name, name), tool.strip("`"), about, sentence, _SAME_TOOLS.get(old, old)
    )


def forget_texts() -> None:
    """Empty the cache of texts that were read."""
    _find_cached.cache_clear()
