"""One text to one vector with any encoder in ONNX form: tokens, network, pooling, unit length.

Imported by nobody but `onnx` at its first call, after it has switched onnxruntime's telemetry off. The session is that of
`e5`, for its reasons, and one text is run at a time, for the reason that `builtin` gives.

What to do is read from what the model brings along. A network that puts out one vector for the text (`sentence_embedding`,
or `dense_vecs` of bge-m3) is taken at its word. Otherwise its last states are pooled as `1_Pooling/config.json` says, or
as the family that its name tells does, or by their mean. A model with layers after its pooling that the export lacks is
refused: its vectors would be nobody's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.models.e5 import LOAD_ERRORS, RUN_ERRORS, Encoded, open_session
from lorelog.models.families import Forms, family_of, forms_of_prompts
from lorelog.models.onnx_files import ModelFiles

DEFAULT_TOKENS = 512
MOST_TOKENS = 8192
"""No text that is kept is longer, and the work grows with the square."""
DONE_OUTPUTS = ("sentence_embedding", "dense_vecs")
STATE_OUTPUTS = ("last_hidden_state", "token_embeddings")
_INPUTS = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
}
_HINT = "embedding.model must be an encoder exported to ONNX with its tokenizer.json"


class TextEncoder:
    """A loaded tokenizer and session. Safe to call from several threads at once."""

    def __init__(self, files: ModelFiles, model: str) -> None:
        self._name = str(files.weights)
        about = _About(files.tokenizer.parent)
        self.forms = about.forms()
        """What the model itself says should stand in front of texts, or None."""
        self._tokenizer = _load_tokenizer(files.tokenizer, about)
        self._session = _load_session(files.weights)
        self._types = {one.name: np.int32 if "int32" in one.type else np.int64 for one in self._session.get_inputs()}
        if unknown := self._types.keys() - _INPUTS:
            raise ModelUnavailable(f"{self._name} asks for {', '.join(sorted(unknown))}", hint=_HINT)
        self._output, self._pooling = self._find_output(about, model)

    def encode(self, text: str) -> Encoded:
        encoding = self._tokenizer.encode(text.encode("utf-8", "replace").decode())
        size = len(encoding.ids)
        given = {
            "input_ids": encoding.ids,
            "attention_mask": [1] * size,
            "token_type_ids": encoding.type_ids,
            "position_ids": range(size),
        }
        feed = {name: np.array([list(given[name])], dtype=kind) for name, kind in self._types.items()}
        try:
            (states,) = self._session.run([self._output], feed)
        except RUN_ERRORS as error:
            raise ModelFault(f"the model {self._name} failed on a text of {size} tokens: {error}") from error
        vector = _pooled(np.asarray(states)[0], self._pooling)
        length = np.linalg.norm(vector)
        if vector.ndim != 1 or not np.isfinite(length) or not length:
            raise ModelFault(f"the model {self._name} gave no vector for a text of {size} tokens", hint=_HINT)
        return Encoded((vector / length).astype("<f4").tobytes(), size, bool(encoding.overflowing))

    def _find_output(self, about: _About, model: str) -> tuple[str, str]:
        """Return which output to read, and how to pool it; no pooling where it is a vector already."""
        ranks = {one.name: len(one.shape) for one in self._session.get_outputs()}
        for name in DONE_OUTPUTS:
            if ranks.get(name) == 2:
                return name, ""
        states = [name for name in (*STATE_OUTPUTS, *ranks) if ranks.get(name) == 3]
        if states:
            if missing := about.later_layers():
                raise ModelUnavailable(
                    f"{self._name} lacks the layer {missing} that its model needs after pooling",
                    hint="choose an export that has a sentence_embedding, or set embedding.provider to local",
                )
            return states[0], about.pooling() or family_of(model).pooling
        if len(ranks) == 1 and 2 in ranks.values():
            return next(iter(ranks)), ""
        raise ModelUnavailable(f"{self._name} gives {', '.join(ranks)}, and none is a text's vector", hint=_HINT)


def _pooled(states: Any, pooling: str) -> Any:
    if pooling == "cls":
        return states[0].astype(np.float64)
    if pooling == "lasttoken":
        return states[-1].astype(np.float64)
    if pooling == "max":
        return states.max(axis=0).astype(np.float64)
    # Nothing is padded, so the attention mask is all ones and the masked mean is the mean.
    return states.mean(axis=0, dtype=np.float64) if pooling else states.astype(np.float64)


@dataclass(frozen=True, slots=True)
class _About:
    """What lies beside a model and says how it is to be used; all of it may be missing."""

    folder: Path

    def pooling(self) -> str:
        said = self._read("1_Pooling/config.json")
        named = said.get("pooling_mode")
        if isinstance(named, str) and named in _POOLINGS.values():
            return named
        chosen = [name for name, is_chosen in said.items() if name.startswith("pooling_mode_") and is_chosen is True]
        if not chosen:
            return ""
        if len(chosen) > 1 or chosen[0] not in _POOLINGS:
            raise ModelUnavailable(
                f"the model in {self.folder} pools by {', '.join(chosen)}, which is not known here",
                hint="set embedding.provider to local",
            )
        return _POOLINGS[chosen[0]]

    def later_layers(self) -> str:
        """Return a layer after the pooling that changes vectors, by its folder; bringing them to unit length does not."""
        for module in self._list("modules.json"):
            kind = str(module.get("type", "")).rpartition(".")[2] if isinstance(module, dict) else ""
            if kind not in {"Transformer", "Pooling", "Normalize", ""}:
                return str(module.get("path") or kind)
        return ""

    def forms(self) -> Forms | None:
        prompts = self._read("config_sentence_transformers.json").get("prompts")
        return forms_of_prompts(prompts)

    def longest(self) -> int:
        """Return how many tokens the model reads, where it says so."""
        config = self._read("config.json")
        positions = config.get("max_position_embeddings")
        if isinstance(positions, int) and "roberta" in str(config.get("model_type")):
            positions -= 2  # the first ones stand for padding
        said = (
            self._read("sentence_bert_config.json").get("max_seq_length"),
            self._read("tokenizer_config.json").get("model_max_length"),
            positions,
        )
        return next((one for one in said if isinstance(one, int) and 0 < one <= 1_000_000), 0)

    def _read(self, name: str) -> dict[str, Any]:
        found = self._json(name)
        return found if isinstance(found, dict) else {}

    def _list(self, name: str) -> list[Any]:
        found = self._json(name)
        return found if isinstance(found, list) else []

    def _json(self, name: str) -> object:
        try:
            return json.loads((self.folder / name).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise ModelUnavailable(f"{self.folder / name} cannot be read: {error}") from error


def _load_tokenizer(path: Path, about: _About) -> Any:
    try:
        tokenizer = Tokenizer.from_buffer(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"the model's {path} cannot be read: {error}", hint=_HINT) from error
    longest = about.longest() or (tokenizer.truncation or {}).get("max_length", DEFAULT_TOKENS)
    tokenizer.no_padding()
    tokenizer.enable_truncation(min(longest, MOST_TOKENS))
    return tokenizer


def _load_session(path: Path) -> Any:
    try:
        return open_session(path)
    except LOAD_ERRORS as error:
        raise ModelUnavailable(f"the model's {path} cannot be loaded: {error}", hint=_HINT) from error
