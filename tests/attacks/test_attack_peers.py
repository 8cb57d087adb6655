"""The same model, the same start, the same steps: other libraries walk the same way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.attacks import FGSM, PGD
from multiway.backbones import build_backbone
from multiway.threat import L2, Linf, Threat

STEPS = 12


def problem() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    network = build_backbone("wong", 10).double().eval()
    images = torch.rand(4, 1, 28, 28, dtype=torch.float64)
    return network, images, network(images).argmax(dim=1)


def visited(network: nn.Module, run: Any) -> list[Tensor]:
    """Every batch of 4 images that `network` is shown with a gradient while `run` runs."""
    seen: list[Tensor] = []

    def look(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if inputs[0].requires_grad:
            seen.append(inputs[0].detach().clone())

    handle = network.register_forward_pre_hook(look)
    run()
    handle.remove()
    return seen


@pytest.mark.parametrize(("threat", "step"), [(Linf(0.1), 0.02), (L2(2.0), 0.4)])
def test_every_iterate_is_foolboxs(threat: Threat, step: float) -> None:
    foolbox = pytest.importorskip("foolbox")
    network, images, labels = problem()
    ours = PGD(
        threat, steps=STEPS, step_size=step, objective="ce", random_start=False, early_stop=False
    )
    theirs = {Linf: foolbox.attacks.LinfPGD, L2: foolbox.attacks.L2PGD}[type(threat)](
        steps=STEPS, abs_stepsize=step, random_start=False
    )
    wrapped = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")
    eps = float(torch.as_tensor(threat.eps))
    mine = visited(network, lambda: ours(network, images, labels))
    others = visited(network, lambda: theirs(wrapped, images, labels, epsilons=eps))
    assert len(mine) == len(others) == STEPS
    for one, other in zip(mine, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("threat", "name"), [(Linf(0.1), "LinfFastGradientAttack"), (L2(2.0), "L2FastGradientAttack")]
)
def test_fgsm_is_foolboxs(threat: Threat, name: str) -> None:
    foolbox = pytest.importorskip("foolbox")
    network, images, labels = problem()
    wrapped = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")
    theirs = getattr(foolbox.attacks, name)()
    eps = float(torch.as_tensor(threat.eps))
    _, expected, _ = theirs(wrapped, images, labels, epsilons=eps)
    result = FGSM(threat, "ce", early_stop=False)(network, images, labels)
    torch.testing.assert_close(result.adversarial, expected, rtol=0, atol=1e-7)


def test_every_iterate_is_torchattacks() -> None:
    torchattacks = pytest.importorskip("torchattacks")
    network, images, labels = problem()
    ours = PGD(
        Linf(0.1), steps=STEPS, step_size=0.02, objective="ce", random_start=False, early_stop=False
    )
    theirs = torchattacks.PGD(network, eps=0.1, alpha=0.02, steps=STEPS, random_start=False)
    mine = visited(network, lambda: ours(network, images, labels))
    others = visited(network, lambda: theirs(images, labels))
    for one, other in zip(mine, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)


def test_every_iterate_is_torchattacks_in_l2() -> None:
    torchattacks = pytest.importorskip("torchattacks")
    network, images, labels = problem()
    ours = PGD(
        L2(2.0), steps=STEPS, step_size=0.4, objective="ce", random_start=False, early_stop=False
    )
    theirs = torchattacks.PGDL2(network, eps=2.0, alpha=0.4, steps=STEPS, random_start=False)
    mine = visited(network, lambda: ours(network, images, labels))
    others = visited(network, lambda: theirs(images, labels))
    assert len(mine) == len(others) == STEPS
    for one, other in zip(mine, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)


def test_momentum_is_torchattacks() -> None:
    torchattacks = pytest.importorskip("torchattacks")
    network, images, labels = problem()
    ours = PGD(
        Linf(0.1), steps=STEPS, step_size=0.02, objective="ce", random_start=False, momentum=0.9,
        early_stop=False,
    )  # fmt: skip
    theirs = torchattacks.MIFGSM(network, eps=0.1, alpha=0.02, steps=STEPS, decay=0.9)
    mine = visited(network, lambda: ours(network, images, labels))
    others = visited(network, lambda: theirs(images, labels))
    assert len(mine) == len(others) == STEPS
    for one, other in zip(mine, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)
    without = visited(network, lambda: replace(ours, momentum=0.0)(network, images, labels))
    assert not torch.allclose(mine[-1], without[-1], atol=1e-3)


def test_an_encoded_classifier_is_a_model_to_other_libraries() -> None:
    foolbox = pytest.importorskip("foolbox")
    pyautoattack = pytest.importorskip("pyautoattack")
    torch.manual_seed(0)
    model = EncodedClassifier(build_backbone("wong", 2000), Encoding.make("ro", 10), gain=20.0)
    model.eval().requires_grad_(False)
    images = torch.rand(4, 1, 28, 28)
    labels = model(images).argmax(dim=1)
    wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
    crafted, _, broken = foolbox.attacks.LinfPGD(steps=20)(wrapped, images, labels, epsilons=0.3)
    assert torch.equal(model(crafted).argmax(dim=1) != labels, broken)
    assert broken.any()
    reference = pyautoattack.AutoAttack(
        model, eps=0.3, version="custom", attacks=["apgd-ce"], seed=0
    )
    reference.verbose = False
    reference.apgd.n_restarts = 1
    found, _ = reference.run_standard_evaluation(images, labels, batch_size=4)
    assert (model(found).argmax(dim=1) != labels).any()
    assert Linf(0.3).contains(found, images).all()
