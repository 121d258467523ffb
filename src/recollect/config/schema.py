"""Every setting, declared once: key, kind, default, meaning, what it accepts and who may choose it.

Loading, editing, `config init` and docs/configuration.md all read this one tuple, so they cannot disagree. A setting is
here only when something reads it. Which providers exist is not here: the models room knows that, and wiring says so.

A project file comes with a clone, so a stranger may have written it. It may shape how that project is cut, scanned and
searched; it may not choose where text or keys are sent, whose index is opened, or that other projects' memories are
shown in this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from recollect.core.options import PROVIDERS, RERANKERS
from recollect.core.query import Fusion, Lane

Value = str | int | float | bool | tuple[str, ...]
"""What a setting holds once accepted."""


class Kind(StrEnum):
    """The types a setting can have, by the words the documentation uses."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    SWITCH = "true or false"
    LIST = "list of texts"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `pattern` is matched against a whole text, or against each entry of a list."""

    key: str
    kind: Kind
    default: Value
    meaning: str
    minimum: float = float("-inf")
    maximum: float = float("inf")
    choices: tuple[str, ...] = ()
    pattern: str = ""
    expected: str = ""
    """What is accepted, in words that follow "expected"; derived from kind and limits when empty."""
    project_allowed: bool = False
    secret: bool = False
    """Only a reference to an environment variable is accepted."""
    repeatable: bool = True
    """Whether an error may repeat a refused value; one that may hold a key or a password is not."""

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]

    @property
    def field(self) -> str:
        return self.key.partition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"RECOLLECT_{self.section}_{self.field}".upper()

    @property
    def accepts(self) -> str:
        """What is accepted, as a phrase."""
        if self.expected:
            return self.expected
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind in (Kind.WHOLE, Kind.NUMBER):
            return f"a {self.kind} from {self.minimum:.16g} to {self.maximum:.16g}"
        return {Kind.TEXT: "a text", Kind.SWITCH: "true or false"}.get(self.kind, "a list of texts")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "scope.tenant",
        Kind.TEXT,
        "default",
        "The tenant whose memories are read and written; nothing crosses tenants.",
        # It names a directory under the home, on file systems that may ignore case.
        pattern=r"[a-z0-9][a-z0-9._-]{0,63}",
        expected="a name of 1 to 64 characters from a-z, 0-9, '.', '_' and '-' that starts with a letter or digit",
    ),
    Setting(
        "embedding.provider",
        Kind.TEXT,
        "builtin",
        "Who turns text into vectors: `builtin` needs no network and no key, `openai` is any server that speaks its "
        "dialect, `none` leaves it at words, `fake` is for tests.",
        choices=PROVIDERS,
    ),
    Setting(
        "embedding.model",
        Kind.TEXT,
        "",
        "The provider's model; empty takes the provider's default.",
    ),
    Setting(
        "embedding.base_url",
        Kind.TEXT,
        "",
        "Address of a compatible server; empty takes the provider's own.",
        # No user, password, query or fragment: those carry secrets, and settings are shown and stored as they are.
        pattern=r"(https?://((?![/?#@])[!-~])+(/((?![?#@])[!-~])*)?)?",
        expected="an http:// or https:// address without user, password or query",
        repeatable=False,
    ),
    Setting(
        "embedding.api_key",
        Kind.TEXT,
        "",
        "`env:NAME` reads the key from the variable NAME; empty leaves it to the provider's own variable.",
        pattern=r"(env:[A-Za-z_][A-Za-z0-9_]*)?",
        expected="a reference such as env:OPENAI_API_KEY, never the key itself",
        secret=True,
        repeatable=False,
    ),
    Setting(
        "embedding.batch_size",
        Kind.WHOLE,
        0,
        "Texts embedded in one call; 0 takes what suits the provider.",
        minimum=0,
        maximum=10_000,
        project_allowed=True,
    ),
    Setting(
        "embedding.threads",
        Kind.WHOLE,
        0,
        "Processor threads that models which run here may use, the cross-encoder too; 0 chooses by the machine.",
        minimum=0,
        maximum=256,
    ),
    Setting(
        "embedding.timeout_s",
        Kind.NUMBER,
        60.0,
        "Seconds to wait for an answer of a provider's server.",
        minimum=0.1,
        maximum=3600,
    ),
    Setting(
        "chunking.max_chunk_size",
        Kind.WHOLE,
        1500,
        "Characters after which a section is split.",
        # Below about a hundred characters a chunk is less than a sentence and its overlap is most of it. Above, no
        # encoder reads 100,000 characters in one go.
        minimum=100,
        maximum=100_000,
        project_allowed=True,
    ),
    Setting(
        "chunking.overlap_lines",
        Kind.WHOLE,
        2,
        "Lines that the parts of a split section share.",
        minimum=0,
        maximum=50,
        project_allowed=True,
    ),
    Setting(
        "index.paths",
        Kind.LIST,
        (),
        "Files and directories that `index` reads when it is given none; an entry `!path` leaves that path out. "
        "Relative paths start at the project directory.",
        pattern=r"!?[^!].*",
        expected="a list of paths",
        project_allowed=True,
    ),
    Setting(
        "index.exclude",
        Kind.LIST,
        (),
        "Patterns of files to leave out, written as in a .gitignore, relative to each root.",
        pattern=r".+",
        expected="a list of gitignore-style patterns",
        project_allowed=True,
    ),
    Setting(
        "index.ignore_files",
        Kind.LIST,
        (".gitignore", ".recollectignore"),
        "Names of the files in which such patterns are looked for, in every directory.",
        pattern=r"(?!\.{1,2}$)[^/\\]+",
        expected="a list of file names without slashes",
        project_allowed=True,
    ),
    Setting(
        "index.max_file_bytes",
        Kind.WHOLE,
        10_000_000,
        "Larger files are reported and not indexed.",
        minimum=1,
        maximum=1_000_000_000,
        project_allowed=True,
    ),
    Setting(
        "search.k",
        Kind.WHOLE,
        5,
        "How many hits a search returns.",
        minimum=1,
        maximum=1000,
        project_allowed=True,
    ),
    Setting(
        "search.lane",
        Kind.TEXT,
        str(Lane.HYBRID),
        "How to find: by words (`lexical`), by meaning (`dense`) or by both.",
        choices=tuple(map(str, Lane)),
        project_allowed=True,
    ),
    Setting(
        "search.fusion",
        Kind.TEXT,
        str(Fusion.CONVEX),
        "How the two lanes' scores become one.",
        choices=tuple(map(str, Fusion)),
        project_allowed=True,
    ),
    Setting(
        "search.token_budget",
        Kind.WHOLE,
        0,
        "Tokens that the hits of a search may cost their reader: the best set that fits is shown, in whole sections where "
        "they fit. 0 shows the snippets of all hits.",
        minimum=0,
        maximum=10_000_000,
        project_allowed=True,
    ),
    Setting(
        "search.all_projects",
        Kind.SWITCH,
        False,
        "Search the memories of all projects of the tenant, not only of this one.",
    ),
    Setting(
        "search.min_relevance",
        Kind.NUMBER,
        0.0,
        "Hits that are less likely than this to be relevant at all are left out; 0 shows the best there is.",
        minimum=0,
        maximum=1,
        project_allowed=True,
    ),
    Setting(
        "rerank.provider",
        Kind.TEXT,
        "onnx",
        "Who runs the cross-encoder: `onnx` needs nothing more, `local` is sentence-transformers, to be installed.",
        choices=RERANKERS,
    ),
    Setting(
        "rerank.model",
        Kind.TEXT,
        "",
        "The cross-encoder that looks at the best candidates once more: a folder (`/…` or `~/…`) with `model.onnx` and "
        "`tokenizer.json`, or an id of Hugging Face, taken from the local cache or else downloaded. Empty is off.",
        pattern=r"([/~][^\x00-\x1f\x7f-\x9f]*|[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?)?",
        expected="an absolute path, one that begins with ~, or an id such as cross-encoder/ms-marco-MiniLM-L6-v2",
    ),
    Setting(
        "rerank.candidates",
        Kind.WHOLE,
        20,
        "How many of the best candidates the cross-encoder reads.",
        minimum=1,
        maximum=200,
        project_allowed=True,
    ),
    Setting(
        "rerank.timeout_s",
        Kind.NUMBER,
        2.0,
        "Seconds the cross-encoder may take for one question, loading included; what it did not read by then keeps its "
        "score.",
        minimum=0.05,
        maximum=60,
        project_allowed=True,
    ),
    # The caches take memory of the person whose machine it is, and one of them can change answers: no project chooses them.
    Setting(
        "cache.answers",
        Kind.SWITCH,
        True,
        "Keep answers, and give them again to the same question until anything is written or a new day begins. It helps "
        "programs that go on (Python, servers); a single command asks once.",
    ),
    Setting(
        "cache.answers_entries",
        Kind.WHOLE,
        512,
        "How many answers are kept, and sixteen times as many hits in all; the one unused for longest makes room.",
        minimum=1,
        maximum=100_000,
    ),
    Setting(
        "cache.answers_ttl_s",
        Kind.NUMBER,
        2700.0,
        "Seconds after which an answer is dropped even when nothing was written.",
        minimum=1,
        maximum=604_800,
    ),
    Setting(
        "cache.similar",
        Kind.NUMBER,
        0.0,
        "The cosine from which a question that differs only in case, articles or its end mark is given the other's "
        "answer, with a note; .985 is usual. 0 is off: the order of hits may differ from a search's own.",
        minimum=0,
        maximum=1,
    ),
    Setting(
        "cache.hot",
        Kind.SWITCH,
        False,
        "Keep the memories that come up again and again, with their words, in memory until anything is written.",
    ),
    Setting(
        "cache.hot_bytes",
        Kind.WHOLE,
        16_000_000,
        "Bytes that these memories may take, estimated.",
        minimum=1,
        maximum=4_000_000_000,
    ),
)

BY_KEY = {setting.key: setting for setting in SETTINGS}
SECTIONS = tuple(dict.fromkeys(setting.section for setting in SETTINGS))
