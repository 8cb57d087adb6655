"""Transfer matrices on networks whose answers are known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from multiway.analysis import transfer_matrix
from multiway.attacks import FGSM, PGD
from multiway.data import ImageSet
from multiway.errors import MultiwayError
from multiway.report.matrix import draw_matrices, transfer_rows
from multiway.statistics import clustered, proportion
from multiway.threat import Linf


def pixel_network(row: int) -> nn.Module:
    """Class 1 if the pixel (row, 0) is above one half; no other pixel matters."""
    layer = nn.Linear(4, 2)
    layer.weight.data.zero_()
    layer.bias.data.copy_(torch.tensor([0.0, -0.5]))
    layer.weight.data[1, 2 * row] = 1.0
    return nn.Sequential(nn.Flatten(), layer)


def toy() -> ImageSet:
    """Ten images, grey all over: the odd ones bright, the even ones dark."""
    images = torch.zeros(10, 1, 2, 2, dtype=torch.uint8)
    labels = torch.arange(10) % 2
    images[labels == 1] = 150
    images[labels == 0] = 105
    return ImageSet("toy", "test", images, labels, ("dark", "bright"))


def test_attacks_transfer_between_alike_networks_and_not_to_others() -> None:
    data = toy()
    models = {"top": pixel_network(0), "twin": pixel_network(0), "bottom": pixel_network(1)}
    matrix = transfer_matrix(models, data, FGSM(Linf(0.2), objective="ce"))
    cells = matrix.cells
    measured = {(cell.source, cell.target): cell.accuracy.value for cell in cells}
    assert measured == {
        ("top", "top"): 0.0,
        ("top", "twin"): 0.0,
        ("top", "bottom"): 1.0,
        ("twin", "top"): 0.0,
        ("twin", "twin"): 0.0,
        ("twin", "bottom"): 1.0,
        ("bottom", "top"): 1.0,
        ("bottom", "twin"): 1.0,
        ("bottom", "bottom"): 0.0,
    }
    white = [(cell.source, cell.target) for cell in cells if cell.white_box]
    assert white == [("top", "top"), ("twin", "twin"), ("bottom", "bottom")]
    assert all(cell.accuracy.n == 10 for cell in cells)
    with pytest.raises(MultiwayError, match="needs 2 models or more, not 1"):
        transfer_matrix({"top": models["top"]}, data, FGSM(Linf(0.2), objective="ce"))
    # The gradient of a network that looks at one pixel has one sign there and none elsewhere.
    rho = {(c.source, c.target): c.correlation.value for c in cells if c.correlation is not None}
    assert rho["top", "twin"] == rho["bottom", "bottom"] == pytest.approx(1)
    assert rho["top", "bottom"] == rho["bottom", "top"] == pytest.approx(-1 / 3)
    assert matrix.clean["top"].value == 1.0


def test_averages_leave_out_the_white_box_and_part_by_encoding() -> None:
    models = {"a": pixel_network(0), "b": pixel_network(0), "c": pixel_network(1)}
    encodings = {"a": "1ofk", "b": "ro", "c": "1ofk"}
    attack = FGSM(Linf(0.2), objective="ce")
    matrix = transfer_matrix(models, toy(), attack, encodings=encodings)
    # a is broken from b (another encoding) and not from c (the same).
    assert matrix.black_box["a"].value == 0.5
    assert matrix.black_box["a"].n == 10
    same, other = matrix.black_box_same, matrix.black_box_other
    assert (same["a"], other["a"]) == (proportion(10, 10), proportion(0, 10))
    assert same["b"] is None
    assert other["b"] == clustered([0.5] * 10, 2)
    assert matrix.encodings == encodings
    unknown = transfer_matrix(models, toy(), attack)
    assert unknown.black_box_same == unknown.black_box_other == dict.fromkeys(models)


def test_finished_batches_are_not_crafted_again(tmp_path: Path) -> None:
    models = {"top": pixel_network(0), "bottom": pixel_network(1)}
    attack = PGD(Linf(0.2), steps=3, objective="ce")
    first = transfer_matrix(models, toy(), attack, directory=tmp_path, batch_size=4)
    files = sorted(tmp_path.rglob("*.safetensors"))
    assert len(files) == 6  # 3 batches of each source
    written = [file.stat().st_mtime_ns for file in files]
    files[1].unlink()
    again = transfer_matrix(models, toy(), attack, directory=tmp_path, batch_size=4)
    assert again == first
    kept = [file.stat().st_mtime_ns for file in files]
    assert [a == b for a, b in zip(written, kept, strict=True)] == [True, False] + [True] * 4
    transfer_matrix(models, toy(), attack, directory=tmp_path, batch_size=4, seed=1)
    assert len(sorted(tmp_path.rglob("*.safetensors"))) == 12  # another seed, other images


def test_the_table_and_the_figure_show_what_was_measured() -> None:
    models = {"a": pixel_network(0), "b": pixel_network(1)}
    matrix = transfer_matrix(models, toy(), FGSM(Linf(0.2), objective="ce"))
    columns, rows = transfer_rows(matrix)
    assert columns[:4] == ["network", "clean", "from a", "from b"]
    assert rows[0][2].startswith("0.0 [0.0, 27.8]*")
    rho = matrix.cell("b", "a").correlation
    assert rho is not None
    assert f"{rho.value:.2f}" == "-0.33"
    assert rows[0][3] == f"100.0 [72.2, 100.0], ρ -0.33 [{rho.low:.2f}, {rho.high:.2f}]"
    figure = draw_matrices([matrix, matrix], "two of them")
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert texts.count("0.0*") == 4
    assert texts.count("100.0") == 8  # two black-box cells and two means, twice
    assert texts.count(f"ρ -0.33 [{rho.low:.2f}, {rho.high:.2f}]") == 4
    assert "95 % intervals" in figure.get_supxlabel()
