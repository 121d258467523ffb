"""Compares methods of finding the nearest vectors; the dense lane was chosen by this.

python bench/dense.py --size 100000 --vectors DIR --only lorelog,numpy

Every contender builds in one process and answers in another, so that memory and cold start are its own. Quantised ones
propose `--rescore` candidates, which are then scored exactly from the mapped float32 file. Contenders whose package is
not installed are left out. Without --vectors the vectors are synthetic: points around centres that lie in a subspace.
With --vectors, DIR holds .npy parts of real ones; when more are wanted than there are, the rest are real vectors moved
along the difference of two others, x + s (y - z) with s between .2 and .6, which keeps the real covariance.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
DIMENSION, QUERIES, LIMIT = 384, 200, 200
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "RAYON")}
"""Spinning threads would be counted as work."""


# -- vectors ---------------------------------------------------------------------------------------------------------


def make_vectors(place: Path, size: int, parts: Path | None) -> None:
    """Write the matrix, the queries and the exact results."""
    luck = np.random.default_rng(1)
    real = _read_parts(parts) if parts else _clusters(luck, min(size + QUERIES, 100_000))
    real = real[luck.permutation(len(real))]
    questions, base = real[:QUERIES], real[QUERIES:]
    np.save(place / "questions.npy", questions)
    with (place / "matrix.f32").open("wb") as file:
        base[:size].tofile(file)
        for start in range(len(base), size, 100_000):
            count = min(100_000, size - start)
            one, plus, minus = luck.integers(0, len(base), (3, count))
            _unit(base[one] + luck.uniform(0.2, 0.6, (count, 1)) * (base[plus] - base[minus])).tofile(file)
    scores = questions @ read_matrix(place).T
    best = np.argpartition(-scores, LIMIT, axis=1)[:, :LIMIT]
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1)
    np.save(place / "truth.npy", np.take_along_axis(best, order, 1))


def _read_parts(parts: Path) -> Array:
    return _unit(np.concatenate([np.load(part) for part in sorted(parts.glob("*.npy"))]))


def _clusters(luck: np.random.Generator, count: int) -> Array:
    """Return points around 2,000 centres, with a common direction and falling variances, like sentence vectors."""
    shape = (np.arange(1, DIMENSION + 1) ** -0.5).astype("f4")
    centres = luck.standard_normal((2000, DIMENSION), dtype="f4") * shape
    near = luck.standard_normal((count, DIMENSION), dtype="f4") * shape * 0.7
    return _unit(centres[luck.integers(0, len(centres), count)] + near + 3 * shape)


def _unit(vectors: Array) -> Array:
    vectors = vectors.astype("f4")
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9), dtype="f4")


def read_matrix(place: Path) -> Array:
    """Map the matrix into memory."""
    return np.asarray(np.memmap(place / "matrix.f32", dtype="<f4", mode="r")).reshape(-1, DIMENSION)


# -- contenders ------------------------------------------------------------------------------------------------------

Ask = Callable[[Array], Array]
"""From a query to the rows of candidates, in any order."""


@dataclass(frozen=True)
class Contender:
    """A method: how it is built into a file, and how it is opened."""

    package: str
    build: Callable[[Array, Path], None]
    open: Callable[[Array, Path, int], Ask]
    rescored: bool = True
    slice: int = 0
    """Number of vectors to build from; the cost of all is extrapolated."""


def _nothing(matrix: Array, file: Path) -> None:
    file.touch()


def _open_numpy(matrix: Array, file: Path, limit: int) -> Ask:
    def ask(question: Array) -> Array:
        scores = matrix @ question
        return np.argpartition(-scores, limit)[:limit]

    return ask


def _rotation() -> Array:
    return np.linalg.qr(np.random.default_rng(0).standard_normal((DIMENSION, DIMENSION)))[0].astype("f4")


def _build_binary(matrix: Array, file: Path) -> None:
    mean, turn = matrix[:: max(1, len(matrix) // 50_000)].mean(axis=0), _rotation()
    bits = [np.packbits((matrix[i : i + 50_000] - mean) @ turn > 0, axis=1) for i in range(0, len(matrix), 50_000)]
    np.save(file, np.concatenate(bits).view("<u8"))
    np.save(file.with_suffix(".mean.npy"), mean)


def _open_binary(matrix: Array, file: Path, limit: int) -> Ask:
    bits, mean, turn = np.asarray(np.load(file, mmap_mode="r")), np.load(file.with_suffix(".mean.npy")), _rotation()

    def ask(question: Array) -> Array:
        own = np.packbits((question - mean) @ turn > 0).view("<u8")
        far = np.bitwise_count(bits ^ own).sum(axis=1, dtype="u2")
        return np.argpartition(far, limit)[:limit]

    return ask


def _principal(matrix: Array, kept: int) -> Array:
    some = np.array(matrix[:: max(1, len(matrix) // 50_000)])
    return np.asarray(np.linalg.eigh(np.cov(some.T))[1][:, ::-1][:, :kept], dtype="f4")


def _build_principal(matrix: Array, file: Path) -> None:
    axes = _principal(matrix, 48)
    np.save(file, np.concatenate([matrix[i : i + 50_000] @ axes for i in range(0, len(matrix), 50_000)]))
    np.save(file.with_suffix(".axes.npy"), axes)


def _open_principal(matrix: Array, file: Path, limit: int) -> Ask:
    small, axes = np.asarray(np.load(file, mmap_mode="r")), np.load(file.with_suffix(".axes.npy"))

    def ask(question: Array) -> Array:
        scores = small @ (question @ axes)
        return np.argpartition(-scores, limit)[:limit]

    return ask


def _faiss(factory: str) -> Callable[[Array, Path], None]:
    def build(matrix: Array, file: Path) -> None:
        faiss = importlib.import_module("faiss")
        index = faiss.index_factory(DIMENSION, factory, faiss.METRIC_INNER_PRODUCT)
        index.train(np.array(matrix[:: max(1, len(matrix) // 50_000)]))
        for start in range(0, len(matrix), 100_000):
            index.add(np.array(matrix[start : start + 100_000]))
        faiss.write_index(index, str(file))

    return build


def _open_faiss(probes: int = 0, effort: int = 0) -> Callable[[Array, Path, int], Ask]:
    def opened(matrix: Array, file: Path, limit: int) -> Ask:
        faiss = importlib.import_module("faiss")
        index = faiss.read_index(str(file))
        if probes:
            index.nprobe = probes
        if effort:
            faiss.ParameterSpace().set_index_parameter(index, "efSearch", effort)
        return lambda question: index.search(question[None], limit)[1][0]

    return opened


def _build_turbovec(matrix: Array, file: Path) -> None:
    index = importlib.import_module("turbovec").TurboQuantIndex(dim=DIMENSION, bit_width=4)
    for start in range(0, len(matrix), 100_000):
        index.add(np.array(matrix[start : start + 100_000]))
    index.write(str(file))


def _open_turbovec(matrix: Array, file: Path, limit: int) -> Ask:
    index = importlib.import_module("turbovec").TurboQuantIndex.load(str(file))
    return lambda question: index.search(question[None], limit)[1][0].astype("i8")


def _build_usearch(matrix: Array, file: Path) -> None:
    index = importlib.import_module("usearch.index").Index(ndim=DIMENSION, metric="ip", dtype="i8")
    index.add(np.arange(len(matrix)), matrix)
    index.save(str(file))


def _open_usearch(matrix: Array, file: Path, limit: int) -> Ask:
    index = importlib.import_module("usearch.index").Index(
        ndim=DIMENSION, metric="ip", dtype="i8", expansion_search=400
    )
    index.view(str(file))
    return lambda question: np.asarray(index.search(question, limit).keys).astype("i8")


def _build_bytes(matrix: Array, file: Path) -> None:
    parts = [np.rint(matrix[i : i + 50_000] * 127 / 0.5).clip(-127, 127) for i in range(0, len(matrix), 50_000)]
    np.save(file, np.concatenate([part.astype("i1") for part in parts]))


def _open_bytes(matrix: Array, file: Path, limit: int) -> Ask:
    codes, search = np.asarray(np.load(file, mmap_mode="r")), importlib.import_module("usearch.index").search

    def ask(question: Array) -> Array:
        own = np.rint(question * 127 / 0.5).clip(-127, 127).astype("i1")
        return np.asarray(search(codes, own, limit, "ip", exact=True).keys).astype("i8")

    return ask


def _open_onnx(matrix: Array, file: Path, limit: int) -> Ask:
    """MatMulInteger over the codes, which are the left operand so that they need no transposition."""
    import onnxruntime

    # A model of one node, spelled as protobuf by hand: onnx itself is not installed where lorelog is.
    def field(number: int, payload: bytes) -> bytes:
        return bytes([number << 3 | 2, *_varint(len(payload))]) + payload

    def tensor(name: bytes, kind: int) -> bytes:
        return field(1, name) + field(2, field(1, bytes([8, kind])))

    node = field(1, b"a") + field(1, b"b") + field(2, b"c") + field(4, b"MatMulInteger")
    graph = field(1, node) + field(2, b"g")
    graph += field(11, tensor(b"a", 3)) + field(11, tensor(b"b", 3)) + field(12, tensor(b"c", 6))
    model = bytes([8, 8]) + field(7, graph) + field(8, bytes([16, 13]))
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    codes = np.asarray(np.load(file, mmap_mode="r"))

    def ask(question: Array) -> Array:
        own = np.rint(question * 127 / 0.5).clip(-127, 127).astype("i1")
        scores = session.run(None, {"a": codes, "b": own[:, None]})[0][:, 0]
        return np.argpartition(-scores, limit)[:limit]

    return ask


def _varint(number: int) -> list[int]:
    return [number] if number < 128 else [number & 127 | 128, *_varint(number >> 7)]


def _build_lorelog(matrix: Array, file: Path) -> None:
    from lorelog.stores.embedded.vector_codes import build_codes

    file.unlink(missing_ok=True)
    if not build_codes(file, matrix, np.arange(1, len(matrix) + 1)):
        raise ValueError("these vectors are not worth coding")


def _open_lorelog(matrix: Array, file: Path, limit: int) -> Ask:
    from lorelog.stores.embedded.vector_codes import open_codes

    codes = open_codes(file, DIMENSION, len(matrix))
    assert codes is not None
    return lambda question: codes.propose(question, None, LIMIT)


CONTENDERS: dict[str, Contender] = {
    "lorelog": Contender("lorelog", _build_lorelog, _open_lorelog),
    "numpy": Contender("numpy", _nothing, _open_numpy, rescored=False),
    "binary": Contender("numpy", _build_binary, _open_binary),
    "principal48": Contender("numpy", _build_principal, _open_principal),
    "onnx-int8": Contender("onnxruntime", _build_bytes, _open_onnx),
    "usearch-exact-i8": Contender("usearch", _build_bytes, _open_bytes),
    "usearch-hnsw-i8": Contender("usearch", _build_usearch, _open_usearch, slice=50_000),
    "faiss-hnsw32-sq8": Contender("faiss", _faiss("HNSW32,SQ8"), _open_faiss(effort=400), slice=50_000),
    "faiss-sq8": Contender("faiss", _faiss("SQ8"), _open_faiss()),
    "faiss-pq192fs": Contender("faiss", _faiss("PQ192x4fs"), _open_faiss()),
    "faiss-pq96fs": Contender("faiss", _faiss("PQ96x4fs"), _open_faiss()),
    "faiss-ivf1024-pq96fs": Contender("faiss", _faiss("IVF1024,PQ96x4fs"), _open_faiss(probes=64)),
    "faiss-rabitqfs": Contender("faiss", _faiss("RaBitQfs"), _open_faiss()),
    "turbovec-4bit": Contender("turbovec", _build_turbovec, _open_turbovec),
}


# -- measuring -------------------------------------------------------------------------------------------------------


def _memory(kind: str) -> float:
    """Return megabytes of this process from /proc: VmRSS is everything, RssAnon excludes mapped files."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    return int(status.split(f"{kind}:")[1].split()[0]) / 1000


