"""Results of studies for tests: constructed figures, never measured ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from multiway.results import Cell, Provenance, Result
from multiway.statistics import Interval, proportion
from multiway.studies.evidence import (
    HOLDS,
    NO_EFFECT,
    NOT_JUDGED,
    ONLY_OWN,
    OPPOSITE,
    UNDECIDED,
    Evidence,
)
from multiway.studies.result import StudyResult, Verdict

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


def accuracy(row: str, column: str, right: int, objective: str | None = "own", **more: Any) -> Cell:
    """`right` of 200 toy images; a cell without an objective has no attack."""
    fields: dict[str, Any] = {
        "seeds": SEEDS,
        "objective": objective,
        "attack": None if objective is None else FGSM,
    }
    return Cell.of(row, column, proportion(right, 200), "accuracy", **{**fields, **more})


def correlation(row: str, column: str, value: float, objective: str = "own", **more: Any) -> Cell:
    spread = Interval(value, value - 0.05, value + 0.05, 200)
    fields: dict[str, Any] = {"seeds": SEEDS, "objective": objective}
    return Cell.of(row, column, spread, "correlation", **{**fields, **more})


# Intervals that give each verdict, and what a stronger attack takes away.
GIVES: dict[str, tuple[tuple[str, float, float, float | None], ...]] = {
    HOLDS: (("own", 0.09, 0.15, None),),
    ONLY_OWN: (("own", 0.09, 0.15, None), ("worst case", -0.01, 0.01, 0.08)),
    OPPOSITE: (("own", -0.15, -0.09, None),),
    NO_EFFECT: (("own", -0.01, 0.01, None),),
    UNDECIDED: (("own", -0.09, 0.15, None),),
    NOT_JUDGED: (),
}


def verdict(words: str, claim: str = "a-claim", **changes: Any) -> Verdict:
    evidence = tuple(
        Evidence(name, "RO over 1ofK", (low + high) / 2, low, high, 0.0, 0.02, 0.9, lost, 200,
                 SEEDS)
        for name, low, high, lost in GIVES[words]
    )  # fmt: skip
    fields: dict[str, Any] = {
        "claim": claim,
        "kind": "literal",
        "text": f"The claim {claim}.",
        "where": "Table 3 (a)",
        "verdict": words,
        "why": "own: +12.0 points [9.0, 15.0]; constructed for a test.",
        "evidence": evidence,
    }
    return Verdict(**{**fields, **changes})


def plain(*cells: Cell, chart: str = "dots", **changes: Any) -> Result:
    """A result as a command returns it: without a scale, a question and verdicts."""
    fields: dict[str, Any] = {
        "name": "toy",
        "title": "The title of toy",
        "provenance": provenance(),
        "row_name": "attacked",
        "column_name": "crafted on",
    }
    return Result(cells=cells, chart=chart, **{**fields, **changes})


def result(study: str = "toy", scale: str = "cpu", **changes: Any) -> StudyResult:
    fields: dict[str, Any] = {
        "title": f"The title of {study}",
        "question": f"The question of {study}?",
        "paper": "Table 0",
        "chart": "dots",
        "column_name": "attacker",
        "provenance": provenance(),
        "cells": (
            accuracy("RO", "white-box", 120, reported=0.62),
            accuracy("RO", "clean", 198, None),
        ),
    }
    return StudyResult(name=study, scale=scale, **{**fields, **changes})


def transfer(scale: str = "cpu", names: Sequence[str] = ("A-1ofK", "A-RO")) -> StudyResult:
    """Heat maps of accuracies and correlations, by two objectives; the paper's beside `own`."""
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

    judged = [NOT_JUDGED] * 2 if scale == "smoke" else [HOLDS, ONLY_OWN]
    verdicts = [verdict(each, f"transfer-{number}") for number, each in enumerate(judged)]
    return result(
        "transfer", scale, paper="Table 3", chart="heat map", cells=tuple(cells),
        row_name="attacked", column_name="crafted on", verdicts=tuple(verdicts),
    )  # fmt: skip


def length(scale: str = "cpu") -> StudyResult:
    """Lines over code lengths, the last of them without a limit."""
    cells = []
    for number, x in enumerate((10.0, 200.0, 2000.0, math.inf)):
        place: dict[str, Any] = {"x": x}
        cells.append(accuracy(f"{x:g}", "clean", 190 + number, None, reported=0.97, **place))
        for shift, objective in enumerate(("own", "margin")):
            place["reported"] = 0.3 + 0.1 * number if objective == "own" else None
            right = 60 + 25 * number - 40 * shift
            cells.append(accuracy(f"{x:g}", "white-box", right, objective, white_box=True, **place))
    judged = NOT_JUDGED if scale == "smoke" else OPPOSITE
    return result(
        "length", scale, paper="Table 1", chart="lines", cells=tuple(cells),
        row_name="code length", x_name="code length",
        verdicts=(verdict(judged, "length-white-box"),),
    )  # fmt: skip
