"""Convolutions with fewer products: the same outputs and gradients as PyTorch's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multiway.attacks.fast_layers import fast_layers
from multiway.winograd import TILE, Winograd, WinogradConv2d, transforms

CHANNELS = 64


def layer(kernel: int, padding: int, *, bias: bool = True, outputs: int = CHANNELS) -> nn.Conv2d:
    torch.manual_seed(kernel + padding)
    return nn.Conv2d(CHANNELS, outputs, kernel, padding=padding, bias=bias).requires_grad_(False)


def nearly(found: Tensor, expected: Tensor) -> bool:
    """To 1e-4 of the largest value, ten times what was seen."""
    return float((found - expected).detach().abs().max()) <= 1e-4 * float(
        expected.detach().abs().max()
    )


@pytest.mark.parametrize("kernel", [3, 5])
def test_the_transforms_filter_a_line(kernel: int) -> None:
    output, weight, image = transforms(kernel)
    line = torch.randn(TILE + kernel - 1, dtype=torch.float64)
    weights = torch.randn(kernel, dtype=torch.float64)
    found = output @ ((weight @ weights) * (image @ line))
    expected = F.conv1d(line[None, None], weights[None, None])[0, 0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kernel", "padding"), [(r, p) for r in (3, 5) for p in range(r)], ids=str)
@pytest.mark.parametrize(("count", "height", "width"), [(1, 8, 8), (37, 9, 14), (6, 5, 31)])
def test_outputs_and_gradients_are_those_of_a_convolution(
    kernel: int, padding: int, count: int, height: int, width: int
) -> None:
    """Sizes that tiles do not fit, numbers of images that do not fill the last turn."""
    convolution = layer(kernel, padding, outputs=72)
    maps = torch.randn(count, CHANNELS, height, width, requires_grad=True)
    expected = convolution.double()(maps.double())
    slope = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad(expected, maps, slope)
    convolution.float()
    made = Winograd(convolution)(maps, convolution.weight, convolution.bias)
    (found,) = torch.autograd.grad(made, maps, slope.float())
    assert nearly(made, expected)
    assert nearly(found, wanted)


@pytest.mark.parametrize(("kernel", "padding"), [(3, 0), (3, 1), (5, 0), (5, 2)], ids=str)
@pytest.mark.parametrize(("count", "height", "width"), [(1, 8, 8), (37, 9, 14), (5, 12, 12)])
@pytest.mark.parametrize("trained", [("weight",), ("bias",), ("maps", "weight", "bias")], ids=str)
def test_weights_have_the_slopes_of_a_convolution(
    kernel: int, padding: int, count: int, height: int, width: int, trained: tuple[str, ...]
) -> None:
    """Also where images of an earlier turn lie in memory behind those of the last."""
    convolution = layer(kernel, padding, outputs=72)
    maps = torch.randn(count, CHANNELS, height, width)
    assert convolution.bias is not None
    named = {"maps": maps, "weight": convolution.weight, "bias": convolution.bias}
    wrt = [named[name].requires_grad_() for name in trained]
    outputs = Winograd(convolution)(maps, convolution.weight, convolution.bias)
    slope = torch.randn_like(outputs)
    found = torch.autograd.grad(outputs, wrt, slope)
    exact = F.conv2d(
        maps.double(), convolution.weight.double(), convolution.bias.double(), padding=padding
    )
    for one, wanted in zip(found, torch.autograd.grad(exact, wrt, slope.double()), strict=True):
        assert nearly(one, wanted)


@pytest.mark.parametrize(("kernel", "padding"), [(5, 2), (5, 0), (5, 4), (3, 1), (3, 0)], ids=str)
def test_where_nothing_is_seen_nothing_comes_out(kernel: int, padding: int) -> None:
    """Of a rounding error the sign would be ascended, and counted in correlations.

    There are more images than run together.
    """
    convolution = layer(kernel, padding, bias=False)
    winograd = Winograd(convolution)
    weights = winograd.transform(convolution.weight)
    some = torch.zeros(7, CHANNELS, 20, 20)
    some[1, 7, 4, 4] = some[6, 0, 0, 19] = 1e-30
    kept = (some != 0).any(dim=1, keepdim=True).float()
    seen = F.conv2d(kept, torch.ones(1, 1, kernel, kernel), padding=padding) > 0
    assert torch.equal((winograd.filter(some, weights) != 0).any(dim=1, keepdim=True), seen)
    size = 20 + kernel - 1 - 2 * padding
    back, none = winograd.slopes(
        some, weights, torch.Size((7, CHANNELS, size, size)), None, back=True
    )
    assert back is not None
    assert none is None
    reached = F.conv_transpose2d(kept, torch.ones(1, 1, kernel, kernel), padding=padding) > 0
    assert torch.equal((back != 0).any(dim=1, keepdim=True), reached)


def test_what_is_no_number_stays_none() -> None:
    maps = torch.zeros(1, CHANNELS, 8, 8)
    maps[0, 0, 4, 4] = torch.nan
    convolution = layer(3, 1)
    winograd = Winograd(convolution)
    weights = winograd.transform(convolution.weight)
    back, _ = winograd.slopes(maps, weights, maps.shape, None, back=True)
    assert back is not None
    for found in (winograd.filter(maps, weights), back):
        assert found[0, :, 3:6, 3:6].isnan().all()


def test_a_layer_that_trains_uses_it_where_there_are_tiles_enough() -> None:
    """Transforming the weights in every step would cost more than few tiles save."""
    convolution = WinogradConv2d(CHANNELS, CHANNELS, 5)
    plain = nn.Conv2d(CHANNELS, CHANNELS, 5)
    plain.load_state_dict(convolution.state_dict())
    for count, same in ((15, True), (16, False)):  # of 16 tiles each
        maps = torch.randn(count, CHANNELS, 20, 20)
        assert torch.equal(convolution(maps), plain(maps)) is same
        assert nearly(convolution(maps), plain(maps))
    assert convolution(maps[:0]).shape == (0, CHANNELS, 16, 16)


def test_what_follows_may_change_its_outputs_in_place() -> None:
    convolution = WinogradConv2d(CHANNELS, CHANNELS, 3, padding=1)
    maps = torch.randn(64, CHANNELS, 8, 8)
    outputs = convolution(maps)
    outputs += maps
    nn.ReLU(inplace=True)(outputs).square().sum().backward()
    plain = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
    plain.load_state_dict(convolution.state_dict())
    (plain(maps) + maps).relu().square().sum().backward()
    for one, other in zip(convolution.parameters(), plain.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert nearly(one.grad, other.grad)


def test_a_layer_that_is_kept_out_of_half_precision_stays_exact() -> None:
    """The weights are transformed, and slopes go back, where autocast has its way."""
    convolution = layer(3, 1).requires_grad_()
    assert convolution.bias is not None
    maps = torch.randn(3, CHANNELS, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        winograd = Winograd(convolution)
        weights = winograd.transform(convolution.weight)
        with torch.autocast("cpu", enabled=False):
            found = winograd(maps, convolution.weight, convolution.bias, weights)
        (slope,) = torch.autograd.grad(found.square().sum(), convolution.weight)
    expected = convolution(maps)
    assert found.dtype == slope.dtype == torch.float32
    assert nearly(found, expected)
    assert nearly(slope, torch.autograd.grad(expected.square().sum(), convolution.weight)[0])


@pytest.mark.parametrize("trained", [False, True])
def test_its_gradient_can_be_differentiated_again(trained: bool) -> None:
    convolution = layer(3, 1).requires_grad_(trained)
    made = Winograd(convolution)
    maps = torch.randn(2, CHANNELS, 8, 8, requires_grad=True)
    wrt = [maps, convolution.weight] if trained else [maps]

    def twice(run: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        slopes = torch.autograd.grad(run(maps).pow(3).sum(), wrt, create_graph=True)
        return torch.autograd.grad([slope.square().sum() for slope in slopes], wrt)

    found = twice(lambda x: made(x, convolution.weight, convolution.bias))
    for one, exact in zip(found, twice(convolution), strict=True):
        assert nearly(one, exact)


@pytest.mark.parametrize(
    "unlike",
    [
        {"stride": 2}, {"dilation": 2}, {"groups": 2}, {"padding_mode": "circular"},
        {"padding": "same"}, {"padding": (1, 2)}, {"padding": 3}, {"kernel_size": (3, 5)},
        {"kernel_size": 7}, {"in_channels": 32},
    ],
    ids=str,
)  # fmt: skip
def test_it_keeps_to_the_layers_it_can_do(unlike: dict[str, object]) -> None:
    usual: dict[str, object] = {
        "in_channels": CHANNELS, "out_channels": CHANNELS, "kernel_size": 3, "padding": 1,
    }  # fmt: skip
    assert Winograd.suits(nn.Conv2d(**usual))  # type: ignore[arg-type]
    assert not Winograd.suits(nn.Conv2d(**(usual | unlike)))  # type: ignore[arg-type]


def test_images_that_tiles_hardly_cover_are_left_to_pytorch() -> None:
    made = Winograd(layer(3, 1))
    sizes = itertools.product((1, 2, 3, 4, 6, 8, 9), repeat=2)
    covered = {(h, w) for h, w in sizes if made.covers(torch.empty(1, CHANNELS, h, w))}
    # 3 x 4 costs 16 outputs for 12, 3 x 3 16 for 9, and 6 x 6 64 for 36.
    fine = {3: (4, 8), 4: (3, 4, 6, 8, 9), 6: (4, 8), 8: (3, 4, 6, 8, 9), 9: (4, 8)}
    assert covered == {(h, w) for h, widths in fine.items() for w in widths}
    assert not Winograd(layer(5, 0)).covers(torch.empty(1, CHANNELS, 4, 4))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 5, bias=False),
        nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(64 * 64, 4),
    ).eval().requires_grad_(False)  # fmt: skip


def test_an_attacked_network_uses_it_and_follows_new_weights() -> None:
    model, images = network(), torch.rand(5, 1, 12, 12)
    layers = fast_layers(model, images)
    used = [fast.winograd is not None for _, _, fast in layers.convolutions]
    assert used == [False, True, True]
    assert nearly(layers.network(images), model(images))
    for weight in model.parameters():
        weight.add_(torch.randn_like(weight) * 0.1)
    assert not nearly(layers.network(images), model(images))
    layers.refresh()
    assert nearly(layers.network(images), model(images))


def test_autocast_has_its_way() -> None:
    """Layers that PyTorch would compute in half precision are left to it, first ones too."""
    model, images = network(), torch.rand(8, 1, 12, 12)
    layers = fast_layers(model, images)
    (_, _, fast) = layers.convolutions[2]
    assert fast.winograd is not None
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = layers.network(images), model(images)
        assert fast(torch.rand(2, CHANNELS, 8, 8)).dtype == torch.bfloat16
    assert found.dtype == torch.bfloat16
    assert float((found - expected).abs().max()) <= 0.05 * float(expected.abs().max())


def test_layers_of_half_precision_are_left_to_pytorch() -> None:
    """A part of a network may be; of 8 bits the transforms would leave little."""
    convolution = layer(3, 1).bfloat16()
    maps = torch.rand(2, CHANNELS, 8, 8).bfloat16()
    ((_, _, fast),) = fast_layers(nn.Sequential(convolution, nn.Flatten()), maps).convolutions
    assert fast.winograd is not None
    expected = convolution(maps).float()
    # One rounding of 8 bits is .4 %.
    assert float((fast(maps).float() - expected).abs().max()) <= 0.005 * float(expected.abs().max())


def test_transformed_weights_have_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    model, images = network(), torch.rand(5, 1, 12, 12)
    # Those of 5 x 5 have 64 x 64 x 64 numbers, those of 3 x 3 after them 36 x 64 x 64.
    for room, used in (
        (36, [False, False, True]), (64, [False, True, False]), (99, [False, True, False]),
        (100, [False, True, True]),
    ):  # fmt: skip
        monkeypatch.setattr("multiway.attacks.fast_layers.TRANSFORMED", room * 64 * 64 * 4)
        layers = fast_layers(model, images)
        assert [fast.winograd is not None for _, _, fast in layers.convolutions] == used


def test_gradients_reach_an_activation_in_its_own_order() -> None:
    """Behind a flattened network they come in another one, which takes ten times as long."""
    model, images = network(), torch.rand(3, 1, 12, 12)
    in_order: list[bool] = []

    def watch(activation: nn.Module, inputs: object, output: Tensor) -> None:
        output.register_hook(  # type: ignore[no-untyped-call]
            lambda slope: in_order.append(slope.is_contiguous(memory_format=torch.channels_last))
        )

    # Hooks run in the order in which they were registered: this one sees what the copy's own did.
    fast = fast_layers(model, images).network
    assert isinstance(fast, nn.Sequential)
    assert isinstance(model, nn.Sequential)
    for each in (model, fast):
        each[6].register_forward_hook(watch)
        shown = images.squeeze(1).unsqueeze(-1).permute(0, 3, 1, 2).requires_grad_()
        torch.autograd.grad(each(shown).sum(), shown)
    assert in_order == [False, True]