def do_build(name: str, place: Path) -> dict[str, float]:
    """Build the file of one method."""
    matrix, one = read_matrix(place), CONTENDERS[name]
    matrix = matrix[: one.slice] if one.slice else matrix
    start, cpu = time.perf_counter(), time.process_time()
    one.build(matrix, place / f"{name}.npy")
    size = sum(file.stat().st_size for file in place.glob(f"{name}.*"))
    return {"build_s": time.perf_counter() - start, "build_cpu_s": time.process_time() - cpu, "disk_mb": size / 1e6}


def do_ask(name: str, place: Path, rescore: int) -> dict[str, float]:
    """Open one method and run every query."""
    one, matrix = CONTENDERS[name], read_matrix(place)
    questions, truth = np.load(place / "questions.npy"), np.load(place / "truth.npy")
    if one.slice:
        matrix = matrix[: one.slice]
        truth = np.argsort(-(questions @ matrix.T), axis=1)[:, :LIMIT]
    start = time.perf_counter()
    importlib.import_module(one.package)
    imported = time.perf_counter()
    ask = one.open(matrix, place / f"{name}.npy", rescore if one.rescored else LIMIT)

    def answer(question: Array) -> Array:
        places = ask(question)
        scores = matrix[places] @ question
        return np.asarray(places[np.argsort(-scores)[:LIMIT]])

    answer(questions[0])
    first = time.perf_counter()
    walls, found, cpu = list[float](), list[Array](), time.process_time()
    for question in questions:
        begun = time.perf_counter()
        found.append(answer(question))
        walls.append(time.perf_counter() - begun)
    cpu = time.process_time() - cpu
    hit = [
        [len(set(f[:k].tolist()) & set(t[:k].tolist())) / k for f, t in zip(found, truth, strict=True)]
        for k in (10, LIMIT)
    ]
    return {
        "import_ms": (imported - start) * 1000,
        "cold_ms": (first - imported) * 1000,
        "ms": float(np.median(walls)) * 1000,
        "best_ms": min(walls) * 1000,
        "cpu_ms": cpu / len(questions) * 1000,
        "recall10": float(np.mean(hit[0])),
        "recall200": float(np.mean(hit[1])),
        "own_mb": _memory("RssAnon"),
        "rss_mb": _memory("VmRSS"),
    }


