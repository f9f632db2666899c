"""Train a vMF head over a vocabulary on plain text: `python -m examples.train_words --data FILE.txt --out runs/words`.

Next-word prediction with a recurrent encoder: the classes are the words of the vocabulary, whose sizes have a natural
long tail, and the loss is `ProCoLoss` over all of them.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

import suffice as sf
from examples.training import save

__all__ = ["CAPTURE", "SETTING", "Text", "WordModel", "features_of", "load_text", "train_words"]

_LENGTH, _BATCH = 64, 16
_SHARE = 0.9
SETTING: dict[str, Any] = {
    "method": "contrastive",
    "dim": 128,
    "temperature": 0.07,
    "vocabulary": 4096,
    "epochs": 10,
    "learning_rate": 2e-3,
    "seed": 3407,
}
CAPTURE = (1, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Words as numbers, 0 to `vocabulary` - 1 by falling frequency; a word outside the vocabulary is `vocabulary`."""

    train: Tensor
    test: Tensor
    vocabulary: int

    @property
    def class_counts(self) -> Tensor:
        """How often each word of the vocabulary occurs in the training part."""
        return torch.bincount(self.train, minlength=self.vocabulary + 1)[: self.vocabulary]


def load_text(path: Path, vocabulary: int) -> Text:
    """Lower-case words and punctuation marks; the first nine tenths train, and their commonest are the vocabulary."""
    words = re.findall(r"[a-z']+|[^\sa-z']", path.read_text().lower())
    cut = int(_SHARE * len(words))
    common = Counter(words[:cut]).most_common(vocabulary)
    number = {word: index for index, (word, _) in enumerate(common)}
    tokens = torch.tensor([number.get(word, vocabulary) for word in words])
    return Text(train=tokens[:cut], test=tokens[cut:], vocabulary=vocabulary)


class WordModel(nn.Module):
    """Embeddings, one recurrent layer, and a projection to the features of the vMF loss."""

    def __init__(self, vocabulary: int, dim: int, width: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary + 1, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.projector = nn.Linear(width, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.encoder(self.dropout(self.embedding(tokens)))
        projected: Tensor = self.projector(self.dropout(hidden))
        return projected


def windows(tokens: Tensor, generator: torch.Generator | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of inputs and next words; with a generator from a random offset and in random order."""
    offset = 0 if generator is None else int(torch.randint(0, _LENGTH, (), generator=generator))
    count = (len(tokens) - offset - 1) // _LENGTH
    inputs = tokens[offset : offset + count * _LENGTH].view(count, _LENGTH)
    targets = tokens[offset + 1 : offset + 1 + count * _LENGTH].view(count, _LENGTH)
    order = torch.arange(count) if generator is None else torch.randperm(count, generator=generator)
    for rows in order.split(_BATCH):
        yield inputs[rows], targets[rows]


def build_words(text: Text) -> tuple[WordModel, sf.nn.ProCoLoss]:
    """The model and the loss of `SETTING`."""
    model = WordModel(text.vocabulary, SETTING["dim"])
    loss = sf.nn.ProCoLoss(
        text.vocabulary,
        SETTING["dim"],
        temperature=SETTING["temperature"],
        class_counts=text.class_counts,
        seed=SETTING["seed"],
    )
    return model, loss


def train_words(text: Text, out: Path, *, resume: bool) -> None:
    """Train; writes `out/log.jsonl`, a checkpoint after each epoch and one for each captured epoch."""
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SETTING["seed"])
    model, loss = build_words(text)
    optimizer = torch.optim.AdamW(model.parameters(), lr=SETTING["learning_rate"], weight_decay=0.01)
    latest, start = out / "latest.pt", 0
    if latest.exists() and not resume:
        raise SystemExit(f"{out} has a run already; go on with --resume, or choose another --out")
    if latest.exists():
        saved = torch.load(latest, weights_only=True)
        model.load_state_dict(saved["model"])
        loss.load_state_dict(saved["loss"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"]
    (out / "setting.json").write_text(json.dumps({**SETTING, "capture": CAPTURE}, indent=2) + "\n")
    for epoch in range(start, SETTING["epochs"]):
        began = time.perf_counter()
        generator = torch.Generator().manual_seed(10_000 * SETTING["seed"] + epoch)
        total, steps = 0.0, 0
        model.train(), loss.train()
        batches = list(windows(text.train, generator))
        for step, (inputs, targets) in enumerate(track(batches, f"epoch {epoch + 1}", console=console)):
            done = (epoch + step / len(batches)) / SETTING["epochs"]
            for group in optimizer.param_groups:
                group["lr"] = SETTING["learning_rate"] * min(1.0, 20 * done) * 0.5 * (1 + math.cos(math.pi * done))
            # a word outside the vocabulary is read, but it is no class
            known = targets < text.vocabulary
            value = loss(model(inputs)[known], targets[known])
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total, steps = total + float(value.detach()), steps + 1
        loss.statistics.advance()
        record: dict[str, Any] = {
            "epoch": epoch + 1,
            "loss": total / steps,
            "seconds": time.perf_counter() - began,
            **_accuracy(text, model, loss),
        }
        with (out / "log.jsonl").open("a") as log:
            log.write(json.dumps(record) + "\n")
        console.print(record)
        checkpoint = {"epoch": epoch + 1, "model": model.state_dict(), "loss": loss.state_dict()}
        if epoch + 1 in CAPTURE:
            save(checkpoint, out / f"epoch-{epoch + 1:03d}.pt")
        save({**checkpoint, "optimizer": optimizer.state_dict()}, latest)


@torch.no_grad()
def features_of(model: WordModel, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Features and next words of all positions whose next word is in the vocabulary."""
    model.eval()
    vocabulary = model.embedding.num_embeddings - 1
    pairs = [(model(inputs).flatten(0, 1), targets.flatten()) for inputs, targets in windows(tokens, None)]
    features, targets = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    known = targets < vocabulary
    return features[known], targets[known]


@torch.no_grad()
def _accuracy(text: Text, model: WordModel, loss: sf.nn.ProCoLoss) -> dict[str, float]:
    """On the test part, priors included: perplexity, the share of next words found, and the same by thirds of words."""
    loss.eval()
    features, targets = features_of(model, text.test)
    found, total = [], 0.0
    for part, labels in zip(features.split(1024), targets.split(1024), strict=True):
        logits = loss.logits(part, adjusted=True)
        total += float(nn.functional.cross_entropy(logits, labels, reduction="sum"))
        found.append(logits.argmax(dim=1) == labels)
    right = torch.cat(found).double()
    out = {"perplexity": math.exp(total / len(targets)), "vmf_accuracy": float(right.mean())}
    thirds = (3 * targets) // text.vocabulary
    for third, word in enumerate(("head", "middle", "tail")):
        out[f"vmf_{word}"] = float(right[thirds == third].mean())
    return out


def main(
    data: Annotated[Path, typer.Option(help="a plain text", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="folder for log and checkpoints")],
    resume: Annotated[bool, typer.Option(help="go on from the last checkpoint")] = False,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves torch's choice")] = 0,
) -> None:
    """Train on one text."""
    if threads:
        torch.set_num_threads(threads)
    train_words(load_text(data, SETTING["vocabulary"]), out, resume=resume)


if __name__ == "__main__":
    typer.run(main)
