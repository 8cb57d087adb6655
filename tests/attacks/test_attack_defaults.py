"""FGSM without an objective: the training loss where it is known, cross-entropy elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import multiway as mw

IMAGES = torch.rand(9, 1, 6, 6, generator=torch.Generator().manual_seed(0))
THREAT = mw.Linf(0.05)


def plain(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.Tanh(), nn.Linear(16, 4))


def coded() -> mw.EncodedClassifier:
    return mw.encode_model(plain(), mw.Encoding.make("ro", classes=4, length=20))


@pytest.mark.parametrize(("model", "objective"), [(plain(), "ce"), (coded(), "own")])
def test_what_is_ascended_and_named(model: nn.Module, objective: str) -> None:
    labels: Tensor = model.eval()(IMAGES).argmax(dim=1)
    left_open, named = (
        mw.FGSM(THREAT, early_stop=False),
        mw.FGSM(THREAT, objective, early_stop=False),
    )
    assert torch.equal(
        left_open(model, IMAGES, labels).adversarial, named(model, IMAGES, labels).adversarial
    )
    found = mw.evaluate(model, IMAGES, labels, left_open)
    assert [(row.attack, row.objective) for row in found.rows] == [(f"fgsm-{objective}", objective)]


def test_among_models_of_both_kinds_it_is_one_objective() -> None:
    models = {"plain": plain(1), "coded": coded()}
    moved = mw.transfer(models, (IMAGES, torch.arange(9) % 4), mw.FGSM(THREAT))
    assert {cell.objective for cell in moved.cells if cell.attack} == {"ce"}


def test_what_is_kept_is_kept_under_the_objective(tmp_path: Path) -> None:
    """A batch that was attacked on its own loss is never served for another objective."""
    model = coded()
    labels: Tensor = model.eval()(IMAGES).argmax(dim=1)
    given = (model, IMAGES, labels)
    first = mw.evaluate(*given, mw.FGSM(THREAT), directory=tmp_path)
    files = len(list(tmp_path.rglob("*.safetensors")))
    again = mw.evaluate(*given, mw.FGSM(THREAT, "own"), directory=tmp_path)
    assert len(list(tmp_path.rglob("*.safetensors"))) == files
    assert torch.equal(first.adversarial, again.adversarial)
    mw.evaluate(*given, mw.FGSM(THREAT, "ce"), directory=tmp_path)
    assert len(list(tmp_path.rglob("*.safetensors"))) == files + 1
