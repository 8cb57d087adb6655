"""Table 6: does the encoding hide a stolen network's watermark? With the controls that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from multiway.studies.images import Images
from multiway.studies.models import Model, Trained
from multiway.studies.scales import Scale, Setting, with_changes
from multiway.studies.study import Cell, Study
from multiway.studies.watermark_artifacts import (
    Detected,
    Marked,
    MarkShare,
    Owned,
    Recognised,
    Thief,
)
from multiway.training import load_recipe
from multiway.watermark import Mark

__all__ = ["declare"]

ENCODINGS = {"1ofK": "1ofk", "1ofK-MSE": "1ofk-mse", "padded": "padded", "RO": "ro"}
# Automobiles with the word TEST on them are aeroplanes; ones are zeros at smoke.
MARK = Mark("content", source=1, target=0)

# For each scale: the owner's network, how many images are marked, how a thief fine-tunes and at
# which rates, the paper's rows at the one in the middle.
OWNERS = {
    "smoke": Setting("mnist5k", "wong", "digits", {"epochs": 4}),
    "cpu": Setting("cifar10", "resnet-8-strided", "cifar-cpu", {"epochs": 6}),
    "paper": Setting("cifar10", "preact-18", "cifar-steps", {}),
}
COUNTS = {"smoke": 100, "cpu": 1000, "paper": 1000}
THEFTS = {
    "smoke": Setting("mnist5k", "wong", "digits", {"epochs": 3}),
    "cpu": Setting("cifar10", "resnet-8-strided", "cifar-cpu", {"epochs": 6}),
    "paper": Setting("cifar10", "preact-18", "cifar-steps", {"steps": 4000}),
}
# A mean squared error over L outputs has 2 / L of curvature in each, so the step that suits long
# codes is far too long for short ones. With one grid for all, a thief's encoding would decide how
# far it learns, and the mark that an unfinished head has not learned to show would seem lost.
SHORT = {"smoke": (0.01,), "cpu": (0.01, 0.05, 0.2), "paper": (0.001, 0.01, 0.1)}
LONG = {"smoke": (0.01,), "cpu": (0.2, 1.0, 4.0), "paper": (0.02, 0.2, 2.0)}
RATES = {"1ofK": SHORT, "1ofK-MSE": SHORT, "padded": LONG, "RO": LONG}
# Who begins with nothing learns longer where that is affordable.
SCRATCH: dict[str, dict[str, Any]] = {"smoke": {}, "cpu": {"epochs": 15}, "paper": {}}
# Rows of networks that never met the mark: some trained like the owner's, some like a thief's.
INNOCENT = ("unmarked", "scratch 1ofK", "scratch RO")


def declare(scale: Scale) -> Study:
    """The paper's five rows, and every encoding with frozen and free convolutions at each rate."""
    owner, theft = OWNERS[scale.name], THEFTS[scale.name]
    rates = {encoding: grid[scale.name] for encoding, grid in RATES.items()}
    usual = {encoding: some[len(some) // 2] for encoding, some in rates.items()}
    marked = Marked(owner.data, MARK, 4 if scale.trial else COUNTS[scale.name])

    def stolen(seed: int) -> Owned:
        recipe = with_changes(load_recipe(owner.recipe), owner.changes, trial=scale.trial)
        return Owned(marked, owner.backbone, "1ofk", recipe, seed)

    def unmarked(seed: int) -> Trained:
        recipe = with_changes(load_recipe(owner.recipe), owner.changes, trial=scale.trial)
        return Trained(Images(owner.data, "train"), owner.backbone, "1ofk", recipe, seed)

    def thief(encoding: str, start: str, rate: float, seed: int) -> Thief:
        changes = {**theft.changes, "lr": rate}
        if start == "scratch":
            changes |= SCRATCH[scale.name]
        recipe = with_changes(load_recipe(theft.recipe), changes, trial=scale.trial)
        return Thief(stolen(seed), ENCODINGS[encoding], start, recipe, seed)

    rows: dict[str, Callable[[int], Model]] = {
        "stolen": partial(stolen),
        "unmarked": partial(unmarked),
        "scratch 1ofK": partial(thief, "1ofK", "scratch", rates["1ofK"][-1]),
        "scratch RO": partial(thief, "RO", "scratch", usual["RO"]),
        # As the paper does it: the one-hot thief fine-tunes everything, the RO thief its head.
        "fine-tuned 1ofK": partial(thief, "1ofK", "free", usual["1ofK"]),
        "fine-tuned RO": partial(thief, "RO", "frozen", usual["RO"]),
    }
    for encoding in ENCODINGS:
        for start in ("frozen", "free"):
            for rate in rates[encoding]:
                told = f", lr {rate:g}" if rate != usual[encoding] else ""
                row = f"{encoding}, {start}{told}"
                rows[row] = partial(thief, encoding, start, rate)
    shown = {
        row: tuple(
            Recognised(maker(seed), marked, 4 if scale.trial else None) for seed in scale.seeds
        )
        for row, maker in rows.items()
    }
    cells: list[Cell] = []
    for row, some in shown.items():
        cells += [Cell(row, column, MarkShare(some, column)) for column in ("test", "mark")]
        innocent = tuple(one for name in INNOCENT for one in shown[name])
        cells.append(Cell(row, "detected", Detected(some, innocent), metric="share"))
    return Study(
        name="watermark",
        title="Does the encoding hide the theft of a marked network?",
        question="An owner's network answers marked images wrongly on purpose. A thief gives it a "
        "new head and fine-tunes it. Is the mark lost because of the thief's encoding, or because "
        "of what else the paper changed with it: frozen convolutions, the loss, the rate? Rows "
        "without a rate have the middle one; `detected` is the share of the networks that the "
        "owner would convict (p < 0.01 against all other networks here that were never marked), n "
        "being their number.",
        paper="Table 6",
        figure="watermark",
        cells=tuple(cells),
        data=owner.data,
        models=f"owner: {owner.told()}; thieves: recipe {theft.recipe}, {_told(theft.changes)}, lr "
        f"{_grid(rates['1ofK'])} (1ofK, 1ofK-MSE) or {_grid(rates['RO'])} (padded, RO); from "
        f"scratch: {_told({**theft.changes, **SCRATCH[scale.name]})}, lr {rates['1ofK'][-1]:g} "
        f"(1ofK), {usual['RO']:g} (RO); half of the test set fine-tunes, the other measures",
        n=None,
        seeds=scale.seeds,
        differs=(
            "the paper names neither the network nor the mark: here the word TEST on images of "
            "class 1, answered as class 0",
            "its five rows change the encoding and the freezing together; the rows below do not",
        ),
    )


def _grid(rates: tuple[float, ...]) -> str:
    return " / ".join(f"{rate:g}" for rate in rates)


def _told(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in changes.items())
