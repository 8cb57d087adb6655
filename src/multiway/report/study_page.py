"""The page of all studies: verdicts first, then each study, with filters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from multiway import __version__
from multiway.report.figures import draw
from multiway.report.findings import Findings
from multiway.report.labels import UNGUIDED, identity
from multiway.report.legend import LEGEND
from multiway.report.markdown import study_markdown
from multiway.report.page import Picture, render_page
from multiway.report.standing import judged_text, measured_anew, question_rows
from multiway.report.summary import (
    MARKS,
    SMOKE,
    made_rows,
    summary_rows,
    unmeasured_text,
)
from multiway.report.tables import Table, result_tables
from multiway.studies.evidence import VERDICTS
from multiway.studies.result import KINDS, SCALES, StudyResult, Verdict

__all__ = ["write_study_page"]

LEAD = (
    "Kim and others (“Multi-way Encoding for Robustness”) encode classes by long random codes, and "
    "claim that attacks then transfer less and do less harm. Here each of their tables and figures "
    "is measured again, also with an attack that goes for the decision itself."
)


@dataclass(frozen=True)
class _Part:
    """One study, ready to be shown."""

    id: str
    result: StudyResult
    found: str
    more: tuple[str, ...]
    pictures: list[Picture]
    tables: list[Table]
    made: list[tuple[str, str]]
    anew: Mapping[str, Verdict]


def write_study_page(
    path: Path | str,
    results: Sequence[StudyResult],
    store: Path | str,
    findings: Findings | None = None,
) -> Path:
    """Write one self-contained page of `results`, in the order they come.

    Args:
        store: where the arrays lie that some studies show as pictures.
        findings: what is concluded from the results.
    """
    findings = findings or Findings()
    parts = [
        _Part(
            identity(each),
            each,
            findings.of(each),
            findings.more(each),
            draw(each, store),
            result_tables(each),
            made_rows(each),
            measured_anew(each, results),
        )
        for each in results
    ]
    values: dict[str, Any] = {
        "title": "Does the paper hold?",
        "lead": LEAD,
        "answer": findings.answer,
        "parts": parts,
        "questions": question_rows(results),
        "claim_kinds": KINDS,
        "judged": judged_text(results),
        "history": findings.history,
        "doubts": findings.doubts,
        "rows": summary_rows(results),
        "unmeasured": unmeasured_text(results),
        "marks": MARKS,
        # A class of the style sheet for each verdict, which is no word of its own.
        "kinds": {word: f"v{number}" for number, word in enumerate(VERDICTS)},
        "legend": LEGEND,
        "smoke": SMOKE,
        "choices": _choices(parts),
        "data": _data(results),
        "provenance": {
            "page": f"multiway {__version__} report",
            "store": f"{Path(store).resolve().name}, {len(results)} results of studies",
        },
    }
    return render_page(path, "studies.html", values)


def _choices(parts: list[_Part]) -> Mapping[str, list[str]]:
    """What the filters offer: only what is on the page."""
    words = {each.verdict for part in parts for each in part.result.verdicts}
    objectives = list(dict.fromkeys(o for part in parts for t in part.tables for o in t.objectives))
    return {
        "study": list(dict.fromkeys(part.result.name for part in parts)),
        "scale": [s for s in SCALES if s in {part.result.scale for part in parts}],
        "verdict": [word for word in VERDICTS if word in words],
        "objective": sorted(objectives, key=lambda name: name in UNGUIDED),
    }


def _data(results: Sequence[StudyResult]) -> Markup:
    """All results as JSON inside the page; no word in it can end the script that holds it."""
    value = {
        "results": {identity(each): each.as_dict() for each in results},
        "markdown": {identity(each): study_markdown(each, beside=results) for each in results},
    }
    return Markup(json.dumps(value, allow_nan=False).replace("<", "\\u003c"))
