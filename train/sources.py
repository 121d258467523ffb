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
_TESTS = r"^(?!.*(/tests?/|/testing/|/vendor/|_test\.)).*"


def _of(kind: str, reader: Reader, most: int, pattern: str, *entries: str) -> tuple[Source, ...]:
    """Return sources that are read alike, from lines of `owner/name licence`."""
    return tuple(
        Source(name, licence, reader, pattern, most, kind) for name, _, licence in (e.partition(" ") for e in entries)
    )


SOURCES: tuple[Source, ...] = (
    # Science: abstracts, findings, paragraphs
    *_of("science", readers.articles, 70_000, r"^articles/.*\.xml$", "elifesciences/elife-article-xml CC-BY-4.0"),
    *_of("science", readers.anthology, 80_000, r"^data/xml/(20[2-9]\d\..*|[A-Z]1[6-9])\.xml$", "acl-org/acl-anthology CC-BY-4.0"),
    *_of(
        "science", readers.documents, 4_000, r"^content/.*\.md$",
        "greenelab/deep-review CC-BY-4.0", "greenelab/covid19-review CC-BY-4.0",
    ),
    *_of("science", readers.documents, 12_000, r"^papers/.*\.(rst|md)$", "scipy-conference/scipy_proceedings CC-BY-3.0"),
    # Questions and answers
    *_of("answers", readers.documents, 6_000, r"^README\.md$", "sudheerj/reactjs-interview-questions MIT"),
    *_of("answers", readers.documents, 60_000, r"^support/.*\.md$", "MicrosoftDocs/SupportArticles-docs CC-BY-4.0"),
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
    *_of("dialogue", readers.transcripts, 170_000, r"/.*\.md$", "thechangelog/transcripts CC-BY-SA-4.0"),
    *_of("dialogue", readers.transcripts, 40_000, r"/.*\.md$", "bitcointranscripts/bitcointranscripts MIT"),
    *_of("dialogue", readers.transcripts, 40_000, r"transcript_corrected\.vtt$|chat\.txt$|Meetings/.*\.md$|^Interop-Notes/.*\.md$", "ethereum/pm CC-BY-SA-3.0"),
    *_of("dialogue", readers.persona_chats, 30_000, r"^data/.*\.csv$", "google-research-datasets/Synthetic-Persona-Chat CC-BY-4.0"),
    *_of("dialogue", readers.chat_units, 10_000, r"^DP/.*\.json$", "HIT-SCIR/Molweni Apache-2.0"),
    # Documents
    *_of("documents", readers.documents, 40_000, r"^docs/.*\.md$", "dotnet/docs CC-BY-4.0"),
    *_of("documents", readers.documents, 25_000, r"^docs/.*\.md$", "MicrosoftDocs/azure-devops-docs CC-BY-4.0", "MicrosoftDocs/architecture-center CC-BY-4.0"),
    *_of("documents", readers.documents, 20_000, r"^reference/(7\.4|docs-conceptual)/.*\.md$", "MicrosoftDocs/PowerShell-Docs CC-BY-4.0"),
    *_of("documents", readers.documents, 20_000, r"^content/.*\.md$", "docker/docs Apache-2.0"),
    *_of("documents", readers.documents, 16_000, r"^(keps|proposals|specs?|src|EIPS|content|posts)/.*\.(md|rst)$", "kubernetes/enhancements Apache-2.0", "swiftlang/swift-evolution Apache-2.0", "ethereum/EIPs CC0-1.0", "rust-lang/book Apache-2.0", "rust-lang/blog.rust-lang.org Apache-2.0", "openstack/nova-specs CC-BY-3.0", "openstack/neutron-specs CC-BY-3.0"),
    *_of("documents", readers.documents, 8_000, r"^(?!.*(changelog|locale|node_modules)).*\.(md|rst)$", "kubernetes/community Apache-2.0", "apache/airflow Apache-2.0", "openstack/nova Apache-2.0", "openstack/keystone Apache-2.0", "matplotlib/matplotlib PSF-based", "sqlalchemy/sqlalchemy MIT", "pypa/pip MIT", "dask/dask BSD-3-Clause", "zulip/zulip Apache-2.0", "golang/go BSD-3-Clause", "openai/codex Apache-2.0", "tokio-rs/tokio MIT", "clap-rs/clap Apache-2.0"),
    *_of("documents", readers.documents, 12_000, r"^docs/(en|source/en)/.*\.md$", "fastapi/fastapi MIT", "huggingface/transformers Apache-2.0"),
    *_of("documents", readers.documents, 12_000, r"^adev/src/content/.*\.md$", "angular/angular MIT"),
    *_of("documents", readers.documents, 8_000, r"^documentation/.*\.adoc$|(CHANGELOG|CONTRIBUTING|README).*\.md$", "facebook/react MIT", "anomalyco/opencode MIT"),
    *_of("documents", readers.docbook, 20_000, r"^doc/src/sgml/.*\.sgml$", "postgres/postgres PostgreSQL"),
    *_of("documents", readers.release_notes, 6_000, r"^releasenotes/notes/.*\.yaml$", "openstack/nova Apache-2.0", "openstack/keystone Apache-2.0"),
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
    *_of("code", readers.python_code, 10_000, _TESTS + r"\.py$", "apache/airflow Apache-2.0", "huggingface/transformers Apache-2.0", "openstack/nova Apache-2.0", "openstack/keystone Apache-2.0", "zulip/zulip Apache-2.0", "matplotlib/matplotlib PSF-based", "sqlalchemy/sqlalchemy MIT", "dask/dask BSD-3-Clause", "pypa/pip MIT", "fastapi/fastapi MIT"),
    *_of("code", readers.go_code, 20_000, _TESTS + r"\.go$", "golang/go BSD-3-Clause"),
    *_of("code", readers.braced_code, 10_000, _TESTS + r"\.(rs|java|tsx?)$", "tokio-rs/tokio MIT", "clap-rs/clap Apache-2.0", "openai/codex Apache-2.0", "google/guava Apache-2.0", "apache/kafka Apache-2.0", "spring-projects/spring-boot Apache-2.0", "angular/angular MIT", "nestjs/nest MIT", "anomalyco/opencode MIT", "vuejs/core MIT", "vitejs/vite MIT", "BurntSushi/ripgrep MIT"),
    # Commits
    *_of("commits", readers.commits, 1_500, "1800", "golang/go BSD-3-Clause", "postgres/postgres PostgreSQL", "openstack/nova Apache-2.0", "openstack/keystone Apache-2.0", "zulip/zulip Apache-2.0", "apache/airflow Apache-2.0", "apache/kafka Apache-2.0", "facebook/react MIT", "angular/angular MIT", "sqlalchemy/sqlalchemy MIT", "tokio-rs/tokio MIT", "matplotlib/matplotlib PSF-based", "openai/codex Apache-2.0", "huggingface/transformers Apache-2.0", "dask/dask BSD-3-Clause", "pypa/pip MIT", "google/guava Apache-2.0", "spring-projects/spring-boot Apache-2.0", "anomalyco/opencode MIT", "kubernetes/enhancements Apache-2.0", "numpy/numpy BSD-3-Clause", "pandas-dev/pandas BSD-3-Clause", "scikit-learn/scikit-learn BSD-3-Clause"),
    *_of("commits", readers.commits, 6_000, "6000", "django/django BSD-3-Clause", "scrapy/scrapy BSD-3-Clause", "pytest-dev/pytest MIT", "caddyserver/caddy Apache-2.0", "etcd-io/etcd Apache-2.0", "prometheus/prometheus Apache-2.0", "vitejs/vite MIT", "vuejs/core MIT", "BurntSushi/ripgrep MIT", "celery/celery BSD-3-Clause", "pallets/flask BSD-3-Clause"),
    # Other languages
    *_of("languages", readers.translations, 30_000, r"/index\.md$", "bundestag/gesetze public-domain"),
    *_of("languages", readers.translations, 10_000, r"^content/de/.*\.md$", "kubernetes/website CC-BY-4.0"),
    *_of("languages", readers.translations, 30_000, r"^content/zh-cn/.*\.md$", "kubernetes/website CC-BY-4.0"),
    *_of("languages", readers.translations, 40_000, r"^files/zh-cn/.*\.md$", "mdn/translated-content CC-BY-SA-2.5"),
    *_of("languages", readers.translations, 8_000, r"^src/.*\.md$", "vuejs-translations/docs-zh-cn CC-BY-4.0"),
    *_of("languages", readers.translations, 8_000, r"^src/content/.*\.md$", "reactjs/zh-hans.react.dev CC-BY-4.0"),
    *_of("languages", readers.translations, 30_000, r"\.md$", "pingcap/docs-cn CC-BY-SA-3.0"),
    *_of("languages", readers.translations, 60_000, r"^articles/.*\.md$", "MicrosoftDocs/azure-docs.zh-cn CC-BY-4.0"),
    *_of("languages", readers.translations, 15_000, r"^i18n/zh-CN/docusaurus-plugin-content-docs/current/.*\.md$", "apache/doris-website Apache-2.0"),
    *_of("languages", readers.translations, 8_000, r"^docs/(de|zh|source/(de|zh))/.*\.md$", "fastapi/fastapi MIT", "huggingface/transformers Apache-2.0"),
)  # fmt: skip
