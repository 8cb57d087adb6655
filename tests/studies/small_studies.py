"""Studies of few digits: small networks that learn, attacks that work, in seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from multiway.artifact import Artifact
from multiway.attacks import Attack
from multiway.data import load
from multiway.schedule import order
from multiway.store import Store
from multiway.studies import CellSpec, Scale, Study, declare, scale_of
from multiway.studies.artifacts import Crafted, Decided
from multiway.studies.measures import Accuracy
from multiway.studies.scale import Setting
from multiway.studies.watermark import HIDDEN, OWNERS, THEFTS
from multiway.training import load_recipe

__all__ = ["Small", "attack_of", "decisions", "find", "make", "shared_store"]


def shared_store(tmp_path_factory: pytest.TempPathFactory, name: str) -> Store:
    """A store that all test processes of a run share, so that nothing is computed twice."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Store(shared / name).create()


def make(artifacts: Iterable[Artifact], store: Store) -> None:
    """Compute them in this process, and what they are made from."""
    for artifact in order(artifacts):
        while artifact not in store and not store.make(artifact):
            time.sleep(0.1)  # another test process is at it


def find(study: Study, row: str, column: str, objective: str | None = None, *,
         metric: str = "accuracy") -> CellSpec:  # fmt: skip
    """The only cell of that description."""
    wanted = row, column, objective, metric
    (cell,) = (c for c in study.cells if (c.row, c.column, c.objective, c.metric) == wanted)
    return cell


def decisions(cell: CellSpec) -> tuple[Decided, ...]:
    """What a cell's accuracy is read from."""
    assert isinstance(cell.measure, Accuracy)
    return tuple(decided for some in cell.measure.decided for decided in some)


def attack_of(cell: CellSpec) -> Attack:
    """The only attack behind a cell."""
    crafted = [each.shown for each in decisions(cell) if isinstance(each.shown, Crafted)]
    (attack,) = {each.attack for each in crafted}
    return attack


class Small:
    """Smoke on a quarter of its digits, with one seed; a cell is computed when it is looked at."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.store = store
        train, test = load("mnist5k", "train").limit(1000), load("mnist5k", "test").limit(200)
        np.savez(
            folder / "digits.npz", x_train=train.images[:, 0], y_train=train.labels,
            x_test=test.images[:, 0], y_test=test.labels,
        )  # fmt: skip
        self.data = f"npz:{folder / 'digits.npz'}"
        smoke = scale_of("smoke")
        self.scale: Scale = replace(
            smoke, seeds=(0,), robust_seeds=(0,), side_seeds=1, images=40, hard_images=20,
            clean={name: self._smaller(each) for name, each in smoke.clean.items()},
            robust={name: self._smaller(each) for name, each in smoke.robust.items()},
        )  # fmt: skip
        self.study = cache(self._study)

    def _smaller(self, setting: Setting) -> Setting:
        """On these digits, with as many steps as before, of a quarter of the images each."""
        batch_size = load_recipe(setting.recipe).batch_size // 4
        changes = {**setting.changes, "batch_size": batch_size}
        return replace(setting, data=self.data, changes=changes)

    def _study(self, name: str) -> Study:
        with pytest.MonkeyPatch.context() as patch:
            for settings in (OWNERS, HIDDEN, THEFTS):
                patch.setitem(settings, "smoke", self._smaller(settings["smoke"]))
            return declare(name, self.scale)

    def values(self, cell: CellSpec) -> Tensor:
        """Of each image, [1, N]."""
        make(cell.measure.artifacts(), self.store)
        return cell.measure.values(self.store)

    def value(self, study: str, row: str, column: str, objective: str | None = None, *,
              metric: str = "accuracy") -> Tensor:  # fmt: skip
        """Of each image, [1, N], in the only cell of that description."""
        return self.values(find(self.study(study), row, column, objective, metric=metric))
