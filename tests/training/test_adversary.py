"""Adversarial training: the attack on a batch, collapses, resumption, and bad input."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conftest import Command
from multiway.attacks import AttackWarning
from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet, load, to_float
from multiway.encoding import Encoding
from multiway.errors import MultiwayError
from multiway.randomness import generator
from multiway.statistics import proportion
from multiway.training import Recipe, Team, load_recipe, load_run, open_run, prepare, run_job
from multiway.training.adversary import Adversary, InnerAttack
from multiway.training.measure import Watch, robust_accuracy
from multiway.training.run import Collapse

EPS = 0.2


@pytest.fixture
def tiny(tiny_npz: Path) -> ImageSet:
    return load(f"npz:{tiny_npz}", "train")


def recipe(**changes: Any) -> Recipe:
    return Recipe.model_validate(
        {"name": "test", "lr": 0.01, "momentum": 0.5, "batch_size": 32, "epochs": 1,
         **changes}
    )  # fmt: skip


def model_of(encoding: str, data: ImageSet) -> EncodedClassifier:
    length = 12 if encoding in ("ro", "padded") else None
    return prepare(data, "wong", encoding, recipe(), code_length=length, seed=1).model


def batch(data: ImageSet, n: int = 12) -> tuple[Tensor, Tensor]:
    return to_float(data.images[:n]), data.labels[:n]


def noise(images: Tensor, *purpose: str | int) -> Tensor:
    return 2 * torch.rand(images.shape, generator=generator(*purpose)) - 1  # type: ignore[arg-type]


def objective(model: EncodedClassifier, name: str, images: Tensor, labels: Tensor) -> Tensor:
    """What the adversary ascends, from the definitions."""
    codes = model.codes(images)
    book = model.encoding.codebook.vectors
    if name == "own":
        if model.encoding.name == "1ofk":
            return F.cross_entropy(codes, labels, reduction="sum")
        return (codes - book[labels]).square().mean(dim=1).sum()
    # Eq. 5: the loss of the true class less the least of the others.
    losses = (codes[:, None] - book).square().mean(dim=2)
    if model.encoding.name == "1ofk":
        losses = -codes
    true = losses.gather(1, labels[:, None]).squeeze(1)
    others = losses.scatter(1, labels[:, None], torch.inf).amin(dim=1)
    return (true - others).sum()


def by_hand(
    model: EncodedClassifier, adversary: Adversary, images: Tensor, labels: Tensor, start: Tensor
) -> Tensor:
    """The adversary as its paper describes it."""
    size = {"pgd": EPS / 4, "fgsm": 1.25 * EPS, "n-fgsm": EPS}[adversary.kind]
    radius = 2 * EPS if adversary.kind == "n-fgsm" else EPS
    x = images + radius * start
    if adversary.kind != "fgsm":  # Wong's step is taken from where the noise has led
        x = x.clamp(0, 1)
    for _ in range(adversary.step_count):
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(objective(model, adversary.objective, x, labels), x)
        x = x.detach() + size * gradient.sign()
        if adversary.kind != "n-fgsm":
            x = torch.max(torch.min(x, images + EPS), images - EPS)
        x = x.clamp(0, 1)
    return x.detach()


@pytest.mark.parametrize("encoding", ["1ofk", "ro", "padded", "1ofk-mse"])
@pytest.mark.parametrize("name", ["own", "margin"])
@pytest.mark.parametrize("kind", ["pgd", "fgsm", "n-fgsm"])
def test_the_inner_attack_is_the_one_described(
    tiny: ImageSet, encoding: str, name: str, kind: str
) -> None:
    model = model_of(encoding, tiny).train()
    adversary = Adversary.model_validate(
        {"kind": kind, "eps": EPS, "objective": name, "steps": 4 if kind == "pgd" else 1}
    )
    images, labels = batch(tiny)
    start = noise(images, 0, "start")
    attacked = InnerAttack(model, adversary)(images, labels, start)
    expected = by_hand(model, adversary, images, labels, start)
    # A sign may differ where a gradient is zero but for rounding.
    assert float((attacked - expected).abs().gt(1e-6).float().mean()) < 0.005
    assert float(attacked.min()) >= 0
    assert float(attacked.max()) <= 1
    largest = float((attacked - images).abs().max())
    if kind == "n-fgsm":
        assert largest > 1.5 * EPS
    else:
        assert largest <= EPS + 1e-6
    assert model.training
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())


@pytest.mark.parametrize("name", ["own", "margin"])
def test_the_attack_sees_the_weights_of_the_moment(tiny: ImageSet, name: str) -> None:
    model = model_of("ro", tiny)
    adversary = Adversary(eps=EPS, steps=3, objective=name)  # type: ignore[arg-type]
    inner = InnerAttack(model, adversary)
    images, labels = batch(tiny)
    start = noise(images, 0, "start")
    before = inner(images, labels, start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(images, labels).backward()
    optimizer.step()
    after = inner(images, labels, start)
    assert not torch.equal(before, after)
    assert torch.equal(after, InnerAttack(model, adversary)(images, labels, start))


def test_trades_distance_is_zero_at_home_and_the_divergence_elsewhere() -> None:
    one, other = torch.randn(5, 4), torch.randn(5, 4)
    plain = Encoding.make("1ofk", 4)
    assert plain.distance(one, one).abs().max() < 1e-6
    expected = F.kl_div(one.log_softmax(1), other.softmax(1), reduction="none").sum(1)
    assert torch.allclose(plain.distance(one, other), expected, atol=1e-6)
    squared = Encoding.make("1ofk-mse", 4, scale="paper")
    assert torch.allclose(squared.distance(one, other), (one - other).square().mean(1))
    cosine = Encoding.make("ro-softmax", 4)
    assert torch.allclose(cosine.distance(one, 3 * one), torch.zeros(5), atol=1e-6)


def test_an_interrupted_training_ends_in_the_same_weights(tiny: ImageSet, tmp_path: Path) -> None:
    plan = recipe(epochs=3, adversary={"eps": EPS, "steps": 2, "clean_weight": 1.0})

    class Stop(Exception):
        pass

    class Impatient:
        def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
            """Nothing."""

        def epoch(self, metrics: dict[str, Any]) -> None:
            if metrics["epoch"] == 2:
                raise Stop

    job = prepare(tiny, "wong", "ro", plan, code_length=12)
    with pytest.raises(Stop):
        run_job(job, open_run(tmp_path / "a", job.config, resume=False), observer=Impatient())
    job = prepare(tiny, "wong", "ro", plan, code_length=12)
    resumed = run_job(job, open_run(tmp_path / "a", job.config, resume=True))
    job = prepare(tiny, "wong", "ro", plan, code_length=12)
    whole = run_job(job, open_run(tmp_path / "b", job.config, resume=False))
    pairs = zip(resumed.state_dict().values(), whole.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


class Broken(nn.Module):
    """Finite scores whose gradient is NaN, or zero: of the root of zero, or of nothing."""

    def __init__(self, nan: bool) -> None:
        super().__init__()
        self.nan = nan

    def forward(self, images: Tensor) -> Tensor:
        pixels = 0 * images.flatten(1)
        return (pixels.sqrt() if self.nan else pixels)[:, :2] + torch.tensor([5.0, 0.0])


def test_only_vanishing_gradients_are_no_news_in_a_training() -> None:
    images, labels = torch.rand(3, 1, 4, 4), torch.zeros(3, dtype=torch.int64)
    with pytest.warns(AttackWarning, match="NaN or infinite at 3 of 3 images"):
        robust_accuracy(Broken(nan=True), images, labels, EPS, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert robust_accuracy(Broken(nan=False), images, labels, EPS, seed=0).value == 1


def test_a_collapse_is_a_gap_beyond_chance() -> None:
    assert Watch(proportion(450, 500), proportion(20, 500), EPS).collapsed
    assert not Watch(proportion(450, 500), proportion(400, 500), EPS).collapsed
    # At chance level, as in the first epoch, nothing can be told.
    assert not Watch(proportion(60, 500), proportion(40, 500), EPS).collapsed


def test_during_warm_up_a_training_is_watched_at_the_eps_of_the_moment(
    tiny: ImageSet, tmp_path: Path
) -> None:
    plan = recipe(epochs=4, adversary={"eps": EPS, "steps": 2, "warmup": 0.5})
    job = prepare(tiny, "wong", "ro", plan, code_length=12)
    run_job(job, open_run(tmp_path / "run", job.config, resume=False))
    lines = [json.loads(text) for text in (tmp_path / "run/metrics.jsonl").open()]
    # 10 steps an epoch, 20 of warm-up: the last step of the first epoch is number 9 from 0.
    expected = [EPS * 9 / 20, EPS * 19 / 20, EPS, EPS]
    assert [line["watch"]["eps"] for line in lines] == pytest.approx(expected)


class Weights:
    """An observer that keeps the weights of `model` at the end of each epoch."""

    def __init__(self, model: EncodedClassifier) -> None:
        self.model = model
        self.by_epoch: list[dict[str, Tensor]] = []

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None: ...

    def epoch(self, metrics: dict[str, Any]) -> None:
        state = self.model.state_dict()
        self.by_epoch.append({name: value.clone() for name, value in state.items()})


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_single_steps_collapse_and_the_last_good_weights_are_kept(tmp_path: Path) -> None:
    """FGSM from the image itself at eps .3: the classic case, on real digits."""
    plan = load_recipe("wong-mnist").override(epochs=12, name="collapse")
    fields = {"eps": 0.3, "start": "image", "step_size": 0.3, "clean_weight": 1.0}
    plan = plan.with_adversary("fgsm", **fields, stop_on_collapse=True)
    job = prepare(load("mnist5k", "train"), "wong", "1ofk", plan)
    run = open_run(tmp_path / "run", job.config, resume=False)
    seen = Weights(job.model)
    run_job(job, run, observer=seen)
    lines = [json.loads(text) for text in (run.directory / "metrics.jsonl").open()]
    assert len(lines) < 12
    assert [line["watch"]["collapsed"] for line in lines] == [False] * (len(lines) - 1) + [True]
    last = lines[-1]["watch"]
    assert last["adversary"]["value"] > 2 * last["pgd"]["value"]
    assert run.finished
    assert run.ended_by_collapse() == Collapse(epoch=len(lines), kept=len(lines) - 1)
    assert same(load_run(run.directory)[0].state_dict(), seen.by_epoch[-2])
    assert not same(seen.by_epoch[-2], seen.by_epoch[-1])


def test_the_best_weights_are_the_most_robust(tiny: ImageSet, tmp_path: Path) -> None:
    plan = recipe(epochs=8, lr=0.2, adversary={"eps": EPS, "steps": 1})
    job = prepare(tiny, "wong", "ro", plan, code_length=12, validation=0.2)
    run = open_run(tmp_path / "run", job.config, resume=False)
    seen = Weights(job.model)
    run_job(job, run, observer=seen)
    lines = [json.loads(text) for text in (run.directory / "metrics.jsonl").open()]
    assert all(line["validation_robust"]["n"] == 60 for line in lines)
    assert all(line["validation_robust"]["value"] <= line["validation"]["value"] for line in lines)
    # The first of the epochs that were most robust.
    robust = [line["validation_robust"]["value"] for line in lines]
    clean = [line["validation"]["value"] for line in lines]
    best = robust.index(max(robust))
    assert robust[best] > max(robust[-1], robust[clean.index(max(clean))]), "no other rule agrees"
    assert same(load_run(run.directory, best=True)[0].state_dict(), seen.by_epoch[best])
    assert same(load_run(run.directory)[0].state_dict(), seen.by_epoch[-1])
    assert not same(seen.by_epoch[best], seen.by_epoch[-1])


def test_a_collapse_without_a_good_epoch_is_told(tmp_path: Path, tiny: ImageSet) -> None:
    plan = recipe(adversary={"eps": EPS, "stop_on_collapse": True})
    job = prepare(tiny, "wong", "ro", plan, code_length=12)
    run = open_run(tmp_path / "run", job.config, resume=False)
    assert run.ended_by_collapse() is None
    run.append_metrics({"step": 10, "epoch": 1, "accuracy": 0.5, "watch": {"collapsed": True}})
    ended = run.ended_by_collapse()
    assert ended == Collapse(epoch=1, kept=None)
    assert "no good epoch before" in str(ended)


def test_half_precision_is_for_the_layers_of_training_and_attack_alone(
    tiny: ImageSet, tmp_path: Path
) -> None:
    plan = recipe(epochs=2, adversary={"eps": EPS, "steps": 3, "clean_weight": 1.0})
    seen: set[tuple[bool, torch.dtype, torch.dtype]] = set()

    class Looking(torch.nn.Conv2d):
        def forward(self, input: Tensor) -> Tensor:
            output = super().forward(input)
            seen.add((self.training, input.dtype, output.dtype))
            return output

    ends = {}
    for precision in ("32-true", "bf16-mixed"):
        seen.clear()
        job = prepare(tiny, "wong", "ro", plan, code_length=12)
        first = next(one for one in job.model.modules() if isinstance(one, torch.nn.Conv2d))
        first.__class__ = Looking
        team = Team(precision=precision)
        run_job(job, open_run(tmp_path / precision, job.config, resume=False), team=team)
        inside = torch.float32 if precision == "32-true" else torch.bfloat16
        # Images reach the first layer whole, in the outer pass and in the attack; eval mode also
        # is that of the watch, which measures in float32.
        assert {(True, torch.float32, inside), (False, torch.float32, inside)} <= seen
        assert all(dtype == torch.float32 for _, dtype, _ in seen)
        assert all(weight.dtype == torch.float32 for weight in job.model.parameters())
        ends[precision] = torch.cat([one.detach().flatten() for one in job.model.parameters()])
    gap = float((ends["32-true"] - ends["bf16-mixed"]).norm() / ends["32-true"].norm())
    assert 0 < gap < 0.05


def test_defaults_fit_the_kind_and_the_eps() -> None:
    assert Adversary(eps=0.3).step_count == 10
    assert Adversary(eps=0.3, kind="fgsm").step_count == 1
    # A recipe's step goes with its eps: the same attack in a smaller ball.
    smaller = load_recipe("robust-mnist").with_adversary(None, eps=0.1)
    assert smaller.adversary is not None
    assert smaller.adversary.step == pytest.approx(0.025)
    explicit = load_recipe("robust-mnist").with_adversary(None, eps=0.1, step_size=0.01)
    assert explicit.adversary is not None
    assert explicit.adversary.step == 0.01
    # TRADES has a clean loss and an ascent of its own, whatever the recipe had.
    trades = load_recipe("robust-mnist").with_adversary(None, outer="trades", trades_weight=3.0)
    assert trades.adversary is not None
    assert (trades.adversary.clean_weight, trades.adversary.objective) == (0, "own")
    back = trades.with_adversary(None, outer="eq4")
    assert back.adversary is not None
    assert back.adversary.outer == "eq4"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eps": 0.3, "steps": 0}, "adversary.steps is 0, expected greater than or equal to 1"),
        ({"eps": 8}, "eps 8 is beyond the range .* surely 8/255 was meant"),
        ({"eps": 300}, "eps 300 is beyond the range .0, 1. of pixels$"),
        ({"eps": 0.3, "trades_weight": 3.0}, "add outer: trades"),
        ({"eps": -0.1}, "adversary.eps is -0.1, expected greater than 0"),
        (
            {"eps": 0.3, "clean_weight": -1},
            "adversary.clean_weight is -1, expected greater than or equal to 0",
        ),
        ({"eps": 0.3, "kind": "fgsm", "steps": 3}, "'fgsm' takes one step, not 3; take 'pgd'"),
        ({"eps": 0.3, "kind": "n-fgsm", "start": "image"}, "'n-fgsm' starts from noise"),
        ({"eps": 0.3, "outer": "trades", "clean_weight": 1}, "has its clean loss built in"),
        ({"eps": 0.3, "outer": "trades", "objective": "margin"}, "distance to the clean codes"),
        ({"eps": 0.3, "objectve": "own"}, "'adversary.objectve': did you mean 'objective'"),
        ({"eps": 0.3, "objective": "mse"}, "objective"),
        ({"steps": 3}, "adversary.eps is missing"),
    ],
)
def test_bad_adversaries_in_a_recipe_file(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"lr": 0.1, "batch_size": 10, "epochs": 1, "adversary": fields}))
    with pytest.raises(MultiwayError, match=message):
        load_recipe(str(path))


HEADLESS = """
from torch import nn

