"""Trains the student: its cosines follow the sum of the teachers, first as it is, then as if it were int8.

python -m train.distil --shards DIR --taught FILE --vocabulary FILE --init FILE [--layers 0,2,4,7,9,11] --out FILE --seconds N

A batch holds texts of a few topics, so that its passages are hard to tell apart. Three things are asked of the student: its
vectors point where the teachers' main directions do; its cosines rank passages for questions and questions for passages as the
sum does (both directions of a Kullback-Leibler divergence); and a passage is found by what is known to ask for it. How well
the passages of held pairs are found, of repositories that are not trained on, says when to stop and which weights to keep.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from train import measure
from train.network import Encoder, TokenStore, embed, find_ranges
from train.teach import Sum, Taught, read_shards, student_prefixes
from train.tokens import KINDS, Pairs, WordPieces, read_pairs
from train.weights import read, with_layers, write

SEED = 20
SHARPNESS = 1.25
"""Of the sum, whose spread over pairs of chance is 1, in a softmax."""
PAIR_SHARE = 0.35
"""Of the aim that lies on the passage that a question is known to ask for, and on those that say the same."""
FOREIGN_PAIR_SHARE = 0.85
"""The same for other languages, which the teachers hardly read: there all passages are alike to them."""
SAME = 0.93
"""Cosine of two passages, in the sum's main directions, from which on they say the same."""
AIM_WEIGHT = 2.0
"""At first; it goes down with the rate, so that in the end only the ranking counts."""
NEAR = 32
NEAR_AMONG = 400_000
"""Passages, by chance, among which the nearest to a question are looked for."""
TOPIC_SIZE = 160


