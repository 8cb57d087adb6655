"""Accuracy under corruptions, on networks whose every decision is known beforehand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from multiway.analysis import corruption_accuracy, corruption_examples
from multiway.data import ImageSet
from multiway.data.corruptions import KINDS, PAPER_KINDS, SEVERITIES, corrupt
from multiway.errors import MultiwayError, MultiwayWarning
from multiway.identity import fingerprint
from multiway.results import Cell, Result
from multiway.statistics import Interval, clustered, mean, proportion

BRIGHTER = (0.05, 0.1, 0.15, 0.2, 0.3)


class Brightness(nn.Module):
    """Class 1 for images whose mean exceeds `threshold`; counts the images it is shown."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor(threshold))
        self.shown = 0

    def forward(self, images: Tensor) -> Tensor:
        self.shown += len(images)
        lead = images.mean(dim=(1, 2, 3)) - self.threshold
        return torch.stack([-lead, lead], dim=1)


def greys(*values: int, label: int = 0, channels: int = 3) -> ImageSet:
    """Images of one grey each, all of class `label`."""
    images = torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1)
    images = images.expand(-1, channels, 12, 12).contiguous()
    labels = torch.full((len(values),), label)
    return ImageSet("greys", "test", images, labels, ("dark", "bright"))


def noise(n: int, channels: int = 3) -> ImageSet:
    """Images of any bytes, around the threshold."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(90, 160, (n, channels, 12, 12), generator=generator).to(torch.uint8)
    labels = torch.arange(n) % 2
    return ImageSet("noise", "test", images, labels, ("dark", "bright"))


def figures(result: Result, row: str = "half") -> dict[str, Interval]:
    """The accuracies of a model by column: clean, each kind, and the averages."""
    return {
        cell.column: cell.interval
        for cell in result.cells
        if (cell.row, cell.panel, cell.metric) == (row, "", "accuracy")
    }


def panel(result: Result, name: str, row: str = "half") -> dict[float | None, Interval]:
    """The accuracies of a model by severity."""
    cells = [cell for cell in result.cells if (cell.row, cell.panel) == (row, name)]
    assert {cell.series for cell in cells} == {row}
    return {cell.x: cell.interval for cell in cells}


def leads(result: Result) -> dict[tuple[str, str], Cell]:
    return {(cell.row, cell.column): cell for cell in result.cells if cell.metric == "lead"}


def test_brightness_lifts_images_over_the_threshold_one_by_one() -> None:
    """An image of grey v turns bright at the severities where v + 255 c passes 127.5."""
    values = (0, 60, 90, 100, 110, 120, 126, 200)
    result = corruption_accuracy({"half": Brightness(0.5)}, greys(*values), ["brightness"])
    dark = [[v + 255 * more < 127.5 for v in values] for more in BRIGHTER]
    by_level = {level: proportion(sum(right), 8) for level, right in enumerate(dark, start=1)}
    shares = [sum(right[i] for right in dark) / 5 for i in range(8)]
    assert figures(result) == {
        "clean": proportion(7, 8),
        "brightness": clustered(shares, 5),
        "mean of these 1": clustered(shares, 5),
    }
    assert panel(result, "brightness") == by_level
    assert panel(result, "by severity") == {0: proportion(7, 8), **by_level}
    made = result.provenance
    assert (made.n, made.attack_seed, made.data) == (8, 0, "greys")
    assert result.details["kinds"] == ["brightness"]
    assert result.title == "CIFAR-10-C-style corruptions: greys, severities 1, 2, 3, 4, 5"
    assert (result.name, result.chart, result.x_name) == ("corrupt", "dots", "severity")


def test_versions_of_one_image_do_not_count_as_many_images() -> None:
    """Two images of which one is always right: the interval is that of 1 in 2, not of 50 in 100."""
    data = greys(10, 250)
    kinds = ["contrast", "pixelate", "gaussian_blur", "zoom_blur"]
    result = corruption_accuracy({"half": Brightness(0.5)}, data, kinds)
    assert figures(result)["mean of these 4"] == proportion(1, 2)


def test_every_figure_is_that_of_the_decisions_themselves() -> None:
    """All averages over the paper's 10 kinds and all 19, from each image's own versions."""
    data, model = noise(12), Brightness(0.5)
    result = corruption_accuracy({"half": model}, data, severities=(2, 5), seed=4)
    right = {
        (kind, level): model(corrupt(data.images, kind, level, seed=4).float() / 255).argmax(dim=1)
        == data.labels
        for kind in KINDS
        for level in (2, 5)
    }

    def average(kinds: Iterable[str], levels: tuple[int, ...]) -> Interval:
        versions = torch.stack([right[kind, level] for kind in kinds for level in levels])
        return clustered(versions.double().mean(dim=0).tolist(), members=len(versions))

    clean = model(data.images.float() / 255).argmax(dim=1) == data.labels
    assert figures(result) == {
        "clean": proportion(int(clean.sum()), 12),
        **{kind: average([kind], (2, 5)) for kind in KINDS},
        "mean of the paper's 10": average(PAPER_KINDS, (2, 5)),
        "mean of all 19": average(KINDS, (2, 5)),
    }
    assert panel(result, "by severity") == {
        0: proportion(int(clean.sum()), 12), 2: average(KINDS, (2,)), 5: average(KINDS, (5,)),
    }  # fmt: skip
    for kind in KINDS:
        one = {level: proportion(int(right[kind, level].sum()), 12) for level in (2, 5)}
        assert panel(result, kind) == one
    names = {len(kinds): averages(kinds) for kinds in (PAPER_KINDS, [*PAPER_KINDS, "fog"])}
    paper = "mean of the paper's 10"
    assert names == {10: [paper], 11: [paper, "mean of these 11"]}


def averages(kinds: Iterable[str]) -> list[str]:
    result = corruption_accuracy({"half": Brightness(0.5)}, noise(2), kinds, (1,))
    return [column for column in figures(result) if column.startswith("mean of")]


def test_batches_and_company_change_nothing() -> None:
    data = noise(23)

    def measure(batch_size: int = 500, seed: int = 0) -> tuple[Cell, ...]:
        model = {"half": Brightness(0.5)}
        return corruption_accuracy(
            model, data, severities=(4,), seed=seed, batch_size=batch_size
        ).cells

    assert measure(batch_size=7) == measure(batch_size=500)
    assert measure(seed=1) != measure(seed=2)
    both = corruption_accuracy(
        {"half": Brightness(0.5), "low": Brightness(0.4)}, data, severities=(4,)
    )
    assert both.only(lambda cell: cell.row == "half").cells == measure()


def test_a_lead_is_counted_image_by_image() -> None:
    """Both are wrong on half of the images, but not on the same: no lead, and no certainty."""
    data = greys(10, 20, 240, 250)
    flipped = nn.Sequential(Brightness(0.5), Flip())
    result = corruption_accuracy({"a": Brightness(0.5), "b": flipped}, data, ["contrast"], (1,))
    assert list(leads(result)) == [("b", "mean of these 1")]
    (lead,) = leads(result).values()
    # Student's interval of (-1, -1, 1, 1) is wider than a lead can be.
    assert (lead.value, lead.low, lead.high, lead.n) == (0, -1, 1, 4)
    same = corruption_accuracy({"a": Brightness(0.5), "b": Brightness(0.5)}, data, ["contrast"])
    (lead,) = leads(same).values()
    assert (lead.low, lead.value, lead.high) == (0, 0, 0)
    # From 110 to 120 the second is right where the first is not, at some severities.
    data = greys(0, 90, 100, 110, 120, 126)
    models = {"a": Brightness(0.5), "b": Brightness(0.55)}
    found = corruption_accuracy(models, data, ["brightness"])
    right = {
        name: torch.stack([panel_right(model, data, level) for level in SEVERITIES]).double()
        for name, model in models.items()
    }
    exact = mean((right["b"].mean(dim=0) - right["a"].mean(dim=0)).tolist())
    (lead,) = leads(found).values()
    assert lead.interval == exact
    assert exact.value > 0


def panel_right(model: nn.Module, data: ImageSet, level: int) -> Tensor:
    """Which images are right under brightness."""
    scores: Tensor = model(corrupt(data.images, "brightness", level).float() / 255)
    return scores.argmax(dim=1) == data.labels


def test_one_image_has_no_lead_with_bounds_and_survives_json(tmp_path: Path) -> None:
    models = {"a": Brightness(0.5), "b": Brightness(0.4)}
    folders = {"a": tmp_path}
    result = corruption_accuracy(models, noise(1), ["fog"], (1,), directories=folders)
    (lead,) = leads(result).values()
    assert (lead.low, lead.high, lead.n) == (None, None, 1)
    assert Result.from_dict(json.loads(json.dumps(result.as_dict(), allow_nan=False))) == result


class Flip(nn.Module):
    def forward(self, scores: Tensor) -> Tensor:
        return -scores


def test_models_are_left_as_they_were_and_measured_in_eval_mode() -> None:
    model = nn.Sequential(nn.Dropout(0.999), Brightness(0.5)).train()
    bright = greys(*[200] * 9, label=1)
    result = corruption_accuracy({"half": model}, bright, ["contrast"], (1,))
    assert figures(result)["clean"].value == 1
    assert all(module.training for module in model.modules())


def test_grey_images_come_with_a_note() -> None:
    grey = corruption_accuracy(
        {"half": Brightness(0.5)}, noise(3, channels=1), ["saturate", "fog"], (1,)
    )
    assert "saturate" in grey.details["notes"][0]
    assert figures(grey)["saturate"] == figures(grey)["clean"]
    colour = corruption_accuracy({"half": Brightness(0.5)}, noise(3), ["saturate"], (1,))
    assert colour.details["notes"] == []


def test_what_is_finished_is_kept(tmp_path: Path) -> None:
    data, kinds = noise(30), ["fog", "contrast"]

    def measure(
        model: Brightness, images: ImageSet = data, **options: Any
    ) -> tuple[tuple[Cell, ...], int]:
        """The cells, and how many images the model was shown."""
        folders = {"a": tmp_path}
        models = {"a": model, "other": Brightness(0.45)}
        result = corruption_accuracy(models, images, kinds, directories=folders, **options)
        return result.cells, model.shown

    whole, shown = measure(Brightness(0.5))
    assert shown == 30 * 11
    folders = sorted((tmp_path / "artifacts" / "corrupted").iterdir())
    assert len(folders) == 10
    folders[0].rename(tmp_path / "gone")
    done: list[int] = []
    # A fresh one each time: a network that counts is another network after it has counted.
    assert measure(Brightness(0.5), progress=done.append) == (whole, 30 * 2)
    assert sum(done) == 30 * 10
    # Other weights, another seed or other images are other results.
    assert measure(Brightness(0.51))[1] == 30 * 11
    assert measure(Brightness(0.5), seed=1)[1] == 30 * 11
    assert measure(Brightness(0.5), noise(29))[1] == 29 * 11
    (folders[1] / "tensors.safetensors").write_bytes(b"nonsense")
    with pytest.warns(MultiwayWarning, match="tensors.safetensors was cut short.*computed again"):
        assert measure(Brightness(0.5)) == (whole, 30 * 2)
    assert measure(Brightness(0.5)) == (whole, 30)


class Secret:
    """An object of a kind that no fingerprint looks into."""

    def __init__(self, sign: float) -> None:
        self.sign = sign


class Signed(Brightness):
    def __init__(self, sign: float) -> None:
        super().__init__(0.5)
        self.secret = Secret(sign)

    def forward(self, images: Tensor) -> Tensor:
        return self.secret.sign * super().forward(images)


def test_models_that_differ_in_their_scores_alone_never_share(tmp_path: Path) -> None:
    assert fingerprint(Signed(1)) == fingerprint(Signed(-1))

    def measure(sign: float) -> float:
        folders = {"half": tmp_path}
        result = corruption_accuracy(
            {"half": Signed(sign)}, greys(0, 90, 120), ["brightness"], (1,), directories=folders
        )
        return figures(result)["brightness"].value

    # What is dark for one is bright for the other.
    assert [measure(sign) for sign in (1, -1, 1)] == pytest.approx([2 / 3, 1 / 3, 2 / 3])


def test_examples_are_what_is_measured_on() -> None:
    data = noise(5)
    examples = corruption_examples(data, 3, seed=2)
    assert examples.images.shape == (19, 5, 3, 12, 12)
    assert torch.equal(examples.clean, data.images[3])
    for row, kind in enumerate(KINDS):
        for column, severity in enumerate(SEVERITIES):
            whole = corrupt(data.images, kind, severity, seed=2)
            assert torch.equal(examples.images[row, column], whole[3])


def write_published(root: Path, kinds: tuple[str, ...], n: int = 6) -> ImageSet:
    """Files of CIFAR-10 and CIFAR-10-C: severity s of a kind is all of grey 40 s."""
    labels = np.arange(n, dtype=np.uint8) % 2
    folder = root / "CIFAR-10-C"
    folder.mkdir(parents=True)
    greys = np.repeat(np.arange(1, 6) * 40, n).astype(np.uint8)
    for kind in kinds:
        np.save(
            folder / f"{kind}.npy", np.broadcast_to(greys[:, None, None, None], (5 * n, 32, 32, 3))
        )
    np.save(folder / "labels.npy", np.tile(labels, 5))
    images = torch.zeros(n, 3, 32, 32, dtype=torch.uint8)
    return ImageSet("cifar10", "test", images, torch.from_numpy(labels).long(), tuple("0123456789"))


def test_published_files_are_read_block_by_block(tmp_path: Path) -> None:
    """Greys 40, 80 and 120 are dark, 160 and 200 bright; half of the labels are either."""
    data = write_published(tmp_path, ("fog", "snow"))
    ten = nn.Sequential(Brightness(0.5), nn.ConstantPad1d((0, 8), -9.0))
    result = corruption_accuracy({"a": ten}, data, ["fog"], published=True, data_dir=tmp_path)
    assert result.details["source"] == "CIFAR-10-C, published files"
    assert result.provenance.attack_seed is None
    assert panel(result, "fog", "a") == dict.fromkeys(SEVERITIES, proportion(3, 6))
    bright = ImageSet("cifar10", "test", data.images[1:2], data.labels[1:2], data.classes)
    with pytest.raises(MultiwayError, match="not those of the 1 of cifar10"):
        corruption_accuracy({"a": ten}, bright, ["fog"], published=True, data_dir=tmp_path)
    first = data.limit(1)
    result = corruption_accuracy({"a": ten}, first, ["snow"], published=True, data_dir=tmp_path)
    found = [accuracy.value for accuracy in panel(result, "snow", "a").values()]
    assert found == [1, 1, 1, 0, 0]
    examples = corruption_examples(data, 2, ["fog"], (1, 4), published=True, data_dir=tmp_path)
    assert torch.unique(examples.images[0, 1]).tolist() == [160]


def test_a_missing_published_file_is_named_with_its_source(tmp_path: Path) -> None:
    data = write_published(tmp_path, ("fog",))
    with pytest.raises(MultiwayError) as caught:
        corruption_accuracy(
            {"a": Brightness(0.5)}, data, ["fog", "frost"], published=True, data_dir=tmp_path
        )
    for part in ("frost.npy", str(tmp_path / "CIFAR-10-C"), "zenodo.org", "data fetch cifar10-c"):
        assert part in str(caught.value)


class Broken(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.new_full((len(images), 2), float("nan"))


def test_mistakes_are_told(tmp_path: Path) -> None:
    model = {"a": Brightness(0.5)}
    with pytest.raises(MultiwayError, match="did you mean 'fog'"):
        corruption_accuracy(model, noise(3), ["fogg"])
    with pytest.raises(MultiwayError, match="whole number from 1 to 5"):
        corruption_accuracy(model, noise(3), ["fog"], (0,))
    with pytest.raises(MultiwayError, match="0 kinds"):
        corruption_accuracy(model, noise(3), [])
    with pytest.raises(MultiwayError, match="0 models"):
        corruption_accuracy({}, noise(3))
    pixels, labels = torch.zeros(2, 3, 7, 7, dtype=torch.uint8), torch.tensor([0, 1])
    small = ImageSet("small", "test", pixels, labels, ("a", "b"))
    with pytest.raises(MultiwayError, match="7 x 7 pixels are too small"):
        corruption_accuracy(model, small)
    floats = ImageSet("floats", "test", torch.rand(2, 3, 8, 8), labels, ("a", "b"))
    with pytest.raises(MultiwayError, match="corruptions take bytes"):
        corruption_accuracy(model, floats)
    with pytest.raises(MultiwayError, match="scores of broken are not finite"):
        corruption_accuracy({"broken": Broken()}, noise(3), ["fog"])
    for index in (-1, 3):
        with pytest.raises(MultiwayError, match=f"no image {index} in noise.*0 to 2"):
            corruption_examples(noise(3), index)
