"""Paths in Python: every public function that takes one takes a string, too."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import multiway as mw
from multiway.data import ImageSet
from multiway.threat import Linf


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All public functions and classes of the package, by name."""
    for name in mw.__all__:
        found = getattr(mw, name)
        if isinstance(found, types.ModuleType):
            for inner in found.__all__:
                if callable(getattr(found, inner)):
                    yield f"{name}.{inner}", getattr(found, inner)
        elif callable(found):
            yield name, found


def with_paths() -> list[tuple[str, str, str]]:
    """Function, parameter and its annotation, for all that take paths."""
    return [
        (name, parameter.name, str(parameter.annotation))
        for name, function in public()
        if not (inspect.isclass(function) and issubclass(function, Exception))
        for parameter in inspect.signature(function).parameters.values()
        if "Path" in str(parameter.annotation)
    ]


def test_there_are_functions_with_paths() -> None:
    names = {name for name, _, _ in with_paths()}
    assert {"evaluate", "load_run", "train", "data.load", "results.read_result"} <= names
    assert len(names) >= 25


@pytest.mark.parametrize(("name", "parameter", "annotation"), with_paths())
def test_a_path_may_be_a_string(name: str, parameter: str, annotation: str) -> None:
    if name == "training.Run":  # a dataclass: what it holds is a path, whatever it was given
        assert mw.training.Run("x").directory == Path("x")  # type: ignore[arg-type]
    else:
        assert "str" in annotation.replace("Mapping[str,", "Mapping["), (name, parameter)


def images() -> ImageSet:
    pixels = torch.arange(12 * 64).remainder(251).to(torch.uint8).view(12, 1, 8, 8)
    return ImageSet("toy", "test", pixels, torch.arange(12) % 2, ("a", "b"))


def linear(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))


def test_strings_lead_to_the_same_files_as_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, attack = images(), mw.FGSM(Linf(0.1), objective="ce")
    pixels, one, two = data.images / 255, linear(0), linear(1)
    first = mw.evaluate(one, pixels, data.labels, [attack], directory="kept")
    assert (tmp_path / "kept").is_dir()
    again = mw.evaluate(one, pixels, data.labels, [attack], directory=Path("kept"))
    assert (first.robust, first.rows[0].seconds) == (again.robust, again.rows[0].seconds)
    models = {"one": one, "two": two}
    result = mw.transfer(models, data, attack, directory="transferred")
    assert (tmp_path / "transferred").is_dir()
    mw.analysis.corruption_accuracy(models, data, ["fog"], [1], directories={"one": "corrupted"})
    assert (tmp_path / "corrupted").is_dir()
    written = mw.results.write_result("figures/result.json", result)
    assert written == Path("figures/result.json")
    assert mw.results.read_result("figures/result.json").cells == result.cells
    recipe = mw.training.Recipe(name="mine", lr=0.01, batch_size=6, epochs=1)
    model = mw.encode_model(one, mw.Encoding.make("ro", classes=2, length=8))
    mw.train(model, data, recipe, "run")
    loaded, _ = mw.load_run("run", backbone=linear(2))
    assert torch.equal(loaded(pixels), model.eval()(pixels))
    for picture in mw.report.draw(result, "figures"):
        assert all(file.exists() for file in mw.report.save_both(picture.figure, "figures/shown"))
