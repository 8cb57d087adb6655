"""Whether the networks behind a claim learned their task."""

from __future__ import annotations

from dataclasses import replace

from multiway.schedule import order
from multiway.statistics import Interval, proportion
from multiway.store import Store
from multiway.studies.artifacts import Decided
from multiway.studies.claims import Claim
from multiway.studies.study import Study

__all__ = ["not_learned"]

# The share of a one-hot network's clean accuracy below which another did not learn its task: with
# its whole interval, for three trainings alike know 13.0, 13.5 and 14.5 % of 5,000 images.
LEARNED = 0.9


def not_learned(claim: Claim, study: Study, store: Store) -> str | None:
    """Which network of the claim's cells did not learn its task; None if all did."""
    cells = [
        c for c in study.cells if (c.row, c.column) in claim.cells and c.metric == claim.metric
    ]
    artifacts = order(each for cell in cells for each in cell.measure.artifacts())
    # A twin may have failed to learn, too: it counts what the best of its seeds reaches.
    known = {artifact.key for artifact in artifacts}
    best: dict[str, float] = {}
    for pair in study.learned:
        kind = _kind(pair.twin)
        best[kind] = max(best.get(kind, 0.0), _clean(pair.twin, store).value)
    for pair in study.learned:
        twin = best[_kind(pair.twin)]
        for network in (pair.network, pair.twin):
            own = _clean(network, store)
            if network.target.key in known and own.high < LEARNED * twin:
                return (
                    f"{network.target.name} did not learn its task: {100 * own.value:.1f} % of "
                    f"clean images, a one-hot network by its recipe {100 * twin:.1f} %."
                )
    return None


def _kind(network: Decided) -> str:
    """What the trainings of a network that differ by their seed have in common."""
    return repr(replace(network.target, seed=0))


def _clean(network: Decided, store: Store) -> Interval:
    right = network.right(store)
    return proportion(int(right.sum()), len(right))
