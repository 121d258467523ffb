"""The encoder in torch: BERT over many texts at once without padding, and the same network as if it were int8.

Texts lie one after the other; attention stays within each. `is_quantised` makes the network compute what the int8 model
will (weights of 7 bits per output, activations of 8 bits in fixed ranges), so that training can adapt to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from train.tokens import END, START, Sequences
from train.weights import Weights, layer_count

HEADS = 12
WIDTH = 384
EPSILON = 1e-12
WEIGHT_STEPS = 63
"""7 bits: products of unsigned and signed bytes then fit everywhere, also where processors add pairs of them in 16 bits."""
SITES = ("inputs", "context", "middle", "hidden")
"""Activations of a layer that are quantised: before query/key/value, before output, before and after the wide layer."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts one after the other, with the place of each token in its text."""

    tokens: Tensor
    places: Tensor
    owners: Tensor
    starts: Tensor
    """Where each text starts, and the end: one more than there are texts."""
    longest: int

    @property
    def size(self) -> int:
        return self.starts.shape[0] - 1


class TokenStore:
    """Sequences on the device, from which batches are put together there."""

    def __init__(self, sequences: Sequences, device: str) -> None:
        self.tokens = torch.from_numpy(sequences.tokens.astype(np.int32)).to(device)
        self.lengths = torch.from_numpy(sequences.lengths.astype(np.int64)).to(device)
        self.offsets = torch.cumsum(self.lengths, 0) - self.lengths
        self.device = device

    def batch(self, which: Tensor, prefix: Tensor, limit: int = 512) -> Batch:
        """Return the chosen texts with start, prefix and end tokens, each cut to `limit` tokens."""
        extra = 2 + prefix.shape[0]
        lengths = self.lengths[which].clamp(max=limit - extra)
        sizes = lengths + extra
        starts = functional.pad(torch.cumsum(sizes, 0), (1, 0))
        owners = torch.repeat_interleave(torch.arange(which.shape[0], device=self.device), sizes)
        places = torch.arange(owners.shape[0], device=self.device) - starts[owners]
        source = self.offsets[which][owners] + places - 1 - prefix.shape[0]
        tokens = self.tokens[source.clamp(0, self.tokens.shape[0] - 1)].long()
        head = torch.cat([torch.tensor([START], device=self.device), prefix])
        tokens = torch.where(places < head.shape[0], head[places.clamp(max=head.shape[0] - 1)], tokens)
        tokens[starts[1:] - 1] = END
        return Batch(tokens, places, owners, starts.int(), int(sizes.max()) if sizes.numel() else 0)