class Headless(nn.Module):
    def __init__(self, outputs, pixels):
        super().__init__()
        self.last = nn.Linear(pixels, outputs)

    def forward(self, images):
        return self.last(images.flatten(1))

def build(outputs, channels, size):
    return Headless(outputs, channels * size * size)
"""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--steps", "0"), "adversary.steps is 0, expected greater than or equal to 1"),
        (("--eps", "8"), "eps 8 is beyond the range [0, 1] of pixels; surely 8/255 was meant"),
        (("--eps", "0"), "adversary.eps is 0.0, expected greater than 0"),
        (("--step-size", "2"), "step_size 2 is beyond the range [0, 1] of pixels"),
        (("--lambda", "-1"), "adversary.clean_weight is -1.0, expected greater than or equal to 0"),
        (("--warmup", "1"), "adversary.warmup is 1.0, expected less than 1"),
        (("--objective", "mse"), "expected 'own', 'ce', 'margin' or 'dlr'"),
        (("--adversary", "pdg"), "unknown adversary 'pdg': did you mean 'pgd'"),
        (("--adversary", "fgsm", "--steps", "3"), "'fgsm' takes one step, not 3; take 'pgd'"),
        (("--adversary", "none"), "--eps is the adversary's, and there is none"),
        (("--objective", "dlr"), "third-best score, but the data has 2 classes; take --objective"),
        (
            ("--objective", "margin", "--backbone", "headless:build"),
            "goes through a folded head; take --objective own for this network: cannot find the",
        ),
    ],
)
def test_bad_adversaries_on_the_command_line(
    tmp_path: Path, in_process: Command, options: tuple[str, ...], message: str
) -> None:
    """One line each, before anything is written."""
    (tmp_path / "headless.py").write_text(HEADLESS)
    images, labels = torch.zeros(8, 8, 8, dtype=torch.uint8).numpy(), (torch.arange(8) % 2).numpy()
    np.savez(tmp_path / "two.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    words = ("--data", "npz:two.npz", "--backbone", "d", "--adversary", "pgd", "--eps", "0.1")
    done = in_process("train", "--out", "x", *words, *options)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "x").exists()


def test_own_needs_no_head_and_dlr_works_from_three_classes(
    tmp_path: Path, in_process: Command, tiny_npz: Path
) -> None:
    (tmp_path / "headless.py").write_text(HEADLESS)
    words = ("--data", f"npz:{tiny_npz}", "--adversary", "pgd", "--eps", "0.1", "--epochs", "1")
    for out, options in (
        ("own", ("--backbone", "headless:build", "--objective", "own")),
        ("dlr", ("--backbone", "d", "--objective", "dlr")),
    ):
        done = in_process("train", "--out", out, *words, *options)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / out / "model.safetensors").exists()


def test_an_adversary_may_be_put_on_any_recipe_and_taken_off() -> None:
    plain = load_recipe("wong-mnist")
    attacked = plain.with_adversary("pgd", eps=0.3, steps=7)
    assert attacked.adversary == Adversary(eps=0.3, steps=7)
    assert "steps 7" in attacked.changed
    assert attacked.with_adversary(None, objective="margin").adversary == Adversary(
        eps=0.3, steps=7, objective="margin"
    )
    assert attacked.with_adversary("fgsm").adversary == Adversary(kind="fgsm", eps=0.3)
    assert attacked.with_adversary("none").adversary is None
    assert plain.with_adversary(None) == plain
    with pytest.raises(MultiwayError, match="--steps is the adversary's, and there is none"):
        plain.with_adversary(None, steps=3)
    with pytest.raises(MultiwayError, match="--lambda is the adversary's, and there is none"):
        plain.with_adversary("none", clean_weight=1.0)
    with pytest.raises(MultiwayError, match="did you mean 'pgd'"):
        plain.with_adversary("pdg", eps=0.3)
