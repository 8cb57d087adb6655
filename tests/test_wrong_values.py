"""Values that were once accepted and gave a wrong figure: each is refused, in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from multiway.attacks import Noise, evaluate
from multiway.backbones import build_backbone
from multiway.classifier import EncodedClassifier, load_classifier
from multiway.codebook import Codebook
from multiway.encoding import ENCODINGS, Encoding
from multiway.errors import MultiwayError
from multiway.machine import free_memory
from multiway.threat import Linf
from multiway.weights import save_weights

NAMES = sorted(ENCODINGS)
CLASSES = 4


def code_of(name: str) -> Encoding:
    fixed = ENCODINGS[name].fixed_length
    return Encoding.make(name, CLASSES, None if fixed else 8)


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_has_one_code_a_label_and_a_known_reduction(name: str) -> None:
    code = code_of(name)
    length, labels = code.codebook.length, torch.tensor([0, 1])
    codes = torch.zeros(2, length)
    each = code.loss(codes, labels, "none")
    assert each.shape == (2,)
    assert torch.isclose(code.loss(codes, labels, "sum"), each.sum())
    assert torch.isclose(code.loss(codes, labels), each.mean())
    with pytest.raises(MultiwayError, match="unknown reduction 'foo'.*mean, sum, none"):
        code.loss(codes, labels, "foo")
    for shape in ((1, length), (3, length)):
        with pytest.raises(MultiwayError, match=f"{shape[0]} codes for 2 images"):
            code.loss(torch.zeros(shape), labels)
    with pytest.raises(MultiwayError, match="codes for 2 images"):
        code.distance(torch.zeros(1, length), codes)
    for wrong in (torch.zeros(2, length + 1), torch.zeros(length), torch.zeros(2, 1)):
        for call in (code.scores, code.decode, lambda c: code.loss(c, labels)):
            with pytest.raises(MultiwayError, match=rf"this book takes \[N, {length}\]"):
                call(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_a_code_that_is_not_finite_is_no_class(name: str) -> None:
    code = code_of(name)
    codes = code.codebook.encode(torch.arange(CLASSES))
    codes[1] = math.nan
    codes[2, 0] = math.nan
    for decode in (code.decode, code.codebook.decode):
        assert decode(codes).tolist() == [0, -1, -1, 3]


BETAS: list[tuple[float, str]] = [
    (0.0, "positive number"),
    (-1.0, "positive number"),
    (math.nan, "positive number"),
    (math.inf, "positive number"),
    (1e300, "float32"),
    (1e30, "float32 cannot hold the squared error.*--beta from 1e-15 to 1e"),
    (1e-30, "float32"),
]


@pytest.mark.parametrize(("beta", "text"), BETAS)
@pytest.mark.parametrize("name", [name for name in NAMES if ENCODINGS[name].scalable])
def test_a_beta_that_float32_cannot_hold_is_named_as_the_cause(
    name: str, beta: float, text: str
) -> None:
    with pytest.raises(MultiwayError, match=text):
        Encoding.make(name, 10, beta=beta)


def test_codewords_whose_square_overflows_are_refused() -> None:
    with pytest.raises(MultiwayError, match="beta 1e"):
        Codebook(1e30 * torch.eye(3))


@pytest.mark.parametrize("beta", [1e-15, 1e15])
def test_the_ends_of_the_range_of_beta_train(beta: float) -> None:
    code = Encoding.make("ro", 10, beta=beta, scale="paper")
    codes = torch.zeros(512, 2000, requires_grad=True)
    loss = code.loss(codes, torch.arange(512) % 10)
    assert math.isclose(float(loss), beta**2 / 2000, rel_tol=1e-4)
    (gradient,) = torch.autograd.grad(code.loss(codes, torch.arange(512) % 10, "sum"), codes)
    assert torch.isfinite(gradient).all()
    assert (gradient != 0).any(dim=1).all()


def saved(folder: Path) -> dict[str, Any]:
    """A small classifier in `folder`; returns its configuration."""
    code = Encoding.make("ro", 3, 16, beta=2.0)
    sizes = {"outputs": 16, "channels": 1, "size": 8}
    backbone = build_backbone("wong", **sizes)
    model = EncodedClassifier(backbone, code, architecture={"name": "wong", **sizes})
    save_weights(model, folder / "model.safetensors")
    return {"classifier": model.describe()}


ALTERED: list[tuple[tuple[str, ...], Any, str]] = [
    (("encoding", "beta"), 1000.0, "encoding.beta is 1000, but the codebook .* says 2"),
    (("encoding", "length"), 17, "encoding.length is 17"),
    (("encoding", "classes"), 4, "encoding.classes is 4"),
    (("encoding", "beta"), math.nan, "nan is not a finite number"),
    (("backbone", "outputs"), 10**12, r"backbone.outputs is 1e\+12"),
    (("backbone", "outputs"), 10**400, "does not describe a multiway classifier"),
    (("backbone", "size"), 10**6, "would take .* GiB|would take .* TiB"),
    (("backbone", "channels"), 10**12, "would take .* TiB"),
]


@pytest.mark.parametrize(("field", "value", "text"), ALTERED)
def test_a_configuration_that_its_weights_contradict(
    tmp_path: Path, field: tuple[str, ...], value: object, text: str
) -> None:
    config = saved(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_classifier(tmp_path).encoding.codebook.beta == pytest.approx(2.0)
    config["classifier"][field[0]][field[1]] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(MultiwayError, match=text):
        load_classifier(tmp_path)


class OneRow(nn.Module):
    """Averages over the batch by mistake: one row, whatever it is given."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)[:, :3].mean(dim=0, keepdim=True)


