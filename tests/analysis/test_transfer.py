"""Transfer matrices on networks whose answers are known."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from multiway.analysis import gradient_signs, transfer
from multiway.attacks import FGSM, PGD, AttackWarning, Noise
from multiway.data import ImageSet, to_float
from multiway.errors import MultiwayError
from multiway.results import Cell, Result
from multiway.statistics import clustered, mean, proportion
from multiway.threat import Linf

ATTACK = FGSM(Linf(0.2), objective="ce")


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


def perceptron(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3))


def noise(n: int = 40) -> ImageSet:
    """Images of noise, and what the first network takes most of them for."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (n, 1, 3, 4), generator=generator).to(torch.uint8)
    labels = perceptron(0)(to_float(images)).argmax(dim=1)
    labels[::7] = (labels[::7] + 1) % 3
    return ImageSet("noise", "test", images, labels, tuple("abc"))


def by_place(result: Result, metric: str = "accuracy") -> dict[tuple[str, str], Cell]:
    return {(cell.row, cell.column): cell for cell in result.cells if cell.metric == metric}


def test_attacks_transfer_between_alike_networks_and_not_to_others() -> None:
    data = toy()
    models = {"top": pixel_network(0), "twin": pixel_network(0), "bottom": pixel_network(1)}
    result = transfer(models, data, ATTACK, seed=3)
    cells = by_place(result)
    for target, source in itertools.product(models, models):
        cell = cells[target, source]
        # Only those that look at another pixel are not broken.
        assert cell.value == ((target == "bottom") != (source == "bottom"))
        assert cell.white_box == (target == source)
        assert (cell.n, cell.objective, cell.attack) == (10, "ce", "FGSM, Linf 0.2")
    # The gradient of a network that looks at one pixel has one sign there and none elsewhere.
    rho = by_place(result, "correlation")
    assert {pair: round(cell.value, 9) for pair, cell in rho.items()} == {
        (target, source): round(1 if "bottom" not in (target, source) else -1 / 3, 9)
        for target, source in itertools.permutations(models, 2)
    }
    assert {(cell.objective, cell.attack, cell.undefined) for cell in rho.values()} == {
        ("ce", None, 0)
    }
    for name in models:
        assert cells[name, "clean"].interval == proportion(10, 10)
        assert (cells[name, "clean"].attack, cells[name, "clean"].objective) == (None, None)
    made = result.provenance
    assert (made.data, made.models, made.n, made.attack_seed) == ("toy", "top, twin, bottom", 10, 3)
    assert (result.name, result.chart) == ("transfer", "heat map")
    assert result.details["attacks"][0]["type"] == "FGSM"
    with pytest.raises(MultiwayError, match="needs 2 models or more, not 1"):
        transfer({"top": models["top"]}, data, ATTACK)


def test_every_figure_is_that_of_a_loop_written_by_hand() -> None:
    data = noise()
    models = {"a": perceptron(0), "b": perceptron(1), "c": perceptron(2)}
    encodings = {"a": "1ofk", "b": "ro", "c": "ro"}
    attacks = [FGSM(Linf(0.15), objective=name) for name in ("ce", "margin")]
    result = transfer(models, data, attacks, encodings=encodings, batch_size=7)
    pixels, labels = to_float(data.images), data.labels
    for objective in ("ce", "margin"):
        right, signs = {}, {}
        for source, model in models.items():
            images = pixels.clone().requires_grad_()
            scores = model(images)
            if objective == "ce":
                value = nn.functional.cross_entropy(scores, labels, reduction="sum")
            else:
                wrong = scores.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
                value = (wrong - scores.gather(1, labels[:, None]).squeeze(1)).sum()
            (gradient,) = torch.autograd.grad(value, images)
            signs[source] = gradient.sign().flatten(1).double().numpy()
            crafted = (pixels + 0.15 * gradient.sign()).clamp(0, 1)
            for target, other in models.items():
                shown = crafted
                if source == target:  # what is wrong already counts as broken
                    wrong_before = other(pixels).argmax(dim=1) != labels
                    shown = torch.where(wrong_before.view(-1, 1, 1, 1), pixels, crafted)
                right[target, source] = other(shown).argmax(dim=1) == labels
        cells = [cell for cell in result.cells if cell.objective == objective]
        accuracy = {(c.row, c.column): c.interval for c in cells if c.metric == "accuracy"}
        groups = {
            "mean black-box": {"a": "bc", "b": "ac", "c": "ab"},
            "same encoding": {"b": "c", "c": "b"},
            "other encoding": {"a": "bc", "b": "a", "c": "a"},
        }
        expected = {pair: proportion(int(each.sum()), 40) for pair, each in right.items()}
        for column, sources in groups.items():
            for target, names in sources.items():
                each = torch.stack([right[target, name] for name in names]).double().mean(dim=0)
                expected[target, column] = clustered(each.tolist(), members=len(names))
        assert accuracy == expected
        assert len(set(accuracy.values())) > 5  # or any matrix would do
        rho = {(c.row, c.column): c for c in cells if c.metric == "correlation"}
        assert rho.keys() == set(itertools.permutations(models, 2))
        for (row, column), cell in rho.items():
            pairs = zip(signs[row], signs[column], strict=True)
            exact = mean([float(np.corrcoef(a, b)[0, 1]) for a, b in pairs])
            for ours, theirs in ((cell.value, exact.value), (cell.low, exact.low)):
                assert ours == pytest.approx(theirs, abs=1e-12)