class Range(nn.Module):
    """A fixed range of an activation, found by looking and then trained; cut off and rounded to 256 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Parameter(torch.tensor(0.0))
        self.high = nn.Parameter(torch.tensor(0.0))

    @torch.no_grad()
    def look(self, value: Tensor) -> None:
        """Widen the range to hold all but one in 100,000 of the values seen."""
        flat = value.float().flatten()
        flat = flat[torch.randint(flat.shape[0], (min(flat.shape[0], 4_000_000),), device=flat.device)].sort().values
        cut = flat.shape[0] // 100_000
        self.low.copy_(torch.minimum(self.low, flat[cut]))
        self.high.copy_(torch.maximum(self.high, flat[-1 - cut]))

    def forward(self, value: Tensor) -> Tensor:
        low, high = self.low.clamp(max=-1e-4).to(value.dtype), self.high.clamp(min=1e-4).to(value.dtype)
        step = ((self.high.clamp(min=1e-4) - self.low.clamp(max=-1e-4)) / 255).detach()
        clipped = torch.minimum(torch.maximum(value, low), high)
        zero = torch.round(-self.low.clamp(max=-1e-4).detach() / step)
        # As the int8 model does it: the number of steps is rounded, zero is a whole number of steps.
        rounded = (torch.round(clipped.float() / step) + zero).clamp(0, 255) - zero
        return clipped + ((rounded * step).to(value.dtype) - clipped).detach()


def rounded_weight(weight: Tensor) -> Tensor:
    step = weight.detach().abs().amax(dim=1, keepdim=True).clamp(min=1e-8) / WEIGHT_STEPS
    return weight + (torch.round(weight / step) * step - weight).detach()


class Layer(nn.Module):
    """One layer; query, key and value are one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.norm_1 = nn.LayerNorm(WIDTH, EPSILON)
        self.norm_2 = nn.LayerNorm(WIDTH, EPSILON)
        self.ranges = nn.ModuleDict({site: Range() for site in SITES})
        self.dropout = 0.0

    def linear(self, layer: nn.Linear, value: Tensor, site: str, mode: str) -> Tensor:
        weight = layer.weight
        if mode == "look":
            self.ranges[site].look(value)
        if mode == "quantised":
            value, weight = self.ranges[site](value), rounded_weight(weight)
        return functional.linear(value, weight.to(value.dtype), layer.bias.to(value.dtype))

    def norm(self, layer: nn.LayerNorm, value: Tensor) -> Tensor:
        return functional.layer_norm(value, (WIDTH,), layer.weight.to(value.dtype), layer.bias.to(value.dtype), EPSILON)

    def forward(self, value: Tensor, batch: Batch, mode: str) -> Tensor:
        qkv = self.linear(self.qkv, value, "inputs", mode)
        context = attend(qkv, batch)
        middle = self.norm(self.norm_1, value + self.dropped(self.linear(self.out, context, "context", mode)))
        hidden = functional.gelu(self.linear(self.up, middle, "middle", mode))
        return self.norm(self.norm_2, middle + self.dropped(self.linear(self.down, hidden, "hidden", mode)))

    def dropped(self, value: Tensor) -> Tensor:
        return functional.dropout(value, self.dropout, self.training) if self.dropout else value


