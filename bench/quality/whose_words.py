"""Whose words come first: standing statements among turns, pages by their title, sources beside their summary, real questions.

python -m bench.quality.whose_words --data DIR --sessions DIR --keep DIR [--weights 0,.1,.2]

`--sessions` has a folder of transcripts for each team; what users said in them is joined with `DATA/statements/labels.tsv`
by digest. Each team's sessions are captured into a project, and what a reader called a rule or a decision is added as the user's own.
`whose_words.tsv` has the questions, written for this: what a developer asks before acting (`statement`: a digest of
`delivery.recorded_judge`), what a turn alone answers (`turn`: the id of its note), and `page`s of the Kubernetes documentation. For
summaries, each project of the set small_projects is compacted without a model, and asked before and after; a `broad` question
is about all of a project. Homes are kept in `--keep`: another version is measured without embedding everything again.

With --weights, the prior of standing statements is chosen on all teams but one, and reported on that one.

`real` questions are what a developer of the team asks weeks later. Their projects hold what capture kept, and nothing else. One reader
labelled them in two steps. First all journals were read, without their lists of commands, and each question was written with the ids of the
notes that answer it, before anything was searched. Then each other note among the first five of any ranking was judged, by its beginning
where that was enough. A note answers if it says what was asked and still holds: a decision that a later one replaced does not.
"""

from __future__ import annotations

import argparse
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from unittest import mock

from bench.delivery.hook_calls import Bench
from bench.delivery.recorded_judge import RecordedJudge, digest_of
from bench.delivery.timeline import Session, read_team
from bench.quality.rivals import PlainBM25
from bench.quality.sets import JudgedSet, load

from lorelog import Lorelog
from lorelog.core.document import ChunkKey
from lorelog.core.query import Hit, Lane, SearchReply
from lorelog.services.cues.cue import read_cues
from lorelog.services.review.judge import LASTING_LABELS
from lorelog.services.search import candidates

DEPTH = 50
TASKS = "kubernetes_en/docs/tasks/"
_QUESTIONS = Path(__file__).with_name("whose_words.tsv")
_MAX_TURN_LOSS = 0.01
"""What questions for turns may lose by the prior."""

Ranks = list[int]


@contextmanager
def project_in(folder: Path, fill: Callable[[Bench, Path, Lorelog], object]) -> Iterator[Lorelog]:
    """Open the project of a folder; one that is not there yet is made, and filled."""
    bench, root = Bench(folder), folder / "projects" / "here"
    bench.environment |= {"TZ": "UTC", "LORELOG_EMBEDDING_PROVIDER": "builtin", "LORELOG_CACHE_ANSWERS": "false"}
    is_new = not (folder / "filled").exists()
    if is_new and not root.exists():
        bench.make_project("here")
    with bench.active(), Lorelog(project=root, daemon="off") as memory:
        if is_new:
            (folder / "filled").write_text(json.dumps(fill(bench, root, memory)))
        yield memory


def questions(kind: str) -> list[tuple[str, str]]:
    """Return the questions of a kind, each with what answers it."""
    rows = (line.split("\t") for line in _QUESTIONS.read_text("utf-8").splitlines())
    return [(answer, text) for name, answer, text in rows if name == kind]


def row(name: str, ranks: Ranks) -> str:
    """Return the measures of some ranks as a row."""
    shares = [fmean(1 <= rank <= limit for rank in ranks) for limit in (1, 3, 5)]
    return f"| {name} | {len(ranks)} | {mrr(ranks):.3f} | " + " | ".join(f"{share:.2f}" for share in shares) + " |"


def mrr(ranks: Ranks) -> float:
    """Return the mean reciprocal rank."""
    return fmean(1 / rank if rank else 0.0 for rank in ranks)


HEAD = "| questions | | MRR | first | of 3 | of 5 |\n|---|--:|--:|--:|--:|--:|"


# -- standing statements among turns -------------------------------------------------------------------------------------


def capture_team(transcripts: Path, bench: Bench, root: Path, memory: Lorelog) -> Iterator[Session]:
    """Capture the sessions of a team into a project, by their beginning, and yield each."""
    for session in read_team(transcripts):
        path = bench.root / "transcripts" / session.host / f"{session.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(session.lines)
        path.write_text(text.replace(session.directory, str(root)) if len(session.directory) > 1 else text)
        asked = {"host": session.host, "session": session.name, "transcript": str(path), "everything": True}
        memory.call("session.capture", asked | {"moment": "session-end"})
        yield session


