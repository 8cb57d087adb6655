"""Substitutes: trainings of their own, so that the seeds of a cell are independent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from small_studies import decisions

from multiway.schedule import order
from multiway.statistics import mean
from multiway.studies import SCALES, STUDIES, declare, scale_of, studies_at
from multiway.studies.artifacts import Crafted
from multiway.studies.measures import Accuracy, Correlated
from multiway.studies.models import Model
from multiway.studies.scale import SUBSTITUTE, Scale

DRAWS = 4000
DATA = pytest.mark.real_data("mnist", "cifar10", "cifar100", "svhn")


def ring(seed: int) -> int:
    """Each of three networks stands against the next one."""
    return (seed + 1) % 3


def own(seed: int) -> int:
    """Each stands against a network of its own."""
    return seed + SUBSTITUTE


def coverage(substitute: Callable[[int], int]) -> float:
    """How often the 95 % interval of the mean over three pairs of networks holds the truth, 0.

    A pair's statistic (the correlation of its gradients, say) is the sum of what each of its
    networks brings and of what is the pair's own, all of one size.
    """
    random = np.random.RandomState(0)
    held = 0
    for _ in range(DRAWS):
        brings = {seed: random.randn() for seed in (0, 1, 2, own(0), own(1), own(2))}
        pairs = [brings[seed] + brings[substitute(seed)] + random.randn() for seed in range(3)]
        interval = mean(pairs)
        held += interval.low <= 0 <= interval.high
    return held / DRAWS


def test_only_pairs_that_share_no_network_have_the_coverage_they_claim() -> None:
    assert coverage(ring) < 0.93
    assert coverage(own) == pytest.approx(0.95, abs=0.01)


def test_no_target_has_the_seed_of_a_substitute() -> None:
    for name in SCALES:
        scale = scale_of(name)
        robust = scale.robust_seeds[: scale.side_seeds]
        for targets, apart in ((scale.seeds, scale.apart), (robust, scale.robust_apart)):
            assert not set(targets) & {seed + apart for seed in targets}


@DATA
@pytest.mark.parametrize("name", ["transfer", "ablation"])
def test_at_the_papers_size_kinds_attack_each_other_from_seeds_of_their_own(name: str) -> None:
    """Networks of one seed would begin alike; and no network is in two pairs of a cell."""
    for cell in declare(name, scale_of("paper")).cells:
        if cell.white_box or not isinstance(cell.measure, Accuracy):
            continue
        pairs = {
            (d.target, d.shown.source) for d in decisions(cell) if isinstance(d.shown, Crafted)
        }
        assert all(target.seed != source.seed for target, source in pairs)
        for target, source in pairs:
            sharing = {each for each in pairs if source in each}
            assert {each[0] for each in sharing} == {target}, (cell.row, cell.column)


@DATA
@pytest.mark.parametrize(
    ("names", "frugal", "whole"),
    [
        (["transfer"], 4, 8),
        (["ablation"], 8, 10),
        (["objectives"], 6, 8),
        (["transfer", "correlation", "ablation", "objectives"], 11, 15),
    ],
)
def test_fewer_trainings_do_at_the_papers_size(names: list[str], frugal: int, whole: int) -> None:
    """For each seed, with the one-hot twins that say what can be learned."""

    def networks(scale: Scale) -> int:
        behind = order([each for name in names for each in declare(name, scale).artifacts()])
        return sum(isinstance(artifact, Model) for artifact in behind)

    paper = scale_of("paper")
    assert networks(paper) == frugal * len(paper.seeds)
    assert networks(replace(paper, frugal=False)) == whole * len(paper.seeds)


@DATA
def test_on_every_set_of_fig_3_the_headline_pair_has_all_seeds() -> None:
    """And the baseline of SVHN, where nobody sees clean images, is 1ofK itself."""
    scale = scale_of("cpu")
    cells = {(c.row, c.column, c.objective): c for c in declare("iterations", scale).cells}
    for data in scale.robust:
        for row in ("1ofK", "RO"):
            assert cells[f"{data}, {row}", "white-box 100", "own"].seeds == scale.robust_seeds
        baseline = cells[f"{data}, Madry et al.", "white-box 100", "own"]
        same = baseline.measure == cells[f"{data}, 1ofK", "white-box 100", "own"].measure
        assert same == (data == "SVHN")


@DATA
def test_at_cpu_the_other_half_of_the_robust_networks_are_the_substitutes() -> None:
    """Which saves their training; on fewer seeds they are the same networks."""
    for scale in (scale_of("cpu"), scale_of("cpu").first_seeds(1)):
        cells = [cell for cell in declare("benchmark", scale).cells if "black" in cell.column]
        pairs = {
            (d.target.seed, d.shown.source.seed)
            for cell in cells
            for d in decisions(cell)
            if isinstance(d.shown, Crafted)
        }
        assert pairs == {(seed, seed + 3) for seed in scale.robust_seeds[:3]}


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        *((name, "smoke") for name in STUDIES),
        *(
            pytest.param(name, scale, marks=DATA)
            for scale in ("cpu", "fresh")
            for name in studies_at(scale)
        ),
    ],
)
def test_the_pairs_of_a_cell_share_no_network(name: str, scale: str) -> None:
    """Each network of a cell belongs to one seed, as target or as substitute."""
    for cell in declare(name, scale_of(scale)).cells:
        by_seed: list[set[str]] = []
        if isinstance(cell.measure, Correlated):
            pairs = cell.measure.pairs
            by_seed = [{pair.one.model.key, pair.other.model.key} for pair in pairs]
            assert all(len(pair) == 2 for pair in by_seed)
        elif isinstance(cell.measure, Accuracy):
            for decided in cell.measure.decided:
                sources = {d.shown.source.key for d in decided if isinstance(d.shown, Crafted)}
                by_seed.append({d.target.key for d in decided} | sources)
        count = Counter(key for some in by_seed for key in some)
        assert set(count.values()) <= {1}, (cell.row, cell.column)


def test_a_black_box_source_is_a_substitute_and_nothing_else() -> None:
    for name in ("transfer", "benchmark", "controls", "confidence"):
        for cell in declare(name, scale_of("smoke")).cells:
            unattacked = cell.attack is None or cell.metric != "accuracy"
            if unattacked or cell.white_box or cell.column == "gradient-free":
                continue
            for decided in decisions(cell):
                assert isinstance(decided.shown, Crafted)
                assert decided.shown.source.seed == own(decided.target.seed)
