"""Classifiers whose outputs are codes."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelHubMixin, hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from pydantic import Field
from torch import Tensor, nn

from multiway.backbones import rebuild_backbone
from multiway.codebook import Codebook
from multiway.encoding import Encoding
from multiway.errors import MultiwayError
from multiway.files import kind_of, read_json, write_json
from multiway.heads import find_head, get_head, replace_head
from multiway.outputs import output_tensor
from multiway.validate import Fields, validated
from multiway.weights import load_tensors, read_tensors, save_weights

__all__ = [
    "CONFIG",
    "WEIGHTS",
    "ClassifierFields",
    "EncodedClassifier",
    "encode_model",
    "load_classifier",
]

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
LARGEST = 2**53  # the numbers that a float tells apart


class _BackboneFields(Fields):
    name: str = Field(min_length=1)
    outputs: int = Field(ge=1, le=LARGEST)
    channels: int = Field(ge=1)
    size: int = Field(ge=1)


class _EncodingFields(Fields):
    name: str
    loss: str
    codebook: str
    classes: int = Field(ge=1, le=LARGEST)
    length: int = Field(ge=1, le=LARGEST)
    beta: float


class ClassifierFields(Fields):
    """What a configuration says of a classifier, as far as it is needed to load it."""

    backbone: _BackboneFields | None
    encoding: _EncodingFields
    gain: float
    head: str | None


class _SavedFields(Fields):
    classifier: ClassifierFields


CARD = """---
{{ card_data }}
---

