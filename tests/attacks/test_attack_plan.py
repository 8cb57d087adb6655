"""The plan by which networks run: the same scores and gradients, or the model as it stands."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.attacks import PGD, AttackWarning, AutoAttack, base, evaluate
from multiway.attacks.fast_layers import fast_layers
from multiway.attacks.fast_network import (
    DEPENDENT,
    HOOKS,
    Arranged,
    FastNetwork,
    Plan,
    fast_goal,
    fast_network,
    plan_for,
)
from multiway.backbones import build_backbone
from multiway.objectives import Goal, Scores, bind
from multiway.threat import Linf


def draw(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def settled(network: nn.Module) -> nn.Module:
    """`network` in eval mode, with statistics and scales as training would leave them."""
    generator = torch.Generator().manual_seed(1)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for tensor in (layer.running_mean, layer.running_var, layer.weight, layer.bias):
                if tensor is not None:
                    tensor.data.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
    return network.eval().requires_grad_(False)


def quick(model: nn.Module, images: Tensor) -> FastNetwork:
    with torch.no_grad():
        return fast_network(model, images, Scores(model)(images))


@pytest.mark.parametrize(
    ("name", "piece", "norms", "winograd"),
    [
        ("wong", 256, 0, 0), ("madry", 64, 0, 0), ("a", 64, 0, 1), ("c", 32, 0, 1),
        ("d", None, 0, 0), ("resnet-8-small", 256, 3, 1), ("resnet-8", 64, 3, 2),
        # Of 17 layers of 3 x 3 all but the first and three with a stride.
        ("preact-18", 32, 8, 13),
    ],
)  # fmt: skip
def test_the_layers_decide(name: str, piece: int | None, norms: int, winograd: int) -> None:
    size, channels = (32, 3) if name.startswith(("resnet", "preact")) else (28, 1)
    torch.manual_seed(0)
    network = settled(build_backbone(name, 10, channels, size))
    images = draw(3, channels, size, size)
    found = quick(network, images)
    last = piece is not None
    why = "" if last else found.plan.why
    assert found.plan == Plan(piece, last, norms, winograd, why=why)
    # The same scores and the same gradients, in another order.
    labels = torch.arange(3)
    given = Goal("margin", Scores(network)).ascend(images, labels)
    faster = found.goal("margin").ascend(images, labels)
    torch.testing.assert_close(faster.scores, given.scores, rtol=1e-4, atol=1e-4)
    apart = (faster.gradient - given.gradient).norm() / given.gradient.norm()
    assert apart < 1e-3
    assert plan_for(network, images) == plan_for(network, images)


def test_pieces_change_nothing() -> None:
    network = settled(build_backbone("resnet-8-small", 10, 3, 16))
    images, labels = draw(11, 3, 16, 16), torch.arange(11) % 10
    whole = Goal("ce", Arranged(network, Plan())).ascend(images, labels, 9 - labels)
    parts = Goal("ce", Arranged(network, Plan(piece=4))).ascend(images, labels, 9 - labels)
    for one, other in zip(vars(whole).values(), vars(parts).values(), strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        torch.testing.assert_close(Arranged(network, Plan(piece=4))(images), network(images))


class Net(nn.Module):
    """Convolutions with normalisations in `forward(layers, images)`."""

    def __init__(self, forward: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.other = nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False)
        self.head = nn.Linear(4, 3)
        self.body = forward

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(self, images).mean(dim=(2, 3)))
        return scores


@pytest.mark.parametrize(
    ("forward", "norms"),
    [
        (lambda m, x: m.other(m.two(F.relu(m.norm(m.one(x))))), 2),
        # A normalisation of something else, one that runs twice, one before the convolution.
        (lambda m, x: m.norm(F.relu(m.one(x))), 0),
        (lambda m, x: m.norm(m.two(F.relu(m.norm(m.one(x))))), 0),
        (lambda m, x: m.two(m.norm(F.relu(m.one(x)))), 0),
        # What lies between the two is read by something else too, by a gradient or without one.
        (lambda m, x: (lambda y: m.norm(y) + y)(m.one(x)), 0),
        (lambda m, x: (lambda y: m.norm(y) + y.detach())(m.one(x)), 0),
    ],
    ids=["pairs", "after relu", "twice", "before", "read twice", "read unseen"],
)
def test_only_what_can_be_folded_is(forward: Callable[[Any, Tensor], Tensor], norms: int) -> None:
    model, images = settled(Net(forward)), draw(4, 1, 8, 8)
    found = quick(model, images)
    assert found.plan.norms == norms
    assert found.plan.channels_last
    torch.testing.assert_close(found.scores(images), model(images), rtol=1e-4, atol=1e-5)


def test_folding_follows_the_weights() -> None:
    model = settled(Net(lambda m, x: m.other(m.two(F.relu(m.norm(m.one(x))))))).double()
    images = draw(4, 1, 8, 8).double()
    folded = fast_layers(model, images)
    assert folded.folded == 2
    torch.testing.assert_close(folded.network(images), model(images), rtol=0, atol=1e-12)
    for weight in model.parameters():
        weight.data.mul_(1.1).add_(0.01)
    folded.refresh()
    torch.testing.assert_close(folded.network(images), model(images), rtol=0, atol=1e-12)


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "padding"),
    [(1, 5, 1, 2), (3, 3, 1, 1), (1, 4, 2, 1), (2, (3, 5), (2, 3), (0, 2)), (4, 1, 1, 0)],
)
def test_the_first_layers_slope_is_that_of_a_convolution(
    channels: int, kernel: Any, stride: Any, padding: Any, channels_last: bool
) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(channels, 16, kernel, stride, padding)
    model = nn.Sequential(layer, nn.Tanh(), nn.BatchNorm2d(16), nn.Flatten()).double()
    settled(model)
    # Sizes that no stride divides: the last rows and columns say nothing.
    images = draw(3, channels, 11, 12).double().requires_grad_()
    fast = fast_layers(model, images, channels_last)
    assert fast.folded == 0
    outputs = model(images)
    torch.testing.assert_close(fast.network(images), outputs, rtol=0, atol=1e-12)
    direction = torch.randn_like(outputs)
    expected = torch.autograd.grad(outputs, images, direction)
    slope = torch.autograd.grad(fast.network(images), images, direction)
    torch.testing.assert_close(slope, expected, rtol=0, atol=1e-12)
    # Without a gradient to make, it is the convolution itself.
    torch.testing.assert_close(fast.network(images.detach()), outputs, rtol=0, atol=1e-12)


class Batchwise(nn.Module):
    """Scores that depend on the other images: `kind` says how."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4, 3)
        self.kind, self.passes = kind, 0
        self.norm = nn.BatchNorm2d(4, track_running_stats=False)

    def forward(self, images: Tensor) -> Tensor:
        self.passes += 1
        maps = self.features(images)
        if self.kind == "batch statistics":
            maps = self.norm(maps)
        if self.kind == "control flow" and len(images) > 3:
            maps = 2 * maps
        if self.kind == "changing":
            maps = maps + 0.1 * self.passes
        if self.kind == "gradient":
            maps = Shared.apply(maps)  # type: ignore[no-untyped-call]
        scores: Tensor = self.head(F.relu(maps).mean(dim=(2, 3)))
        return scores


