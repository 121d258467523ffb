"""The public text that the encoder is trained on: where it comes from, under which licence, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass

from train import readers
from train.readers import Reader


@dataclass(frozen=True, slots=True)
class Source:
    """Files of a public repository on GitHub."""

    repository: str
    licence: str
    reader: Reader
    pattern: str
    """Regular expression for paths; for commits, how many of the newest."""
    most: int
    """Pairs taken at most."""
    kind: str
    """What it brings: documents, code, commits, dialogue, science, answers, languages."""


_MARKDOWN = r"\.mdx?$"
_RST = r"\.(rst|txt|md)$"
_TESTS = r"^(?!.*(/tests?/|/testing/|/vendor/|_test\.)).*"


def _of(kind: str, reader: Reader, most: int, pattern: str, *entries: str) -> tuple[Source, ...]:
    """Return sources that are read alike, from lines of `owner/name licence`."""
    return tuple(
        Source(name, licence, reader, pattern, most, kind) for name, _, licence in (e.partition(" ") for e in entries)
    )


SOURCES: tuple[Source, ...] = (
    # Science: abstracts, findings, paragraphs
    *_of("science", readers.articles, 80_000, r"^articles/.*\.xml$", "elifesciences/elife-article-xml CC-BY-4.0"),
    *_of("science", readers.anthology, 60_000, r"^data/xml/(20[2-9]\d\..*|[A-Z]1[6-9])\.xml$", "acl-org/acl-anthology CC-BY-4.0"),
    *_of(
        "science", readers.proceedings, 4_000, r"^_posts/.*\.(md|markdown)$",
        "mlresearch/v70 CC-BY-4.0", "mlresearch/v80 CC-BY-4.0", "mlresearch/v97 CC-BY-4.0", "mlresearch/v119 CC-BY-4.0",
        "mlresearch/v162 CC-BY-4.0",
    ),
    *_of(
        "science", readers.documents, 4_000, r"^content/.*\.md$",
        "greenelab/deep-review CC-BY-4.0", "greenelab/covid19-review CC-BY-4.0",
    ),
    *_of("science", readers.documents, 8_000, r"^papers/.*\.(rst|md)$", "scipy-conference/scipy_proceedings CC-BY-3.0"),
    # Questions and answers
    *_of("answers", readers.medical_answers, 40_000, r"_QA/.*\.xml$", "abachaa/MedQuAD CC-BY-4.0"),
    *_of("answers", readers.facts, 12_000, r"^data(_eval)?/knowledge\.json$", "alexa/alexa-with-dstc9-track1-dataset Apache-2.0"),
    *_of("answers", readers.titles, 60_000, r"qid_to_title\.pickle$", "LittleYUYU/StackOverflow-Question-Code-Dataset CC-BY-4.0"),
    # Dialogue
    *_of("dialogue", readers.friends_questions, 40_000, r"^dat/.*\.json$", "emorynlp/FriendsQA Apache-2.0"),
    *_of("dialogue", readers.chat_messages, 80_000, r"^conversations/.*\.json$", "alexa/Topical-Chat CDLA-Sharing-1.0"),
    *_of("dialogue", readers.assistant_dialogues, 60_000, r"^(train|dev|test)/dialogues.*\.json$", "google-research-datasets/dstc8-schema-guided-dialogue CC-BY-SA-4.0"),
    *_of("dialogue", readers.assistant_dialogues, 10_000, r"^TM-4-2024/data/.*\.json$", "google-research-datasets/Taskmaster CC-BY-4.0"),
    *_of("dialogue", readers.meetings, 40_000, r"^data/(Academic|Committee|Product)/jsonl/.*\.jsonl$", "Yale-LILY/QMSum MIT"),
    *_of("dialogue", readers.chat_logs, 30_000, r"^data/(train|dev|test)/.*\.raw\.txt$|ascii\.txt$", "jkkummerfeld/irc-disentanglement CC-BY-4.0"),
    # Documents
    *_of("documents", readers.documents, 60_000, r"^files/en-us/.*\.md$", "mdn/content CC-BY-SA-2.5"),
    *_of("documents", readers.documents, 30_000, r"^content/.*\.md$", "github/docs CC-BY-4.0"),
    *_of("documents", readers.documents, 30_000, r"^content/en/.*\.md$", "kubernetes/website CC-BY-4.0"),
    *_of("documents", readers.documents, 20_000, r"^docs-ref-conceptual/.*\.md$", "MicrosoftDocs/azure-docs-cli CC-BY-4.0"),
    *_of("documents", readers.documents, 12_000, _MARKDOWN, "jbranchaud/til MIT", "simonw/til Apache-2.0", "rust-lang/rfcs Apache-2.0", "caddyserver/caddy Apache-2.0", "etcd-io/etcd Apache-2.0", "prometheus/prometheus Apache-2.0", "gohugoio/hugo Apache-2.0", "vitejs/vite MIT", "BurntSushi/ripgrep MIT", "expressjs/express MIT"),
    *_of("documents", readers.documents, 12_000, r"(^|/)(peps|docs?)/.*\.(rst|txt|md)$", "python/peps CC0-1.0", "pandas-dev/pandas BSD-3-Clause", "scikit-learn/scikit-learn BSD-3-Clause", "numpy/numpy BSD-3-Clause", "django/django BSD-3-Clause", "scrapy/scrapy BSD-3-Clause", "pallets/flask BSD-3-Clause", "pytest-dev/pytest MIT", "celery/celery BSD-3-Clause", "networkx/networkx BSD-3-Clause", "sympy/sympy BSD-3-Clause", "sqlfluff/sqlfluff MIT"),
    *_of("documents", readers.manual_pages, 15_000, r"^man[1-8]/", "mkerrisk/man-pages various-free"),
    *_of("documents", readers.cheat_sheets, 8_000, r"^[a-z0-9_-]+$", "cheat/cheatsheets CC0-1.0"),
    *_of("documents", readers.books, 4_000, r"^src/epub/text/.*\.xhtml$", "standardebooks/daniel-defoe_a-journal-of-the-plague-year CC0-1.0", "standardebooks/jane-austen_pride-and-prejudice CC0-1.0"),
    # Code
    *_of("code", readers.python_code, 14_000, _TESTS + r"\.py$", "django/django BSD-3-Clause", "pandas-dev/pandas BSD-3-Clause", "scikit-learn/scikit-learn BSD-3-Clause", "numpy/numpy BSD-3-Clause", "scrapy/scrapy BSD-3-Clause", "pallets/flask BSD-3-Clause", "pallets/click BSD-3-Clause", "psf/requests Apache-2.0", "TheAlgorithms/Python MIT", "pytest-dev/pytest MIT", "celery/celery BSD-3-Clause", "networkx/networkx BSD-3-Clause", "sympy/sympy BSD-3-Clause", "sqlfluff/sqlfluff MIT", "facebookresearch/ParlAI MIT"),
    *_of("code", readers.go_code, 8_000, _TESTS + r"\.go$", "caddyserver/caddy Apache-2.0", "etcd-io/etcd Apache-2.0", "prometheus/prometheus Apache-2.0", "gin-gonic/gin MIT", "gohugoio/hugo Apache-2.0"),
    # Commits
    *_of("commits", readers.commits, 6_000, "6000", "django/django BSD-3-Clause", "scrapy/scrapy BSD-3-Clause", "pytest-dev/pytest MIT", "caddyserver/caddy Apache-2.0", "etcd-io/etcd Apache-2.0", "prometheus/prometheus Apache-2.0", "vitejs/vite MIT", "vuejs/core MIT", "BurntSushi/ripgrep MIT", "celery/celery BSD-3-Clause", "pallets/flask BSD-3-Clause"),
    # Other languages, so that they do not get worse
    *_of("languages", readers.documents, 22_000, r"/index\.md$", "bundestag/gesetze public-domain"),
    *_of("languages", readers.documents, 10_000, r"^content/de/.*\.md$", "kubernetes/website CC-BY-4.0"),
    *_of("languages", readers.documents, 12_000, r"^content/zh-cn/.*\.md$", "kubernetes/website CC-BY-4.0"),
    *_of("languages", readers.documents, 12_000, r"^files/zh-cn/.*\.md$", "mdn/translated-content CC-BY-SA-2.5"),
    *_of("languages", readers.documents, 8_000, r"^src/.*\.md$", "vuejs-translations/docs-zh-cn CC-BY-4.0"),
)  # fmt: skip