def test_averages_leave_out_the_white_box_and_part_by_encoding() -> None:
    models = {"a": pixel_network(0), "b": pixel_network(0), "c": pixel_network(1)}
    encodings = {"a": "1ofk", "b": "ro", "c": "1ofk"}
    result = transfer(models, toy(), ATTACK, encodings=encodings)
    cells = by_place(result)
    # a is broken from b (another encoding) and not from c (the same).
    assert cells["a", "mean black-box"].interval == clustered([0.5] * 10, 2)
    assert cells["a", "same encoding"].interval == proportion(10, 10)
    assert cells["a", "other encoding"].interval == proportion(0, 10)
    assert ("b", "same encoding") not in cells
    assert cells["b", "other encoding"].interval == clustered([0.5] * 10, 2)
    assert result.details["encodings"] == encodings
    unknown = by_place(transfer(models, toy(), ATTACK))
    assert {column for _, column in unknown} == {"a", "b", "c", "clean", "mean black-box"}


def test_one_image_has_no_interval_and_survives_json() -> None:
    """An accuracy of one image has Wilson's bounds; a correlation of one has none."""
    models = {"a": pixel_network(0), "b": pixel_network(1)}
    result = transfer(models, toy().limit(1), ATTACK)
    rho = by_place(result, "correlation")["a", "b"]
    assert rho.value == pytest.approx(-1 / 3)
    assert (rho.low, rho.high, rho.n) == (None, None, 1)
    assert rho.text == "-0.33 [no interval]"
    assert by_place(result)["a", "a"].interval == proportion(0, 1)
    assert Result.from_dict(json.loads(json.dumps(result.as_dict(), allow_nan=False))) == result


def test_a_pair_without_a_coefficient_has_no_cell() -> None:
    """A network that looks at nothing has no gradient, and so no sign that varies."""
    blind = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        for weight in blind.parameters():
            weight.zero_()
    with pytest.warns(AttackWarning, match="exactly zero"):
        result = transfer({"a": pixel_network(0), "blind": blind}, toy(), ATTACK)
    assert not by_place(result, "correlation")
    assert ("a", "blind") in by_place(result)


def test_an_attack_without_an_objective_is_compared_by_the_models_loss() -> None:
    models = {"a": perceptron(0), "b": perceptron(1)}
    result = transfer(models, noise(), Noise(Linf(0.1), draws=3))
    assert {cell.objective for cell in result.cells} == {None}
    assert result.details["gradients_of"] == ["ce"]
    signs = {name: gradient_signs(model, noise(), "ce")["input"] for name, model in models.items()}
    rho = np.corrcoef(signs["a"][0], signs["b"][0])[0, 1]
    one = transfer(models, noise(1), Noise(Linf(0.1), draws=3))
    assert by_place(one, "correlation")["a", "b"].value == pytest.approx(rho)


def test_each_kind_of_warning_is_shown_once_and_kept() -> None:
    models = {"a": perceptron(0), "b": perceptron(1)}
    short = [PGD(Linf(0.2), steps=2, step_size=0.01, objective=name) for name in ("ce", "margin")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = transfer(models, noise(), short)
    kinds = [each.message.kind for each in caught if isinstance(each.message, AttackWarning)]
    assert kinds == ["short-steps"]
    assert caught[0].filename == __file__
    (text,) = result.provenance.warnings
    assert text.startswith("short-steps, pgd-ce on a: all 2 steps together")


def test_attacks_that_a_table_cannot_tell_apart_are_refused() -> None:
    models = {"a": perceptron(0), "b": perceptron(1)}
    twice = [PGD(Linf(0.2), steps=2, step_size=size) for size in (0.1, 0.2)]
    with pytest.raises(MultiwayError, match="both PGD, 2 steps, Linf 0.2 on 'margin'"):
        transfer(models, noise(), twice)
    with pytest.raises(MultiwayError, match="there is no attack"):
        transfer(models, noise(), [])


def test_finished_batches_are_not_crafted_again(tmp_path: Path) -> None:
    models = {"top": pixel_network(0), "bottom": pixel_network(1)}
    attack = PGD(Linf(0.2), steps=3, objective="ce")

    def batches() -> dict[Path, int]:
        files = tmp_path.glob("artifacts/attacked/*/*.safetensors")
        return {file.parent: file.stat().st_mtime_ns for file in files}

    done: list[int] = []
    first = transfer(models, toy(), attack, directory=tmp_path, batch_size=4, progress=done.append)
    written = batches()
    assert len(written) == 6  # 3 batches of each source
    assert sum(done) == 2 * 2 * 10
    gone = sorted(written)[1]
    gone.rename(tmp_path / "gone")
    again = transfer(models, toy(), attack, directory=tmp_path, batch_size=4)
    assert again.cells == first.cells
    assert {path for path, when in batches().items() if written.get(path) != when} == {gone}
    transfer(models, toy(), attack, directory=tmp_path, batch_size=4, seed=1)
    assert len(batches()) == 12  # another seed, other images
