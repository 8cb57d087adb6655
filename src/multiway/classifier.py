"""Classifiers whose outputs are codes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub import ModelHubMixin, hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from torch import Tensor, nn

from multiway.backbones import build_named, rebuild_backbone
from multiway.checks import output_tensor
from multiway.classifier_config import (
    CONFIG,
    WEIGHTS,
    describe_pretrained,
    read_classifier_config,
    rebuild_pretrained,
)
from multiway.codebook import Codebook
from multiway.encoding import Encoding
from multiway.errors import MultiwayError
from multiway.files import kind_of, write_json
from multiway.folding import Folded, fold_head, shorten_codes
from multiway.heads import FirstBatch, find_head, get_head, is_pretrained, swap_head
from multiway.weights import load_tensors, read_tensors, save_weights

__all__ = [
    "EncodedClassifier",
    "encode_model",
    "load_classifier",
]

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
    scores [N, K], so whatever expects a network with logits works unchanged, and
    `model(x, labels)` the loss to train on. Other inputs (text, say) pass as they are.

    The weights of `backbone` are never touched here: `encode_model` makes a head that starts at
    the size which the encoding's scale asks for.

    Args:
        backbone: images [N, C, H, W] to [N, L]; may return a tuple, a dict or an output object.
        encoding: codebook and loss.
        gain: the fixed number that the backbone's output is multiplied by to be a code; None for
            that of the encoding's scale.
        head: path of the backbone's last Linear; found by itself when it has a usual name.
        architecture: how `build_backbone` makes this backbone again; needed only to load
            a saved model without passing the backbone.

    Example:
        >>> from multiway.backbones import build_backbone
        >>> encoding = Encoding.make("ro", classes=10)
        >>> model = encode_model(build_backbone("wong", outputs=10), encoding)
        >>> images, labels = torch.rand(4, 1, 28, 28), torch.arange(4)
        >>> model(images).shape, model.codes(images).shape, model(images, labels).shape
        (torch.Size([4, 10]), torch.Size([4, 2000]), torch.Size([]))
    """

    scale: Tensor
    # For transformers' Trainer: the loss is a mean over the batch, whatever else is passed.
    accepts_loss_kwargs = False

    def __init__(
        self,
        backbone: nn.Module,
        encoding: Encoding,
        gain: float | None = None,
        head: str | None = None,
        architecture: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        gain = encoding.gain if gain is None else gain
        if not (math.isfinite(gain) and gain > 0):
            raise MultiwayError(f"gain multiplies the outputs; it is a positive number, not {gain}")
        self.backbone = backbone
        self.encoding = encoding
        self.gain = gain
        self.head = head
        self.architecture = architecture
        # In the state, so that weights trained at another scale are refused and not rescaled.
        weights = (0.0, 0.0)
        if encoding.scale is not None:
            weights = encoding.scale.along, encoding.scale.across
        self.register_buffer("scale", torch.tensor([gain, *weights]))
        self._untried = True

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> EncodedClassifier:
        """What `to`, `cuda` and `half` do; the scale keeps 32 bits, in 16 a large gain is none."""
        exact = self.scale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.scale.dtype.itemsize < torch.float32.itemsize:
            self.scale = exact.float().to(self.scale.device)
        return self

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return self.encoding.codebook.classes

    @property
    def config(self) -> Any:
        """The configuration object of a transformers network; other networks have none."""
        return self.backbone.config

    def codes(self, images: Tensor | None = None, **inputs: Any) -> Tensor:
        """The code f(x), [N, L]: the raw output times `gain`.

        Args:
            images: the network's first input; what has four axes is taken for images.
            inputs: by name, as transformers passes `pixel_values` or `input_ids`.
        """
        if images is not None and images.ndim == 4 and not images.is_floating_point():
            raise MultiwayError(
                f"images are {images.dtype}; they must be float in [0, 1] (images.float() / 255)"
            )
        first = () if images is None else (images,)
        given = (*first, *(value for value in inputs.values() if isinstance(value, Tensor)))
        codes = output_tensor(self.backbone(*first, **inputs), given[0].shape[0] if given else 0)
        if codes.shape[1] != self.encoding.codebook.length:
            raise MultiwayError(
                f"the network has {codes.shape[1]} outputs, but the codes of '{self.encoding.name}'"
                f" are {self.encoding.codebook.length} long; build it with that many outputs or "
                "use encode_model(network, encoding)"
            )
        # Under autocast outputs have 16 bits, in which codes of norm 1000 would overflow.
        dtype = self.encoding.codebook.vectors.dtype
        codes = codes.to(torch.promote_types(codes.dtype, dtype))
        return codes if self.gain == 1.0 else self.gain * codes

    def forward(
        self,
        images: Tensor | None = None,
        labels: Tensor | None = None,
        returns: Literal["scores", "codes"] | None = None,
        pixel_values: Tensor | None = None,
        **inputs: Any,
    ) -> Any:
        """Scores or, with labels, the loss: whatever wraps the model hooks this one call.

        | call | gives |
        |---|---|
        | `model(images)` | scores [N, K]; the largest is the decision |
        | `model(images, labels)` | the mean loss, a scalar |
        | `model(images, labels, returns="scores")` | loss and scores; or `"codes"` [N, L] |
        | `model(images, returns="codes")` | codes |
        | `model(pixel_values=images, labels=labels)` | `{"loss": ..., "logits": scores}` |
        """
        if pixel_values is not None:
            inputs["pixel_values"] = pixel_values
        if labels is None:
            codes = self.codes(images, **inputs)
            loss = None
        elif self._untried and self.training and not torch.compiler.is_compiling():
            self._untried = False
            with FirstBatch(self._known_head(), self.encoding) as batch:
                codes = self.codes(images, **inputs)
            loss = self.encoding.loss(codes, labels)
            batch.check(codes, self.gain, loss)
        else:
            codes = self.codes(images, **inputs)
            loss = self.encoding.loss(codes, labels)
        if images is None:
            scores = {"logits": self.encoding.scores(codes)}
            return scores if loss is None else {"loss": loss, **scores}
        if loss is not None and returns is None:
            return loss
        output = codes if returns == "codes" else self.encoding.scores(codes)
        return output if loss is None else (loss, output)

    def loss(self, codes: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """The encoding's training loss of `codes` [N, L] against `labels` [N]."""
        return self.encoding.loss(codes, labels, reduction)

    def fold(self) -> nn.Module:
        """A network with K outputs and the same scores: inference costs what one-hot costs.

        Scores are linear in the codes and codes linear in the features h before the head, so both
        matrices become one, see `fold_head`. The copy shares no weights with `self`. Of
        a transformers network it is one of the same class; else it returns a plain tensor.

        Raises:
            MultiwayError: the backbone's last linear layer cannot be found, or does more than its
                weights say.
        """
        # The copy takes the new layer wherever the original has its head.
        network = copy.deepcopy(self.backbone, {id(self.head_layer()): self.folded_head()})
        return (network if is_pretrained(network) else Folded(network)).train(self.training)

    def shorten(self) -> EncodedClassifier:
        """A classifier with the same losses and scores from shorter codes, see `shorten_codes`.

        The copy shares no weights with `self`; where nothing is to be gained it is `self`.
        """
        head = self.head_layer()
        made = shorten_codes(head, self.encoding)
        if made is None:
            return self
        backbone = copy.deepcopy(self.backbone, {id(head): made[0]})
        short = EncodedClassifier(backbone, made[1], self.gain, self.head)
        return short.train(self.training).requires_grad_(False)

    def head_layer(self) -> nn.Linear:
        """The backbone's last linear layer, which makes the codes."""
        path = find_head(self.backbone) if self.head is None else self.head
        return get_head(self.backbone, path)

    def _known_head(self) -> nn.Linear | None:
        try:
            return self.head_layer()
        except MultiwayError:
            return None

    def folded_head(self) -> nn.Module:
        """The layer that makes scores [N, K] of the features before the head, see `fold_head`."""
        return fold_head(self.head_layer(), self.encoding, self.gain)

    def describe(self) -> dict[str, Any]:
        """Everything but the tensors that `from_pretrained` needs to build this model again."""
        scale = self.encoding.scale
        return {
            "backbone": self.architecture or describe_pretrained(self.backbone),
            "encoding": {
                "name": self.encoding.name,
                "loss": self.encoding.kind,
                "codebook": self.encoding.codebook.kind,
                "classes": self.classes,
                "length": self.encoding.codebook.length,
                "beta": self.encoding.codebook.beta,
                "scale": None if scale is None else scale.name,
            },
            "gain": self.gain,
            "head": self.head,
        }

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        state, prefix = args[:2]
        given = state.get(f"{prefix}scale")
        # Half precision keeps three digits.
        if given is not None and not torch.allclose(
            given.double().cpu(), self.scale.double().cpu(), rtol=0.01, atol=1e-6
        ):
            raise MultiwayError(
                "the weights were trained at another scale: gain and loss weights "
                f"{[float(f'{value:.4g}') for value in given.tolist()]}, and here "
                f"{[float(f'{value:.4g}') for value in self.scale.tolist()]}; build the model with "
                "the encoding, beta and scale that it was trained with, or use from_pretrained"
            )
        self._untried = False
        super()._load_from_state_dict(*args, **kwargs)

    def _save_pretrained(self, save_directory: Path) -> None:
        # One key, so that the mixin finds nothing in the file that it takes for an argument.
        write_json(save_directory / CONFIG, {"classifier": self.describe()})
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
            read_classifier_config(path)
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
            one of multiway's; without arguments where the configuration describes none. A
            configuration file alone never makes foreign code run.
        weights: the file of the directory to read, if not `model.safetensors`.
    """
    directory = Path(directory)
    fields = read_classifier_config(directory)
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
    encoding = Encoding(Codebook(vectors, spec.codebook), loss, spec.name, spec.scale or "paper")
    book = encoding.codebook
    outputs = getattr(fields.backbone, "outputs", book.length)
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
    if architecture is None and isinstance(backbone, str):
        backbone = build_named(backbone)
    if isinstance(backbone, nn.Module):
        backbone = _with_outputs(backbone, encoding, head)
    elif backbone is None and (network := rebuild_pretrained(architecture, encoding, head)):
        backbone, architecture = network, None
    else:
        backbone = rebuild_backbone(architecture, trusted=backbone, where=str(directory))
    model = EncodedClassifier(backbone, encoding, gain, head, architecture)
    tensors.setdefault("scale", model.scale)
    load_tensors(model, tensors, path)
    return model.eval()


def _with_outputs(network: nn.Module, encoding: Encoding, head: str | None) -> nn.Module:
    """`network`, with its head swapped as `encode_model` does where it still has the old one."""
    try:
        path = find_head(network) if head is None else head
        fits = get_head(network, path).out_features == encoding.codebook.length
    except MultiwayError:
        return network  # no head to be found: it must fit as it is
    return network if fits else encode_model(network, encoding, head).backbone


def encode_model(
    network: nn.Module, encoding: Encoding, head: str | None = None
) -> EncodedClassifier:
    """A copy of `network` with its head swapped for one that outputs codes.

    Works on plain modules whose last layer is `head`, `fc` or `classifier` or ends a Sequential,
    on networks with timm's `get_classifier` and `reset_classifier`, and on transformers'
    classifiers. With a squared error at the `matched` scale the new head begins as the old one
    turned into the space of the codes, so the decisions are the network's own and the first steps
    have the size that they have with one-hot labels; those keep the old head. For other encodings
    and at the `paper` scale a head is drawn (`swap_head`, `CodeScale.matched`). Train it on
    `model(images, labels)`.

    Args:
        network: images to [N, K] scores; left as it is.
        encoding: what the copy is to be trained to. The model has a copy of it, `model.encoding`,
            which follows it to another device.
        head: path of the last linear layer, where it has an unusual name.

    Example:
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
        >>> model = encode_model(network, Encoding.make("ro", classes=10))
        >>> model.codes(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 2000])
    """
    if not isinstance(encoding, Encoding):
        raise MultiwayError(
            f"an encoding is needed, not {encoding!r}: Encoding.make('ro', classes=10)"
        )
    network = copy.deepcopy(network)
    head = swap_head(network, encoding, head)
    # A copy: models of one encoding are cast, moved and loaded apart.
    return EncodedClassifier(network, copy.deepcopy(encoding), head=head)
