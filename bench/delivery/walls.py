"""Which repeated corrections `lorelog friction` finds in real sessions, with labels as the judge.

    python -m bench.delivery.walls TEAM_FOLDER... --labels FILE [--errors SHARE]

The sessions of a team are captured in order of time, and after each the recorded judge files what is new (`recorded_judge`). The truth are the
subjects of `repeated.tsv` that were said in at least three sessions. The judge knows them, so this measures whether what it filed as one is
counted as one, not whether a language model would have seen it. With --errors that share of its labels and repetitions is wrong, by chance.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from bench.delivery.__main__ import REPEATED, _covers
from bench.delivery.recorded_judge import RecordedJudge, _read_rows
from bench.delivery.timeline import Session, read_team

from lorelog import Lorelog
from lorelog.core.errors import LorelogError
from lorelog.services.traces.friction import MIN_SESSIONS, SAID, Wall


def find(sessions: list[Session], judge: RecordedJudge, place: Path) -> list[Wall]:
    """Capture and judge one session after the other; return the walls of what was said."""
    project = place / "project"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    judge.learn(sessions)
    with Lorelog(project, home=place / "home", daemon="off", settings={"embedding.provider": "none"}) as client:
        for session in sessions:
            about = {"host": session.host, "session": session.name, "transcript": str(session.path)}
            try:
                client.call("session.capture", about | {"directory": str(project), "everything": True})
            except LorelogError as error:
                print(f"   not captured: {error.message}")
            reviewer = client._caller.engine.reviewer(os.environ)  # noqa: SLF001
            reviewer.run(judge, "recorded", reviewer.statements(None, 1_000))  # type: ignore[arg-type]
        return [wall for wall in client.debug.friction(limit=100).walls if wall.kind == SAID]


def main() -> None:
    """Print the walls of each team beside the subjects that are known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("teams", nargs="+", type=Path, metavar="TEAM_FOLDER")
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--errors", type=float, default=0.0)
    args = parser.parse_args()
    for folder in args.teams:
        sessions, judge = read_team(folder), RecordedJudge.read(args.labels, args.errors)
        said: dict[str, set[str]] = defaultdict(set)
        wordings: dict[str, set[str]] = defaultdict(set)
        for row in _read_rows(REPEATED):
            if row["team"].replace("/", "+") == folder.name:
                said[row["subject"]].update(session.name for session in sessions if _covers(session, row["time"]))
                known = (
                    judge.answers.get(row["digest"], {}).get("wording"),
                    judge.labels.get(row["digest"], ("", ""))[1],
                )
                wordings[row["subject"]].update(filter(None, (row["subject"], *known)))
        with tempfile.TemporaryDirectory(prefix="lorelog-walls-") as place:
            walls = find(sessions, judge, Path(place))
        print(f"\n## {folder.name}: {len(sessions)} sessions, errors {args.errors}")
        for subject, names in sorted(said.items(), key=lambda each: -len(each[1])):
            found = next((wall for wall in walls if wall.what in wordings[subject]), None)
            told = f"{found.sessions} sessions, {found.calls} times; {found.remedy}" if found else "-"
            print(
                f"| {subject} | {len(names)} | {told} |"
                if len(names) >= MIN_SESSIONS or found
                else f"  ({subject}: {len(names)})"
            )
        every = set[str]().union(*wordings.values())
        for wall in walls:
            if wall.what not in every:
                print(f"| OTHER: {wall.what[:120]} | | {wall.sessions} sessions, {wall.calls} times; {wall.remedy} |")


if __name__ == "__main__":
    main()
