"""The last linear layer of a classifier: finding and swapping it, and what it says at first."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from multiway.encoding import Encoding
from multiway.errors import MultiwayError, MultiwayWarning

__all__ = [
    "FirstBatch",
    "Head",
    "copy_start",
    "find_head",
    "get_head",
    "is_pretrained",
    "swap_head",
]

# Names under which classifiers keep their last layer: torchvision, timm, transformers and us.
HEAD_NAMES = ("head", "fc", "classifier")
# And where transformers' language models do; elsewhere it may be anything.
PRETRAINED_NAME = "score"

# A first loss this many times above or below that of outputs of zero is no accident.
FAR = 100.0

# A head is named by the path of its Linear inside the network, as in `named_modules`.
Head = str


def find_head(network: nn.Module) -> Head:
    """The path of the linear layer that makes a network's outputs.

    What timm's `get_classifier` returns; else the last layer of a Sequential; else the layer (or
    the last one inside the block) that is called `head`, `fc` or `classifier`, and in a network of
    transformers `score`.

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
        names = [*HEAD_NAMES, *([PRETRAINED_NAME] if is_pretrained(network) else [])]
        candidates = [getattr(network, name, None) for name in names]
    for block in candidates:
        layer = _last_linear(block)
        if layer is not None:
            return paths[id(layer)]
    squash = _squash(candidates)
    if squash is not None:
        raise MultiwayError(
            f"{type(network).__name__} ends in {squash}, after its last linear layer: codes are "
            "linear outputs; take it away, the loss needs none"
        )
    parts = [name for name, _ in network.named_children()]
    raise MultiwayError(
        f"cannot find the head of {type(network).__name__}: no linear layer is called "
        f"{', '.join(HEAD_NAMES)}, and it is no Sequential that ends in one (its parts: "
        f"{', '.join(parts) or 'none'}); say which layer it is with head='path.to.layer'"
    )


def is_pretrained(network: nn.Module) -> bool:
    """Whether `network` is a transformers model, by the methods that every one of them has."""
    return hasattr(network, "get_input_embeddings") and hasattr(
        getattr(network, "config", None), "model_type"
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


def swap_head(network: nn.Module, encoding: Encoding, head: Head | None = None) -> Head:
    """Give `network`, in place, a head that outputs the codes of `encoding`; returns its path.

    At the `matched` scale the new head begins as the old one, turned into the space of the codes
    (`Encoding.code_head`); one with another number of classes is first drawn anew, as PyTorch draws
    a layer. One-hot labels with cross-entropy keep the old one. At the `paper` scale, and for the
    cosines and bits that have no scale, a head with L outputs is drawn.
    """
    path = find_head(network) if head is None else head
    old = get_head(network, path)
    _check_not_shared(network, path, old)
    classes, length = encoding.codebook.classes, encoding.codebook.length
    fits = old.out_features == classes
    if not fits:
        warnings.warn(
            MultiwayWarning(
                f"the head '{path}' has {old.out_features} outputs and the encoding {classes} "
                "classes, so a new one is drawn; if that is no fine-tuning on other classes, make "
                f"the encoding with classes={old.out_features}"
            ),
            stacklevel=3,
        )
    bias = old.bias is not None
    if fits and encoding.kind == "cross-entropy":
        new = old.requires_grad_(True)  # its outputs are the logits; a new head learns, too
    elif encoding.scale is not None and encoding.scale.start is not None:
        new = encoding.code_head(old if fits else nn.Linear(old.in_features, classes, bias=bias))
    else:
        new = nn.Linear(old.in_features, length, bias=bias)
    reset = getattr(network, "reset_classifier", None)
    if head is None and callable(reset) and hasattr(network, "get_classifier"):
        reset(length)  # for what timm keeps beside the layer itself
        path = find_head(network)
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, new.to(old.weight))
    return path


