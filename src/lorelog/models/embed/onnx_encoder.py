"""Models that onnxruntime runs: the built-in encoder, any other ONNX export of an encoder, and cross-encoders.

Imported lazily by `builtin`, `custom` and `rerank`, after onnxruntime's telemetry is switched off. A session has one thread:
parallelism comes from several callers, for the reason given in `builtin`. Spinning is off, as idle threads would burn a core
each. The memory arena is on: without it the allocator fragments under several callers (255 MB resident against 198 at 247
tokens, 315 against 277 at 500).

How to read an encoder's output is taken from the files shipped with it. A network that outputs one vector per text
(`sentence_embedding`, or `dense_vecs` of bge-m3) is used as is. Otherwise its last hidden states are pooled as
`1_Pooling/config.json` says, or as its family does, or by their mean. A model that needs layers after pooling which the
export lacks is rejected: its vectors would match no other program's.

In a cross-encoder, query and text share the window. The text is truncated first; a query longer than half the window is
truncated to half, so that some of the text is always read. Only the beginning of a long text is read. Reading it window by
window and taking the best score was no better on long turns of dialogue (MRR .852 both ways, 18 questions), worse on whole
sessions of coding agents (.667 against .861, 6 questions), and up to four times the work. It is also rare: 22 of 3,746 pairs
with chunks of the default size did not fit.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from msgspec import Struct
from onnxruntime.capi import onnxruntime_pybind11_state as foreign

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.ids import blake2b
from lorelog.core.ports import Vector
from lorelog.core.processes import acquire_file_lock, trim_heap
from lorelog.models.embed.families import PromptPrefixes, find_family, prefixes_from_prompts
from lorelog.models.embed.wordpiece import WordPieceTokenizer
from lorelog.models.in_process import REINSTALL_HINT, VOCABULARY_FILE, WEIGHTS_FILE, ModelFiles, fingerprint_weights

BUILTIN_MAX_TOKENS = 512
_MIN_MAPPED_BYTES = 1024
"""Smaller weights stay in the graph's own file."""

# onnxruntime's errors share no base class but Exception.
_LOAD_ERRORS: tuple[type[Exception], ...] = (
    foreign.Fail,
    foreign.InvalidArgument,
    foreign.InvalidGraph,
    foreign.InvalidProtobuf,
    foreign.NoSuchFile,
    foreign.NotImplemented,
)
_RUN_ERRORS: tuple[type[Exception], ...] = (foreign.Fail, foreign.InvalidArgument, foreign.RuntimeException)
_FILE_ERRORS = (OSError, ValueError, foreign.RuntimeException, *_LOAD_ERRORS)


class EncodedText(Struct, frozen=True):
    """A text's vector, the number of tokens read, and whether the text was truncated."""

    vector: Vector
    tokens: int
    truncated: bool


class _Encoder:
    """A session, which of its outputs is read, and how that is pooled."""

    _name: str
    _session: Any
    _output: str
    _pooling: str

    def _vector(self, feed: dict[str, Any], size: int, options: Any = None) -> Vector:
        """Return the vector of unit length for a text of `size` tokens. Raise ModelFault if the model returns none."""
        try:
            (states,) = self._session.run([self._output], feed, options)
        except _RUN_ERRORS as error:
            raise ModelFault(f"the model {self._name} failed on a text of {size} tokens: {error}") from error
        vector = _pool(np.asarray(states)[0], self._pooling)
        length = np.linalg.norm(vector)
        if vector.ndim != 1 or not np.isfinite(length) or not length:
            raise ModelFault(f"the model {self._name} returned no vector for a text of {size} tokens", hint=_HINT)
        return bytes((vector / length).astype("<f4").tobytes())