def attend(qkv: Tensor, batch: Batch) -> Tensor:
    """Attention within each text: without padding on an accelerator, padded elsewhere."""
    query, key, value = (part.reshape(-1, HEADS, WIDTH // HEADS) for part in qkv.split(WIDTH, dim=-1))
    if qkv.is_cuda:
        from torch.nn.attention.varlen import varlen_attn

        longest = batch.longest
        found = varlen_attn(
            query.contiguous(), key.contiguous(), value.contiguous(), batch.starts, batch.starts, longest, longest
        )
        return found.reshape(-1, WIDTH)
    lengths = (batch.starts[1:] - batch.starts[:-1]).long()
    inside = torch.arange(batch.longest)[None] < lengths[:, None]
    rows = (batch.starts[:-1, None].long() + torch.arange(batch.longest)[None]).clamp(max=qkv.shape[0] - 1)
    query, key, value = (part[rows].transpose(1, 2) for part in (query, key, value))
    mask = inside[:, None, None, :]
    found = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return found.transpose(1, 2)[batch.owners, batch.places].reshape(-1, WIDTH)


class Encoder(nn.Module):
    """Embeddings and layers; gives one unit vector for each text."""

    def __init__(self, weights: Mapping[str, Any], pooling: str = "mean") -> None:
        super().__init__()
        self.pooling = pooling
        self.words = nn.Embedding(*weights["embeddings.word_embeddings.weight"].shape)
        self.positions = nn.Embedding(*weights["embeddings.position_embeddings.weight"].shape)
        self.norm = nn.LayerNorm(WIDTH, EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(layer_count(weights)))
        self.mode = ""
        """Empty, "look" (find ranges) or "quantised"."""
        with torch.no_grad():
            for name, parameter in self._named(weights):
                parameter.copy_(torch.from_numpy(np.asarray(name, np.float32)))

    def _named(self, weights: Mapping[str, Any]) -> Any:
        table = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        yield weights["embeddings.word_embeddings.weight"], self.words.weight
        yield table, self.positions.weight
        yield weights["embeddings.LayerNorm.weight"], self.norm.weight
        yield weights["embeddings.LayerNorm.bias"], self.norm.bias
        for number, layer in enumerate(self.layers):
            prefix = f"encoder.layer.{number}"
            for kind in ("weight", "bias"):
                parts = [weights[f"{prefix}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
                yield np.concatenate(parts), getattr(layer.qkv, kind)
                for name, module in _parts(layer):
                    yield weights[f"{prefix}.{name}.{kind}"], getattr(module, kind)

    def load_ranges(self, weights: Mapping[str, Any]) -> None:
        """Take the ranges of activations that `exported` wrote, and compute as the int8 model does."""
        with torch.no_grad():
            for number, layer in enumerate(self.layers):
                for site in SITES:
                    low, high = weights[f"encoder.layer.{number}.range.{site}"]
                    layer.ranges[site].low.fill_(float(low))
                    layer.ranges[site].high.fill_(float(high))
        self.mode = "quantised"

    def exported(self) -> Weights:
        """Return the weights by the names of the reference implementation, and the ranges of activations."""

        def array(value: Tensor) -> Any:
            return value.detach().float().cpu().numpy()

        weights: Weights = {
            "embeddings.word_embeddings.weight": array(self.words.weight),
            "embeddings.position_embeddings.weight": array(self.positions.weight),
            "embeddings.token_type_embeddings.weight": np.zeros((2, WIDTH), np.float32),
            "embeddings.LayerNorm.weight": array(self.norm.weight),
            "embeddings.LayerNorm.bias": array(self.norm.bias),
        }
        for number, layer in enumerate(self.layers):
            prefix = f"encoder.layer.{number}"
            for kind in ("weight", "bias"):
                whole = array(getattr(layer.qkv, kind))
                for place, part in enumerate(("query", "key", "value")):
                    weights[f"{prefix}.attention.self.{part}.{kind}"] = whole[place * WIDTH : (place + 1) * WIDTH]
                for name, module in _parts(layer):
                    weights[f"{prefix}.{name}.{kind}"] = array(getattr(module, kind))
            for site in SITES:
                weights[f"{prefix}.range.{site}"] = np.array(
                    [layer.ranges[site].low.item(), layer.ranges[site].high.item()], np.float32
                )
        return weights

    def forward(self, batch: Batch) -> Tensor:
        kind = torch.bfloat16 if batch.tokens.is_cuda else torch.float32
        value = self.words(batch.tokens) + self.positions(batch.places)
        value = functional.layer_norm(value, (WIDTH,), self.norm.weight, self.norm.bias, EPSILON).to(kind)
        for layer in self.layers:
            value = layer(value, batch, self.mode)
        if self.pooling == "cls":
            pooled = value[batch.starts[:-1].long()].float()
        else:
            pooled = torch.zeros(batch.size, WIDTH, device=value.device).index_add_(0, batch.owners, value.float())
        return functional.normalize(pooled, dim=-1, eps=1e-6)


def _parts(layer: Layer) -> tuple[tuple[str, nn.Module], ...]:
    return (
        ("attention.output.dense", layer.out),
        ("attention.output.LayerNorm", layer.norm_1),
        ("intermediate.dense", layer.up),
        ("output.dense", layer.down),
        ("output.LayerNorm", layer.norm_2),
    )


@torch.no_grad()
def embed(encoder: Encoder, store: TokenStore, prefix: Tensor, tokens: int = 600_000) -> Tensor:
    """Return a vector (float16) for each sequence of a store, in its order."""
    count = store.lengths.shape[0]
    order = store.lengths.argsort()
    sizes = torch.cumsum(store.lengths[order] + 2 + prefix.shape[0], 0)
    cuts = [int(torch.searchsorted(sizes, edge)) for edge in range(tokens, int(sizes[-1]) if count else 0, tokens)]
    vectors = torch.empty(count, WIDTH, dtype=torch.float16, device=store.device)
    for part in torch.tensor_split(order, cuts):
        for texts in part.split(32_768):  # flash attention takes no more than 65,535
            if texts.shape[0]:
                vectors[texts] = encoder(store.batch(texts, prefix)).half()
    return vectors


@torch.no_grad()
def find_ranges(encoder: Encoder, batches: Iterable[Batch], *, is_first: bool = True) -> None:
    """Set the ranges of activations to what batches show, and compute as the int8 model does from then on."""
    if is_first:
        for layer in encoder.layers:
            for site in SITES:
                layer.ranges[site].low.zero_()
                layer.ranges[site].high.zero_()
    encoder.mode = "look"
    for batch in batches:
        encoder(batch)
    encoder.mode = "quantised"
