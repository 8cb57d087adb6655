"""The demo's page: what two encodings did to four networks, in pictures and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from multiway.analysis import (
    Correlation,
    CorruptionTable,
    Curve,
    Diagnosis,
    TransferMatrix,
)
from multiway.report.correlation import correlation_rows, draw_correlations
from multiway.report.corruption import corruption_rows, corruption_title, draw_corruption
from multiway.report.curves import curve_tables, curve_title, draw_curves
from multiway.report.diagnosis import diagnosis_section
from multiway.report.matrix import draw_matrices, transfer_rows
from multiway.report.page import Block, Picture, Section, Table, Text, write_page
from multiway.report.saliency import draw_saliency

__all__ = ["DemoFindings", "demo_page"]


@dataclass(frozen=True)
class DemoFindings:
    """All that the demo measured.

    Attributes:
        data: the name of the data set.
        training: the seeds that the networks were trained with.
        encodings: of each network, by name.
        matrices: one for each objective, the paper's `own` first.
        correlations: of each pair, layer and objective.
        images: [N, C, H, W], whose gradients are shown.
        labels: the name of each one's class.
        gradients: by objective, then by network, [N, C, H, W].
        curves: accuracy against eps.
        corruption: accuracy under corruptions.
        diagnoses: by network.
        provenance: how it was made.
    """

    data: str
    training: str
    encodings: dict[str, str]
    matrices: Sequence[TransferMatrix]
    correlations: Sequence[Correlation]
    images: Tensor
    labels: Sequence[str]
    gradients: Mapping[str, Mapping[str, Tensor]]
    curves: Sequence[Curve]
    corruption: CorruptionTable
    diagnoses: Mapping[str, Diagnosis]
    provenance: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The figures, for JSON."""
        return {
            "encodings": self.encodings,
            "transfer": {matrix.objective: matrix.as_dict() for matrix in self.matrices},
            "correlations": [one.as_dict() for one in self.correlations],
            "curves": [curve.as_dict() for curve in self.curves],
            "corruption": self.corruption.as_dict(),
            "diagnoses": {name: one.as_dict() for name, one in self.diagnoses.items()},
            "provenance": dict(self.provenance),
        }


def demo_page(path: Path, found: DemoFindings) -> Path:
    """Write the page."""
    sections = [
        _transfer(found),
        _correlation(found),
        _saliency(found),
        _curves(found),
        _corruption(found),
        *(
            Section(f"Diagnosis of {name}", diagnosis_section(one, name).blocks)
            for name, one in found.diagnoses.items()
        ),
    ]
    lead = (
        "Four small networks learned the same digits: two with one-hot labels (1ofK), two with "
        "random orthogonal codes (RO) of length 2,000. Each was attacked, by itself and by the "
        "others. What follows is one run on a small data set, not a study; every figure has its "
        "95 % interval."
    )
    return write_page(path, "What did the encoding buy?", lead, sections, found.provenance)


def _transfer(found: DemoFindings) -> Section:
    own, *others = found.matrices
    n = next(iter(own.clean.values())).n
    how = (
        f"FGSM at {_threat(own)} on {found.data}, n={n}, attack seed {own.seed}, training seeds "
        f"{found.training}"
    )
    blocks: list[Block] = [
        Text(
            f"Each network (column) crafts adversarial images with FGSM at {_threat(own)}, and "
            f"each (row) is shown them; n={n}. The attacker ascends the network's own training "
            "loss, as in the paper, or the margin: the lead of the best wrong class, which is what "
            "decides. ρ is the correlation of the signs of the two input gradients. In brackets "
            "95 % intervals."
        )
    ]
    for name in _with_encoding(found.encodings, "ro"):
        there = own.cell(name, name).accuracy
        worst = min((m.cell(name, name).accuracy for m in found.matrices), key=lambda i: i.value)
        if worst.high < there.low:
            blocks.append(
                Text(
                    f"Under its own loss {name} seems to keep {there}. Under the margin {worst} is "
                    "left: its loss gives a poor direction, and that is not robustness.",
                    strong=True,
                )
            )
    blocks.append(
        Picture(
            draw_matrices(found.matrices, f"Accuracy (%) under {how}"),
            "Two heat maps of accuracies, every network against every network",
            "Rows are attacked, columns attack; brackets are 95 % intervals. A transfer table is "
            "weak evidence for a defence: the white-box cells are what counts.",
        )
    )
    for matrix in (own, *others):
        caption = (
            f"Accuracy in % under {how}; the attacker ascends: {matrix.objective}. In brackets "
            "95 % intervals; * white-box"
        )
        blocks.append(Table(*transfer_rows(matrix), caption=caption))
    return Section("Do attacks transfer?", blocks)


