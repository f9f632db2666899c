"""Train a small language model with a linear head: `python -m examples.train_language --data FILE.txt --out RUN`.

Byte pairs of a plain text, a recurrent encoder, layer norm, and a head without bias over all tokens, trained with
cross-entropy. `--collection FOLDER` then writes states of the finished model: the head in float16, and the hidden
vectors rounded to float16, as a program that runs in half precision hands them to its head.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

import suffice as sf
from examples.bpe import learn
from examples.train_words import Text, WordModel, windows
from examples.training import save

__all__ = ["SETTING", "STATES", "LanguageModel", "capture_language", "load_tokens", "train_language"]

_SHARE = 0.9
SETTING: dict[str, Any] = {"dim": 128, "vocabulary": 4096, "epochs": 8, "learning_rate": 2e-3, "seed": 3407}
# positions from the training part, and as many from the test part, each drawn uniformly and none twice
STATES = 512
RUN = "shakespeare/linear-128"
_PROVENANCE = (
    "Hidden vectors and next tokens of a small recurrent language model on byte pairs of Shakespeare, 512 positions "
    "of the training part and 512 of the test part, drawn uniformly; head and hidden vectors rounded to float16. "
    "docs/states.md says how; states of one run are not independent."
)


def load_tokens(path: Path) -> Text:
    """Byte pairs of a text as numbers; they are learned from its first nine tenths, which train."""
    text = path.read_text()
    cut = int(_SHARE * len(text))
    # every character of the text is a token, also one that only the test part has
    encoding = learn(text[:cut] + "".join(sorted(set(text))), SETTING["vocabulary"])
    train, test = (torch.tensor(encoding.encode(part)) for part in (text[:cut], text[cut:]))
    return Text(train=train, test=test, vocabulary=len(encoding))


class LanguageModel(nn.Module):
    """Hidden vectors of a recurrent encoder, normalised, and a linear head without bias."""

    def __init__(self, vocabulary: int, dim: int) -> None:
        super().__init__()
        self.encoder = WordModel(vocabulary, dim)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)

    def hidden(self, tokens: Tensor) -> Tensor:
        """What goes into the head."""
        out: Tensor = self.norm(self.encoder(tokens))
        return out

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.hidden(tokens))
        return logits


def train_language(text: Text, out: Path, *, resume: bool) -> LanguageModel:
    """Train; writes `out/log.jsonl` and a checkpoint after each epoch."""
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SETTING["seed"])
    model = LanguageModel(text.vocabulary, SETTING["dim"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=SETTING["learning_rate"], weight_decay=0.01)
    latest, start = out / "latest.pt", 0
    if latest.exists() and not resume:
        raise SystemExit(f"{out} has a run already; go on with --resume, or choose another --out")
    if latest.exists():
        saved = torch.load(latest, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"]
    (out / "setting.json").write_text(json.dumps(SETTING, indent=2) + "\n")
    for epoch in range(start, SETTING["epochs"]):
        began, total = time.perf_counter(), 0.0
        generator = torch.Generator().manual_seed(10_000 * SETTING["seed"] + epoch)
        model.train()
        batches = list(windows(text.train, generator))
        for step, (inputs, targets) in enumerate(track(batches, f"epoch {epoch + 1}", console=console)):
            done = (epoch + step / len(batches)) / SETTING["epochs"]
            for group in optimizer.param_groups:
                group["lr"] = SETTING["learning_rate"] * min(1.0, 20 * done) * 0.5 * (1 + math.cos(math.pi * done))
            value = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += float(value.detach())
        record = {
            "epoch": epoch + 1,
            "loss": total / len(batches),
            "seconds": time.perf_counter() - began,
            **_accuracy(text, model),
        }
        with (out / "log.jsonl").open("a") as log:
            log.write(json.dumps(record) + "\n")
        console.print(record)
        save({"epoch": epoch + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, latest)
    return model


@torch.no_grad()
def hidden_of(model: LanguageModel, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden vectors and next tokens of all positions."""
    model.eval()
    pairs = [(model.hidden(inputs).flatten(0, 1), targets.flatten()) for inputs, targets in windows(tokens, None)]
    hidden, targets = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    return hidden, targets


@torch.no_grad()
def _accuracy(text: Text, model: LanguageModel) -> dict[str, float]:
    """On the test part: perplexity, and the share of next tokens that are found."""
    hidden, targets = hidden_of(model, text.test)
    logits = [(model.head(part), labels) for part, labels in zip(hidden.split(1024), targets.split(1024), strict=True)]
    total = sum(float(nn.functional.cross_entropy(part, labels, reduction="sum")) for part, labels in logits)
    found = sum(int((part.argmax(dim=1) == labels).sum()) for part, labels in logits)
    return {"perplexity": math.exp(total / len(targets)), "accuracy": found / len(targets)}


@torch.no_grad()
def capture_language(model: LanguageModel, text: Text, out: Path) -> None:
    """Write the collection of a finished model."""
    head = sf.LinearHead(model.head.weight.half())
    with sf.CollectionWriter(out, _PROVENANCE) as writer:
        for offset, (split, tokens) in enumerate((("train", text.train), ("test", text.test))):
            hidden, labels = hidden_of(model, tokens)
            generator = torch.Generator().manual_seed(SETTING["seed"] + offset)
            rows = torch.randperm(len(labels), generator=generator)[:STATES]
            writer.add(
                sf.HeadStates(head, hidden[rows].half(), labels[rows]),
                source="cross-entropy",
                dataset=f"shakespeare/{split}",
                run=RUN,
                step=SETTING["epochs"],
                ids=[f"{RUN}/{SETTING['epochs']}/{split}/{row}" for row in rows.tolist()],
            )


def main(
    data: Annotated[Path, typer.Option(help="a plain text", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="folder for log and checkpoints")],
    collection: Annotated[Path | None, typer.Option(help="write states of the finished model here")] = None,
    resume: Annotated[bool, typer.Option(help="go on from the last checkpoint")] = False,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves torch's choice")] = 0,
) -> None:
    """Train on one text, and write its states."""
    if threads:
        torch.set_num_threads(threads)
    text = load_tokens(data)
    model = train_language(text, out, resume=resume)
    if collection is not None:
        capture_language(model, text, collection)


if __name__ == "__main__":
    typer.run(main)