def _child(*words: str) -> dict[str, float]:
    command = [sys.executable, __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | ONE_THREAD)
    if done.returncode:
        print(done.stderr[-800:], file=sys.stderr)
        return {}
    return {key: float(value) for key, value in json.loads(done.stdout.splitlines()[-1]).items()}


def _table(rows: dict[str, dict[str, float]]) -> None:
    columns = max((list(row) for row in rows.values()), key=len)
    print("| way | " + " | ".join(columns) + " |\n|---|" + "--:|" * len(columns))
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(f"{row[column]:.4g}" if column in row else "" for column in columns) + " |")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--vectors", type=Path, help="a folder of .npy parts; synthetic vectors without it")
    parser.add_argument("--only", default=",".join(CONTENDERS), help="contenders, by commas")
    parser.add_argument("--rescore", type=int, default=600, help="candidates that are scored exactly")
    parser.add_argument("--work", type=Path, help="keep files here, and use those that are there")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, task = given.child
        told = do_build(name, given.work) if task == "build" else do_ask(name, given.work, given.rescore)
        print(json.dumps(told))
        return
    with tempfile.TemporaryDirectory() as temporary:
        place = given.work or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        if not (place / "truth.npy").exists():
            make_vectors(place, given.size, given.vectors)
        rows = {}
        for name in given.only.split(","):
            if importlib.util.find_spec(CONTENDERS[name].package) is None:
                continue
            common = ("--work", str(place), "--rescore", str(given.rescore))
            rows[name] = _child("--child", name, "build", *common) | _child("--child", name, "ask", *common)
            print(name, rows[name], file=sys.stderr, flush=True)
        _table(rows)


if __name__ == "__main__":
    main()
