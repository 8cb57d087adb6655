"""Encoded models in 16 and 64 bits: the decisions are those of 32."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import multiway as mw
from multiway.encoding import ENCODINGS
from multiway.errors import MultiwayError, MultiwayWarning

LABELS = torch.arange(24) % 4
HALVES = (torch.float16, torch.bfloat16)


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))


def images() -> Tensor:
    """Of each class others are bright, so that decisions are far from each other."""
    random = torch.Generator().manual_seed(0)
    noise = 0.2 * torch.rand(24, 1, 8, 8, generator=random)
    bright = torch.eye(4).repeat_interleave(16, dim=1).view(4, 1, 8, 8)
    return noise + 0.8 * bright[LABELS]


@torch.enable_grad()
def trained(encoding: str) -> mw.EncodedClassifier:
    recipe = mw.training.Recipe(name="mine", lr=0.05, momentum=0.9, batch_size=8, epochs=12)
    model = mw.train(network(), (images(), LABELS), recipe, encoding=encoding)
    assert torch.equal(model(images()).argmax(1), LABELS)
    return model.eval()


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("encoding", ["ro", "padded", "1ofk"])
@torch.no_grad()
def test_sixteen_bits_decide_as_thirty_two(encoding: str, kind: torch.dtype) -> None:
    """Of codewords of norm 1000 an inner product is a million, more than fp16 can hold."""
    model = trained(encoding)
    with torch.autocast("cpu", dtype=kind):
        scores = model(images())
        codes = model.codes(images())
    assert scores.isfinite().all()
    for some in (scores, model.encoding.scores(codes), -model.encoding.codebook.distances(codes)):
        assert torch.equal(some.argmax(1), LABELS)
    cast = copy.deepcopy(model).to(kind)
    assert torch.equal(cast(images().to(kind)).argmax(1), LABELS)
    assert torch.isfinite(cast(images().to(kind), LABELS))


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("encoding", ENCODINGS)
@torch.no_grad()
def test_a_model_in_sixteen_bits_is_saved_and_loaded(
    encoding: str, kind: torch.dtype, tmp_path: Path
) -> None:
    model = mw.encode_model(network(), mw.Encoding.make(encoding, 4)).to(kind).eval()
    assert model.encoding.codebook.vectors.dtype == torch.float32
    model.save_pretrained(tmp_path)
    again = mw.EncodedClassifier.from_pretrained(tmp_path, backbone=network().to(kind))
    assert torch.equal(again(images().to(kind)), model(images().to(kind)))


@torch.no_grad()
def test_a_network_in_64_bits_scores_in_64_bits() -> None:
    model = mw.encode_model(network().double(), mw.Encoding.make("ro", 4)).eval()
    scores = model(images().double())
    assert scores.dtype == torch.float64
    exact = network().double()(images().double())
    assert torch.equal(scores.argmax(1), exact.argmax(1))
    assert model.double().encoding.codebook.vectors.dtype == torch.float64
    assert model.float()(images()).dtype == torch.float32
    assert mw.Encoding.make("ro", np.int64(4)).codebook.classes == 4  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", HALVES)
def test_a_first_batch_in_mixed_precision_is_no_bent_output(kind: torch.dtype) -> None:
    model = mw.encode_model(network(), mw.Encoding.make("ro", 4)).train()
    with warnings.catch_warnings():
        warnings.simplefilter("error", MultiwayWarning)
        with torch.autocast("cpu", dtype=kind):
            model(images(), LABELS)
        model.to(kind)(images().to(kind), LABELS)
    bent = nn.Sequential(network(), nn.Softmax(dim=1))
    with pytest.warns(MultiwayWarning, match="bends them"), torch.autocast("cpu", dtype=kind):
        mw.encode_model(bent, mw.Encoding.make("ro", 4), head="0.3").train()(images(), LABELS)


def test_models_of_one_encoding_are_apart() -> None:
    encoding = mw.Encoding.make("ro", 4)
    one, other = (mw.encode_model(network(seed), encoding) for seed in (0, 1))
    before = other(images())
    third = mw.encode_model(network(), mw.Encoding.make("ro", 4, seed=5))
    one.load_state_dict(third.state_dict())
    assert torch.equal(other(images()), before)


@torch.no_grad()
def test_a_one_hot_head_stays() -> None:
    body = network()
    model = mw.encode_model(body, mw.Encoding.make("1ofk", 4))
    assert torch.equal(model(images()), body(images()))


@pytest.mark.parametrize("encoding", ["mmc", "ro-softmax"])
def test_a_head_that_is_drawn_is_drawn_from_the_seed(encoding: str) -> None:
    recipe = mw.training.Recipe(name="mine", lr=0.01, batch_size=8, epochs=1)
    body = network()
    one, same, other = (
        mw.train(body, (images(), LABELS), recipe, encoding=encoding, seed=seed)(images())
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("given", [255 * images(), (255 * images()).long(), images() - 1])
def test_images_of_another_scale_are_refused(given: Tensor) -> None:
    """As bytes they would wrap around."""
    recipe = mw.training.Recipe(name="mine", lr=0.01, batch_size=8, epochs=1)
    with pytest.raises(MultiwayError, match=r"but must lie in \[0, 1\]"):
        mw.train(network(), (given.round(), LABELS), recipe)
    two = {"one": network(), "other": network(1)}
    with pytest.raises(MultiwayError, match=r"but must lie in \[0, 1\]"):
        mw.transfer(two, (given.round(), LABELS), mw.FGSM(mw.Linf(0.1), objective="ce"))


def test_what_needs_gradients_works_within_inference_mode() -> None:
    """As in a validation of Lightning's, where the images are made in that mode, too."""
    model, attack = trained("ro"), mw.FGSM(mw.Linf(0.1))
    two = {"one": model, "other": network()}

    def look(images: torch.Tensor, labels: torch.Tensor) -> tuple[Any, ...]:
        evaluation = mw.evaluate(model, images, labels, attack)
        matrices = [
            mw.transfer(two, (images, labels), mw.FGSM(mw.Linf(0.1), objective="margin")),
            mw.correlate(two, (images, labels), ["margin"], features=False),
        ]
        diagnosis = mw.diagnose(
            model, images, labels, mw.Linf(0.1), budget=mw.analysis.BUDGETS["quick"]
        )
        cells = [cell.value for matrix in matrices for cell in matrix.cells]
        return evaluation.clean, evaluation.robust, cells, [*map(str, diagnosis.items)]

    outside = look(images(), LABELS)
    with torch.inference_mode():
        inside = look(images().clone(), LABELS.clone())
    assert inside == outside


