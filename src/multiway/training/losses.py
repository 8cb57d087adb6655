"""What a training minimises: the loss of clean images, Eq. 4 of the paper, or TRADES."""

from __future__ import annotations

from torch import Tensor, cat, nn

from multiway.training.adversary import InnerAttack

__all__ = ["outer_loss"]


def outer_loss(
    network: nn.Module,
    inner: InnerAttack | None,
    images: Tensor,
    labels: Tensor,
    start: Tensor | None = None,
    share: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The mean loss of a batch, and the codes [N, L] of the images that it is about.

    | adversary | minimised |
    |---|---|
    | none | Loss(x) |
    | `eq4` | (Loss(x') + lambda Loss(x)) / (1 + lambda), with x' from the inner attack |
    | `trades` | Loss(x) + weight * distance(f(x'), f(x)), see `Encoding.distance` |

    The codes are those of the attacked images x' where somebody attacks.

    Args:
        network: the model, or what a team makes of it; called as the model is, once a batch, with
            clean and attacked images together.
        inner: who attacks; None for nobody.
        start: noise, see `InnerAttack`.
        share: of the full eps.
    """
    if inner is not None:
        model, adversary, clean_images = inner.model, inner.adversary, images
        images = inner(images, labels, start, share)
        if adversary.outer == "trades" or adversary.clean_weight:
            both: Tensor = network(cat([images, clean_images]), returns="codes")
            codes, clean = both.split(len(images))  # type: ignore[no-untyped-call]
            if adversary.outer == "trades":
                away = model.encoding.distance(codes, clean).mean()
                return model.loss(clean, labels) + adversary.trades_weight * away, codes
            loss = model.loss(codes, labels) + adversary.clean_weight * model.loss(clean, labels)
            return loss / (1 + adversary.clean_weight), codes
    loss, codes = network(images, labels, returns="codes")
    return loss, codes
