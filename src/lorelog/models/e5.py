"""One text to one vector with e5-small-v2: tokens, network, mean over the tokens, unit length.

Imported by nobody but `builtin` (and `crossencoder_onnx`) at its first call, after it has switched onnxruntime's telemetry
off.
The session has one thread of its own: parallelism is several callers, for the reason that `builtin` gives. Spinning is
off, as idle threads would otherwise burn a core each. The memory arena stays on: without it the allocator fragments
under several callers (255 MB resident against 198 at 247 tokens, 315 against 277 at 500).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as foreign
from tokenizers import Tokenizer

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.ports import Vector

MAX_TOKENS = 512
REINSTALL = "reinstall lorelog; in a source checkout run: python scripts/fetch_model.py"

# onnxruntime's errors share no base class but Exception.
LOAD_ERRORS: tuple[type[Exception], ...] = (
    foreign.Fail,
    foreign.InvalidArgument,
    foreign.InvalidGraph,
    foreign.InvalidProtobuf,
    foreign.NoSuchFile,
    foreign.NotImplemented,
)
RUN_ERRORS: tuple[type[Exception], ...] = (foreign.Fail, foreign.InvalidArgument, foreign.RuntimeException)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text's vector, how many tokens were read for it, and whether there were more."""

    vector: Vector
    tokens: int
    truncated: bool


class Encoder:
    """A loaded tokenizer and session. Safe to call from several threads at once."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = _load_tokenizer(folder / "tokenizer.json")
        self._session = _load_session(folder / "model.onnx")

    def encode(self, text: str) -> Encoded:
        # A lone surrogate (a file name or argument that was no UTF-8) is refused by the tokenizer.
        encoding = self._tokenizer.encode(text.encode("utf-8", "replace").decode())
        ids = np.array([encoding.ids], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        try:
            (states,) = self._session.run(["last_hidden_state"], feed)
        except RUN_ERRORS as error:
            raise ModelFault(f"the built-in model failed on a text of {ids.size} tokens: {error}") from error
        # Nothing is padded, so the attention mask is all ones and the masked mean is the mean.
        mean = states[0].mean(axis=0, dtype=np.float64)
        unit = (mean / np.linalg.norm(mean)).astype("<f4")
        return Encoded(unit.tobytes(), ids.size, bool(encoding.overflowing))


def _load_tokenizer(path: Path) -> Any:
    try:
        # Not from_file: that one raises bare Exception.
        tokenizer = Tokenizer.from_buffer(path.read_bytes())
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"the built-in model's {path} cannot be read: {error}", hint=REINSTALL) from error
    # The file asks for padding to 512 tokens, which would make every query cost as much as a page.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _load_session(path: Path) -> Any:
    if not path.is_file():
        raise _missing(path)
    try:
        return open_session(path)
    except LOAD_ERRORS as error:
        raise ModelUnavailable(f"the built-in model's {path} cannot be loaded: {error}", hint=REINSTALL) from error


def open_session(path: Path) -> Any:
    """Open an ONNX file as every model here runs it. Raise one of LOAD_ERRORS when that cannot be done."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # x86 without VNNI saturates products of unsigned and signed bytes; this takes the exact way around.
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _missing(path: Path) -> ModelUnavailable:
    return ModelUnavailable(f"the built-in model is not installed: {path} is missing", hint=REINSTALL)
