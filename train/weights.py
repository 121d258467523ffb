"""Weights of BERT encoders as arrays by the names of the reference implementation: read, written, made small.

The teachers come as int8 ONNX (e5-small-v2, bge-small-en-v1.5, lorelog-1) and as safetensors (all-MiniLM-L6-v2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from train.tokens import read_arrays, write_arrays

Weights = dict[str, Any]
"""Arrays of float32 by name: `embeddings.word_embeddings.weight`, `encoder.layer.0.attention.self.query.weight`, …"""


def read(path: Path) -> Weights:
    """Read weights by what the file is: .onnx, .safetensors, or what `write` wrote (.npz, packed as .npz.xz)."""
    if path.suffix == ".onnx":
        return _read_onnx(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    arrays = read_arrays(path)
    return {
        name: array.astype(np.float32) * (arrays[f"{name}:scale"] if f"{name}:scale" in arrays else np.float32(1))
        for name, array in arrays.items()
        if not name.endswith(":scale")
    }


def write(path: Path, weights: Mapping[str, Any], *, is_small: bool = False) -> None:
    """Write weights as float16 and float32, or, if they are to be small, matrices as int8 with a scale for each row."""
    stored: Weights = {}
    for name, array in weights.items():
        if array.ndim != 2:
            stored[name] = array.astype(np.float32)
        elif is_small:
            scale = np.maximum(np.abs(array).max(axis=1, keepdims=True), 1e-12) / 127
            stored[name] = np.round(array / scale).astype(np.int8)
            stored[f"{name}:scale"] = scale.astype(np.float32)
        else:
            stored[name] = array.astype(np.float16)
    write_arrays(path, stored)


def _short(name: str) -> str:
    return name.removeprefix("bert.")


def _read_safetensors(path: Path) -> Weights:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    weights = {}
    for name, entry in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            weights[_short(name)] = np.frombuffer(content[start:end], np.float32).reshape(entry["shape"]).copy()
    return weights


def _read_onnx(path: Path) -> Weights:
    """Undo a dynamic int8 quantisation. The nodes know whose weights they multiply by, the initializers do not."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    arrays = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    if "words" in arrays:
        return _student_weights(arrays)
    weights: Weights = {
        _short(name): array.astype(np.float32)
        for name, array in arrays.items()
        if name.endswith((".weight", ".bias")) and array.dtype == np.float32
    }
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            base = node.input[1].removesuffix("_quantized")
            place = re.sub(r"\.(MatMul|Gemm).*$", "", node.name.strip("/").replace("/", "."))
            weights[f"{_short(place)}.weight"] = np.ascontiguousarray(_restored(arrays, base).T)
    for name in arrays:
        base = name.removesuffix("_quantized")
        if base != name and "embeddings" in base:
            weights[_short(base)] = _restored(arrays, base)
    return weights


def _student_weights(arrays: Mapping[str, Any]) -> Weights:
    """Undo what `train.quantise` did."""
    places = arrays["places"]
    weights: Weights = {
        "embeddings.word_embeddings.weight": arrays["words"].astype(np.float32) * arrays["words.scale"],
        "embeddings.position_embeddings.weight": places,
        "embeddings.token_type_embeddings.weight": np.zeros((2, places.shape[1]), np.float32),
    }
    for name, array in arrays.items():
        if ".LayerNorm." in name or name.endswith("dense.bias"):
            weights[name] = array
        elif name.endswith(".dense.weight"):
            weights[name] = array.T.astype(np.float32) * arrays[name.replace(".weight", ".scale")][:, None]
        elif name.endswith(".qkv.weight"):
            layer = name.removesuffix(".qkv.weight")
            matrix = array.T.astype(np.float32) * arrays[f"{layer}.qkv.scale"][:, None]
            for part, kinds in zip(
                ("query", "key", "value"),
                zip(np.split(matrix, 3), np.split(arrays[f"{layer}.qkv.bias"], 3), strict=True),
                strict=True,
            ):
                for kind, value in zip(("weight", "bias"), kinds, strict=True):
                    weights[f"{layer}.attention.self.{part}.{kind}"] = value
    return weights


def _restored(arrays: Mapping[str, Any], base: str) -> Any:
    zero = arrays.get(f"{base}_zero_point", np.float32(0))
    return (
        (arrays[f"{base}_quantized"].astype(np.float32) - zero.astype(np.float32)) * arrays[f"{base}_scale"]
    ).astype(np.float32)


def layer_count(weights: Mapping[str, Any]) -> int:
    return 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))


def with_layers(weights: Mapping[str, Any], chosen: list[int]) -> Weights:
    """Return the weights of an encoder that has only some of the layers, in the given order."""
    kept = {name: array for name, array in weights.items() if not name.startswith("encoder.layer.")}
    for place, layer in enumerate(chosen):
        prefix = f"encoder.layer.{layer}."
        for name, array in weights.items():
            if name.startswith(prefix):
                kept[f"encoder.layer.{place}.{name.removeprefix(prefix)}"] = array
    return kept


def averaged(parts: Sequence[tuple[float, Mapping[str, Any]]]) -> Weights:
    """Return the weighted average of students that began alike. Ranges of activations become wide enough for each.

    A part without ranges (a start) has no say in them.
    """
    total = sum(share for share, _ in parts)
    found: Weights = {}
    for name in dict.fromkeys(name for _, weights in parts for name in weights):
        arrays = [(share, weights[name]) for share, weights in parts if name in weights]
        if ".range." in name:
            used = [array for _, array in arrays if np.any(array)]
            found[name] = np.array(
                [min((array[0] for array in used), default=0.0), max((array[1] for array in used), default=0.0)],
                np.float32,
            )
        elif len(arrays) == len(parts):
            found[name] = sum(share / total * array for share, array in arrays)
    return found


def main() -> None:
    import argparse

    parser = argparse.ArgumentParser(prog="python -m train.weights", description="Makes a teacher's weights small.")
    parser.add_argument("source", type=Path, help="model.onnx or model.safetensors")
    parser.add_argument("target", type=Path, help="NAME.npz or NAME.npz.xz")
    args = parser.parse_args()
    write(args.target, read(args.source), is_small=True)


if __name__ == "__main__":
    main()