def ask_team(transcripts: Path, labels: Path, folder: Path) -> dict[str, Ranks]:
    """Return the ranks of a team's statements and turns."""
    judge = RecordedJudge.read(labels)

    def fill(bench: Bench, root: Path, memory: Lorelog) -> dict[str, str]:
        filed: dict[str, dict[str, object]] = {}
        for session in capture_team(transcripts, bench, root, memory):
            for digest in (digest_of(*said) for said in session.said):
                label, subject = judge.labels.get(digest, ("", ""))
                if label in LASTING_LABELS:
                    answer, kind = judge.answers.get(digest, {}), "preference" if label == "rule" else label
                    cues = tuple(map(str, read_cues(answer.get("cues", "").split(";"))))
                    filed[digest] = {"text": answer.get("wording") or subject, "type": kind, "cues": cues}
        added = memory.add_batch(filed.values())
        return dict(zip(filed, (reply.memory for reply in added.memories), strict=True))

    with project_in(folder, fill) as memory:
        filed = json.loads((folder / "filled").read_text())
        journals = "".join(path.read_text() for path in (folder / "projects/here/.lorelog/memory").glob("*.md"))
        statements = [(filed[answer], text) for answer, text in questions("statement") if answer in filed]
        turns = [(answer, text) for answer, text in questions("turn") if f"memory:{answer} " in journals]
        return {
            kind: [_rank(memory.search(text, k=DEPTH).hits, answer) for answer, text in asked]
            for kind, asked in (("statement", statements), ("turn", turns))
        }


def _rank(hits: Sequence[Hit], answer: str) -> int:
    """Return the rank of a memory, or of a page of a file; 0 if it is not found."""
    names = ((hit.anchor.memory if hit.anchor else "") or hit.source for hit in hits)
    return next((rank for rank, name in enumerate(names, 1) if name.endswith(answer)), 0)


def measure_teams(options: argparse.Namespace) -> None:
    """Print the ranks of each team, and with several weights those of the weight that the other teams choose."""
    teams = sorted(path for path in options.sessions.iterdir() if path.is_dir())
    labels, weights = options.data / "statements" / "labels.tsv", options.weights or [candidates.STANDING_WEIGHT]
    found: dict[float, dict[str, dict[str, Ranks]]] = {}
    for weight in weights:
        with mock.patch.object(candidates, "STANDING_WEIGHT", weight):
            found[weight] = {team.name: ask_team(team, labels, options.keep / team.name) for team in teams}
        print(f"\n## Statements among turns, prior {weight}\n\n{HEAD}")
        for name, kinds in (*found[weight].items(), ("all", _joined(found[weight].values()))):
            print("\n".join(row(f"{name}, {kind}", ranks) for kind, ranks in kinds.items() if ranks))
    if len(weights) > 1:
        print(f"\n## Chosen on the other teams\n\n{HEAD}")
        for team in teams:
            others = {
                weight: _joined(kinds for name, kinds in by_team.items() if name != team.name)
                for weight, by_team in found.items()
            }
            least = mrr(others[weights[0]]["turn"]) - _MAX_TURN_LOSS
            free = [weight for weight in weights if mrr(others[weight]["turn"]) >= least]
            best = max(free, key=lambda weight: mrr(others[weight]["statement"]))
            for kind, ranks in found[best][team.name].items():
                print(row(f"{team.name}, {kind}, prior {best}", ranks))


def _joined(teams: Iterable[dict[str, Ranks]]) -> dict[str, Ranks]:
    joined: dict[str, Ranks] = {}
    for kinds in teams:
        for kind, ranks in kinds.items():
            joined[kind] = joined.get(kind, []) + ranks
    return joined


# -- pages ---------------------------------------------------------------------------------------------------------------


def measure_pages(options: argparse.Namespace) -> None:
    """Print the ranks of pages."""

    def fill(bench: Bench, root: Path, memory: Lorelog) -> None:
        asked = {f"kubernetes_en/docs/{page}" for page, _ in questions("page")}
        with tarfile.open(options.data / "corpora" / "kubernetes_en.tar.gz") as archive:
            pages = (member for member in archive if member.name.endswith(".md"))
            chosen = [page for page in pages if page.name in asked or page.name.startswith(TASKS)]
            archive.extractall(root, chosen, filter="data")
        memory.index([root])

    with project_in(options.keep / "pages", fill) as memory:
        ranks = [_rank(memory.search(text, k=DEPTH).hits, f"/{page}") for page, text in questions("page")]
    print(f"\n## Pages\n\n{HEAD}\n{row('Kubernetes', ranks)}")


