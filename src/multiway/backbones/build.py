"""Backbones by name, and the user's own by `package.module:function`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from multiway.backbones import mnist, resnet
from multiway.errors import MultiwayError, choose, reason
from multiway.machine import check_memory

__all__ = ["BACKBONES", "Backbone", "build_backbone", "build_named", "rebuild_backbone"]

# The packages that users have named: what fails in them is not multiway's.
NAMED: set[str] = set()

# Called with the keywords outputs, channels and size; returns images [N, C, S, S] to [N, outputs].
Backbone = Callable[..., nn.Module]

# A product of outputs and pixels below this needs no look at the memory, which costs a second.
LARGE = 2**28

BACKBONES: dict[str, Backbone] = {
    "a": mnist.net_a,
    "b": mnist.net_b,
    "c": mnist.net_c,
    "d": mnist.net_d,
    "madry": mnist.madry,
    "wong": mnist.wong,
    "resnet-8": partial(resnet.wide_resnet, depth=8, width=2, stem=32),
    "resnet-8-strided": partial(resnet.strided_8, width=2),
    "resnet-8-small": partial(resnet.strided_8, width=1),
    "resnet-20": partial(resnet.wide_resnet, depth=20, width=1),
    "preact-18": resnet.preact_18,
    # The earlier version of the paper trains these two, with this dropout, on SVHN and CIFAR-100.
    "wrn-16-4": partial(resnet.wide_resnet, depth=16, width=4, dropout=0.3),
    "wrn-28-4": partial(resnet.wide_resnet, depth=28, width=4, dropout=0.3),
    # Madry's CIFAR-10 network.
    "wrn-34-10": partial(
        resnet.wide_resnet, depth=34, width=10, slope=0.1, standardise_each_image=True
    ),
}


def build_backbone(name: str, outputs: int, channels: int = 1, size: int = 28) -> nn.Module:
    """The network called `name`: images [N, channels, size, size] to [N, outputs].

    Args:
        name: one of `BACKBONES`, or `package.module:function` for a function of yours that takes
            the keywords `outputs`, `channels` and `size` and returns a network.

    Example:
        >>> network = build_backbone("resnet-8", outputs=10, channels=3, size=32)
        >>> sum(p.numel() for p in network.parameters())
        308266
    """
    if outputs < 1 or channels < 1 or size < 1:
        raise MultiwayError(
            f"outputs, channels and size are positive, not {outputs}, {channels} and {size}"
        )
    if ":" in name:
        try:
            network = _import_function(name)(outputs=outputs, channels=channels, size=size)
        except MultiwayError:
            raise
        except (Exception, SystemExit) as error:  # whatever a stranger's function may raise
            raise MultiwayError(
                f"{name} is called with the keywords outputs={outputs}, channels={channels} and "
                f"size={size}, which failed: {reason(error)}"
            ) from error
        if not isinstance(network, nn.Module):
            raise MultiwayError(f"{name} returned {type(network).__name__}, not an nn.Module")
        return network
    choose("backbone", name, BACKBONES)
    build = partial(BACKBONES[name], outputs=outputs, channels=channels, size=size)
    if outputs * channels * size**2 > LARGE:
        _check_weights(build, f"backbone '{name}' of {outputs} outputs for {size}x{size} images")
    try:
        return build()
    except MultiwayError as error:
        raise MultiwayError(
            f"backbone '{name}' does not take {size}x{size} images: {error}"
        ) from None


def _check_weights(build: Callable[[], nn.Module], what: str) -> None:
    """Refuse a network whose weights are more than fits into memory."""
    try:
        # Tensors without memory: what the weights would take is known before they are made.
        with torch.device("meta"):
            need = sum(each.nbytes for each in build().state_dict().values())
    except MultiwayError:
        return  # `build` itself is about to say it
    except (OverflowError, RuntimeError, TypeError) as error:
        raise MultiwayError(f"{what} has more weights than can be counted") from error
    check_memory(need, what, "take a shorter code or smaller images")


def rebuild_backbone(
    architecture: dict[str, Any] | None, trusted: str | None, where: str
) -> nn.Module:
    """The network that a saved configuration describes.

    Names outside `BACKBONES` are code, and a configuration may come from anywhere. So they are
    imported only when the user has said that name, as `trusted`.
    """
    if architecture is None:
        raise MultiwayError(
            f"{where} does not say how its network is built; pass the network: "
            "from_pretrained(directory, backbone=network)"
        )
    try:
        name = str(architecture["name"])
        sizes = {key: int(architecture[key]) for key in ("outputs", "channels", "size")}
    except (KeyError, TypeError, ValueError) as error:
        raise MultiwayError(f"{where} describes its backbone wrongly: {error!r}") from error
    if trusted is not None and trusted != name:
        raise MultiwayError(f"{where} has the backbone '{name}', not '{trusted}'")
    if ":" in name and trusted is None:
        raise MultiwayError(
            f"{where} needs the network '{name}', which is code outside multiway; if you trust it, "
            f"say so: --backbone {name} (in Python: backbone='{name}')"
        )
    return build_backbone(name, **sizes)


def build_named(path: str) -> nn.Module:
    """The network that the function `package.module:function` returns, without arguments."""
    if ":" not in path:
        raise MultiwayError(
            f"{path}: write package.module:function, a function without arguments that returns "
            "your network"
        )
    function = _import_function(path)
    try:
        network = function()
    except (Exception, SystemExit) as error:  # whatever a stranger's function may raise
        raise MultiwayError(
            f"{path}: the function is called without arguments, which failed: {reason(error)}"
        ) from error
    if not isinstance(network, nn.Module):
        raise MultiwayError(f"{path} returned {type(network).__name__}, not an nn.Module")
    return network


def _import_function(path: str) -> Callable[..., Any]:
    """The function that `package.module:function` names; the current folder is searched too."""
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    NAMED.add(module_name.partition(".")[0])
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise MultiwayError(
            f"cannot import '{module_name}' of '{path}': {error}; write package.module:function "
            "and run from the folder that holds the package, or install it"
        ) from error
    except (Exception, SystemExit) as error:  # whatever a stranger's module may do
        raise MultiwayError(
            f"cannot import '{module_name}' of '{path}': {reason(error)}"
        ) from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if function is None or not callable(function):
        public = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise MultiwayError(
            f"'{module_name}' has no function '{name}'; it has {', '.join(public) or 'none'}"
        )
    return function