class Lessons:
    """Training text on the device, what the teachers say of it, and batches of a few topics each."""

    def __init__(self, pairs: Pairs, vectors: Taught, device: str, per_batch: int) -> None:
        self.device = device
        self.asked, self.told = TokenStore(pairs.questions, device), TokenStore(pairs.passages, device)
        self.is_foreign = torch.from_numpy(pairs.kinds == KINDS.index("languages")).to(device)
        self.sum = Sum(vectors)
        self.asked_aim, self.told_aim = self.sum.narrow(vectors, 0), self.sum.narrow(vectors, 1)
        # Their means are left in what ranks: without them it ranks worse (measured on the judged sets: .610 for .625).
        whole = Sum(vectors, is_centred=False)
        self.asked_sum, self.told_sum = whole.wide_half(vectors, 0), whole.wide_half(vectors, 1)
        del vectors
        self.has_question = self.asked.lengths > 0
        self.has_passage = self.told.lengths > 0
        sample = torch.randperm(self.asked_sum.shape[0], device=self.device)[:4000]
        chance = self.asked_sum[sample].float() @ self.told_sum[sample.flip(0)].float().T
        self.mean, self.spread = chance.mean().item(), chance.std().item()
        self._group(per_batch)

    def _group(self, per_batch: int) -> None:
        """Find each question's nearest passages, and topics of passages by a few rounds of k-means."""
        count = self.told_aim.shape[0]
        among = torch.nonzero(self.has_passage).flatten()
        among = among[torch.randperm(among.shape[0], device=self.device)[:NEAR_AMONG]]
        whole = self.told_sum[among]
        near = min(NEAR, among.shape[0])
        found = [among[(chunk @ whole.T).topk(near, dim=1).indices].int() for chunk in self.asked_sum.split(4096)]
        self.near = torch.cat(found)
        del whole
        topics = max(1, count // TOPIC_SIZE)
        unit = functional.normalize(self.told_aim.float(), dim=-1).half()
        centres = unit[torch.randperm(count, device=self.device)[:topics]].clone()
        topic = torch.zeros(count, dtype=torch.long, device=self.device)
        for _ in range(6):
            topic = torch.cat([(chunk @ centres.T).argmax(dim=1) for chunk in unit.split(65_536)])
            sums = torch.zeros(topics, unit.shape[1], device=self.device).index_add_(0, topic, unit.float())
            centres = functional.normalize(sums, dim=-1).half()
        of_question = topic[self.near[:, 0].long()]
        of_question[~self.has_question] = topics
        self.by_topic = of_question.argsort()
        sizes = torch.bincount(of_question, minlength=topics + 1)[:topics]
        self.topic_starts, self.topic_sizes = torch.cumsum(sizes, 0) - sizes, sizes
        self.filled = (
            torch.nonzero(sizes > 3).flatten() if bool((sizes > 3).any()) else torch.nonzero(sizes > 0).flatten()
        )
        self.per_batch = per_batch

    def draw(self) -> tuple[Tensor, Tensor]:
        """Return places of questions, and of passages: near ones, those known to belong to them, and some by chance."""
        chosen = self.filled[
            torch.randint(self.filled.shape[0], (max(1, self.per_batch // 48),), device=self.device)
        ].unique()
        parts = []
        for topic in chosen.tolist():
            start, size = int(self.topic_starts[topic]), int(self.topic_sizes[topic])
            parts.append(self.by_topic[start + torch.randperm(size, device=self.device)[:48]])
        questions = torch.cat([*parts, self._by_chance(self.has_question, self.per_batch // 4)]).unique()
        near = self.near[questions].long()
        pick = torch.randint(near.shape[1], (near.shape[0], 1), device=self.device)
        own = questions[self.has_passage[questions]]
        passages = torch.cat(
            [near[:, 0], near.gather(1, pick).flatten(), own, self._by_chance(self.has_passage, self.per_batch // 8)]
        )
        return questions, passages.unique()

    def _by_chance(self, mask: Tensor, count: int) -> Tensor:
        drawn = torch.randint(mask.shape[0], (count,), device=self.device)
        return drawn[mask[drawn]]

    def judgement(self, questions: Tensor, passages: Tensor) -> Tensor:
        return (
            (self.asked_sum[questions].float() @ self.told_sum[passages].float().T - self.mean)
            / self.spread
            * SHARPNESS
        )

    def known(self, questions: Tensor, passages: Tensor) -> Tensor:
        """Return for each question how the known part of the aim lies: on its passage and on those that say the same."""
        own = functional.normalize(self.told_aim[questions].float(), dim=-1)
        others = functional.normalize(self.told_aim[passages].float(), dim=-1)
        same = (own @ others.T > SAME) & self.has_passage[questions][:, None] & ~self.is_foreign[questions][:, None]
        same |= questions[:, None] == passages[None, :]
        return same.float() / same.sum(1, keepdim=True).clamp(min=1)


class Student:
    """The network in training, its optimizer, and the running average of its weights."""

    def __init__(self, network: Encoder, lessons: Lessons, args: argparse.Namespace) -> None:
        self.network, self.lessons, self.rate, self.pair_share = network, lessons, args.rate, args.pair_share
        for layer in network.layers:
            layer.dropout = args.dropout
        self.sharpness = nn.Parameter(torch.tensor(math.log(20.0), device=args.device))
        # Turns the student's space into the aim's: the aim of a vector need not be the vector itself.
        self.turn = nn.Parameter(torch.eye(384, device=args.device))
        self.prefixes = student_prefixes(WordPieces(args.vocabulary), args.device)
        ranges = [value for name, value in network.named_parameters() if "ranges" in name]
        body = [value for name, value in network.named_parameters() if "ranges" not in name]
        matrices, rest = [value for value in body if value.ndim > 1], [value for value in body if value.ndim < 2]
        is_fused = args.device != "cpu"
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": 0.01, "share": 1.0},
                {"params": rest, "weight_decay": 0.0, "share": 1.0},
                {"params": [self.sharpness], "weight_decay": 0.0, "share": 10.0},
                {"params": [self.turn], "weight_decay": 0.0, "share": 3.0},
                {"params": ranges, "weight_decay": 0.0, "share": 10.0},
            ],
            lr=args.rate,
            betas=(0.9, 0.98),
            fused=is_fused,
        )
        self.average = copy.deepcopy(network).eval()
        self.steps = 0

    def step(self, share: float, warm: int, decay: float) -> float:
        """Take one step at a share of the highest rate; return the loss."""
        lessons = self.lessons
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * share * group["share"] * min(1.0, (self.steps + 1) / warm)
        questions, passages = lessons.draw()
        asked = self.network(lessons.asked.batch(questions, self.prefixes[0]))
        told = self.network(lessons.told.batch(passages, self.prefixes[1]))
        loss = self._loss(questions, passages, asked, told, AIM_WEIGHT * share)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        if torch.isfinite(norm) and torch.isfinite(loss):
            self.optimizer.step()
            with torch.no_grad():
                pairs = zip(self.average.parameters(), self.network.parameters(), strict=True)
                averages, values = map(list, zip(*pairs, strict=True))
                torch._foreach_lerp_(averages, values, 1 - decay)
        self.steps += 1
        return loss.item()

    def _loss(self, questions: Tensor, passages: Tensor, asked: Tensor, told: Tensor, aim_weight: float) -> Tensor:
        lessons = self.lessons
        with torch.no_grad():
            judged = lessons.judgement(questions, passages)
            by_question, by_passage = functional.softmax(judged, 1), functional.softmax(judged.T, 1)
            known = lessons.known(questions, passages)
            share = torch.where(lessons.is_foreign[questions], FOREIGN_PAIR_SHARE, self.pair_share)[:, None]
            by_question = by_question * (1 - share * known.sum(1, keepdim=True)) + share * known
        scores = asked @ told.T * self.sharpness.clamp(1.0, 4.6).exp()
        ranked = functional.kl_div(functional.log_softmax(scores, 1), by_question, reduction="batchmean")
        ranked = ranked + 0.5 * functional.kl_div(
            functional.log_softmax(scores.T, 1), by_passage, reduction="batchmean"
        )
        aims = torch.cat([lessons.asked_aim[questions], lessons.told_aim[passages]]).float()
        missed = 1 - functional.cosine_similarity(torch.cat([asked, told]) @ self.turn, aims, dim=-1)
        missed = missed * ~lessons.is_foreign[torch.cat([questions, passages])]
        return ranked + aim_weight * missed.mean()


class HeldOut:
    """Pairs that are not trained on: how well questions find their passages among all of them."""

    def __init__(self, held: Pairs, pieces: WordPieces, device: str) -> None:
        self.kinds = torch.from_numpy(held.kinds.astype("int64")).to(device)
        self.asked, self.told = TokenStore(held.questions, device), TokenStore(held.passages, device)
        self.prefixes = student_prefixes(pieces, device)

    @torch.no_grad()
    def score(self, network: Encoder) -> dict[str, float]:
        """Return the mean of 1/rank by kind, and the mean of the kinds."""
        asked = embed(network, self.asked, self.prefixes[0]).float()
        told = embed(network, self.told, self.prefixes[1]).float()
        parts = []
        for start in range(0, asked.shape[0], 2048):
            cosines = asked[start : start + 2048] @ told.T
            own = cosines.gather(1, torch.arange(start, start + cosines.shape[0], device=cosines.device)[:, None])
            parts.append(1 / (1 + (cosines > own).sum(1).float()))
        found = torch.cat(parts)
        scores = {KINDS[kind]: found[self.kinds == kind].mean().item() for kind in self.kinds.unique().tolist()}
        return scores | {"mean": sum(scores.values()) / max(1, len(scores))}


class Checkpoints:
    """Looks every so many steps how well held pairs are found, and keeps the best average of the weights."""

    def __init__(self, held: HeldOut | None, args: argparse.Namespace) -> None:
        self.held, self.every, self.patience, self.folder = held, args.check, args.patience, args.checkpoints
        self.best, self.worse, self.looked_at = -1.0, 0, -1
        self.state: dict[str, Tensor] = {}

    def begin(self) -> None:
        """Forget what was best: weights as they are and as int8 are not compared."""
        self.best, self.worse, self.looked_at, self.state = -1.0, 0, -1, {}

    def look(self, student: Student) -> None:
        if self.held is None or self.looked_at == student.steps:
            return
        self.looked_at = student.steps
        scores = self.held.score(student.average)
        said = " ".join(f"{name} {score:.3f}" for name, score in scores.items())
        print(f"held at step {student.steps}{' int8' if student.average.mode else ''}: {said}", flush=True)
        if scores["mean"] > self.best:
            self.best, self.worse = scores["mean"], 0
            self.state = {name: value.clone() for name, value in student.average.state_dict().items()}
        else:
            self.worse += 1
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"step-{student.steps:05}{'-int8' if student.average.mode else ''}-{scores['mean']:.4f}.npz"
            write(self.folder / name, student.average.exported())

    @property
    def is_stopped(self) -> bool:
        return bool(self.patience) and self.worse >= self.patience

    def restore(self, student: Student) -> None:
        """Go back to the best average."""
        if self.state:
            student.average.load_state_dict(self.state)
            student.network.load_state_dict(self.state)


def main() -> int:
    args = _arguments()
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    started = time.perf_counter()
    vectors = torch.load(args.taught, map_location=args.device)
    lessons = Lessons(read_shards(args.shards), vectors, args.device, args.per_batch)
    del vectors
    print(f"lessons ready, {lessons.sum.kept:.3f} of the sum kept, {time.perf_counter() - started:.0f} s", flush=True)
    weights = read(args.init)
    if args.layers:
        weights = with_layers(weights, [int(layer) for layer in args.layers.split(",")])
    student = Student(Encoder(weights).to(args.device), lessons, args)
    path = args.shards / "held.npz"
    held = HeldOut(read_pairs(path), WordPieces(args.vocabulary), args.device) if path.is_file() else None
    train(student, args, Checkpoints(held, args))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write(args.out, student.average.exported())
    if args.last:
        write(args.last, student.network.exported())
    if args.judged:
        _report(student, args)
    return 0


def train(student: Student, args: argparse.Namespace, checkpoints: Checkpoints) -> None:
    """Train for so many seconds or steps; for the last share of them, as if the network were int8.

    When held pairs are not found any better, what is left of the first part is left out.
    """
    begun = time.perf_counter()
    recent = skipped = 0.0
    turn = 1 - args.quantised
    while True:
        passed = time.perf_counter() - begun
        done = skipped + max(passed / args.seconds, student.steps / args.steps if args.steps else 0.0)
        if args.quantised and not student.network.mode and (done >= turn or checkpoints.is_stopped):
            skipped += max(0.0, turn - done)
            _begin_int8(student, args, checkpoints)
        elif done >= 1 or checkpoints.is_stopped:
            break
        share = max(0.02, math.cos(math.pi / 2 * min(1.0, done)))
        loss = student.step(share, args.warm, min(args.decay, student.steps / (student.steps + 10)))
        recent = loss if student.steps == 1 else 0.97 * recent + 0.03 * loss
        if student.steps % 100 == 0 or student.steps in {1, 3, 10, 30}:
            sharp = student.sharpness.exp().item()
            print(
                f"step {student.steps} loss {recent:.4f} sharpness {sharp:.1f} {time.perf_counter() - begun:.0f} s",
                flush=True,
            )
        if args.check and student.steps % args.check == 0:
            checkpoints.look(student)
    checkpoints.look(student)
    checkpoints.restore(student)


def _begin_int8(student: Student, args: argparse.Namespace, checkpoints: Checkpoints) -> None:
    """Go on from the best weights so far, as if the network were int8."""
    checkpoints.look(student)
    checkpoints.restore(student)
    checkpoints.begin()
    if args.before:
        write(args.before, student.average.exported())
    look(student)
    print(f"int8 from step {student.steps} on", flush=True)


def look(student: Student) -> None:
    """Find the ranges of activations, then compute with them."""
    lessons, prefixes = student.lessons, student.prefixes
    drawn = [lessons.draw() for _ in range(4)]
    for network in (student.network, student.average):
        find_ranges(network, (lessons.asked.batch(questions, prefixes[0]) for questions, _ in drawn))
        find_ranges(network, (lessons.told.batch(passages, prefixes[1]) for _, passages in drawn), is_first=False)


def _report(student: Student, args: argparse.Namespace) -> None:
    pieces = WordPieces(args.vocabulary)
    sets = measure.read_sets(args.judged, 1000)
    columns: dict[str, Any] = {}
    columns["average"] = measure.measure(sets, measure.torch_embed(student.average.eval(), pieces, args.device))
    if student.network.mode:
        student.average.mode = ""
        columns["average-fp"] = measure.measure(sets, measure.torch_embed(student.average, pieces, args.device))
    print(measure.table(columns), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m train.distil", description="Trains the student.")
    parser.add_argument("--shards", type=Path, required=True, metavar="DIR")
    parser.add_argument("--taught", type=Path, required=True, metavar="FILE")
    parser.add_argument("--vocabulary", type=Path, required=True, metavar="FILE")
    parser.add_argument("--init", type=Path, required=True, metavar="FILE", help="weights to start from")
    parser.add_argument("--layers", default="", metavar="A,B", help="only these layers of it")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="average of the weights, .npz")
    parser.add_argument("--last", type=Path, metavar="FILE", help="last weights, .npz")
    parser.add_argument("--before", type=Path, metavar="FILE", help="average before the int8 part, .npz")
    parser.add_argument("--judged", type=Path, metavar="FILE", help="measure at the end")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--steps", type=int, default=0, help="at most; 0: as many as there is time for")
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--warm", type=int, default=200, help="steps until the highest rate")
    parser.add_argument("--decay", type=float, default=0.998, help="of the average")
    parser.add_argument("--per-batch", type=int, default=1536, help="questions, about")
    parser.add_argument("--quantised", type=float, default=0.0, help="share of the time, at the end, as if int8")
    parser.add_argument("--pair-share", type=float, default=PAIR_SHARE, help="of the aim, on what is known to belong")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument(
        "--check", type=int, default=0, metavar="N", help="find held pairs every N steps, keep the best"
    )
    parser.add_argument("--patience", type=int, default=0, metavar="N", help="stop when N checks were no better")
    parser.add_argument("--checkpoints", type=Path, metavar="DIR", help="write the weights of every check")
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