# -- summaries -----------------------------------------------------------------------------------------------------------


def measure_summaries(options: argparse.Namespace) -> None:
    """Print how far a compaction moves the notes of small projects, and where broad questions find the summary."""
    given = load(options.data, "small_projects")
    ranks: dict[str, Ranks] = {"before": [], "after": [], "broad": []}
    moved, relevances = 0, list[tuple[float, float]]()
    for group in sorted({text.group for text in given.texts}):
        before, after = (_Notes(given, group, options.keep / f"{name}-{group}") for name in ("notes", "summary"))
        asked = [question for question in given.judged if question.group == group]
        old, new = before.ask([question.text for question in asked]), after.ask([question.text for question in asked])
        for question, first, second in zip(asked, old, new, strict=True):
            answers = {name for name, gain in given.gains[question.id].items() if gain > 0}
            moved += first[:5] != [name for name in second if name][:5]
            for places, some in ((first, ranks["before"]), (second, ranks["after"])):
                some.append(next((rank for rank, name in enumerate(places, 1) if name in answers), 0))
        relevances += zip(before.relevances, after.relevances, strict=True)
        broad = after.ask([text for _, text in questions("broad")])
        ranks["broad"] += [places.index("") + 1 if "" in places else 0 for places in broad]
    print(f"\n## Summaries\n\n{HEAD}")
    for name, label in (("before", "notes before"), ("after", "notes after"), ("broad", "broad, rank of the summary")):
        print(row(label, ranks[name]))
    print(f"\nanother order of the first five notes: {moved} of {len(ranks['before'])} questions")
    print(
        "relevance of the first hit: " + ", ".join(f"{fmean(column):.3f}" for column in zip(*relevances, strict=True))
    )