class BuiltinEncoder(_Encoder):
    """A loaded tokenizer and session. Thread-safe."""

    def __init__(self, folder: Path, cache_folder: Path | None = None, *, is_exact: bool = False) -> None:
        self._name = str(folder / WEIGHTS_FILE)
        path = folder / VOCABULARY_FILE
        try:
            self._tokenizer = WordPieceTokenizer.from_file(path)
            path = folder / WEIGHTS_FILE
            path.stat()
            if cache_folder is None:
                self._session = open_session(path, is_exact=is_exact)
            else:
                self._session = OptimizedModel(path, cache_folder, is_exact=is_exact).open_session()
        except FileNotFoundError:
            raise ModelUnavailable(
                f"the built-in model is not installed: {path} is missing", hint=REINSTALL_HINT
            ) from None
        except _FILE_ERRORS as error:
            raise ModelUnavailable(
                f"the built-in model's {path} cannot be loaded: {error}", hint=REINSTALL_HINT
            ) from error
        self._types = _input_types(self._session)
        outputs = {output.name for output in self._session.get_outputs()}
        # lorelog-2 pools by itself; e5-small-v2 leaves it to its user.
        self._output, self._pooling = (
            ("sentence_embedding", "") if "sentence_embedding" in outputs else ("last_hidden_state", "mean")
        )
        self._releasing = onnxruntime.RunOptions()
        self._releasing.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    def encode(self, text: str, *, release: bool = False) -> EncodedText:
        """Embed a text. `release` gives back the memory that longer texts needed: 59 MB after one of 500 tokens."""
        # A lone surrogate (from a file name or an argument that was not UTF-8) reads as a question mark.
        tokens, truncated = self._tokenizer.encode(text.encode("utf-8", "replace").decode(), BUILTIN_MAX_TOKENS)
        ids = np.array([tokens], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        feed = {name: feed[name] for name in feed.keys() & self._types.keys()}
        vector = self._vector(feed, ids.size, self._releasing if release else None)
        return EncodedText(vector, ids.size, truncated)


class OptimizedModel:
    """A copy of a model as onnxruntime optimizes it on this machine: its outputs are the same, and it opens faster.

    Opening lorelog-2 takes 60 ms of CPU, and 19 from the copy; all outputs are equal bit by bit. The weights are in a
    second file, in the layout in which they are multiplied. onnxruntime maps it into memory, so that they belong to the page
    cache: all processes share them, and the system may drop them. The model's own memory is 2 MB then, instead of 25.

    The name of the copy has what it depends on and the sizes of both files, and these have the time of the model: a copy that
    was written to since is made again (a checksum of 34 MB would take 10 ms). If none can be written, the model is opened
    as it is.
    """

    def __init__(self, weights: Path, folder: Path, *, is_exact: bool) -> None:
        self._weights = weights
        self._folder = folder
        self._is_exact = is_exact

    def open_session(self) -> Any:
        """Open the copy, and make it first if there is none. Raise one of _LOAD_ERRORS if the model cannot be opened."""
        key = self._key()
        return self._open_copy(key) or self._make_copy(key) or open_session(self._weights, is_exact=self._is_exact)

    def _key(self) -> str:
        """Return a hash of everything that a copy depends on. Models of one shape have one size, and may have one time."""
        weights = (str(self._weights), fingerprint_weights(self._weights), self._weights.stat().st_mtime_ns)
        features = b""  # of the processor, where Linux tells them
        with suppress(OSError), Path("/proc/cpuinfo").open("rb") as file:
            lines = file.read(8192).splitlines()
            features = next((line for line in lines if line.startswith((b"flags", b"Features"))), b"")
        processor = (sys.platform, os.uname().machine, features.decode("ascii", "replace"))
        parts = (3, onnxruntime.__version__, *processor, *weights, self._is_exact)
        return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()

    def _open_copy(self, key: str) -> Any:
        for copy in self._folder.glob(f"{key}-*.onnx"):
            with suppress(*_FILE_ERRORS):
                if self._is_unchanged(copy):
                    return open_session(copy, is_optimized=True, is_exact=self._is_exact)
            with suppress(OSError):
                copy.unlink()
        return None

    def _make_copy(self, key: str) -> Any:
        """Write the copy, delete those of other versions and open it; return None if that is impossible now."""
        new, mapped = self._folder / "new.onnx", self._folder / f"{key}.weights"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with open(self._folder / "lock", "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as lock:
                if not acquire_file_lock(lock.fileno(), 0):
                    return None  # another process makes it
                mapped.unlink(missing_ok=True)  # not overwritten: another process may have mapped it
                open_session(self._weights, save_as=new, weights_name=mapped.name, is_exact=self._is_exact)
                for path in (mapped, new):
                    with suppress(FileNotFoundError), path.open("rb") as written:  # a small model has no second file
                        os.fchmod(written.fileno(), 0o600)
                        os.fsync(written.fileno())
                        os.utime(written.fileno(), ns=(0, self._weights.stat().st_mtime_ns))
                copy = new.rename(self._folder / f"{key}-{new.stat().st_size}-{_file_size(mapped)}.onnx")
                for other in {*self._folder.glob("*.onnx"), *self._folder.glob("*.weights")} - {copy, mapped}:
                    other.unlink()
            trim_heap()  # 70 MB of the session that wrote it
            return open_session(copy, is_optimized=True, is_exact=self._is_exact)
        except _FILE_ERRORS:
            with suppress(OSError):
                new.unlink()
            return None

    def _is_unchanged(self, copy: Path) -> bool:
        """Return True if a copy's files have the sizes in its name and the time of their model, as they were written."""
        key, size, weights_size = copy.stem.split("-")
        mapped = self._folder / f"{key}.weights"
        if (str(_file_size(copy)), str(_file_size(mapped))) != (size, weights_size):
            return False
        written_at = self._weights.stat().st_mtime_ns
        return all(path.stat().st_mtime_ns == written_at for path in (copy, mapped) if path.exists())


def _file_size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def open_session(
    path: Path,
    *,
    is_optimized: bool = False,
    save_as: Path | None = None,
    weights_name: str = "",
    is_exact: bool = True,
) -> Any:
    """Open an ONNX file with the options used for all models. Raise one of _LOAD_ERRORS on failure.

    Without `is_exact`, x86 without VNNI saturates products of unsigned and signed bytes, and weights of 8 bits give other vectors.
    lorelog-2 has weights of 7 bits, whose products never reach that limit; others need the slower, exact arithmetic.

    A file that is optimized already is opened as it is; `save_as` gets the optimized graph of any other, and the file
    `weights_name` beside it its weights, as they are multiplied on this machine.
    """
    options = onnxruntime.SessionOptions()
    if is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if save_as is not None:
        options.optimized_model_filepath = str(save_as)
        for name, value in (
            ("optimized_model_external_initializers_file_name", weights_name),
            ("optimized_model_external_initializers_min_size_in_bytes", str(_MIN_MAPPED_BYTES)),
            ("save_external_prepacked_constant_initializers", "1"),
        ):
            options.add_session_config_entry(f"session.{name}", value)
    # The plan for reusing buffers took 40 % of the time to open e5-small-v2, and saves a single run no time and 7 MB at most.
    options.enable_mem_reuse = False
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if is_exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


DEFAULT_TOKENS = 512
MAX_TOKENS = 8192
"""Stored texts are never longer, and the cost grows with the square of the length."""
POOLED_OUTPUTS = ("sentence_embedding", "dense_vecs")
HIDDEN_STATE_OUTPUTS = ("last_hidden_state", "token_embeddings")
_PAIR_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
}
_HINT = "embedding.model must be an encoder exported to ONNX with its tokenizer.json"


class OnnxTextEncoder(_Encoder):
    """A loaded tokenizer and session. Thread-safe."""

    def __init__(self, files: ModelFiles, model: str) -> None:
        self._name = str(files.weights)
        metadata = _ModelMetadata(files.tokenizer.parent)
        self.prefixes = metadata.prefixes()
        """Prefixes defined by the model itself, or None."""
        self._tokenizer, self._session = _load_model(files, "the model's", _HINT)
        max_tokens = metadata.max_tokens() or (self._tokenizer.truncation or {}).get("max_length", DEFAULT_TOKENS)
        self._tokenizer.enable_truncation(min(max_tokens, MAX_TOKENS))
        self._types = _input_types(self._session, {*_PAIR_INPUTS, "position_ids"}, self._name, _HINT)
        self._output, self._pooling = self._find_output(metadata, model)

    def encode(self, text: str) -> EncodedText:
        encoding = self._tokenizer.encode(text.encode("utf-8", "replace").decode())
        size = len(encoding.ids)
        inputs = {
            "input_ids": encoding.ids,
            "attention_mask": [1] * size,
            "token_type_ids": encoding.type_ids,
            "position_ids": range(size),
        }
        feed = {name: np.array([list(inputs[name])], dtype=kind) for name, kind in self._types.items()}
        return EncodedText(self._vector(feed, size), size, bool(encoding.overflowing))

    def _find_output(self, metadata: _ModelMetadata, model: str) -> tuple[str, str]:
        """Return the output to read and how to pool it; the pooling is empty if the output is a vector already."""
        ranks = {output.name: len(output.shape) for output in self._session.get_outputs()}
        for name in POOLED_OUTPUTS:
            if ranks.get(name) == 2:
                return name, ""
        states = [name for name in (*HIDDEN_STATE_OUTPUTS, *ranks) if ranks.get(name) == 3]
        if states:
            if missing := metadata.extra_layer():
                raise ModelUnavailable(
                    f"{self._name} lacks the layer {missing} that its model needs after pooling",
                    hint="choose an export with a sentence_embedding output, or set embedding.provider to local",
                )
            return states[0], metadata.pooling() or find_family(model).pooling
        if len(ranks) == 1 and 2 in ranks.values():
            return next(iter(ranks)), ""
        raise ModelUnavailable(f"none of the outputs of {self._name} is a vector: {', '.join(ranks)}", hint=_HINT)


def _input_types(session: Any, known: Collection[str] = (), name: str = "", hint: str = "") -> dict[str, Any]:
    """Return the integer type of each input of a session. Raise ModelUnavailable if it needs others than the `known`."""
    types = {node.name: np.int32 if "int32" in node.type else np.int64 for node in session.get_inputs()}
    if known and (unknown := types.keys() - set(known)):
        raise ModelUnavailable(f"{name} needs the inputs {', '.join(sorted(unknown))}", hint=hint)
    return types


def _pool(states: Any, pooling: str) -> Any:
    if pooling == "cls":
        return states[0].astype(np.float64)
    if pooling == "lasttoken":
        return states[-1].astype(np.float64)
    if pooling == "max":
        return states.max(axis=0).astype(np.float64)
    # Nothing is padded, so the attention mask is all ones and the masked mean is the mean.
    return states.mean(axis=0, dtype=np.float64) if pooling else states.astype(np.float64)


class _ModelMetadata(Struct, frozen=True):
    """Configuration files next to a model's tokenizer; each of them may be missing."""

    folder: Path

    def pooling(self) -> str:
        config = self._read_object("1_Pooling/config.json")
        mode = config.get("pooling_mode")
        if isinstance(mode, str) and mode in _POOLINGS.values():
            return mode
        chosen = [name for name, is_on in config.items() if name.startswith("pooling_mode_") and is_on is True]
        if not chosen:
            return ""
        if len(chosen) > 1 or chosen[0] not in _POOLINGS:
            raise ModelUnavailable(
                f"the model in {self.folder} uses the pooling {', '.join(chosen)}, which is not supported",
                hint="set embedding.provider to local",
            )
        return _POOLINGS[chosen[0]]

    def extra_layer(self) -> str:
        """Return the folder of a layer after pooling that changes vectors; normalizing does not."""
        modules = self._read_json("modules.json")
        for module in modules if isinstance(modules, list) else ():
            kind = str(module.get("type", "")).rpartition(".")[2] if isinstance(module, dict) else ""
            if kind not in {"Transformer", "Pooling", "Normalize", ""}:
                return str(module.get("path") or kind)
        return ""

    def prefixes(self) -> PromptPrefixes | None:
        return prefixes_from_prompts(self._read_object("config_sentence_transformers.json").get("prompts"))

    def max_tokens(self) -> int:
        """Return how many tokens the model reads, or 0 if it does not say."""
        config = self._read_object("config.json")
        positions = config.get("max_position_embeddings")
        if isinstance(positions, int) and "roberta" in str(config.get("model_type")):
            positions -= 2  # the first ones are for padding
        limits = (
            self._read_object("sentence_bert_config.json").get("max_seq_length"),
            self._read_object("tokenizer_config.json").get("model_max_length"),
            positions,
        )
        return next((limit for limit in limits if isinstance(limit, int) and 0 < limit <= 1_000_000), 0)

    def _read_object(self, name: str) -> dict[str, Any]:
        content = self._read_json(name)
        return content if isinstance(content, dict) else {}

    def _read_json(self, name: str) -> object:
        try:
            return json.loads((self.folder / name).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise ModelUnavailable(f"{self.folder / name} cannot be read: {error}") from error


def _load_model(files: ModelFiles, whose: str, hint: str) -> tuple[Any, Any]:
    """Return a model's tokenizer, which pads nothing, and its session. Raise ModelUnavailable if a file cannot be read."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(files.tokenizer.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{whose} {files.tokenizer} cannot be read: {error}", hint=hint) from error
    tokenizer.no_padding()
    try:
        return tokenizer, open_session(files.weights)
    except _LOAD_ERRORS as error:
        raise ModelUnavailable(f"{whose} {files.weights} cannot be loaded: {error}", hint=hint) from error


_MAX_PAIR_TOKENS = 512
_MIN_PAIR_TOKENS = 32
_MAX_TEXT_LETTERS = 20_000
"""Characters passed to the tokenizer; no window holds more."""
_PAIR_HINT = "rerank.model must be a cross-encoder exported to ONNX with its tokenizer.json"


class PairScorer:
    """A cross-encoder's tokenizer and session. Thread-safe."""

    def __init__(self, files: ModelFiles) -> None:
        self._name = str(files.weights)
        self._tokenizer, self._session = _load_model(files, "the reranker's", _PAIR_HINT)
        own_window = (self._tokenizer.truncation or {}).get("max_length", _MAX_PAIR_TOKENS)
        window = max(min(_MAX_PAIR_TOKENS, own_window), _MIN_PAIR_TOKENS)
        self._tokenizer.enable_truncation(window, strategy="only_second")
        self._max_query_tokens = window // 2
        self._types = _input_types(self._session, _PAIR_INPUTS, self._name, _PAIR_HINT)

    def score(self, query: str, text: str) -> float:
        """Return the logit of a text as an answer to a query."""
        query, text = (part.encode("utf-8", "replace").decode()[:_MAX_TEXT_LETTERS] for part in (query, text))
        # Encoded as the second text: a tokenizer that truncates only the second cannot encode a query alone.
        encoding = self._tokenizer.encode("", query)
        ends = [end for (_, end), part in zip(encoding.offsets, encoding.sequence_ids, strict=True) if part == 1]
        limit = self._max_query_tokens
        pair = self._tokenizer.encode(query[: ends[limit - 1]] if len(ends) > limit else query, text)
        inputs = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
        feed = {name: np.array([inputs[name]], dtype=kind) for name, kind in self._types.items()}
        try:
            values = np.asarray(self._session.run(None, feed)[0], dtype=np.float64).ravel()
        except _RUN_ERRORS as error:
            raise ModelFault(f"the reranker {self._name} failed on {len(pair.ids)} tokens: {error}") from error
        if values.size == 1:
            return float(values[0])
        if values.size == 2:  # a classifier with the classes "no" and "yes"
            return float(values[1] - values[0])
        raise ModelFault(
            f"the reranker {self._name} returned {values.size} numbers for a pair, not one", hint=_PAIR_HINT
        )
