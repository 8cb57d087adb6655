"""The scale of codes: with it a network starts, and may step, as with one-hot labels."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multiway.classifier import EncodedClassifier, encode_model
from multiway.code_scale import CodeScale
from multiway.codebook import Codebook
from multiway.encoding import Encoding
from multiway.errors import MultiwayError

CLASSES = (2, 10, 100, 1000)


def mlp(classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, classes))


def normalised(classes: int) -> nn.Sequential:
    body = [nn.Unflatten(1, (3, 4, 4)), nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(128, classes))


def without_bias(classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(48, 200), nn.Tanh(), nn.Linear(200, classes, bias=False))


def below_the_head(network: nn.Module, head: nn.Module, loss: Any, images: Tensor) -> Tensor:
    """The norm of the gradient of each image's loss to the features before the head, [N]."""
    features: list[Tensor] = []
    handle = head.register_forward_pre_hook(lambda _, inputs: features.append(inputs[0]))
    value = loss(network(images))
    handle.remove()
    (gradient,) = torch.autograd.grad(value.sum(), features[0])
    norms: Tensor = gradient.norm(dim=1)
    return norms


@pytest.mark.parametrize("build", [mlp, normalised, without_bias])
@pytest.mark.parametrize("classes", CLASSES)
def test_the_first_gradient_below_the_head_is_that_of_cross_entropy(
    build: Any, classes: int
) -> None:
    """For any K and L; it does not depend on L at all."""
    torch.manual_seed(classes)
    network, images = build(classes).train(), torch.randn(32, 48)
    labels = torch.randint(classes, (32,))
    one_hot = below_the_head(
        network, network[-1], lambda q: F.cross_entropy(q, labels, reduction="none"), images
    ).mean()
    found = []
    for length in sorted({classes, 512, 2000, 8000}):
        if length < classes or length * classes > 4_000_000:
            continue  # the last is the largest book, tested below without its Gram-Schmidt
        encoding = Encoding.make("padded", classes, length)
        model = encode_model(network, encoding).train()
        own = below_the_head(
            model.backbone,
            model.head_layer(),
            lambda raw, e=encoding: e.loss(e.gain * raw, labels, "none"),
            images,
        ).mean()
        found.append(float(own))
        assert float(own / one_hot) == pytest.approx(1.0, abs=0.2)
    assert max(found) == pytest.approx(min(found), rel=1e-3)


@pytest.mark.parametrize("name", ["ro", "hadamard", "simplex", "gaussian", "1ofk-mse"])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_it_is_so_for_every_codebook(name: str, classes: int) -> None:
    torch.manual_seed(1)
    network, images = mlp(classes), torch.randn(64, 48)
    labels = torch.randint(classes, (64,))
    one_hot = below_the_head(
        network, network[-1], lambda q: F.cross_entropy(q, labels, reduction="none"), images
    ).mean()
    encoding = Encoding.make(name, classes)
    model = encode_model(network, encoding)
    own = below_the_head(
        model.backbone,
        model.head_layer(),
        lambda raw: encoding.loss(encoding.gain * raw, labels, "none"),
        images,
    ).mean()
    assert float(own / one_hot) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("classes", CLASSES)
def test_constants_are_cross_entropys(classes: int) -> None:
    scale = CodeScale.matched(classes)
    # Softmax's Hessian diag(p) - p p^T reaches 1/2, between two classes, and never more.
    p = torch.zeros(classes, dtype=torch.float64)
    p[:2] = 0.5
    assert 2 * scale.along == pytest.approx(float(torch.linalg.eigvalsh(p.diag() - p.outer(p))[-1]))
    assert scale.across <= scale.along
    # 2 a T^2 is the lead at which softmax gives the true class 95 %.
    logits = torch.zeros(classes, dtype=torch.float64)
    logits[0] = 2 * scale.along * scale.target**2
    assert float(logits.softmax(0)[0]) == pytest.approx(0.95)
    assert scale.start is not None
    assert 2 * scale.along * scale.target * scale.start == pytest.approx(math.sqrt(1 - 1 / classes))


@pytest.mark.parametrize("name", ["ro", "simplex", "1ofk-mse"])
@pytest.mark.parametrize("classes", [4, 30])
@pytest.mark.parametrize("named", ["matched", "matched-adam"])
def test_the_loss_is_the_closed_form(name: str, classes: int, named: str) -> None:
    encoding = Encoding.make(name, classes, scale=named).double()
    book, scale = encoding.codebook, encoding.scale
    assert scale is not None
    raw = torch.randn(6, book.length, dtype=torch.float64)
    labels = torch.arange(6) % classes
    unit = (book.vectors / book.beta)[labels]
    z = (raw * unit).sum(dim=1)
    each = scale.along * (z - scale.target) ** 2 + scale.across * (raw.square().sum(1) - z**2)
    codes = encoding.gain * raw
    torch.testing.assert_close(encoding.loss(codes, labels, "none"), each)
    torch.testing.assert_close(encoding.loss(codes, labels), each.mean())
    torch.testing.assert_close(encoding.loss(codes, labels, "sum"), each.sum())
    assert float(encoding.loss(encoding.gain * scale.target * unit, labels)) < 1e-12
    silent = encoding.loss(torch.zeros_like(codes), labels)
    assert float(silent) == pytest.approx(encoding.silence)