An image classifier whose outputs are codes, made with `multiway`. Load it with
`multiway.EncodedClassifier.from_pretrained`; `config.json` says what it is, and
`model.safetensors` holds its weights and its codebook.
"""


class EncodedClassifier(
    nn.Module,
    ModelHubMixin,
    library_name="multiway",
    tags=["image-classification"],
    model_card_template=CARD,
):
    """A network that outputs codes, and the encoding that reads them.

    Images go in as float in [0, 1], NCHW; normalisation is the backbone's own. `model(x)` gives
    scores [N, K], so whatever expects a network with logits works unchanged.

    Args:
        backbone: images [N, C, H, W] to [N, L]; may return a tuple, a dict or an output object.
        encoding: codebook and loss.
        gain: the fixed number that the backbone's output is multiplied by to be a code.
        head: path of the backbone's last Linear; found by itself when it has a usual name.
        architecture: how `build_backbone` makes this backbone again; needed only to load
            a saved model without passing the backbone.

    Example:
        >>> from multiway.backbones import build_backbone
        >>> encoding = Encoding.make("ro", classes=10)
        >>> model = EncodedClassifier(build_backbone("wong", outputs=2000), encoding)
        >>> images = torch.rand(4, 1, 28, 28)
        >>> model(images).shape, model.codes(images).shape
        (torch.Size([4, 10]), torch.Size([4, 2000]))
    """

    def __init__(
        self,
        backbone: nn.Module,
        encoding: Encoding,
        gain: float = 1.0,
        head: str | None = None,
        architecture: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if not (math.isfinite(gain) and gain > 0):
            raise MultiwayError(f"gain multiplies the outputs; it is a positive number, not {gain}")
        self.backbone = backbone
        self.encoding = encoding
        self.gain = gain
        self.head = head
        self.architecture = architecture

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return self.encoding.codebook.classes

    def codes(self, images: Tensor) -> Tensor:
        """The raw output f(x), [N, L]."""
        if not images.is_floating_point():
            raise MultiwayError(
                f"images are {images.dtype}; they must be float in [0, 1] (images.float() / 255)"
            )
        codes = output_tensor(self.backbone(images), len(images))
        if codes.shape[1] != self.encoding.codebook.length:
            raise MultiwayError(
                f"the network has {codes.shape[1]} outputs, but the codes of '{self.encoding.name}'"
                f" are {self.encoding.codebook.length} long; build it with that many outputs or "
                "use encode_model(network, encoding)"
            )
        return codes if self.gain == 1.0 else self.gain * codes

    def forward(self, images: Tensor) -> Tensor:
        """The scores of `images` [N, C, H, W], [N, K]; the largest is the decision."""
        return self.encoding.scores(self.codes(images))

    def loss(self, codes: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """The encoding's training loss of `codes` [N, L] against `labels` [N]."""
        return self.encoding.loss(codes, labels, reduction)

    def fold(self) -> nn.Module:
        """A network with K outputs and the same scores: inference costs what one-hot costs.

        Scores are linear in the codes and codes linear in the features h before the head, so both
        matrices become one: `scores = (a C W) h + a C b`. The copy shares no weights with `self`.
        Where the encoding normalises its codes (`ro-softmax`), their norm is folded too.

        Raises:
            MultiwayError: the backbone's last linear layer cannot be found, or does more than its
                weights say.
        """
        # The copy takes the new layer wherever the original has its head.
        network = copy.deepcopy(self.backbone, {id(self.head_layer()): self.folded_head()})
        return _Folded(network).train(self.training)

    def head_layer(self) -> nn.Linear:
        """The backbone's last linear layer, which makes the codes."""
        path = find_head(self.backbone) if self.head is None else self.head
        return get_head(self.backbone, path)

    def folded_head(self) -> nn.Module:
        """The layer that makes scores [N, K] of the features before the head, see `fold`."""
        head = self.head_layer()
        if type(head).forward is not nn.Linear.forward:
            raise MultiwayError(
                f"the head is a {type(head).__name__}, whose forward pass is its own: it cannot be "
                "folded into a plain Linear"
            )
        weight = self.gain * head.weight.detach().double()
        bias = torch.zeros_like(weight[:, 0])
        if head.bias is not None:
            bias = self.gain * head.bias.detach().double()
        book = self.encoding.codebook
        to_scores = book.score_scale * book.vectors.double()
        if self.encoding.kind == "cross-entropy":
            to_scores = torch.eye(self.classes, dtype=weight.dtype, device=weight.device)
        layer: nn.Module = _linear(to_scores @ weight, to_scores @ bias, like=head)
        if self.encoding.kind == "cosine-cross-entropy":
            layer = _Normalised(layer, weight, bias, book.beta, like=head)
        return layer

    def config(self) -> dict[str, Any]:
        """Everything but the tensors that `from_pretrained` needs to build this model again."""
        return {
            "backbone": self.architecture,
            "encoding": {
                "name": self.encoding.name,
                "loss": self.encoding.kind,
                "codebook": self.encoding.codebook.kind,
                "classes": self.classes,
                "length": self.encoding.codebook.length,
                "beta": self.encoding.codebook.beta,
            },
            "gain": self.gain,
            "head": self.head,
        }

    def _save_pretrained(self, save_directory: Path) -> None:
        # One key, so that the mixin finds nothing in the file that it takes for an argument.
        write_json(save_directory / CONFIG, {"classifier": self.config()})
        save_weights(self, save_directory / WEIGHTS)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **more: Any) -> Any:
        """The classifier saved in a folder, or under a name on the Hugging Face Hub.

        Args:
            more: `backbone`, see `load_classifier`, and what `ModelHubMixin` takes.

        Raises:
            MultiwayError: nothing is there, or it is no classifier of multiway.
        """
        path = Path(pretrained_model_name_or_path)
        if kind_of(path) == "folder":
            # Checked before the mixin reads it without looking.
            _read_config(path)
        elif kind_of(path) is not None:
            raise MultiwayError(f"{path} is a file; name the folder that holds {CONFIG}")
        try:
            return super().from_pretrained(pretrained_model_name_or_path, **more)
        except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
            raise MultiwayError(
                f"there is no folder {path}, and the Hugging Face Hub gives no such model "
                f"({type(error).__name__}); name a folder made by multiway train or "
                "save_pretrained, or a model on the Hub as OWNER/NAME"
            ) from error

    @classmethod
    def _from_pretrained(
        cls, *, model_id: str, backbone: nn.Module | str | None = None, **hub: Any
    ) -> EncodedClassifier:
        if Path(model_id).is_dir():
            return load_classifier(Path(model_id), backbone)
        hub.pop("config", None)
        files = [Path(hf_hub_download(model_id, name, **hub)) for name in (CONFIG, WEIGHTS)]
        return load_classifier(files[0].parent, backbone)


