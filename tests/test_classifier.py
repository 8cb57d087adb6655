"""Classifiers on codes: heads, folding, saving, and other people's networks."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from multiway.backbones import build_backbone
from multiway.classifier import EncodedClassifier, encode_model
from multiway.codebook import Codebook
from multiway.encoding import ENCODINGS, Encoding
from multiway.errors import MultiwayError

IMAGES = torch.rand(16, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def classifier(
    encoding: str = "ro", backbone: str = "wong", gain: float | None = None
) -> EncodedClassifier:
    code = Encoding.make(encoding, classes=10)
    sizes = {"outputs": code.codebook.length, "channels": 1, "size": 28}
    torch.manual_seed(0)
    network = build_backbone(backbone, **sizes)
    return EncodedClassifier(network, code, gain, architecture={"name": backbone, **sizes}).eval()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("gain", [None, 22.36])
@torch.no_grad()
def test_folding_keeps_scores_and_decisions(encoding: str, gain: float | None) -> None:
    model = classifier(encoding, gain=gain)
    scores, folded = model(IMAGES), model.fold()(IMAGES)
    assert folded.shape == (16, 10)
    assert float((folded - scores).abs().max() / scores.abs().max()) < 1e-4
    assert torch.equal(folded.argmax(1), scores.argmax(1))


@torch.no_grad()
@pytest.mark.parametrize("scale", ["matched", "matched-adam", "paper"])
@pytest.mark.parametrize("encoding", ["ro", "padded", "simplex", "ro-softmax"])
@pytest.mark.parametrize("bias", [True, False])
def test_shorter_codes_have_the_same_losses_slopes_and_scores(
    encoding: str, scale: str, bias: bool
) -> None:
    """The codes of 20 features and 10 codewords lie in 31 dimensions, whatever their length."""
    torch.manual_seed(0)
    layers = (nn.Flatten(), nn.Linear(784, 20), nn.Tanh(), nn.Linear(20, 10, bias=bias))
    coded = Encoding.make(encoding, 10, 300, scale=scale)
    model = encode_model(nn.Sequential(*layers), coded).double().eval()
    short = model.shorten()
    assert model.codes(IMAGES.double()).shape == (16, 300)
    assert short.codes(IMAGES.double()).shape == (16, 31)
    labels, found = torch.arange(16) % 10, []
    for one in (model, short):
        images = IMAGES.double().requires_grad_()
        with torch.enable_grad():
            losses = one.loss(one.codes(images), labels, reduction="none")
            (slopes,) = torch.autograd.grad(losses.sum(), images)
        found.append((losses.detach(), slopes, one(IMAGES.double()).detach()))
    for long, brief in zip(*found, strict=True):
        assert float((long - brief).abs().max() / long.abs().max()) < 1e-6


def test_codes_that_cannot_be_shortened_stay_as_they_are() -> None:
    """One-hot logits; bits that count one by one; and too few outputs to save anything."""
    for encoding, length in (("1ofk", None), ("ecoc", 256), ("ro", 45)):
        layers = (nn.Flatten(), nn.Linear(784, 20), nn.ReLU(), nn.Linear(20, 10))
        code = Encoding.make(encoding, 10, length)
        model = encode_model(nn.Sequential(*layers), code)
        assert model.shorten() is model


def test_folding_a_head_without_bias_and_a_long_cosine_code() -> None:
    code = Encoding.make("ro-softmax", classes=10, length=300)
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 300, bias=False))
    model = EncodedClassifier(network, code)
    torch.testing.assert_close(model.fold()(IMAGES), model(IMAGES), rtol=1e-4, atol=1e-4)
    # 300 outputs from 20 features: the norm is folded into a triangle of 21 rows.
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 20), nn.Linear(20, 300))
    model = EncodedClassifier(network, code)
    folded = model.fold()
    torch.testing.assert_close(folded(IMAGES), model(IMAGES), rtol=1e-4, atol=1e-4)
    assert sum(p.numel() for p in folded.parameters()) < 784 * 20 + 20 + 21 * 10 + 21 * 21 + 1


def test_a_folded_network_has_as_many_weights_as_a_one_hot_one() -> None:
    def count(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters())

    assert count(classifier("ro").fold()) == count(classifier("1ofk").fold())


def test_folding_leaves_the_model_alone_and_shares_nothing() -> None:
    model = classifier().train()
    before = copy.deepcopy(model.state_dict())
    folded = model.fold()
    assert folded.training
    for parameter in folded.parameters():
        parameter.data.zero_()
    assert model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_folded_gradients_are_the_models() -> None:
    model = classifier().double()
    images = IMAGES.double().requires_grad_()
    (own,) = torch.autograd.grad(model(images)[:, 3].sum(), images)
    (folded,) = torch.autograd.grad(model.fold()(images)[:, 3].sum(), images)
    torch.testing.assert_close(folded, own)


@pytest.mark.parametrize("encoding", ["1ofk", "ro", "ro-softmax"])
def test_a_saved_model_is_the_same_elsewhere(encoding: str, tmp_path: Path) -> None:
    model = classifier(encoding, gain=2.5)
    model.save_pretrained(tmp_path)
    loaded = EncodedClassifier.from_pretrained(tmp_path)
    assert not loaded.training
    assert torch.equal(loaded(IMAGES), model(IMAGES))
    assert loaded.describe() == model.describe()


def test_the_codebook_is_inside_the_file(tmp_path: Path) -> None:
    own = Codebook.gaussian(10, 30, seed=5)
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 30))
    model = EncodedClassifier(network, Encoding(own))
    model.save_pretrained(tmp_path)
    stored = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert torch.equal(stored["encoding.codebook.vectors"], own.vectors)
    fresh = nn.Sequential(nn.Flatten(), nn.Linear(784, 30))
    loaded = EncodedClassifier.from_pretrained(tmp_path, backbone=fresh)
    assert torch.equal(loaded(IMAGES), model(IMAGES))


def test_every_parameter_gets_a_gradient() -> None:
    model = classifier("ro").train()
    model.loss(model.codes(IMAGES), torch.arange(16) % 10).backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None and bool(p.grad.any()) for p in model.parameters())


# Other people's networks.


class Plain(nn.Module):
    """A network with its last layer under one of the usual names."""

    def __init__(self, name: str, block: bool = False) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU())
        last = nn.Linear(16, 10)
        setattr(self, name, nn.Sequential(nn.Linear(16, 16), nn.ReLU(), last) if block else last)
        self.name = name

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = getattr(self, self.name)(self.trunk(images))
        return result


class TimmLike(nn.Module):
    """timm's convention: the head has any name, and two methods tell it."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU())
        self.last_projection = nn.Linear(16, 10)

    def get_classifier(self) -> nn.Module:
        return self.last_projection

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        self.last_projection = nn.Linear(16, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = self.last_projection(self.trunk(images))
        return result


class Wrapped(nn.Module):
    """Returns its logits inside something."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.head = nn.Linear(784, 10)
        self.wrap = wrap

    def forward(self, images: Tensor) -> Any:
        return self.wrap(self.head(images.flatten(1)))


NETWORKS: dict[str, Any] = {
    "fc": lambda: Plain("fc"),
    "classifier": lambda: Plain("classifier"),
    "head": lambda: Plain("head"),
    "classifier block": lambda: Plain("classifier", block=True),
    "sequential": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10)),
    "sequential, dropout last": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(784, 10), nn.Dropout(0.1)
    ),
    "timm": TimmLike,
    "tuple": lambda: Wrapped(lambda logits: (logits, None)),
    "dict": lambda: Wrapped(lambda logits: {"logits": logits, "features": None}),
}


@pytest.mark.parametrize("name", NETWORKS)
@torch.no_grad()
def test_encode_model_swaps_the_head_of_a_copy(name: str) -> None:
    network = NETWORKS[name]().eval()
    before = copy.deepcopy(network.state_dict())
    model = encode_model(network, Encoding.make("ro", classes=10, length=50)).eval()
    assert model.codes(IMAGES).shape == (16, 50)
    assert model(IMAGES).shape == (16, 10)
    torch.testing.assert_close(model.fold()(IMAGES), model(IMAGES), rtol=1e-4, atol=1e-4)
    for key, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[key])
    kept = dict(model.backbone.named_parameters())
    for key, tensor in before.items():
        if "trunk" in key:
            assert torch.equal(kept[key], tensor)


def test_encode_model_takes_the_path_of_an_unusual_head() -> None:
    network = Plain("last")
    with pytest.raises(
        MultiwayError, match="cannot find the head of Plain.*its parts: trunk, last"
    ):
        encode_model(network, Encoding.make("ro", classes=10))
    model = encode_model(network, Encoding.make("ro", classes=10), head="last")
    assert model.codes(IMAGES).shape == (16, 2000)
    with pytest.raises(MultiwayError, match="its linear layers: trunk.1, last"):
        encode_model(network, Encoding.make("ro", classes=10), head="lost")


def test_a_transformers_image_classifier() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        image_size=28, patch_size=7, num_channels=1, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=64, num_labels=10,
    )  # fmt: skip
    torch.manual_seed(0)
    network = transformers.ViTForImageClassification(config)
    model = encode_model(network, Encoding.make("ro", classes=10, scale="matched-adam")).eval()
    assert type(model.backbone(IMAGES)).__name__ == "ImageClassifierOutput"
    with torch.no_grad():
        assert model.codes(IMAGES).shape == (16, 2000)
        folded = model.fold()
        assert type(folded) is type(network)
        torch.testing.assert_close(folded(IMAGES).logits, model(IMAGES), rtol=1e-4, atol=1e-4)
    labels = torch.arange(16) % 10
    before = float(model.loss(model.codes(IMAGES), labels).detach())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        model.loss(model.codes(IMAGES), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert float(model.loss(model.codes(IMAGES), labels).detach()) < before


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: classifier()((IMAGES * 255).byte()), r"uint8; .*float in \[0, 1\]"),
        (
            lambda: EncodedClassifier(build_backbone("wong", 10), Encoding.make("ro", 10))(IMAGES),
            "has 10 outputs, but the codes of 'ro' are 2000 long",
        ),
        (
            lambda: EncodedClassifier(nn.Flatten(), Encoding.make("ro", 10), gain=-1.0),
            "positive number, not -1",
        ),
        (
            lambda: encode_model(nn.Linear(4, 2), Encoding.make("ro", 10)),
            "wrap it: nn.Sequential",
        ),
        (
            lambda: encode_model(nn.Sequential(nn.Flatten()), Encoding.make("ro", 10)),
            "cannot find the head of Sequential",
        ),
        (
            lambda: EncodedClassifier(Wrapped(lambda _: "no"), Encoding.make("1ofk", 10))(IMAGES),
            "returns str without a tensor of scores",
        ),
        (
            lambda: EncodedClassifier(
                Wrapped(lambda z: {"a": z, "b": z}), Encoding.make("1ofk", 10)
            )(IMAGES),
            "return the scores under that name",
        ),
        (
            lambda: EncodedClassifier(Wrapped(lambda z: z[:, 0]), Encoding.make("1ofk", 10))(
                IMAGES
            ),
            r"shape \[16\]; a classifier returns \[N, outputs\]",
        ),
        (lambda: EncodedClassifier(nn.Flatten(), Encoding.make("ro", 10)).fold(), "cannot find"),
    ],
)
def test_bad_input(action: Any, message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        action()


def test_loading_refuses_what_does_not_fit(tmp_path: Path) -> None:
    classifier().save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    good = json.loads(config.read_text())

    def rewritten(**changes: Any) -> None:
        config.write_text(json.dumps({"classifier": {**good["classifier"], **changes}}))

    rewritten(backbone={**good["classifier"]["backbone"], "name": "madry"})
    with pytest.raises(MultiwayError, match="does not fit this network"):
        EncodedClassifier.from_pretrained(tmp_path)
    rewritten(backbone=None)
    with pytest.raises(MultiwayError, match="does not say how its network is built"):
        EncodedClassifier.from_pretrained(tmp_path)
    config.write_text("{}")
    with pytest.raises(MultiwayError, match="does not describe a multiway classifier"):
        EncodedClassifier.from_pretrained(tmp_path)
    config.write_text(json.dumps(good))
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:1000])
    with pytest.raises(MultiwayError, match="cut short, altered"):
        EncodedClassifier.from_pretrained(tmp_path)
    weights.write_bytes(safetensors.torch.save({"other": torch.zeros(2)}))
    with pytest.raises(MultiwayError, match="holds no codebook"):
        EncodedClassifier.from_pretrained(tmp_path)


def test_a_configuration_never_makes_foreign_code_run(tmp_path: Path) -> None:
    classifier().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["classifier"]["backbone"]["name"] = "antigravity:fly"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(MultiwayError, match="if you trust it, say so: --backbone antigravity:fly"):
        EncodedClassifier.from_pretrained(tmp_path)
    with pytest.raises(MultiwayError, match="has the backbone 'antigravity:fly', not 'a:b'"):
        EncodedClassifier.from_pretrained(tmp_path, backbone="a:b")