def test_a_network_with_one_row_for_all_images() -> None:
    images, labels = torch.rand(5, 1, 2, 2), torch.zeros(5).long()
    tried: list[Callable[[], object]] = [
        lambda: evaluate(OneRow(), images, labels, [Noise(Linf(0.1), draws=2)]),
        lambda: Noise(Linf(0.1), draws=2)(OneRow(), images, labels),
        lambda: EncodedClassifier(OneRow(), Encoding.make("1ofk", 3))(images),
    ]
    for call in tried:
        with pytest.raises(MultiwayError, match="returns 1 rows? for 5 images"):
            call()


BOOKS = [
    ("random_orthogonal", 99_999_999_999),
    ("simplex", 99_999_999_999),
    ("gaussian", 99_999_999_999),
    ("padded_one_hot", 99_999_999_999),
    ("hadamard", 2**40),
    ("random_orthogonal", 10**30),
]


@pytest.mark.parametrize(("book", "length"), BOOKS)
def test_a_book_larger_than_the_machine(book: str, length: int) -> None:
    with pytest.raises(
        MultiwayError, match=r"would take [\d,.]+ .iB, and this machine has .* free"
    ):
        getattr(Codebook, book)(10, length)
    with pytest.raises(MultiwayError, match="would take"):
        Codebook.one_hot(10**9)


def test_hadamard_is_sylvesters_matrix_and_a_long_one_is_cheap() -> None:
    free = free_memory()
    assert free is not None
    assert free > 2**20
    whole = np.ones((1, 1))
    while len(whole) < 16:
        whole = np.block([[whole, whole], [whole, -whole]])
    random = np.random.RandomState(5)
    rows = whole[random.permutation(16)[:6]]
    rows = rows * (1.0 - 2.0 * random.randint(0, 2, size=16)) / 4
    made = Codebook.hadamard(6, 16, beta=1.0, seed=5).vectors
    assert torch.equal(made, torch.from_numpy(rows).float())
    long = Codebook.hadamard(3, 2**16, beta=1.0)
    assert long.coherence() < 1e-6