class Shared(torch.autograd.Function):
    """The identity, whose gradient is the mean over the batch."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor) -> Tensor:
        return maps.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].mean(dim=0, keepdim=True).expand_as(gradients[0])


def unplanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, attacks run every model as it stands."""
    plain = FastNetwork.as_it_stands
    monkeypatch.setattr(base, "fast_network", lambda model, *_: plain(model, "asked for"))


@pytest.mark.filterwarnings("ignore::multiway.attacks.AttackWarning")
@pytest.mark.parametrize("kind", ["batch statistics", "control flow", "changing", "gradient"])
def test_models_that_mix_images_run_as_they_stand(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, labels = draw(6, 1, 8, 8), torch.arange(6) % 3
    assert quick(Batchwise(kind).eval(), images).plan == Plan(why=DEPENDENT)
    attack = PGD(Linf(0.1), steps=5, early_stop=False)
    with pytest.warns(AttackWarning, match="attacked as it stands") as caught:
        found = attack(Batchwise(kind).eval(), images, labels)
    assert [w.message.kind for w in caught].count("as-it-stands") == 1  # type: ignore[union-attr]
    if kind == "changing":
        return
    unplanned(monkeypatch)
    expected = attack(Batchwise(kind).eval(), images, labels)
    assert torch.equal(found.adversarial, expected.adversarial)
    assert torch.equal(found.success, expected.success)


def test_hooks_see_every_batch_as_it_is() -> None:
    torch.manual_seed(0)
    model, images = build_backbone("wong", 10).eval(), draw(5, 1, 28, 28)
    labels = model(images).argmax(dim=1)
    seen: list[int] = []
    model.get_submodule("conv2").register_forward_hook(lambda *_: seen.append(1))
    assert quick(model, images).plan == Plan(why=HOOKS)
    seen.clear()
    with pytest.warns(AttackWarning, match="its modules have hooks"):
        PGD(Linf(0.1), steps=3, early_stop=False)(model, images, labels)
    # The frame's three looks, three steps, and the last point.
    assert len(seen) == 3 + 3 + 1


class Bent(nn.Module):
    """Changes its ways at images that only an attack finds: where a batch is bright on average."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features, self.head, self.limit = nn.Conv2d(1, 4, 3), nn.Linear(4, 3), limit

    def forward(self, images: Tensor) -> Tensor:
        maps = F.relu(self.features(images)).mean(dim=(2, 3))
        scores: Tensor = self.head(maps)
        if len(images) > 4 and float(images.max()) > self.limit:
            scores = scores.flip(1) * 3
        return scores


def test_what_shows_only_under_attack_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    images = 0.5 * draw(6, 1, 8, 8)
    model, labels = Bent(0.501).eval(), torch.arange(6) % 3
    # Pieces of four never see what all six images together do.
    monkeypatch.setattr("multiway.attacks.fast_network.MOST_TOGETHER", 4)
    monkeypatch.setattr("multiway.attacks.fast_network.PROBED", 4)
    assert quick(model, images).plan.piece == 4
    attack = PGD(Linf(0.1), steps=5, early_stop=False)
    with pytest.warns(AttackWarning, match="no faster network repeats its scores"):
        found = attack(model, images, labels)
    unplanned(monkeypatch)
    assert torch.equal(found.adversarial, attack(model, images, labels).adversarial)


@pytest.mark.parametrize(
    ("dtype", "why"), [(torch.float64, "it computes in float64"), (torch.bfloat16, "bfloat16")]
)
def test_other_types_run_as_they_stand(dtype: torch.dtype, why: str) -> None:
    torch.manual_seed(0)
    model, images = build_backbone("wong", 10).to(dtype).eval(), draw(4, 1, 28, 28).to(dtype)
    plan = quick(model, images).plan
    assert plan.as_it_stands
    assert why in plan.why
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = PGD(Linf(0.3), steps=10)(model, images, model(images).argmax(dim=1))
    assert result.success.any()


def test_vectors_run_as_they_stand() -> None:
    torch.manual_seed(0)
    model, images = nn.Linear(12, 3).eval(), draw(4, 12)
    assert str(quick(model, images).plan) == "as it stands: no convolutions of images"


def test_a_network_that_cannot_be_copied_still_runs_in_pieces() -> None:
    model = settled(Net(lambda m, x: m.norm(m.one(x))))
    model.stream = torch.Generator()  # type: ignore[assignment]
    model.lock = __import__("threading").Lock()
    plan = quick(model, draw(4, 1, 8, 8)).plan
    assert plan.norms == 0
    assert plan.piece


def test_codes_fold_their_head_and_their_norms() -> None:
    torch.manual_seed(0)
    encoding = Encoding.make("ro", 10, length=64)
    model = EncodedClassifier(build_backbone("resnet-8-small", 64, 3, 16), encoding)
    settled(model)
    images, labels = draw(4, 3, 16, 16), torch.arange(4)
    found = quick(model, images)
    assert str(found.plan) == (
        "256 images at a time, channels last, 3 normalisations folded, "
        "1 convolutions by Winograd, head folded"
    )
    own = found.goal("own").ascend(images, labels)
    value = model.loss(model.codes(images), labels, reduction="none")
    torch.testing.assert_close(own.value, value, rtol=1e-4, atol=0)


def test_the_plan_is_recorded_and_spoken_of_once() -> None:
    torch.manual_seed(0)
    model, images = build_backbone("wong", 10).eval(), draw(6, 1, 28, 28)
    labels = model(images).argmax(dim=1)
    attacks = [PGD(Linf(0.01), steps=2, step_size=0.02), AutoAttack(Linf(0.3))]
    found = evaluate(model, images, labels, attacks, batch_size=2)
    assert json.loads(json.dumps(found.details()))["plan"] == "256 images at a time, channels last"
    model.get_submodule("conv2").register_forward_hook(lambda *_: None)
    with pytest.warns(AttackWarning) as caught:
        found = evaluate(model, images, labels, attacks, batch_size=2)
    assert found.details()["plan"] == f"as it stands: {HOOKS}"
    kinds = [w.message.kind for w in caught if isinstance(w.message, AttackWarning)]
    assert kinds.count("as-it-stands") == 1


def test_the_own_loss_is_ascended_through_short_codes() -> None:
    """Only where nothing comes between the head and the codes."""

    class Bent(nn.Sequential):
        def forward(self, images: Tensor) -> Tensor:
            for layer in self:
                images = layer(images)
            return images.tanh()

    images, labels = torch.rand(4, 1, 12, 12), torch.arange(4)
    for kind, length in ((nn.Sequential, 12 + 1 + 10), (Bent, 600)):
        torch.manual_seed(0)
        layers = (nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(300, 12), nn.Tanh())
        network = kind(*layers, nn.Linear(12, 600))
        model = EncodedClassifier(network, Encoding.make("ro", 10, 600)).eval()
        slow, fast = bind(model, "own"), fast_goal(model, "own", images)
        assert fast.network(images).shape == (4, length)
        one, two = slow.ascend(images, labels), fast.ascend(images, labels)
        torch.testing.assert_close(two.value, one.value, rtol=1e-5, atol=0)
        torch.testing.assert_close(two.scores, one.scores, rtol=1e-4, atol=1e-4)
        assert float((two.gradient - one.gradient).norm() / one.gradient.norm()) < 1e-5


class Purified(nn.Module):
    """Scores of an image that was first moved along a gradient, taken inside `forward`."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        with torch.enable_grad():
            images = images if images.requires_grad else images.clone().requires_grad_()
            energy = self.network(images).logsumexp(dim=1).sum()
            (slope,) = torch.autograd.grad(energy, images, create_graph=True)
            scores: Tensor = self.network(images + slope)
            return scores


class Autocast(Purified):
    """Computes in bfloat16 inside `forward`, and returns float32."""

    def forward(self, images: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores: Tensor = self.network(images)
        return scores.float()


def thin_network() -> nn.Sequential:
    torch.manual_seed(0)
    first, last = nn.Conv2d(1, 16, 5, 2, 1), nn.Linear(16 * 5 * 5, 4)
    first.weight.data *= 4  # curved, so that the second derivative matters
    last.weight.data *= 10
    return nn.Sequential(first, nn.Softplus(), nn.Flatten(), last)


@pytest.mark.parametrize("kind", [Purified, Autocast])
def test_gradients_inside_the_network_are_followed(kind: type[Purified]) -> None:
    model = kind(thin_network()).eval().requires_grad_(False)
    images = draw(8, 1, 12, 12)
    fast = quick(model, images)
    assert not fast.plan.as_it_stands
    found, expected = (
        torch.autograd.grad(network(variable).amax(dim=1).sum(), variable)[0]
        for network in (fast.scores, model)
        for variable in [images.clone().requires_grad_()]
    )
    # bfloat16 keeps 8 bits, and sums in another order round otherwise.
    near = 0.03 if kind is Autocast else 1e-4
    assert (found - expected).norm() < near * expected.norm()


class Detached(torch.autograd.Function):
    """What is right forwards and misleads backwards, outside channels last only."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor) -> Tensor:
        ctx.honest = not maps.is_contiguous(memory_format=torch.channels_last)
        return maps.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        return slopes[0] if ctx.honest else -slopes[0]


class Misleading(nn.Module):
    """A network whose slope, but not its scores, depends on the memory format."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.rest = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = Detached.apply(self.first(images))  # type: ignore[no-untyped-call]
        scores: Tensor = self.rest(maps.mean(dim=(2, 3)))
        return scores


def test_a_network_with_another_slope_is_not_taken() -> None:
    torch.manual_seed(0)
    model = Misleading().eval().requires_grad_(False)
    fast = quick(model, draw(8, 3, 12, 12))
    assert not fast.plan.channels_last
