"""What `multiway evaluate` found, as a table, as JSON, and under which name it is kept."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from multiway.cli.console import print_table

if TYPE_CHECKING:
    from multiway.attacks import Attack, DistanceSummary
    from multiway.data import ImageSet

__all__ = ["distances", "result_name", "settings", "show"]


def result_name(
    row: dict[str, Any], names: list[str], data: ImageSet, attacks: list[Attack]
) -> str:
    """The name of a result's file: what it is for a person, and a hash of all that made it."""
    return "-".join([*(names or ["clean"]), *_told(row), _key(data, attacks, row["seed"])])


def _key(data: ImageSet, attacks: list[Attack], seed: int) -> str:
    """Eight digits that are the same only for the same attacks, seed and images."""
    from torch import nn

    from multiway.identity import fingerprint

    given = (data.images, data.labels)
    return fingerprint(nn.Identity(), attacks=attacks, seed=seed, data=given)[:8]


def _told(row: dict[str, Any]) -> list[str]:
    """What tells one result of a run from another, in the name of its file."""
    threat = row["attacked_with"][0]["threat"] if "attacked_with" in row else {}
    objectives = {one["objective"] for one in row.get("attacked_with", []) if "objective" in one}
    radius = [f"{threat['type'].lower()}{float(threat['eps']):.4g}"] if threat else []
    return [*sorted(objectives), *radius, f"n{row['clean']['n']}", row["weights"]]


def settings(attack: Attack) -> dict[str, Any]:
    """All that an attack is, for JSON; a step that it chose by itself as the share it took."""
    from multiway.attacks import PGD
    from multiway.attacks.pgd import default_share
    from multiway.identity import describe

    told: dict[str, Any] = describe(attack)
    if isinstance(attack, PGD) and attack.step_size is None:
        told["step_size"] = f"eps/{1 / default_share(attack.steps):.4g}"
    return told


def distances(summary: DistanceSummary) -> dict[str, Any]:
    """Schott et al.'s figures for JSON, which has no infinity."""
    median = {
        key: value if math.isfinite(value) else None
        for key, value in summary.median.as_dict().items()
    }
    return {
        "median_l2": median,
        "threshold": summary.threshold,
        "accuracy": summary.accuracy.as_dict(),
        "text": str(summary),
    }


def show(rows: list[dict[str, Any]]) -> None:
    from multiway.statistics import Interval

    columns = ["network", "encoding", "seed", "weights", "data", "clean accuracy"]
    title = "Accuracy on test images, 95 % intervals"
    if "attacks" in rows[0]:
        threats = {
            (
                row["attacked_with"][0]["threat"]["type"],
                float(row["attacked_with"][0]["threat"]["eps"]),
            )
            for row in rows
        }
        radii = ", ".join(f"{kind} eps {eps:.4g}" for kind, eps in sorted(threats))
        title += f"; {radii}, attacks seeded with "
        title += f"{rows[0]['seed']}, worst case of each image over the attacks so far"
        columns += [f"under {one['attack']}" for one in rows[0]["attacks"]]
    table = []
    for row in rows:
        cells = [row["run"] or row["name"], row["encoding"] or "-"]
        cells += [str(row["trained_with_seed"]) if row["run"] else "-", row["weights"], row["data"]]
        cells.append(str(Interval(**row["clean"])))
        cells += [str(Interval(**one["accuracy"])) for one in row.get("attacks", [])]
        table.append(cells)
    print_table(title, columns, table)
    for row in rows:
        if "distances" in row:
            sys.stdout.write(
                f"{row['run'] or row['name']}, boundary attack: {row['distances']['text']}\n"
            )