def test_with_sgd_the_length_of_a_code_changes_nothing() -> None:
    """Outputs outside the span of the codewords start at zero, and nothing pulls them away."""
    torch.manual_seed(0)
    network, images, labels = mlp(5), torch.randn(64, 48), torch.randint(5, (64,))

    def trained(name: str, length: int | None) -> Tensor:
        model = encode_model(network, Encoding.make(name, 5, length)).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(20):
            optimizer.zero_grad()
            model(images.double(), labels).backward()
            optimizer.step()
        scores: Tensor = model(images.double()).detach()
        return scores

    short = trained("1ofk-mse", None)
    for name, length in (("ro", 7), ("ro", 300), ("padded", 50), ("hadamard", 64)):
        torch.testing.assert_close(trained(name, length), short, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["ro", "padded", "hadamard"])
def test_a_swapped_head_decides_as_the_old_one_did(name: str) -> None:
    network = mlp(10)
    images = torch.randn(50, 48)
    model = encode_model(network, Encoding.make(name, 10))
    scale = model.encoding.scale
    assert scale is not None
    # A hit on a codeword leads by 10 in scores and by T in outputs along the codewords.
    expected = 10 / scale.target * (scale.start or 0) * network(images)
    torch.testing.assert_close(model(images), expected, rtol=1e-3, atol=1e-4)


def test_the_papers_scale_is_one_word_away() -> None:
    encoding = Encoding.make("ro", 10, scale="paper")
    assert encoding.gain == 1.0
    codes = torch.randn(4, 2000)
    target = encoding.codebook.vectors[torch.arange(4)]
    assert torch.equal(encoding.loss(codes, torch.arange(4)), F.mse_loss(codes, target))
    assert encoding.silence == pytest.approx(500, rel=1e-5)
    with pytest.raises(MultiwayError, match="unknown scale 'unit'.*matched, matched-adam, paper"):
        Encoding.make("ro", 10, scale="unit")


def test_weights_of_another_scale_are_refused_and_never_rescaled(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Flatten(), mlp(10))
    matched = encode_model(network, Encoding.make("ro", 10, 40))
    paper = encode_model(network, Encoding.make("ro", 10, 40, scale="paper"))
    with pytest.raises(MultiwayError, match="trained at another scale: gain and loss weights"):
        paper.load_state_dict(matched.state_dict())
    copy.deepcopy(matched).load_state_dict(matched.state_dict())
    for model, name in ((matched, "matched"), (paper, "paper")):
        model.save_pretrained(tmp_path / name)
        fresh = nn.Sequential(nn.Flatten(), mlp(10))
        again = EncodedClassifier.from_pretrained(tmp_path / name, backbone=fresh)
        assert again.encoding.scale is not None
        assert again.encoding.scale.name == name
        images = torch.randn(3, 48)
        assert torch.equal(again(images), model.eval()(images))
        labels = torch.arange(3)
        assert torch.equal(again(images, labels), model(images, labels))


def test_what_was_saved_before_scales_keeps_its_gain_and_its_loss(tmp_path: Path) -> None:
    import json

    import safetensors.torch

    encoding = Encoding.make("ro", 10, 40, scale="paper")
    model = EncodedClassifier(nn.Sequential(nn.Flatten(), mlp(40)), encoding, gain=22.36).eval()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["classifier"]["encoding"]["scale"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    del tensors["scale"]
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    fresh = nn.Sequential(nn.Flatten(), mlp(40))
    again = EncodedClassifier.from_pretrained(tmp_path, backbone=fresh)
    images = torch.randn(3, 48)
    assert again.gain == 22.36
    assert torch.equal(again(images, torch.arange(3)), model(images, torch.arange(3)))


@pytest.mark.parametrize("name", ["ro", "hadamard", "padded", "simplex"])
def test_a_step_of_adam_moves_the_scores_as_far_as_with_one_hot_labels(name: str) -> None:
    """At the scale for Adam; at the other one dense codes of 2,000 outputs move 14 times as far."""
    torch.manual_seed(0)
    network, images, labels = mlp(10), torch.randn(256, 48), torch.randint(10, (256,))

    def moved(encoding: Encoding) -> float:
        model = encode_model(network, encoding)
        before = model(images).detach()
        optimizer = torch.optim.Adam(model.head_layer().parameters(), lr=1e-4)
        model(images, labels).backward()
        optimizer.step()
        return float((model(images).detach() - before).norm())

    one_hot = moved(Encoding.make("1ofk-mse", 10))
    found = moved(Encoding.make(name, 10, scale="matched-adam")) / one_hot
    # Simplex codes have no part along the mean of the classes, which a step of one-hot labels has.
    assert 0.6 < found < 1.4
    if name in ("ro", "hadamard"):
        assert moved(Encoding.make(name, 10)) / one_hot > 8


def test_a_book_of_one_norm_that_is_the_users_own() -> None:
    book = Codebook(torch.tensor([[3.0, 0.0, 4.0], [0.0, 5.0, 0.0]]))
    model = encode_model(nn.Sequential(nn.Flatten(), mlp(2)), Encoding(book))
    assert model.gain == pytest.approx(5 / math.sqrt(2 * math.log(19)))
