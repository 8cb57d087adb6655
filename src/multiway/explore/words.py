"""What the controls of the page mean, for a reader who has not read the paper."""

from __future__ import annotations

from torch import nn

from multiway.classifier import EncodedClassifier

__all__ = ["ATTACK_WORDS", "OBJECTIVE_WORDS", "how_trained", "margin_words"]

ATTACK_WORDS = {
    "fgsm": "One step of eps in every pixel, along the sign of the gradient.",
    "pgd": "Many small steps from a random start; the best point counts.",
    "apgd": "Many steps whose size adapts on the way.",
}

OBJECTIVE_WORDS = {
    "own": "Raises the network's own training loss, as the paper's attack does.",
    "ce": "Raises the cross-entropy of the scores.",
    "margin": "Raises the best wrong class above the true one, which is what decides.",
    "dlr": "Raises that lead divided by the spread of the scores.",
}

_BOOKS = {
    "one-hot": "one-hot labels",
    "padded": "one-hot labels padded with zeros",
    "ro": "random orthogonal codewords",
}
_LOSSES = {
    "cross-entropy": "cross-entropy",
    "mse": "squared error",
    "cosine-cross-entropy": "cross-entropy of cosines",
    "hinge": "a hinge loss",
}


def how_trained(model: nn.Module) -> str:
    """How a model was trained, in a few words.

    Example:
        >>> import multiway as mw
        >>> how_trained(mw.EncodedClassifier(nn.Linear(4, 2000), mw.Encoding.make("ro", 10)))
        'trained to random orthogonal codewords of length 2,000 by squared error'
    """
    if not isinstance(model, EncodedClassifier):
        return "comes from elsewhere"
    encoding, book = model.encoding, model.encoding.codebook
    targets = _BOOKS.get(book.kind, f"{book.kind} codewords")
    length = "" if encoding.kind == "cross-entropy" else f" of length {book.length:,}"
    return f"trained to {targets}{length} by {_LOSSES[encoding.kind]}"


def margin_words(margin: float) -> str:
    """A margin to one decimal; a small one keeps its sign, which is the decision.

    Example:
        >>> margin_words(13.61), margin_words(-0.0023)
        ('13.6', '-0.002')
    """
    return f"{margin:.1f}" if abs(margin) >= 0.1 else f"{margin:.1g}"
