"""The last linear layer of a classifier: finding it, and putting another in its place."""

from __future__ import annotations

from typing import Any

from torch import nn

from multiway.errors import MultiwayError

__all__ = ["Head", "find_head", "get_head", "replace_head"]

# Names under which classifiers keep their last layer: torchvision, timm, transformers and us.
HEAD_NAMES = ("head", "fc", "classifier")

# A head is named by the path of its Linear inside the network, as in `named_modules`.
Head = str


def find_head(network: nn.Module) -> Head:
    """The path of the linear layer that makes a network's outputs.

    What timm's `get_classifier` returns; else the last layer of a Sequential; else the layer (or
    the last one inside the block) that is called `head`, `fc` or `classifier`.

    Example:
        >>> find_head(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)))
        '1'

    Raises:
        MultiwayError: there is no such layer.
    """
    paths: dict[int, str] = {id(module): path for path, module in network.named_modules()}
    if isinstance(network, nn.Linear):
        raise MultiwayError(
            "the network is one Linear layer and cannot swap itself; wrap it: nn.Sequential(layer)"
        )
    get_classifier = getattr(network, "get_classifier", None)
    if callable(get_classifier):
        layer = get_classifier()
        if isinstance(layer, nn.Linear) and id(layer) in paths:
            return paths[id(layer)]
    if isinstance(network, nn.Sequential):
        candidates: list[Any] = [network]
    else:
        candidates = [getattr(network, name, None) for name in HEAD_NAMES]
    for block in candidates:
        layer = _last_linear(block)
        if layer is not None:
            return paths[id(layer)]
    names = [name for name, _ in network.named_children()]
    raise MultiwayError(
        f"cannot find the head of {type(network).__name__}: no linear layer is called "
        f"{', '.join(HEAD_NAMES)}, and it is no Sequential that ends in one (its parts: "
        f"{', '.join(names) or 'none'}); say which layer it is with head='path.to.layer'"
    )


def get_head(network: nn.Module, head: Head) -> nn.Linear:
    """The Linear at the path `head`."""
    try:
        layer = network.get_submodule(head)
    except AttributeError:
        layer = None
    if not isinstance(layer, nn.Linear):
        linear = [path for path, module in network.named_modules() if isinstance(module, nn.Linear)]
        raise MultiwayError(
            f"head '{head}' is not a Linear layer of {type(network).__name__}; its linear layers: "
            f"{', '.join(linear) or 'none'}"
        )
    return layer


def replace_head(network: nn.Module, head: Head, layer: nn.Linear) -> None:
    """Put `layer` at the path `head`, in place."""
    parent, _, name = head.rpartition(".")
    setattr(network.get_submodule(parent), name, layer)


def _last_linear(block: Any) -> nn.Linear | None:
    """`block` if it is linear, or the linear layer that a Sequential or head block ends in."""
    if isinstance(block, nn.Linear):
        return block
    if not isinstance(block, nn.Module):
        return None
    children = [
        child
        for child in block.children()
        # Flatten and Identity only pass values on, and dropout does nothing at inference.
        if not isinstance(child, (nn.Identity, nn.Flatten, nn.Dropout))
    ]
    return _last_linear(children[-1]) if children else None