def _threat(matrix: TransferMatrix) -> str:
    return f"L-inf eps {float(matrix.attack['threat']['eps']):.4g}"


def _correlation(found: DemoFindings) -> Section:
    n = next(iter(found.matrices[0].clean.values())).n
    title = f"Correlation of gradient signs on {found.data}, n={n}, training seeds {found.training}"
    blocks: list[Block] = [
        Text(
            "The paper explains the lack of transfer by gradients that point elsewhere. Here is "
            "the correlation of their signs, at the input and at each convolution, for both "
            "objectives."
        ),
        Text(_gap(found)),
        Picture(
            draw_correlations(found.correlations, title),
            "Heat maps of correlations between every two networks",
            "Mean over images of each image's coefficient.",
        ),
        Table(*correlation_rows(found.correlations), caption=f"{title}; 95 % intervals"),
    ]
    return Section("Are their gradients alike?", blocks)


def _gap(found: DemoFindings) -> str:
    """What the objective does to the correlation between networks of one encoding."""
    parts = []
    for encoding in dict.fromkeys(found.encodings.values()):
        names = {name for name, one in found.encodings.items() if one == encoding}
        values = {
            one.objective: one.correlation
            for one in found.correlations
            if {one.one, one.other} == names and one.layer == "input" and one.correlation
        }
        told = ", ".join(f"{value.number()} on {name}" for name, value in values.items())
        if told:
            parts.append(f"between the two {encoding} networks it is {told}")
    return f"At the input, {'; '.join(parts)}. In brackets 95 % intervals." if parts else ""


def _saliency(found: DemoFindings) -> Section:
    blocks: list[Block] = [
        Text(
            "Where a brighter pixel would raise what the attacker ascends, and where lower it, on "
            f"{len(found.images)} single images. No attack and no chance is in these pictures; "
            f"the seeds are those of training, {found.training}."
        )
    ]
    rows = [f"image {number}\nclass {name}" for number, name in enumerate(found.labels)]
    for objective, gradients in found.gradients.items():
        figure = draw_saliency(
            found.images, gradients,
            rows=rows, title=f"Input gradients of {objective}, {found.data} test images; "
            f"training seeds {found.training}", objective=objective,
        )  # fmt: skip
        blocks.append(
            Picture(figure, f"Input gradients of each network, objective {objective}", format="png")
        )
    return Section("What do the gradients look at?", blocks)


def _curves(found: DemoFindings) -> Section:
    title = curve_title(found.curves[0], found.data, found.training)
    blocks: list[Block] = [
        Text(
            f"White-box PGD with {found.curves[0].attack['steps']} steps and a growing radius, on "
            f"{found.curves[0].clean.n} images. Accuracy must fall, and reach zero where "
            "nothing limits the attacker; where it does not, the attack fails and not the network "
            "resists."
        ),
        Picture(
            draw_curves(found.curves, title),
            "Accuracy of each network against the radius of the attack",
            "Bands are 95 % intervals.",
        ),
    ]
    blocks += [
        Table(columns, rows, caption=f"{title}; {caption}; in brackets 95 % intervals")
        for caption, columns, rows in curve_tables(found.curves)
    ]
    return Section("How far must an attacker go?", blocks)


def _corruption(found: DemoFindings) -> Section:
    table = found.corruption
    told = ". ".join(
        f"Mean of {group}: " + "; ".join(f"{row.model} {row.averages[group]}" for row in table.rows)
        for group in table.rows[0].averages
    )
    return Section(
        "Noise, blur, weather",
        [
            Text(
                "Corruptions that nobody crafted, CIFAR-10-C-style, made here at severities "
                f"{', '.join(map(str, table.severities))}. {told}; in brackets 95 % intervals over "
                "images."
            ),
            Picture(
                draw_corruption(table, found.training),
                "Bars of accuracy for each kind of corruption and each network",
            ),
            Table(*corruption_rows(table), caption=corruption_title(table, found.training)),
        ],
    )


def _with_encoding(encodings: Mapping[str, str], encoding: str) -> list[str]:
    return [name for name, one in encodings.items() if one == encoding]
