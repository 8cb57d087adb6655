"""Six stops that show the paper's claim and its flaw, in figures of the models at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from multiway.attacks import collect_warnings
from multiway.checks import decisions
from multiway.classifier import EncodedClassifier
from multiway.errors import MultiwayError
from multiway.explore.compute import View, breaking, look, outputs_and_scores
from multiway.explore.settings import Settings, make_attack, objectives_of
from multiway.explore.tour_texts import TourCounts, TourTexts
from multiway.explore.words import how_trained

__all__ = ["Stop", "make_tour"]

MANY = 200  # images behind the percentages


@dataclass(frozen=True)
class Stop:
    """A state of the page, and what can be seen in it.

    Attributes:
        title: a few words.
        text: sentences; every figure in them was computed.
        settings: what the page shows.
        focus: the part of the page that it is about: picture or eps.
    """

    title: str
    text: str
    settings: Settings
    focus: str


def make_tour(
    models: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    classes: Sequence[str],
    eps: float,
    largest: float,
) -> tuple[Stop, ...]:
    """The stops for a network trained by cross-entropy and one trained to codes.

    Args:
        images: float [N, C, H, W]; the first `MANY` are counted.
        labels: [N].
        classes: their names.
        eps: of all stops but the last.
        largest: up to which eps the last one goes.

    Raises:
        MultiwayError: one of the two is not there.
    """
    plain = next((name for name, one in models.items() if _loss(one) == "cross-entropy"), None)
    coded = next((name for name, one in models.items() if _loss(one) == "mse"), None)
    if plain is None or coded is None:
        raise MultiwayError(
            "the tour compares a network trained by cross-entropy (1ofk) with one trained to codes "
            f"(ro): start with a run of each; {'the first' if plain is None else 'the second'} is "
            "not there"
        )
    few = min(MANY, len(images))
    own = objectives_of(models[plain])[0]
    first = Settings(0, plain, coded, "fgsm", own, eps, 10)
    counts = _count(models, images[:few], labels[:few], first)
    first = replace(first, image=_best_image(counts))
    image, label = images[first.image], int(labels[first.image])

    def seen(settings: Settings) -> View:
        return look(models, image, label, settings)

    settings = [
        replace(first, eps=0.0),
        first,
        replace(first, on=coded, other=plain, objective="own"),
        replace(first, on=coded, other=plain, objective="margin"),
        first,
        replace(first, on=coded, other=plain, objective="own", attack="pgd"),
    ]
    texts = TourTexts(
        classes, counts, label, how_trained(models[plain]), how_trained(models[coded])
    )
    lines = breaking(models, image, label, settings[5], largest)
    written = [
        texts.clean(seen(settings[0])),
        texts.plain_own(seen(settings[1])),
        texts.coded_own(seen(settings[2])),
        texts.coded_margin(seen(settings[3])),
        texts.transfer(seen(settings[4])),
        texts.breaks(lines, settings[5]),
    ]
    titles = [
        "The clean image",
        f"One step against {plain}",
        f"The same step against {coded}: the paper's claim, tried",
        f"Another objective against {coded}" + (": the flaw" if texts.misled > 0 else ""),
        "Transfer from one network to the other",
        "How large a change each takes",
    ]
    parts = ["picture"] * 5 + ["eps"]
    return tuple(Stop(*stop) for stop in zip(titles, written, settings, parts, strict=True))


def _loss(model: nn.Module) -> str:
    """The kind of its training loss; a network from elsewhere is attacked by cross-entropy."""
    return model.encoding.kind if isinstance(model, EncodedClassifier) else "cross-entropy"


def _count(
    models: Mapping[str, nn.Module], images: Tensor, labels: Tensor, settings: Settings
) -> TourCounts:
    plain, coded = models[settings.on], models[settings.other]

    def right(model: nn.Module, given: Tensor) -> Tensor:
        return (decisions(outputs_and_scores(model, given)[1]) == labels).cpu()

    def crafted(model: nn.Module, objective: str) -> Tensor:
        with collect_warnings():
            attack = make_attack(settings, objective=objective)
            return attack(model, images, labels).adversarial

    on_plain = {name: crafted(plain, name) for name in (settings.objective, "margin")}
    on_coded = {name: crafted(coded, name) for name in ("own", "margin")}
    return TourCounts(
        plain=right(plain, images),
        coded=right(coded, images),
        plain_own=right(plain, on_plain[settings.objective]),
        plain_margin=right(plain, on_plain["margin"]),
        coded_own=right(coded, on_coded["own"]),
        coded_margin=right(coded, on_coded["margin"]),
        plain_to_coded=right(coded, on_plain[settings.objective]),
        coded_to_plain=right(plain, on_coded["margin"]),
    )


def _best_image(counts: TourCounts) -> int:
    """The first image in which most of the story can be seen."""
    both = (counts.plain & counts.coded).long()
    parts = torch.stack([~counts.plain_own, counts.coded_own, ~counts.coded_margin]).sum(dim=0)
    # The first of the largest, whatever `argmax` does about ties.
    seen = both * (1 + parts + counts.plain_to_coded.long())
    return int((seen == seen.max()).nonzero()[0, 0])
