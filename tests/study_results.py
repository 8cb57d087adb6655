"""Results of studies for tests: constructed figures, never measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiway.statistics import Interval, proportion
from multiway.studies.cells import StudyCell
from multiway.studies.result import (
    FAILS,
    HOLDS,
    ONLY_OWN,
    UNMEASURED,
    Evidence,
    Provenance,
    StudyResult,
    Verdict,
)

SEEDS = (0, 1, 2)
FGSM = "FGSM, Linf 0.2"


def provenance(**changes: Any) -> Provenance:
    fields: dict[str, Any] = {
        "data": "toys",
        "models": "toy networks that were never trained",
        "n": 200,
        "seeds": SEEDS,
        "minutes": 12.34,
        "made": "2026-11-16",
        "versions": {"multiway": "0.1.0", "torch": "2.13.0"},
        "differs": ("200 images instead of 10,000",),
    }
    return Provenance(**{**fields, **changes})


def accuracy(
    row: str, column: str, right: int, objective: str | None = "own", **more: Any
) -> StudyCell:
    """`right` of 200 toy images; a cell without an objective has no attack."""
    more.setdefault("attack", None if objective is None else FGSM)
    return StudyCell.of(
        row, column, proportion(right, 200), seeds=SEEDS, objective=objective, **more
    )


def correlation(
    row: str, column: str, value: float, objective: str = "own", **more: Any
) -> StudyCell:
    spread = Interval(value, value - 0.05, value + 0.05, 200)
    return StudyCell.of(
        row, column, spread, metric="correlation", seeds=SEEDS, objective=objective, **more
    )


def verdict(words: str, claim: str = "a-claim", **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "claim": claim,
        "text": f"The claim {claim}.",
        "where": "Table 3 (a)",
        "verdict": words,
        "why": "own: +12.0 points [9.0, 15.0]; constructed for a test.",
        "evidence": () if words == UNMEASURED else (Evidence("own", 0.12, 0.09, 0.15, 200, SEEDS),),
    }
    return Verdict(**{**fields, **changes})


def result(study: str = "toy", scale: str = "cpu", **changes: Any) -> StudyResult:
    fields: dict[str, Any] = {
        "title": f"The title of {study}",
        "question": f"The question of {study}?",
        "paper": "Table 0",
        "figure": "dots",
        "provenance": provenance(),
        "cells": (
            accuracy("RO", "white-box", 120, reported=0.62),
            accuracy("RO", "clean", 198, None),
        ),
    }
    return StudyResult(study, scale, **{**fields, **changes})


def transfer(scale: str = "cpu", names: Sequence[str] = ("A-1ofK", "A-RO")) -> StudyResult:
    """A matrix of accuracies and correlations, by two objectives; the paper's beside `own`."""
    cells = []
    for shift, objective in enumerate(("own", "margin")):
        for i, target in enumerate(names):
            for j, source in enumerate(names):
                right = 40 + 30 * i + 15 * j - 20 * shift
                paper = round(right / 200 + 0.031, 3) if objective == "own" else None
                white = {"white_box": i == j}
                cells.append(accuracy(target, source, right, objective, reported=paper, **white))
                if i != j:
                    cells.append(correlation(target, source, 0.2 + 0.1 * shift, objective))
            cells.append(accuracy(target, "AVG BB", 80 + 30 * i - 20 * shift, objective))

    judged = [UNMEASURED] * 2 if scale == "smoke" else [HOLDS, ONLY_OWN]
    verdicts = [verdict(each, f"transfer-{number}") for number, each in enumerate(judged)]
    return result(
        "transfer", scale, paper="Table 3", figure="matrix", cells=tuple(cells),
        verdicts=tuple(verdicts),
    )  # fmt: skip


def length(scale: str = "cpu") -> StudyResult:
    """Lines over code lengths, with a row that is no number."""
    cells = []
    for number, row in enumerate(("10", "200", "2000", "unbounded")):
        cells.append(accuracy(row, "clean", 190 + number, None, reported=0.97))
        for shift, objective in enumerate(("own", "margin")):
            paper = 0.3 + 0.1 * number if objective == "own" else None
            right = 60 + 25 * number - 40 * shift
            cells.append(
                accuracy(row, "white-box", right, objective, reported=paper, white_box=True)
            )
    judged = UNMEASURED if scale == "smoke" else FAILS
    return result(
        "length", scale, paper="Table 1", figure="lines", cells=tuple(cells),
        verdicts=(verdict(judged, "length-white-box"),),
    )  # fmt: skip