class _Notes:
    """A small project, and with a name that begins so, its summary."""

    def __init__(self, given: JudgedSet, group: str, folder: Path) -> None:
        self._texts = [text for text in given.texts if text.group == group]
        self._folder = folder
        self.relevances: list[float] = []

    def ask(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the notes that each search finds, by their ids in the set; the summary is empty."""
        with project_in(self._folder, self._fill) as memory:
            names = json.loads((self._folder / "filled").read_text())
            found = [memory.search(text, k=DEPTH).hits for text in texts]
        self.relevances += [hits[0].relevance for hits in found]
        return [[names.get(hit.anchor.memory if hit.anchor else "", "") for hit in hits] for hits in found]

    def _fill(self, bench: Bench, root: Path, memory: Lorelog) -> dict[str, str]:
        added = memory.add_batch([text.text for text in self._texts])
        if self._folder.name.startswith("summary"):
            with chdir(root):
                bench.run_command("compact", "--llm", "none")
        return {reply.memory: text.id for text, reply in zip(self._texts, added.memories, strict=True)}


# -- real questions ------------------------------------------------------------------------------------------------------

RANKINGS = (*map(str, Lane), "BM25")
WORDS = ("strong", "likely", "weak")
_ENTRY = re.compile(r"^<!--.*?\bmemory:(\S+).*?-->\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)


@dataclass
class RealQuestion:
    """A question of a team's developer, and what each ranking finds."""

    kind: str
    team: str
    answers: frozenset[str]
    """First eight characters of the ids of the notes that answer it; none if nothing does."""
    text: str
    found: dict[str, list[str]] = field(default_factory=dict)
    """The first five notes of each ranking, by the same characters."""
    reply: SearchReply | None = None
    """The hybrid one."""

    def is_found(self, ranking: str, limit: int) -> bool:
        """Return True if an answer is among the first notes."""
        return not self.answers.isdisjoint(self.found[ranking][:limit])

    def ask(self, memory: Lorelog, plain: PlainBM25) -> None:
        """Search by all rankings."""
        replies = {lane: memory.search(self.text, k=5, lane=lane) for lane in Lane}
        self.reply = replies[Lane.HYBRID]
        self.found = {str(lane): [_short(hit) for hit in reply.hits] for lane, reply in replies.items()}
        self.found["BM25"] = [str(key) for key in plain.rank(self.text, 5)]


def _short(hit: Hit) -> str:
    return hit.anchor.memory[:8] if hit.anchor else ""


def ask_real(options: argparse.Namespace) -> list[RealQuestion]:
    """Return the real questions of the teams whose sessions are there, with what was found."""
    asked = []
    for answer, text in questions("real"):
        head, _, ids = answer.partition(":")
        team, _, kind = head.partition("/")
        asked.append(RealQuestion(kind, team, frozenset(ids.split()), text))
    for team in sorted(options.sessions.iterdir()):
        own = [question for question in asked if team.name.endswith(f"+{question.team}")]
        folder = options.keep / f"{team.name}-captured"
        if not own:
            continue

        def fill(bench: Bench, root: Path, memory: Lorelog, team: Path = team) -> int:
            return sum(1 for _ in capture_team(team, bench, root, memory))

        with project_in(folder, fill) as memory:
            journals = (path.read_text() for path in (folder / "projects/here/.lorelog/memory").glob("*.md"))
            notes: dict[ChunkKey, str] = {
                name[:8]: text for journal in journals for name, text in _ENTRY.findall(journal)
            }
            lost = frozenset[str]().union(*(question.answers for question in own)) - notes.keys()
            if lost:
                raise SystemExit(f"{team.name}: capture made no note {', '.join(sorted(lost))}")
            plain = PlainBM25(notes)
            for question in own:
                question.ask(memory, plain)
    return [question for question in asked if question.reply]


def measure_real(options: argparse.Namespace) -> None:
    """Print how often each ranking finds an answer, what the words are worth, and what is said where nothing answers."""
    asked = ask_real(options)
    answerable = [question for question in asked if question.answers]
    print("\n## Real questions: found first, and among the first five\n")
    print(f"| questions | | {' | '.join(RANKINGS)} |\n|---|--:|{'--:|' * len(RANKINGS)}")
    kinds = list(dict.fromkeys(question.kind for question in answerable))
    teams = list(dict.fromkeys(question.team for question in answerable))
    for name in (*kinds, *teams, "all"):
        chosen = [question for question in answerable if name in {question.kind, question.team, "all"}]
        counts = (
            ", ".join(str(sum(question.is_found(ranking, limit) for question in chosen)) for limit in (1, 5))
            for ranking in RANKINGS
        )
        print(f"| {name} | {len(chosen)} | {' | '.join(counts)} |")
    print(
        "\n## Real questions: of the first five hits with a word, those that answer\n\n| word | hits | right |\n|---|--:|--:|"
    )
    hits = [(hit, question) for question in asked if question.reply for hit in question.reply.hits]
    for word in WORDS:
        right = [_short(hit) in question.answers for hit, question in hits if hit.confidence == word]
        print(f"| {word} | {len(right)} | {sum(right)} ({fmean(right or [0]):.2f}) |")
    folded = [question for question in answerable if question.reply and question.reply.nothing_relevant]
    first, five = (sum(question.is_found("hybrid", limit) for question in folded) for limit in (1, 5))
    print(f"\n{len(folded)} of {len(answerable)} with an answer are told that probably nothing is relevant:", end=" ")
    print(f"the answer is first in {first}, and among the five in {five}.")
    print("\n## Real questions that nothing answers\n")
    for question in asked:
        if not question.answers and question.reply:
            best = question.reply.hits[0] if question.reply.hits else None
            said = f"{best.confidence}, {best.relevance:.2f}" if best else "no hit"
            print(f"- {question.team}: {question.text}: {said}. {question.reply.nothing_relevant}")


PARTS = {"teams": measure_teams, "pages": measure_pages, "summaries": measure_summaries, "real": measure_real}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="holds statements, corpora and retrieval"
    )
    parser.add_argument("--sessions", type=Path, required=True, metavar="DIR", help="holds a folder for each team")
    parser.add_argument("--keep", type=Path, required=True, metavar="DIR", help="keep homes here from run to run")
    parser.add_argument("--weights", type=lambda text: [float(part) for part in text.split(",")], metavar="A,B")
    parser.add_argument("--only", choices=tuple(PARTS), help="measure this part only")
    options = parser.parse_args()
    options.keep = options.keep.resolve()
    for name, measure in PARTS.items():
        if options.only in (None, name):
            measure(options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
