"""The training loop: equal to plain PyTorch, repeatable, and safe when things go wrong."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet, load
from multiway.errors import MultiwayError
from multiway.randomness import generator
from multiway.training import (
    Recipe,
    Run,
    accuracy,
    load_recipe,
    load_run,
    open_run,
    prepare,
    run_job,
)
from multiway.training.state import TrainingState, load_state, save_state

SGD = Recipe(name="test", lr=0.01, momentum=0.5, batch_size=32, epochs=2)
ADAM = Recipe(name="test", optimizer="adam", lr=0.003, batch_size=32, epochs=2)


@pytest.fixture
def tiny(tiny_npz: Path) -> ImageSet:
    return load(f"npz:{tiny_npz}", "train")


def trained(data: ImageSet, recipe: Recipe, out: Path, **options: Any) -> EncodedClassifier:
    backbone = options.pop("backbone", "d")
    job = prepare(data, backbone, options.pop("encoding", "ro"), recipe, **options)
    run = open_run(out, job.config, resume=True)
    return run_job(job, run)


def same_weights(one: EncodedClassifier, two: EncodedClassifier) -> bool:
    pairs = zip(one.state_dict().values(), two.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("backbone", ["wong", "resnet-8-small"])
def test_it_is_plain_sgd_on_the_encodings_loss(
    backbone: str, tiny: ImageSet, tmp_path: Path
) -> None:
    """Without dropout, in the order that it draws, the loop is what one would write by hand.

    The second has many channels, and so another order in memory while it is trained.
    """
    job = prepare(tiny, backbone, "padded", SGD, code_length=20, seed=3)
    by_hand = prepare(tiny, backbone, "padded", SGD, code_length=20, seed=3).model.train()
    optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.01, momentum=0.5)
    target_norm = math.sqrt(2 * math.log(19 * (len(tiny.classes) - 1)))
    for epoch in range(2):
        order = torch.randperm(300, generator=generator(3, "order", epoch))
        for chosen in torch.split(order, 32):
            images = tiny.images[chosen].float() / 255
            # Padded one-hot codes are unit vectors times beta.
            target = torch.eye(20)[tiny.labels[chosen]] * target_norm
            loss = (by_hand.backbone(images) - target).square().sum(dim=1).mean() / 4
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert by_hand.gain == pytest.approx(by_hand.encoding.codebook.beta / target_norm)
    model = run_job(job, open_run(tmp_path / "run", job.config, resume=False))
    for (name, a), b in zip(model.named_parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, msg=name)
        assert a.is_contiguous()


@pytest.mark.parametrize("encoding", ["1ofk", "ro", "ro-softmax", "1ofk-mse", "padded"])
def test_every_encoding_learns(
    encoding: str, tiny: ImageSet, tiny_npz: Path, tmp_path: Path
) -> None:
    recipe = Recipe(name="test", optimizer="adam", lr=0.003, batch_size=32, epochs=6)
    job = prepare(tiny, "wong", encoding, recipe)
    run_job(job, open_run(tmp_path / "run", job.config, resume=False))
    measured = accuracy(job.model, load(f"npz:{tiny_npz}", "test"))
    assert measured.value > 0.95
    assert measured.n == 90


def test_same_seed_same_weights_and_other_seed_other_weights(
    tiny: ImageSet, tmp_path: Path
) -> None:
    one = trained(tiny, SGD, tmp_path / "1", seed=1)
    torch.rand(17)  # what was drawn before must not matter
    again = trained(tiny, SGD, tmp_path / "2", seed=1)
    other = trained(tiny, SGD, tmp_path / "3", seed=2)
    assert same_weights(one, again)
    assert not same_weights(one, other)
    assert (tmp_path / "1/model.safetensors").read_bytes() == (
        tmp_path / "2/model.safetensors"
    ).read_bytes()


def test_the_global_random_state_is_left_alone(tiny: ImageSet, tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    trained(tiny, SGD, tmp_path / "1")
    assert torch.equal(torch.rand(3), expected)


class StopAt:
    """An observer that pulls the plug."""

    def __init__(self, step: int) -> None:
        self.at = step

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None: ...

    def epoch(self, metrics: dict[str, Any]) -> None:
        if metrics["epoch"] == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("backbone", ["d", "resnet-8-small"])
@pytest.mark.parametrize("recipe", [SGD, ADAM], ids=["sgd", "adam"])
def test_a_run_that_was_stopped_ends_in_the_same_weights(
    recipe: Recipe, backbone: str, tiny: ImageSet, tmp_path: Path
) -> None:
    """Network d has dropout, so the random draws of each step must repeat too."""
    whole = trained(tiny, recipe, tmp_path / "whole", backbone=backbone, validation=0.2)
    job = prepare(tiny, backbone, "ro", recipe, validation=0.2)
    run = open_run(tmp_path / "cut", job.config, resume=False)
    with pytest.raises(KeyboardInterrupt):
        run_job(job, run, save_every=0, observer=StopAt(1))
    assert run.state.exists()
    assert not run.finished
    resumed = trained(tiny, recipe, tmp_path / "cut", backbone=backbone, validation=0.2)
    assert same_weights(whole, resumed)
    lines = [Run(tmp_path / name).metrics() for name in ("whole", "cut")]
    for one, other in zip(*lines, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert not run.state.exists()
    for name in ("model", "best"):
        files = [tmp_path / run / f"{name}.safetensors" for run in ("whole", "cut")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_metrics_and_validation(tiny: ImageSet, tmp_path: Path) -> None:
    job = prepare(tiny, "d", "ro", SGD, validation=0.2)
    run_job(job, open_run(tmp_path / "run", job.config, resume=False))
    first, last = Run(tmp_path / "run").metrics()
    assert (first["epoch"], first["step"], last["step"]) == (1, 8, 16)
    assert first["images"] == 240
    assert first["validation"]["n"] == 60
    assert job.validation is not None
    values = [line["validation"]["value"] for line in (first, last)]
    assert accuracy(load_run(tmp_path / "run", best=True)[0], job.validation).value == max(values)
    end, config = load_run(tmp_path / "run")
    assert accuracy(end, job.validation).value == values[-1]
    assert config["validation"] == 0.2


def test_config_says_everything(tiny: ImageSet, tmp_path: Path) -> None:
    trained(tiny, SGD, tmp_path / "run", seed=4, code_seed=2)
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["data"]["sha256"] == tiny.sha256
    assert config["seed"] == 4
    assert config["code_seed"] == 2
    assert config["classifier"]["backbone"] == {
        "name": "d", "outputs": 2000, "channels": 1, "size": 8,
    }  # fmt: skip
    assert config["recipe"]["momentum"] == 0.5
    assert {"multiway", "torch", "python"} <= set(config["versions"])


def test_a_diverging_loss_stops_and_keeps_the_last_good_state(
    tiny: ImageSet, tmp_path: Path
) -> None:
    wild = Recipe(name="wild", lr=1e6, batch_size=32, epochs=2)
    job = prepare(tiny, "d", "ro", wild)
    run = open_run(tmp_path / "run", job.config, resume=False)
    with pytest.raises(MultiwayError, match=r"of 20: training diverged") as caught:
        run_job(job, run, save_every=0)
    (step,) = re.findall(r"the loss is \S+ at step (\d+) of 20", str(caught.value))
    assert not run.finished
    fresh = prepare(tiny, "d", "ro", wild)
    optimizer = torch.optim.SGD(fresh.model.parameters(), lr=1.0)
    mark = json.loads(json.dumps(run.config()))
    from multiway.training.run import config_digest

    progress = load_state(run.state, fresh.model, optimizer, config_digest(mark))
    assert progress.step == int(step) - 1
    assert all(bool(torch.isfinite(p).all()) for p in fresh.model.parameters())


def test_weights_that_are_not_finite(tiny: ImageSet, tmp_path: Path) -> None:
    job = prepare(tiny, "d", "ro", SGD)
    for parameter in job.model.parameters():
        parameter.data.fill_(float("nan"))
    run = open_run(tmp_path / "run", job.config, resume=False)
    with pytest.raises(MultiwayError, match="not finite at step 0: training diverged"):
        run_job(job, run)
    with pytest.raises(MultiwayError, match="scores are not finite: its weights hold NaN"):
        accuracy(job.model, tiny)
    optimizer = torch.optim.SGD(job.model.parameters(), lr=1.0)
    with pytest.raises(MultiwayError, match="not finite at step 7"):
        seventh = TrainingState.first("").model_copy(update={"step": 7})
        save_state(run.state, job.model, optimizer, seventh)
    assert not run.state.exists()


def test_accuracy_restores_the_mode_of_every_module(tiny: ImageSet) -> None:
    model = prepare(tiny, "d", "ro", SGD).model.train()
    model.backbone.eval()
    accuracy(model, tiny)
    assert model.training
    assert not model.backbone.training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "or"}, "unknown encoding 'or': did you mean 'ro'"),
        ({"backbone": "e"}, "unknown backbone 'e'"),
        ({"validation": 1.5}, "from 0 to below 1, not 1.5"),
        ({"code_length": 2}, "code length 2 is below the 3 classes"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str, tiny: ImageSet) -> None:
    arguments = {"backbone": "d", "encoding": "ro", **options}
    with pytest.raises(MultiwayError, match=message):
        prepare(tiny, recipe=load_recipe("digits"), **arguments)


def test_images_that_are_not_square(tiny: ImageSet) -> None:
    wide = ImageSet("wide", "train", tiny.images[:, :, :4], tiny.labels, tiny.classes)
    with pytest.raises(MultiwayError, match="images of 4x8; backbones take square ones"):
        prepare(wide, "d", "ro", SGD)