def load_classifier(
    directory: Path | str, backbone: nn.Module | str | None = None, weights: str | None = None
) -> EncodedClassifier:
    """The classifier saved in `directory` (`config.json` and `model.safetensors`), in eval mode.

    Args:
        backbone: the network itself, or `package.module:function` that builds it, when it is not
            one of multiway's. A configuration file alone never makes foreign code run.
        weights: the file of the directory to read, if not `model.safetensors`.
    """
    directory = Path(directory)
    fields = _read_config(directory)
    spec, gain, head = fields.encoding, fields.gain, fields.head
    architecture = None if fields.backbone is None else fields.backbone.model_dump()
    path = directory / (weights or WEIGHTS)
    tensors = read_tensors(path)
    vectors = tensors.get("encoding.codebook.vectors")
    if vectors is None:
        raise MultiwayError(f"{path} holds no codebook; it is not a multiway model")
    if not vectors.is_floating_point():
        raise MultiwayError(
            f"{path}: encoding.codebook.vectors is stored as {vectors.dtype}, expected float32; "
            "save the weights as they were trained"
        )
    loss: Any = spec.loss
    encoding = Encoding(Codebook(vectors, spec.codebook), loss, spec.name)
    book = encoding.codebook
    outputs = book.length if fields.backbone is None else fields.backbone.outputs
    for what, said, actual in (
        ("encoding.classes", spec.classes, book.classes),
        ("encoding.length", spec.length, book.length),
        ("encoding.beta", spec.beta, book.beta),
        ("backbone.outputs", outputs, book.length),
    ):
        if not math.isclose(said, actual, rel_tol=1e-4):
            raise MultiwayError(
                f"{directory / CONFIG}: {what} is {said:g}, but the codebook in {path.name} says "
                f"{actual:g}; one of the two files was altered or is another model's"
            )
    if isinstance(backbone, nn.Module):
        backbone = _with_outputs(backbone, encoding, gain, head)
    else:
        backbone = rebuild_backbone(architecture, trusted=backbone, where=str(directory))
    model = EncodedClassifier(backbone, encoding, gain, head, architecture)
    load_tensors(model, tensors, path)
    return model.eval()


def _read_config(directory: Path) -> ClassifierFields:
    path = directory / CONFIG
    remedy = "it does not describe a multiway classifier: was it written by another program?"
    saved: _SavedFields = validated(_SavedFields, read_json(path), path, remedy)
    return saved.classifier


def _with_outputs(
    network: nn.Module, encoding: Encoding, gain: float, head: str | None
) -> nn.Module:
    """`network`, with its head swapped as `encode_model` does where it still has the old one."""
    try:
        path = find_head(network) if head is None else head
        fits = get_head(network, path).out_features == encoding.codebook.length
    except MultiwayError:
        return network  # no head to be found: it must fit as it is
    return network if fits else encode_model(network, encoding, gain, head).backbone


def encode_model(
    network: nn.Module, encoding: Encoding, gain: float = 1.0, head: str | None = None
) -> EncodedClassifier:
    """A copy of `network` with its head swapped for one that outputs codes.

    Works on plain modules whose last layer is `head`, `fc` or `classifier` or ends a Sequential,
    on networks with timm's `get_classifier` and `reset_classifier`, and on transformers' image
    classifiers. The new head is freshly initialised; train it, or the whole, on `model.loss`.

    Args:
        network: images to [N, K] scores; left as it is.
        encoding: what the copy is to be trained to.
        head: path of the last linear layer, where it has an unusual name.

    Example:
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
        >>> model = encode_model(network, Encoding.make("ro", classes=10))
        >>> model.codes(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 2000])
    """
    network = copy.deepcopy(network)
    length = encoding.codebook.length
    reset = getattr(network, "reset_classifier", None)
    if head is None and callable(reset) and hasattr(network, "get_classifier"):
        reset(length)
        head = find_head(network)
    else:
        head = find_head(network) if head is None else head
        old = get_head(network, head)
        new = nn.Linear(old.in_features, length, bias=old.bias is not None)
        replace_head(network, head, new.to(old.weight))
    return EncodedClassifier(network, encoding, gain, head)


class _Folded(nn.Module):
    """A network that returns its scores as a plain tensor, whatever it wraps them in."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return output_tensor(self.network(images), len(images))


class _Normalised(nn.Module):
    """Scores of codes at norm beta, from features [N, d]: `beta * scores(f) / |f|`.

    `f = W h + b` is never formed where it is long: `|f| = |R (h, 1)|` with the triangle R of
    `[W b] = Q R`.
    """

    def __init__(
        self, scores: nn.Module, weight: Tensor, bias: Tensor, beta: float, like: nn.Linear
    ) -> None:
        super().__init__()
        both = torch.cat([weight, bias[:, None]], dim=1)
        if both.shape[0] > both.shape[1]:
            both = torch.linalg.qr(both, mode="r").R
        self.scores = scores
        self.norm = _linear(both[:, :-1], both[:, -1], like)
        self.beta = beta

    def forward(self, features: Tensor) -> Tensor:
        length: Tensor = self.norm(features).norm(dim=1, keepdim=True).clamp_min(1e-12)
        scores: Tensor = self.scores(features)
        return scores * (self.beta / length)


def _linear(weight: Tensor, bias: Tensor, like: nn.Linear) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight.data.copy_(weight)
    layer.bias.data.copy_(bias)
    return layer.to(like.weight)