def test_a_list_of_two_batches_is_no_pair_of_images_and_labels() -> None:
    batches = [(images()[:12], LABELS[:12]), (images()[12:], LABELS[12:])]
    found = mw.evaluate(network(), batches, attacks=mw.FGSM(mw.Linf(0.1), objective="ce"))
    pair = mw.evaluate(network(), images(), LABELS, mw.FGSM(mw.Linf(0.1), objective="ce"))
    assert (found.clean, found.robust) == (pair.clean, pair.robust)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mw.encode_model(network(), "ro"), "an encoding is needed, not 'ro'"),  # type: ignore[arg-type]
        (lambda: mw.Encoding.make("ro", 4.0), r"classes is 4\.0; it must be a whole number"),  # type: ignore[arg-type]
        (lambda: mw.Encoding.make("ro", 4, seed=True), "seed is True"),
        (lambda: mw.Encoding.make("ro", 4, seed=None), "seed is None"),  # type: ignore[arg-type]
        (
            lambda: mw.transfer([network()], (images(), LABELS), mw.FGSM(mw.Linf(0.1))),  # type: ignore[arg-type]
            "models are list; give them by name",
        ),
        (lambda: mw.correlate([network()] * 2, (images(), LABELS)), "models are list; give them"),  # type: ignore[arg-type]
        (
            lambda: mw.evaluate(
                network(), ([[[1, 2], [3]], [[1], [2, 3]]], [0, 1]), attacks=mw.FGSM(mw.Linf(0.1))
            ),
            "images",
        ),
    ],
)
def test_mistakes_are_one_line(call: object, message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        call()  # type: ignore[operator]


def test_a_frozen_network_gets_a_head_that_learns() -> None:
    body = network().requires_grad_(False)
    for encoding in ("1ofk", "1ofk-mse", "ro"):
        model = mw.encode_model(body, mw.Encoding.make(encoding, 4))
        free = {name for name, weight in model.named_parameters() if weight.requires_grad}
        assert free == {"backbone.3.weight", "backbone.3.bias"}
    assert not any(weight.requires_grad for weight in body.parameters())


class Auxiliary(nn.Module):
    """Its head is called `out`; `score` is something else."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.out = nn.Linear(64, 1), nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(x.flatten(1)) + self.score(x.flatten(1))
        return scores


def test_a_layer_called_score_is_no_head_but_in_a_network_of_transformers() -> None:
    with pytest.raises(MultiwayError, match="cannot find the head of Auxiliary"):
        mw.encode_model(Auxiliary(), mw.Encoding.make("1ofk", 4))
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 1, "vocab_size": 9, "n_positions": 4}
    config = transformers.GPT2Config(**sizes, num_labels=4, pad_token_id=0)
    body = transformers.GPT2ForSequenceClassification(config)
    assert mw.encode_model(body, mw.Encoding.make("ro", 4)).head == "score"


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("encoding", ["ro", "ro-softmax", "ecoc"])
def test_there_and_back_leaves_32_bits(encoding: str, kind: torch.dtype) -> None:
    model = mw.encode_model(network(), mw.Encoding.make(encoding, 4))
    codes = model.codes(images()).detach()
    far = model.encoding.distance(codes, codes.flip(0))
    for last in (torch.float32, kind):
        model = model.double().to(last)
        assert model.scale.dtype == model.encoding.codebook.vectors.dtype == torch.float32
    few = model.encoding.distance(codes.to(kind), codes.flip(0).to(kind))
    torch.testing.assert_close(few, far, rtol=0.2, atol=0.02 * float(far.max()))


@pytest.mark.parametrize("name", ["hadamard", "ecoc", "ro"])
def test_numpys_integers_are_whole_numbers(name: str) -> None:
    kinds: tuple[Any, ...] = (int, np.int64)
    one, other = (mw.Encoding.make(name, kind(4), kind(16), seed=kind(3)) for kind in kinds)
    assert torch.equal(one.codebook.vectors, other.codebook.vectors)
    one, other = (mw.Encoding.make(name, kind(40)) for kind in kinds)  # of the default length
    assert torch.equal(one.codebook.vectors, other.codebook.vectors)


@pytest.mark.parametrize("kind", HALVES)
def test_a_codebook_that_comes_in_16_bits_is_widened(kind: torch.dtype) -> None:
    book = mw.Codebook((1000 * torch.eye(4, 50)).to(kind))
    scores = book.scores((1000 * torch.eye(4, 50)).to(kind))
    assert torch.allclose(scores, 10 * torch.eye(4))
    state = {"vectors": (1000 * torch.eye(4, 50)).to(kind)}
    book.load_state_dict(state, assign=True)
    assert book.vectors.dtype == torch.float32


@pytest.mark.parametrize("beta", [1.0, 30.0])
def test_a_small_scale_under_autocast_is_no_bent_output(beta: float) -> None:
    model = mw.encode_model(network(), mw.Encoding.make("ro", 4, beta=beta)).train()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*bends them")
        with torch.autocast("cpu", dtype=torch.float16):
            model(images(), LABELS)


def test_a_scale_beyond_16_bits_is_saved_and_loaded(tmp_path: Path) -> None:
    model = mw.encode_model(network(), mw.Encoding.make("ro", 4, beta=1e6)).half()
    assert model.scale.isfinite().all()
    model.save_pretrained(tmp_path)
    again = mw.EncodedClassifier.from_pretrained(tmp_path, backbone=network().half())
    assert torch.equal(again.scale, model.scale)
