"""Speed of the built-in encoder, and of a candidate beside it: texts per second by length, a query, loading, memory.

python -m bench.encoder [--candidate model.onnx [--exact]] [--rounds 15]

Both run as lorelog runs them, one text at a time on one thread, in turns, so that a busy machine slows both. Times are CPU times;
the least of all rounds counts. A candidate must say of itself by its inputs and outputs what it needs (train/quantise.py).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

LENGTHS = (16, 64, 128, 256)
QUERY_TOKENS = 12


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.encoder", description=__doc__)
    parser.add_argument("--candidate", type=Path, metavar="FILE", help="an ONNX model to compare with the built-in one")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--exact", action="store_true", help="the candidate has weights of 8 bits, as e5-small-v2")
    args = parser.parse_args()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    if args.load:
        print(json.dumps(_load(args.load, is_exact=args.exact)))
        return 0
    from lorelog_encoder import FOLDER, NAME, WEIGHTS

    models = {NAME: (FOLDER / WEIGHTS, False)}
    if args.candidate:
        models["candidate"] = (args.candidate, args.exact)
    sessions = {name: open_model(path, is_exact=is_exact) for name, (path, is_exact) in models.items()}
    rows = [[f"{length} tokens, texts/s", *_rates(sessions, length, args.rounds)] for length in LENGTHS]
    rows.append(["query p50, ms", *_queries(sessions, args.rounds * 4)])
    loads = [_loaded(path, is_exact=is_exact) for path, is_exact in models.values()]
    rows.append(["load, ms", *(f"{load['ms']:.0f}" for load in loads)])
    rows.append(["memory with one text of 256 tokens, MB", *(f"{load['rss']:.0f}" for load in loads)])
    rows.append(["file, MB", *(f"{path.stat().st_size / 1e6:.1f}" for path, _ in models.values())])
    rows.append(["cosine alone to in a batch, least", *(f"{_stability(session):.5f}" for session in sessions.values())])
    print(f"| | {' | '.join(models)} |{' ratio |' if args.candidate else ''}")
    print("|---" * (1 + len(models) + bool(args.candidate)) + "|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    return 0


def open_model(path: Path, *, is_exact: bool) -> Any:
    """Open a session as lorelog does; `is_exact` costs half the speed on x86 and is for weights of 8 bits only."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if is_exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _feed(session: Any, ids: Any, mask: Any = None) -> dict[str, Any]:
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids) if mask is None else mask, "token_type_ids": ids * 0}
    return {item.name: feed[item.name] for item in session.get_inputs()}


def _ids(count: int, length: int) -> Any:
    return np.random.default_rng(length).integers(1000, 20_000, (count, length))


def _times(sessions: dict[str, Any], length: int, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in sessions}
    ids = _ids(1, length)
    for number in range(rounds + 1):
        for name, session in sessions.items():
            started = time.process_time()
            session.run(None, _feed(session, ids))
            if number:
                times[name].append(time.process_time() - started)
    return times


def _rates(sessions: dict[str, Any], length: int, rounds: int) -> list[str]:
    rates = [1 / min(times) for times in _times(sessions, length, rounds).values()]
    return [*(f"{rate:.1f}" for rate in rates), *([f"{rates[1] / rates[0]:.2f}x"] if len(rates) > 1 else [])]


def _queries(sessions: dict[str, Any], rounds: int) -> list[str]:
    return [f"{statistics.median(times) * 1000:.1f}" for times in _times(sessions, QUERY_TOKENS, rounds).values()]


def _stability(session: Any) -> float:
    """Return the least cosine of a text's vector alone with its vector among seven others that are longer."""
    least = 1.0
    for length in (8, 40, 120):
        ids = np.zeros((8, 128), np.int64)
        ids[0, :length] = _ids(1, length)[0]
        ids[1:] = _ids(7, 128)
        mask = (ids > 0).astype(np.int64)
        together, alone = (
            _vector(session.run(None, _feed(session, some, part))[0][0], length)
            for some, part in ((ids, mask), (ids[:1, :length], mask[:1, :length]))
        )
        least = min(least, float(together @ alone))
    return least


def _vector(output: Any, length: int) -> Any:
    mean = output[:length].mean(axis=0) if output.ndim == 2 else output
    return mean / np.linalg.norm(mean)


def _load(path: Path, *, is_exact: bool) -> dict[str, float]:
    import onnxruntime  # noqa: F401  (its import is not part of loading a model)

    started = time.process_time()
    session = open_model(path, is_exact=is_exact)
    spent = time.process_time() - started
    session.run(None, _feed(session, _ids(1, 256)))
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    return {"ms": spent * 1000, "rss": pages * os.sysconf("SC_PAGE_SIZE") / 1e6}


def _loaded(path: Path, *, is_exact: bool) -> dict[str, float]:
    """Load in a process of its own, five times; the least time counts."""
    command = [sys.executable, "-m", "bench.encoder", "--load", str(path), *(["--exact"] if is_exact else [])]
    runs = [json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for _ in range(5)]
    return {key: min(run[key] for run in runs) for key in ("ms", "rss")}


if __name__ == "__main__":
    sys.exit(main())
