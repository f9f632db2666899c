"""`suffice judge`: any program's outputs against the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from suffice import __version__
from suffice.cli.output import collection_at, console_of_width, exit_on_bad_file, progress_bar, say

__all__ = ["judge"]

_BUILTIN = "built-in"


def judge(
    collection: Annotated[str, typer.Argument(help="A collection, or built-in.")],
    outputs: Annotated[
        Path, typer.Argument(help="npz, safetensors or pt with loss, gradient, log_probabilities, prediction: any.")
    ],
    loss: Annotated[float | None, typer.Option(help="Budget for the loss error.")] = None,
    gradient: Annotated[float | None, typer.Option(help="Budget for the feature-gradient error.")] = None,
    probability: Annotated[float | None, typer.Option(help="Budget for the total variation of probabilities.")] = None,
    kl: Annotated[float | None, typer.Option(help="Budget for the larger of both KL divergences, in nats.")] = None,
    prediction: Annotated[bool, typer.Option(help="The predicted class must be a best one.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; without it, judgements/FILE.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Judge any program's outputs at a collection's states, one row a state in the collection's order.

    Exit 0 if all are certified, 1 if some are violated or open, 2 on wrong usage, 3 on a bad file.
    """
    from suffice.audits.judged import judge_collection, outputs_of, write_judged
    from suffice.budgets import Budgets
    from suffice.reports.judgement import judgement_record, print_judgement, write_judgement_page
    from suffice.store.arrays import read_arrays
    from suffice.store.manifest import write_whole
    from suffice.store.remote import local_path, shown
    from suffice.words import Verdict

    try:
        budgets = Budgets(loss=loss, gradient=gradient, probability=probability, kl=kl, prediction=prediction)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    with exit_on_bad_file("bad file"):
        opened = collection_at(None if collection == _BUILTIN else Path(collection))
        given = outputs_of(read_arrays(outputs), outputs, opened)
        try:
            with progress_bar() as progress:
                task = progress.add_task("judging", total=len(opened))
                found = judge_collection(opened, given, budgets, path=outputs, tick=lambda n: progress.advance(task, n))
        except ValueError as error:
            if type(error) is not ValueError:
                raise
            raise typer.BadParameter(str(error)) from None
    folder = local_path(out or Path("judgements") / outputs.stem)
    question = {"collection": collection, "content": opened.digest, "outputs": str(outputs), "suffice": __version__}
    record = judgement_record(found, question)
    write_judged(found, folder)
    write_whole(folder / "judgement.json", (json.dumps(record, indent=1) + "\n").encode())
    page = write_judgement_page(found, folder, question)
    if as_json:
        say(json.dumps(record, indent=1))
    else:
        print_judgement(found, console_of_width(110))
        say(f"results in {shown(folder)}\npage: {shown(page)}")
    raise typer.Exit(0 if found.counts[Verdict.CERTIFIED] == record["states"] else 1)
