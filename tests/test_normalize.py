"""Normalize: the arithmetic, inside encoded models and the fast plan, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import multiway as mw
from multiway.attacks.fast_network import fast_network
from multiway.objectives import Scores

MEAN, STD = (0.49, 0.48, 0.45), (0.2, 0.21, 0.22)


def draw(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        mw.Normalize(MEAN, STD), nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Flatten(), nn.Linear(8 * 36, 4),
    ).eval()  # fmt: skip


def test_each_channel_has_its_own_mean_and_deviation() -> None:
    images = draw(5, 3, 6, 6)
    made = mw.Normalize(MEAN, STD)(images)
    for channel, (mean, std) in enumerate(zip(MEAN, STD, strict=True)):
        expected = (images[:, channel].double().numpy() - mean) / std
        torch.testing.assert_close(
            made[:, channel].double(), torch.from_numpy(expected), rtol=1e-5, atol=1e-6
        )


def test_it_moves_and_is_saved_with_the_model() -> None:
    model = network()
    assert torch.equal(model.state_dict()["0.mean"].flatten(), torch.tensor(MEAN))
    other = nn.Sequential(mw.Normalize((0, 0, 0), (1, 1, 1)), *list(network())[1:])
    other.load_state_dict(model.state_dict())
    images = draw(2, 3, 6, 6)
    assert torch.equal(other.eval()(images), model(images))
    assert model.double()(images.double()).dtype == torch.float64
    assert not list(mw.Normalize(MEAN, STD).parameters())


def test_eps_is_one_of_pixels() -> None:
    """On a linear network the worst case in Linf is eps times the weights over std, exactly."""
    linear = nn.Linear(3, 2, bias=False).double()
    model = nn.Sequential(mw.Normalize(MEAN, STD).double(), nn.Flatten(), linear)
    images = 0.4 + 0.2 * draw(6, 3, 1, 1).double()
    labels = model(images).argmax(dim=1)
    attack = mw.FGSM(mw.Linf(0.05), "margin", early_stop=False)
    result = attack(model, images, labels)
    slope = (linear.weight[0] - linear.weight[1]) / torch.tensor(STD)
    before, after = ((s[:, 0] - s[:, 1]).abs() for s in (model(images), model(result.adversarial)))
    signed = torch.where(model(result.adversarial).argmax(1) == labels, after, -after)
    torch.testing.assert_close(
        before - signed, (0.05 * slope.abs().sum()).expand(6), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("encoded", [False, True])
def test_the_plan_folds_what_follows(encoded: bool) -> None:
    """In pieces, channels last, normalisation and head folded: the same scores."""
    model: nn.Module = network()
    if encoded:
        model = mw.encode_model(model, mw.Encoding.make("ro", classes=4, length=40)).eval()
    images = draw(40, 3, 6, 6)
    with torch.no_grad():
        scores = Scores(model)(images)
        quick = fast_network(model.requires_grad_(False), images, scores)
        torch.testing.assert_close(quick.scores(images), scores, rtol=1e-4, atol=1e-5)
    assert quick.plan.channels_last
    assert quick.plan.norms == 1
    assert quick.plan.head == encoded
    result = mw.PGD(mw.Linf(0.03), steps=3)(model, images, scores.argmax(dim=1))
    assert result.linf.max() <= 0.0301


def test_an_encoded_model_folds_with_it() -> None:
    model = mw.encode_model(network(), mw.Encoding.make("ro", classes=4, length=40)).eval()
    images = draw(3, 3, 6, 6)
    torch.testing.assert_close(model.fold()(images), model(images), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (((0.5, 0.5), (0.2,)), "mean has 2 channels and std 1"),
        ((0.5, 0.0), "std is above 0"),
        ((0.5, -1), "std is above 0"),
        (((123.7, 116.3, 103.5), (58.4, 57.1, 57.4)), "on the 0..255 scale, .*divide it by 255"),
        ((float("nan"), 1), "mean is a finite number"),
        (((), ()), "mean is a finite number"),
        (("grey", 1), "mean is a number for each channel, not 'grey'"),
    ],
)
def test_wrong_numbers_are_refused(given: tuple[Any, Any], says: str) -> None:
    with pytest.raises(mw.MultiwayError, match=says):
        mw.Normalize(*given)


@pytest.mark.parametrize("shape", [(2, 1, 6, 6), (2, 6, 6, 3), (6, 6)])
def test_images_of_other_channels_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(mw.MultiwayError, match="Normalize has 3 channels and images are"):
        mw.Normalize(MEAN, STD)(torch.zeros(shape))