def copy_start(network: nn.Module, one_hot: nn.Module, encoding: Encoding) -> None:
    """Let `network`, with L outputs, start as its twin `one_hot`, with K, does; in place.

    All weights but the head's are those of the twin, and the head is the twin's turned into the
    space of the codes. A network whose head cannot be found, or that differs in more than its
    head, is left as it was drawn.
    """
    if encoding.scale is None or encoding.scale.start is None:
        return
    try:
        path = find_head(network)
        twin = get_head(one_hot, path)
    except MultiwayError:
        return
    swap_head(one_hot, encoding, path)
    state, new = network.state_dict(), one_hot.state_dict()
    if twin.out_features == encoding.codebook.classes and all(
        name in state and state[name].shape == tensor.shape for name, tensor in new.items()
    ):
        network.load_state_dict(new)


class FirstBatch:
    """Sees what the head put out in one forward pass, and warns of what will not train.

    Args:
        head: the network's last linear layer; None where it is not known.
        encoding: what it is trained to.
    """

    def __init__(self, head: nn.Linear | None, encoding: Encoding) -> None:
        self.head, self.encoding = head, encoding
        self.outputs: Tensor | None = None

    def __enter__(self) -> FirstBatch:
        if self.head is not None:
            self._hook = self.head.register_forward_hook(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        if self.head is not None:
            self._hook.remove()

    def _see(self, _module: nn.Module, _inputs: Any, outputs: Tensor) -> None:
        self.outputs = outputs.detach()

    def check(self, codes: Tensor, gain: float, loss: Tensor) -> None:
        """Compare `codes` [N, L] with the head's outputs times `gain`, and `loss` with its size."""
        if self.outputs is not None and _is_squashed(
            codes.detach(), gain * self.outputs.to(codes.dtype)
        ):
            _warn(
                "the network's outputs are not those of its last linear layer: something after it "
                "(a softmax, ReLU or tanh) bends them, and codes need them as they are; take it "
                "away"
            )
        if self.head is not None and not self.head.weight.requires_grad:
            _warn(
                "the head is frozen, so no code can be learned in it: "
                "model.head_layer().requires_grad_(True)"
            )
        value, expected = float(loss.detach()), self.encoding.silence
        if value > FAR * expected:
            _warn(
                f"the loss starts at {value:.3g}, and with outputs of 0 it is {expected:.3g}: "
                f"outputs are about {math.sqrt(value / expected):.0f} times too large; is the "
                "network's input normalised, and was its head made by encode_model?"
            )
        elif value < expected / FAR:
            _warn(
                f"the loss starts at {value:.3g}, and with outputs of 0 it is {expected:.3g}: "
                "either the network is trained already, or the labels are in its input"
            )


def _check_not_shared(network: nn.Module, path: Head, head: nn.Linear) -> None:
    """Refuse a head whose weights are also another layer's: a swap would untie them."""
    for name, module in network.named_modules(remove_duplicate=False):
        weight = getattr(module, "weight", None)
        if name != path and isinstance(weight, torch.Tensor) and weight is head.weight:
            raise MultiwayError(
                f"the head '{path}' shares its weights with '{name}': give the network a head of "
                "its own before it is encoded"
            )


def _squash(candidates: list[Any]) -> str | None:
    """The activation that a network ends in, by its class."""
    for block in candidates:
        last = list(block.children())[-1:] if isinstance(block, nn.Module) else []
        if last and type(last[0]).__module__ == nn.ReLU.__module__:
            return type(last[0]).__name__
    return None


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


def _is_squashed(codes: Tensor, expected: Tensor) -> bool:
    if codes.shape != expected.shape:
        return True
    # Dropout after the head only leaves out and stretches.
    kept = codes != 0
    if not bool(kept.any()):
        return False
    stretch = codes[kept] / expected[kept]
    left_out = expected[~kept]
    rectified = len(left_out) > 0 and bool((left_out < 0).all())
    # Either may have been rounded to 16 bits, under autocast.
    rounded = max(torch.finfo(each.dtype).eps for each in (codes, expected))
    return rectified or not torch.allclose(stretch, stretch[:1], rtol=max(1e-5, 4 * rounded))


def _warn(said: str) -> None:
    warnings.warn(MultiwayWarning(said), stacklevel=4)
