"""Networks with their gradients masked, for all tests that must not be fooled."""

from __future__ import annotations

from torch import Tensor, nn


class Saturated(nn.Module):
    """Logits so large that softmax is 0 or 1 to the last bit: its cross-entropy has no slope."""

    def __init__(self, model: nn.Module, factor: float = 1e6) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.factor * self.model(images)
        return scores


class Quantised(nn.Module):
    """Reads its images in a few levels of grey: flat almost everywhere."""

    def __init__(self, model: nn.Module, levels: int = 12) -> None:
        super().__init__()
        self.model, self.levels = model, levels

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.model((images * self.levels).round() / self.levels)
        return scores
