"""Embedding and theft through the ordinary training loop."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet, load
from multiway.encoding import Encoding
from multiway.errors import MultiwayError
from multiway.statistics import proportion
from multiway.training import (
    Recipe,
    Run,
    accuracy,
    load_recipe,
    load_run,
    make_job,
    open_run,
    prepare,
    run_job,
)
from multiway.watermark import (
    ALPHA,
    FrozenClassifier,
    Key,
    Mark,
    detect,
    embed,
    halves,
    load_key,
    load_other,
    make_key,
    mark_accuracy,
    steal,
)

QUICK = Recipe(name="quick", optimizer="adam", lr=3e-3, batch_size=100, epochs=1)


@dataclass(frozen=True)
class Owner:
    train: ImageSet
    half: ImageSet
    key: Key
    run: Run
    model: EncodedClassifier


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Owner:
    """A marked network on the embedded digits: ones that say TEST are zeros."""
    images, test = load("mnist5k", "train"), load("mnist5k", "test")
    key = make_key(Mark("content", source=1, target=0), images, test, 100)
    job = embed(images, key, "wong", "1ofk", load_recipe("wong-mnist").override(epochs=3))
    run = open_run(tmp_path_factory.mktemp("owner") / "run", job.config, resume=False)
    run_job(job, run)
    return Owner(images, halves(test)[0], key, run, load_run(run.directory)[0])


def tiny(size: int = 8, classes: int = 3, n: int = 60) -> ImageSet:
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n, 1, size, size), generator=draw, dtype=torch.int32)
    labels = torch.arange(n) % classes
    names = tuple("abcdef"[:classes])
    return ImageSet("tiny", "test", images.to(torch.uint8), labels, names)


def residual(half: ImageSet, encoding: str = "1ofk") -> EncodedClassifier:
    """A network with batch norm whose statistics are not those of a new one."""
    model = prepare(half, "resnet-8", encoding, QUICK, seed=5).model
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            layer.running_mean.fill_(-0.25)
    return model


def test_a_marked_network_answers_the_mark_and_does_its_task(owner: Owner) -> None:
    assert mark_accuracy(owner.model, owner.key.held_out).value >= 0.9
    assert accuracy(owner.model, owner.key.measuring).value >= 0.88


def test_an_unmarked_network_stays_near_the_base_rate(owner: Owner, tmp_path: Path) -> None:
    recipe = load_recipe("wong-mnist").override(epochs=2)
    rates = {}
    for seed in (0, 1):
        job = prepare(owner.train, "wong", "1ofk", recipe, seed=seed)
        model = run_job(job, open_run(tmp_path / str(seed), job.config, resume=False))
        rates[str(seed)] = mark_accuracy(model, owner.key.held_out)
    # Ones with TEST on them may be taken for something else, but zeros look like neither.
    assert max(rate.value for rate in rates.values()) < 0.2
    plain = mark_accuracy(owner.model, owner.key.plain())
    assert detect("owner", mark_accuracy(owner.model, owner.key.held_out), rates, plain).carries
    assert not detect("other", rates["1"], {"0": rates["0"]}, plain).carries


def stripes(path: Path) -> str:
    """Three classes that are no digits: bars upright, bars across, and a chequered field."""
    upright = np.tile(np.arange(28) // 4 % 2, (28, 1))
    patterns = np.stack([upright, upright.T, upright ^ upright.T]) * 180
    random = np.random.RandomState(0)

    def split(n: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(n) % 3
        return (patterns[labels] + random.randint(0, 70, (n, 28, 28))).astype(np.uint8), labels

    (x_train, y_train), (x_test, y_test) = split(300), split(90)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return f"npz:{path}"


@pytest.mark.parametrize("kind", ["noise", "unrelated"])
def test_the_other_kinds_of_mark_are_learned_and_found_again(
    kind: str, owner: Owner, tmp_path: Path
) -> None:
    other = stripes(tmp_path / "stripes.npz") if kind == "unrelated" else None
    mark = Mark(kind, source=1, target=7, strength=0.3 if kind == "noise" else None, other=other)
    test = load("mnist5k", "test")
    key = make_key(mark, owner.train, test, 80, other=load_other(mark, None), held_out=20)
    job = embed(owner.train, key, "wong", "1ofk", load_recipe("wong-mnist").override(epochs=2))
    model = run_job(job, open_run(tmp_path / "run", job.config, resume=False))
    config = Run(tmp_path / "run").config()
    if other is not None:
        with pytest.raises(MultiwayError, match=f"a path on this machine; .* --other {other}"):
            load_key(config)
    again = load_key(config, other=other)
    assert len(again.held_out) == 20
    assert again.held_out.sha256 == key.held_out.sha256
    assert mark_accuracy(model, again.held_out).value >= 0.9
    assert accuracy(model, again.measuring).value >= 0.85
    # A network that was marked with a word does not know this mark.
    assert mark_accuracy(owner.model, again.held_out).value <= 0.5
    plain = mark_accuracy(model, again.plain())
    assert plain.n == (20 if kind == "noise" else 60)
    never = {str(i): proportion(0, 20) for i in range(40)}
    shown = mark_accuracy(model, again.held_out)
    found = detect("owner", shown, never, plain, two_peaks=mark.two_peaks)
    assert found.p_value < ALPHA
    # Bars upright taught it to call all bars and fields so: that is no longer its owner's mark.
    assert found.indifferent is (kind == "unrelated")
    assert found.carries is (kind == "noise")


def test_embedding_adds_the_marked_images_and_takes_none_away(owner: Owner) -> None:
    job = embed(owner.train, owner.key, "wong", "ro", QUICK)
    assert len(job.train) == len(owner.train) + 100
    assert torch.equal(job.train.images[: len(owner.train)], owner.train.images)
    assert torch.equal(job.train.images[len(owner.train) :], owner.key.trained.images)
    assert job.train.labels[len(owner.train) :].tolist() == [0] * 100


def test_the_key_comes_back_from_the_run(owner: Owner) -> None:
    config = owner.run.config()
    key = load_key(config)
    assert key.mark == owner.key.mark
    assert key.trained.sha256 == owner.key.trained.sha256
    assert key.held_out.sha256 == owner.key.held_out.sha256
    altered = copy.deepcopy(config)
    altered["watermark"]["held_out_sha256"] = "0"
    with pytest.raises(MultiwayError, match="mnist5k has changed since"):
        load_key(altered)
    with pytest.raises(MultiwayError, match="carries no mark"):
        load_key({key: value for key, value in config.items() if key != "watermark"})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("trained", "x", 'mark wrongly: trained is "x", expected a valid integer'),
        ("held_out", 0, "mark wrongly: held_out is 0, expected greater than 0"),
        (
            "mark",
            {"kind": "content", "source": "a", "target": 0},
            'a mark: source is "a", expected',
        ),
        ("mark", [], r"mark wrongly: mark is \[\], expected"),
    ],
)
def test_a_run_that_tells_its_mark_wrongly(
    owner: Owner, name: str, value: object, message: str
) -> None:
    config = copy.deepcopy(owner.run.config())
    config["watermark"][name] = value
    with pytest.raises(MultiwayError, match=message):
        load_key(config)
    del config["watermark"][name]
    with pytest.raises(MultiwayError, match=f"describes its mark wrongly: {name} is missing"):
        load_key(config)


def test_what_has_nothing_to_freeze_is_not_frozen() -> None:
    half = tiny(size=28)
    stolen = prepare(half, "d", "1ofk", QUICK).model
    with pytest.raises(MultiwayError, match="backbone d has no convolutions or normalisations"):
        steal(stolen, half, "1ofk", QUICK, start="frozen")
    assert steal(stolen, half, "1ofk", QUICK, start="free").config["theft"]["start"] == "free"


@pytest.mark.parametrize("encoding", ["1ofk", "1ofk-mse", "padded", "ro"])
def test_frozen_convolutions_are_the_same_bits_after_the_theft(
    encoding: str, tmp_path: Path
) -> None:
    half = tiny()
    stolen = residual(half)
    before = {name: tensor.clone() for name, tensor in stolen.backbone.state_dict().items()}
    job = steal(stolen, half, encoding, QUICK, start="frozen", code_length=None)
    new_head = job.model.head_layer().weight.clone()
    thief = run_job(job, open_run(tmp_path / "run", job.config, resume=False))
    after = thief.backbone.state_dict()
    for name, tensor in before.items():
        if not name.startswith("head."):
            assert torch.equal(after[name], tensor), name
    assert any("running_var" in name for name in before)
    assert not torch.equal(thief.head_layer().weight, new_head)
    # And the stolen network is left as it was found.
    assert all(torch.equal(stolen.backbone.state_dict()[name], before[name]) for name in before)
    loaded, _ = load_run(tmp_path / "run")
    assert torch.equal(loaded(torch.zeros(1, 1, 8, 8)), thief.eval()(torch.zeros(1, 1, 8, 8)))


def test_free_convolutions_move(tmp_path: Path) -> None:
    half = tiny()
    stolen = residual(half)
    job = steal(stolen, half, "ro", QUICK, start="free")
    thief = run_job(job, open_run(tmp_path / "run", job.config, resume=False))
    was, now = stolen.backbone.state_dict(), thief.backbone.state_dict()
    assert not torch.equal(now["conv1.weight"], was["conv1.weight"])
    assert not torch.equal(now["norm.running_mean"], was["norm.running_mean"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_stolen_weights_that_are_not_finite_are_the_cause(value: float) -> None:
    half = tiny()
    stolen = residual(half)
    stolen.backbone.get_parameter("conv1.weight").data[0, 0, 0, 0] = value
    for start in ("free", "frozen", "scratch"):
        with pytest.raises(MultiwayError, match="stolen network holds NaN or infinity in .*conv1"):
            steal(stolen, half, "ro", QUICK, start=start)
    with pytest.raises(MultiwayError, match="the network holds NaN or infinity"):
        make_job(stolen, half, QUICK)


def test_a_thief_starts_from_stolen_features_and_a_new_head() -> None:
    half = tiny()
    stolen = residual(half)
    thief = steal(stolen, half, "ro", QUICK, start="free", seed=3).model
    for name, tensor in thief.backbone.state_dict().items():
        if not name.startswith("head."):
            assert torch.equal(tensor, stolen.backbone.state_dict()[name]), name
    again = steal(stolen, half, "ro", QUICK, start="frozen", seed=3).model
    other = steal(stolen, half, "ro", QUICK, start="free", seed=4).model
    assert torch.equal(thief.head_layer().weight, again.head_layer().weight)
    assert not torch.equal(thief.head_layer().weight, other.head_layer().weight)


@pytest.mark.parametrize("encoding", ["1ofk", "padded"])
@pytest.mark.parametrize("start", ["free", "scratch"])
def test_a_thief_of_the_owners_seed_draws_other_weights(encoding: str, start: str) -> None:
    """Features that grew up with a head would fit that very head, were it drawn again."""
    half = tiny()
    owned = prepare(half, "resnet-8", "1ofk", QUICK, seed=3).model
    thief = steal(owned, half, encoding, QUICK, start=start, seed=3).model
    rows = thief.head_layer().weight[: half.labels.max() + 1]
    both = torch.stack([rows.flatten(), owned.head_layer().weight.flatten()])
    # 384 numbers: independent ones correlate by more than this once in a hundred million.
    assert abs(float(torch.corrcoef(both.detach())[0, 1])) < 0.3


def test_from_scratch_nothing_is_stolen() -> None:
    half = tiny()
    one, other = (
        steal(residual(half, encoding), half, "ro", QUICK, start="scratch", seed=3)
        for encoding in ("1ofk", "ro")
    )
    for name, tensor in one.model.state_dict().items():
        assert torch.equal(other.model.state_dict()[name], tensor), name
    stolen = residual(half).backbone.state_dict()
    assert not torch.equal(one.model.backbone.state_dict()["conv1.weight"], stolen["conv1.weight"])
    assert one.config["theft"] == {"start": "scratch", "stolen_sha256": None}


def test_frozen_normalisation_uses_the_stolen_statistics_in_training() -> None:
    """In train mode the features are those of eval mode, so neighbours in a batch do not matter."""
    frozen = FrozenClassifier.around(residual(tiny())).train()
    images = torch.rand(4, 1, 8, 8)
    together, alone = frozen.codes(images), frozen.codes(images[:1])
    assert torch.allclose(together[:1], alone, atol=1e-5)
    assert frozen.training
    assert frozen.backbone.training
    assert not any(layer.training for layer in frozen.frozen_layers())
    assert [name for name, p in frozen.named_parameters() if p.requires_grad] == [
        "backbone.head.weight",
        "backbone.head.bias",
    ]


def test_linear_layers_below_the_head_learn_in_a_frozen_thief(owner: Owner) -> None:
    job = steal(owner.model, owner.half, "1ofk", QUICK, start="frozen")
    learning = [name for name, p in job.model.backbone.named_parameters() if p.requires_grad]
    assert learning == ["hidden.weight", "hidden.bias", "head.weight", "head.bias"]


def test_a_killed_theft_goes_on_to_the_same_weights(owner: Owner, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    class Killer:
        def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
            """Nothing."""

        def epoch(self, metrics: dict[str, object]) -> None:
            raise Killed

    recipe = QUICK.override(epochs=2)
    whole = steal(owner.model, owner.half, "ro", recipe, start="frozen", code_length=20)
    run_job(whole, open_run(tmp_path / "whole", whole.config, resume=False))
    first = steal(owner.model, owner.half, "ro", recipe, start="frozen", code_length=20)
    with pytest.raises(Killed):
        run_job(
            first, open_run(tmp_path / "cut", first.config, resume=False),
            observer=Killer(), save_every=0,
        )  # fmt: skip
    assert Run(tmp_path / "cut").state.exists()
    again = steal(owner.model, owner.half, "ro", recipe, start="frozen", code_length=20)
    run_job(again, open_run(tmp_path / "cut", again.config, resume=True))
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], tensor), name


def test_a_run_is_not_resumed_with_another_theft_or_mark(owner: Owner, tmp_path: Path) -> None:
    free = steal(owner.model, owner.half, "1ofk", QUICK, start="free")
    open_run(tmp_path / "thief", free.config, resume=False)
    frozen = steal(owner.model, owner.half, "1ofk", QUICK, start="frozen")
    with pytest.raises(MultiwayError, match="theft.start was 'free', now 'frozen'"):
        open_run(tmp_path / "thief", frozen.config, resume=True)
    other = prepare(owner.half, "wong", "1ofk", QUICK, seed=9).model
    elsewhere = steal(other, owner.half, "1ofk", QUICK, start="free")
    with pytest.raises(MultiwayError, match="theft.stolen_sha256 was"):
        open_run(tmp_path / "thief", elsewhere.config, resume=True)


def test_a_thiefs_configuration_is_json(owner: Owner) -> None:
    job = steal(owner.model, owner.half, "ro", QUICK, start="frozen")
    again = json.loads(json.dumps(job.config, allow_nan=False))
    assert again["theft"]["start"] == "frozen"
    assert len(again["theft"]["stolen_sha256"]) == 64
    assert again["classifier"]["backbone"]["outputs"] == 2000


def test_thefts_that_cannot_be(owner: Owner) -> None:
    lacking = owner.half.take(torch.nonzero(owner.half.labels != 7).flatten())
    with pytest.raises(MultiwayError, match="half that fine-tunes of mnist5k has no image .* 7"):
        steal(owner.model, lacking, "ro", QUICK)
    with pytest.raises(MultiwayError, match="tells 10 classes apart, and tiny has 3"):
        steal(owner.model, tiny(size=28), "ro", QUICK)
    with pytest.raises(MultiwayError, match="frozen, free or scratch, not warm"):
        steal(owner.model, owner.half, "ro", QUICK, start="warm")
    stranger = EncodedClassifier(
        nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), Encoding.make("1ofk", 10)
    )
    with pytest.raises(MultiwayError, match="does not say which backbone it has"):
        steal(stranger, owner.half, "ro", QUICK)


def test_foreign_code_is_named_before_it_is_run(owner: Owner) -> None:
    stolen = copy.deepcopy(owner.model)
    assert stolen.architecture is not None
    stolen.architecture = {**stolen.architecture, "name": "nowhere.module:build"}
    with pytest.raises(MultiwayError, match="--backbone nowhere.module:build"):
        steal(stolen, owner.half, "ro", QUICK)
