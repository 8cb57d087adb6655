"""What a training minimises: the loss of clean images, Eq. 4 of the paper, or TRADES."""

from __future__ import annotations

from torch import Tensor, cat, nn

from multiway.classifier import EncodedClassifier
from multiway.training.adversary import InnerAttack

__all__ = ["OuterLoss"]


class OuterLoss:
    """The loss of a batch, before the weights move.

    | adversary | minimised |
    |---|---|
    | none | Loss(x) |
    | `eq4` | (Loss(x') + lambda Loss(x)) / (1 + lambda), with x' from the inner attack |
    | `trades` | Loss(x) + weight * distance(f(x'), f(x)), see `Encoding.distance` |

    Args:
        model: whose encoding's loss it is.
        network: the model, or what a team makes of it; called as the model is, once a batch, with
            clean and attacked images together.
        inner: who attacks; None for nobody.
    """

    def __init__(
        self,
        model: EncodedClassifier,
        network: nn.Module,
        inner: InnerAttack | None,
    ) -> None:
        self.model, self.network, self.inner = model, network, inner

    def __call__(
        self, images: Tensor, labels: Tensor, start: Tensor | None, share: float
    ) -> tuple[Tensor, Tensor]:
        """The mean loss, and the codes [N, L] of the images that it is about: the attacked ones.

        Args:
            start: noise, see `InnerAttack`.
            share: of the full eps.
        """
        model = self.model
        if self.inner is None:
            loss, codes = self.network(images, labels, returns="codes")
            return loss, codes
        adversary = self.inner.adversary
        attacked = self.inner(images, labels, start, share)
        if adversary.outer == "trades":
            codes, clean = self._codes(cat([attacked, images])).split(len(images))  # type: ignore[no-untyped-call]
            away = model.encoding.distance(codes, clean).mean()
            loss = model.loss(clean, labels) + adversary.trades_weight * away
        elif adversary.clean_weight:
            codes, clean = self._codes(cat([attacked, images])).split(len(images))  # type: ignore[no-untyped-call]
            loss = model.loss(codes, labels) + adversary.clean_weight * model.loss(clean, labels)
            loss = loss / (1 + adversary.clean_weight)
        else:
            loss, codes = self.network(attacked, labels, returns="codes")
        return loss, codes

    def _codes(self, images: Tensor) -> Tensor:
        codes: Tensor = self.network(images, returns="codes")
        return codes
