"""Files of other people become a collection, and nothing in them is unpickled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from suffice.store.importing import import_states
from suffice.store.manifest import CollectionError
from suffice.store.reader import open_collection
from tests.support.collections import make_states


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt"])
def test_import(tmp_path: Path, suffix: str) -> None:
    states = make_states(11)
    tensors = {
        "features": states.features.float(),
        "labels": states.labels,
        "directions": states.bank.directions,
        "concentrations": states.bank.concentrations,
        "biases": states.bank.biases,
        "temperature": torch.tensor([0.1], dtype=torch.float64),
    }
    path = tmp_path / f"mine{suffix}"
    if suffix == ".npz":
        np.savez(path, **{name: tensor.numpy() for name, tensor in tensors.items()})
    elif suffix == ".safetensors":
        safetensors.torch.save_file(tensors, path)
    else:
        torch.save(tensors, path)
    assert import_states(path, tmp_path / "c", source="me") == 11
    (batch,) = open_collection(tmp_path / "c")
    assert torch.equal(batch.states.features, states.features)
    assert batch.source == ["me"] * 11
    assert batch.run[0] == "mine"


def test_import_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="there is no such file"):
        import_states(tmp_path / "x.npz", tmp_path / "c")
    np.savez(tmp_path / "few.npz", features=np.zeros((2, 8)))
    with pytest.raises(CollectionError, match="there is no labels, directions, concentrations, temperature"):
        import_states(tmp_path / "few.npz", tmp_path / "c")
    (tmp_path / "x.csv").write_text("1,2")
    with pytest.raises(CollectionError, match=r"ends in \.npz, \.safetensors, \.pt or \.pth"):
        import_states(tmp_path / "x.csv", tmp_path / "c")
    np.savez(tmp_path / "pickled.npz", features=np.array([{"a": 1}], dtype=object))
    torch.save({"features": Path("evil")}, tmp_path / "evil.pt")
    for name in ("pickled.npz", "evil.pt"):
        with pytest.raises(CollectionError, match="it has pickled objects, which are never loaded") as caught:
            import_states(tmp_path / name, tmp_path / "c")
        # nobody is told how to load it all the same
        assert not any(word in str(caught.value) for word in ("weights_only", "allow_pickle", "safe_globals"))
    assert not (tmp_path / "c").exists()


def test_import_command(tmp_path: Path) -> None:
    states = make_states(4)
    np.savez(
        tmp_path / "m.npz",
        features=states.features,
        labels=states.labels,
        directions=states.bank.directions,
        concentrations=states.bank.concentrations,
        temperature=np.float64(0.2),
    )
    arguments = ["states", "import", str(tmp_path / "m.npz"), "--out", str(tmp_path / "c")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "4 states written" in done.output
    assert CliRunner().invoke(app, arguments).exit_code == 2
    assert CliRunner().invoke(app, ["states", "import", str(tmp_path / "no.npz"), "--out", "x"]).exit_code == 3


def test_values_that_are_no_states_name_the_file(tmp_path: Path) -> None:
    """And nothing is left behind of a collection that was not made."""
    states = make_states(4)
    right = {
        "features": states.features.numpy(),
        "labels": states.labels.numpy(),
        "directions": states.bank.directions.numpy(),
        "concentrations": states.bank.concentrations.numpy(),
        "temperature": np.float64(0.2),
    }
    for name, value, reason in (
        ("labels", np.array([0, 1, 2, 9]), "labels"),
        ("features", np.full((4, 8), np.nan), "features"),
        ("temperature", np.float64(0), "temperature"),
        ("directions", 2 * right["directions"], "norm 1"),
        ("concentrations", -right["concentrations"], "concentrations"),
    ):
        np.savez(tmp_path / "x.npz", **{**right, name: value})
        with pytest.raises(CollectionError, match=rf"x\.npz: values: .*{reason}"):
            import_states(tmp_path / "x.npz", tmp_path / "c")
        assert not (tmp_path / "c").exists()


def test_appending_keeps_what_is_there(tmp_path: Path) -> None:
    states = make_states(4)
    arrays = {name: getattr(states, name).numpy() for name in ("features", "labels", "temperature")}
    arrays |= {name: getattr(states.bank, name).numpy() for name in ("directions", "concentrations")}
    np.savez(tmp_path / "one.npz", **arrays)
    assert import_states(tmp_path / "one.npz", tmp_path / "c", run="r", step=1) == 4
    with pytest.raises(FileExistsError, match="append=True"):
        import_states(tmp_path / "one.npz", tmp_path / "c")
    assert import_states(tmp_path / "one.npz", tmp_path / "c", append=True, dataset="d") == 4
    collection = open_collection(tmp_path / "c")
    collection.validate()
    assert len(collection) == 8
    assert collection.provenance == "imported from one.npz"
    first, second = collection
    assert (first.run[0], first.step[0], second.run[0], second.dataset[0]) == ("r", 1, "one", "d")
    assert torch.equal(first.states.temperature, states.temperature)


def _tensors(states: sf.States) -> dict[str, torch.Tensor]:
    arrays = {name: getattr(states, name) for name in ("features", "labels", "temperature")}
    return arrays | {name: getattr(states.bank, name) for name in ("directions", "concentrations")}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_states_in_narrow_types(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = _tensors(make_states(4))
    tensors["features"] = tensors["features"].to(dtype)
    torch.save({**tensors, "labels": tensors["labels"].to(torch.uint8)}, tmp_path / "x.pth")
    assert import_states(tmp_path / "x.pth", tmp_path / "c") == 4
    (batch,) = open_collection(tmp_path / "c")
    assert torch.equal(batch.states.features, tensors["features"].double())


@pytest.mark.parametrize("key", ["model.head", "model.head."])
def test_states_inside_of_a_checkpoint(tmp_path: Path, key: str) -> None:
    """Parameters, nested or with dots in their names, below a key."""
    tensors = _tensors(make_states(4))
    parameters = {name: torch.nn.Parameter(t) if t.is_floating_point() else t for name, t in tensors.items()}
    torch.save({"epoch": 3, "note": "x", "model": {"head": parameters, "body": torch.ones(2)}}, tmp_path / "nested.pt")
    torch.save({f"model.head.{name}": t for name, t in parameters.items()}, tmp_path / "dotted.pt")
    for name in ("nested", "dotted"):
        assert import_states(tmp_path / f"{name}.pt", tmp_path / name, key=key) == 4
        (batch,) = open_collection(tmp_path / name)
        assert torch.equal(batch.states.features, tensors["features"])
    done = CliRunner().invoke(
        app, ["states", "import", str(tmp_path / "nested.pt"), "--out", str(tmp_path / "c"), "--key", key]
    )
    assert done.exit_code == 0, done.output
    with pytest.raises(CollectionError, match=r"there is no features.*there is epoch, model\.body, .*--key says where"):
        import_states(tmp_path / "nested.pt", tmp_path / "x")
    with pytest.raises(CollectionError, match=r"below 'model\.tail'; there is nothing"):
        import_states(tmp_path / "nested.pt", tmp_path / "x", key="model.tail")
