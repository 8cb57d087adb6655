"""Accuracy under corruptions, on networks whose every decision is known beforehand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from multiway.analysis import CorruptionTable, corruption_accuracy, corruption_examples
from multiway.data import ImageSet
from multiway.data.corruptions import KINDS, PAPER_KINDS, SEVERITIES, corrupt
from multiway.errors import MultiwayError
from multiway.statistics import clustered, proportion

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


def test_brightness_lifts_images_over_the_threshold_one_by_one() -> None:
    """An image of grey v turns bright at the severities where v + 255 c passes 127.5."""
    values = (0, 60, 90, 100, 110, 120, 126, 200)
    table = corruption_accuracy({"half": Brightness(0.5)}, greys(*values), ["brightness"])
    row = table.row("half")
    assert row.clean == proportion(7, 8)
    dark = [[v + 255 * more < 127.5 for v in values] for more in BRIGHTER]
    assert [cell.accuracy for cell in row.cells] == [proportion(sum(one), 8) for one in dark]
    assert [cell.severity for cell in row.cells] == [1, 2, 3, 4, 5]
    shares = [sum(one[i] for one in dark) / 5 for i in range(8)]
    assert row.kinds == {"brightness": clustered(shares, 5)}
    assert row.kinds["brightness"].value == pytest.approx(sum(shares) / 8)
    assert row.averages == {"these 1": row.kinds["brightness"]}
    assert row.severities[3] == row.cells[2].accuracy
    assert (table.n, table.seed, table.kinds) == (8, 0, ("brightness",))
    assert table.source == "CIFAR-10-C-style corruptions"


def test_versions_of_one_image_do_not_count_as_many_images() -> None:
    """Two images of which one is always right: the interval is that of 1 in 2, not of 50 in 100."""
    data = greys(10, 250)
    kinds = ["contrast", "pixelate", "gaussian_blur", "zoom_blur"]
    table = corruption_accuracy({"half": Brightness(0.5)}, data, kinds)
    assert table.rows[0].averages["these 4"] == proportion(1, 2)


def test_averages_are_over_the_papers_10_and_all_19() -> None:
    table = corruption_accuracy({"half": Brightness(0.5)}, noise(12), severities=(2, 5))
    row = table.rows[0]
    assert list(row.kinds) == list(KINDS)
    assert list(row.averages) == ["the paper's 10", "all 19"]
    by_kind = {kind: row.kinds[kind].value for kind in KINDS}
    assert row.averages["all 19"].value == pytest.approx(sum(by_kind.values()) / 19)
    paper = sum(by_kind[kind] for kind in PAPER_KINDS) / 10
    assert row.averages["the paper's 10"].value == pytest.approx(paper)
    assert {average.n for average in row.averages.values()} == {12}
    assert list(row.severities) == [2, 5]
    for level in (2, 5):
        of_level = [cell.accuracy.value for cell in row.cells if cell.severity == level]
        assert row.severities[level].value == pytest.approx(sum(of_level) / 19)
    names = {len(kinds): list(_averages(kinds)) for kinds in (PAPER_KINDS, [*PAPER_KINDS, "fog"])}
    assert names == {10: ["the paper's 10"], 11: ["the paper's 10", "these 11"]}


def _averages(kinds: object) -> dict[str, object]:
    table = corruption_accuracy({"a": Brightness(0.5)}, noise(2), kinds, (1,))  # type: ignore[arg-type]
    return dict(table.rows[0].averages)


def test_each_image_meets_the_corruption_of_its_own_index() -> None:
    data = noise(11)
    model = Brightness(0.5)
    table = corruption_accuracy({"half": model}, data, ["impulse_noise", "fog"], (3,), seed=4)
    for cell in table.rows[0].cells:
        images = corrupt(data.images, cell.kind, 3, seed=4).float() / 255
        right = int((model(images).argmax(dim=1) == data.labels).sum())
        assert cell.accuracy == proportion(right, 11)


def test_batches_and_company_change_nothing() -> None:
    data = noise(23)

    def measure(batch_size: int = 500, seed: int = 0) -> CorruptionTable:
        model = {"half": Brightness(0.5)}
        return corruption_accuracy(model, data, None, (4,), seed=seed, batch_size=batch_size)

    assert measure(batch_size=7) == measure(batch_size=500)
    assert measure(seed=1) != measure(seed=2)
    both = corruption_accuracy(
        {"half": Brightness(0.5), "low": Brightness(0.4)}, data, severities=(4,)
    )
    assert both.rows[0] == measure().rows[0]


def test_a_lead_is_counted_image_by_image() -> None:
    """Both are wrong on half of the images, but not on the same: no lead, and no certainty."""
    data = greys(10, 20, 240, 250)
    flipped = nn.Sequential(Brightness(0.5), Flip())
    table = corruption_accuracy({"a": Brightness(0.5), "b": flipped}, data, ["contrast"], (1,))
    lead = table.row("b").leads["these 1"]
    assert (lead.value, lead.n) == (0, 4)
    assert lead.high == -lead.low > 1
    assert table.row("a").leads == {}
    same = corruption_accuracy({"a": Brightness(0.5), "b": Brightness(0.5)}, data, ["contrast"])
    lead = same.row("b").leads["these 1"]
    assert (lead.low, lead.value, lead.high) == (0, 0, 0)


class Flip(nn.Module):
    def forward(self, scores: Tensor) -> Tensor:
        return -scores


def test_models_are_left_as_they_were_and_measured_in_eval_mode() -> None:
    model = nn.Sequential(nn.Dropout(0.999), Brightness(0.5)).train()
    table = corruption_accuracy({"a": model}, greys(*[200] * 9, label=1), ["contrast"], (1,))
    assert table.rows[0].clean.value == 1
    assert all(module.training for module in model.modules())


def test_grey_images_come_with_a_note() -> None:
    grey = corruption_accuracy({"a": Brightness(0.5)}, noise(3, channels=1), severities=(1,))
    assert "saturate" in grey.notes[0]
    assert grey.rows[0].kinds["saturate"] == grey.rows[0].clean
    assert corruption_accuracy({"a": Brightness(0.5)}, noise(3), ["saturate"], (1,)).notes == ()


def test_what_is_finished_is_kept(tmp_path: Path) -> None:
    data, kinds = noise(30), ["fog", "contrast"]
    first = Brightness(0.5)
    whole = corruption_accuracy({"a": first}, data, kinds, directories={"a": tmp_path})
    assert first.shown == 30 * 11
    files = sorted(tmp_path.rglob("*.safetensors"))
    assert len(files) == 10
    files[0].unlink()
    done: list[int] = []
    again = Brightness(0.5)
    resumed = corruption_accuracy(
        {"a": again}, data, kinds, directories={"a": tmp_path}, progress=done.append
    )
    assert resumed == whole
    assert again.shown == 30 * 2
    assert sum(done) == 30 * 10
    # Other weights, another seed or other images are other results.
    for model, images, seed in (
        (Brightness(0.51), data, 0),
        (Brightness(0.5), data, 1),
        (Brightness(0.5), noise(29), 0),
    ):
        corruption_accuracy({"a": model}, images, kinds, seed=seed, directories={"a": tmp_path})
        assert model.shown == len(images) * 11
    files[1].write_bytes(b"nonsense")
    # A fresh one: a network that counts is another network each time.
    with pytest.raises(MultiwayError, match="not a whole safetensors file.* delete it"):
        corruption_accuracy({"a": Brightness(0.5)}, data, kinds, directories={"a": tmp_path})


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
    table = corruption_accuracy({"a": ten}, data, ["fog"], published=True, data_dir=tmp_path)
    assert (table.source, table.seed) == ("CIFAR-10-C, published files", None)
    assert [cell.accuracy.value for cell in table.rows[0].cells] == [0.5] * 5
    bright = ImageSet("cifar10", "test", data.images[1:2], data.labels[1:2], data.classes)
    with pytest.raises(MultiwayError, match="not those of the 1 of cifar10"):
        corruption_accuracy({"a": ten}, bright, ["fog"], published=True, data_dir=tmp_path)
    first = data.limit(1)
    table = corruption_accuracy({"a": ten}, first, ["snow"], published=True, data_dir=tmp_path)
    assert [cell.accuracy.value for cell in table.rows[0].cells] == [1, 1, 1, 0, 0]
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
