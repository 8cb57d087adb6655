"""The pictures of a result: by its chart, and from the arrays in its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from multiway.analysis import landscapes, saliency
from multiway.errors import MultiwayError
from multiway.report.figures import draw
from multiway.report.style import save_both
from multiway.results import CHARTS
from multiway.studies.pictures import write_landscapes, write_saliency
from study_results import accuracy, length, plain, result, transfer


@pytest.mark.parametrize("chart", [each for each in CHARTS if each != "intro"])
def test_a_result_without_cells_shows_none(chart: str) -> None:
    assert draw(plain(chart=chart)) == []


@pytest.mark.parametrize("study", [transfer(), length(), result()], ids=lambda each: each.chart)
def test_every_figure_says_n_seeds_and_attack(study: Any, tmp_path: Path) -> None:
    (picture,) = draw(study)
    title = " ".join(picture.figure.get_suptitle().split())
    for part in (study.title, "toys", "scale cpu", "n=200", "seeds 0, 1, 2", "FGSM"):
        assert part in title
    files = save_both(picture.figure, tmp_path / study.name)
    assert sorted(file.name for file in files) == [f"{study.name}.png", f"{study.name}.svg"]
    assert all(file.stat().st_size > 3000 for file in files)


def test_the_intro_is_drawn() -> None:
    (picture,) = draw(result("intro", chart="intro"))
    words = " ".join(text.get_text() for text in picture.figure.texts)
    assert "1 of 4 directions harmful" in words


def test_dots_with_an_x_are_lines_of_their_own() -> None:
    cells = [accuracy("a", "fog", 100, None), accuracy("b", "fog", 120, None)]
    cells += [
        accuracy(
            name, f"severity {level}", 100 - level, None, panel="fog", series=name, x=float(level)
        )
        for name in "ab"
        for level in (1, 5)
    ]
    dots, lines = (picture.figure for picture in draw(plain(*cells)))
    assert [label.get_text() for label in dots.axes[0].get_yticklabels()] == ["a", "b"]
    drawn = {each.get_label(): np.array(each.get_xydata()).tolist() for each in lines.axes[0].lines}
    assert drawn["a"] == drawn["b"] == [[1, 49.5], [5, 47.5]]


def test_arrays_become_pictures(tmp_path: Path) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    images, labels = torch.rand(2, 1, 3, 4), torch.tensor([0, 2])
    models = {"net": network}
    gradients = {name: saliency(models, images, labels, name) for name in ("ce", "dlr")}
    write_saliency(tmp_path / "s.safetensors", images, labels, gradients)
    made = landscapes(models, images, labels, eps=0.1, points=5)
    write_landscapes(tmp_path / "l.safetensors", made)
    maps = draw(plain(chart="saliency", pictures={"maps": "s.safetensors"}), tmp_path)
    assert len(maps) == 2
    names = [axes.get_ylabel() for axes in maps[0].figure.axes if axes.get_ylabel()]
    assert names == ["image 0\nclass 0", "image 1\nclass 2"]
    shown = np.asarray(maps[0].figure.axes[2].images[0].get_array())
    assert np.array_equal(shown, images[1, 0])
    (surface,) = draw(plain(chart="landscape", pictures={"all": "l.safetensors"}), tmp_path)
    assert len(surface.figure.axes) == 2


def test_without_its_arrays_the_figures_of_a_picture_are_dots() -> None:
    """As they are published: arrays hold images of a data set."""
    cells = [accuracy(name, "test images", 100, None) for name in ("one", "other")]
    (dots,) = draw(plain(*cells, chart="saliency"))
    labels = [label.get_text() for label in dots.figure.axes[0].get_yticklabels()]
    assert labels == ["one", "other"]


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    missing = plain(chart="saliency", pictures={"maps": "artifacts/none.safetensors"})
    with pytest.raises(MultiwayError, match="artifacts/none.safetensors: there is no such file"):
        draw(missing, tmp_path)
