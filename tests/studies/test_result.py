"""Results of studies as files: what is written is read again, and what is broken is named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multiway.errors import MultiwayError
from multiway.results import Cell, Provenance
from multiway.statistics import mean, proportion
from multiway.studies.evidence import HOLDS, NOT_JUDGED, Evidence
from multiway.studies.result import (
    StudyResult,
    Verdict,
    load_results,
    read_study_result,
    write_study_result,
)

MADE = Provenance("toys", "never trained", 200, (0, 1), 0.5, "2026-11-16", {"multiway": "0.1.0"})
CELLS = (
    Cell.of("RO", "white-box", proportion(120, 200), "accuracy", objective="own", seeds=(0, 1),
            attack="FGSM, Linf 0.2", white_box=True, reported=0.62),
    Cell.of("RO", "clean", proportion(198, 200), "accuracy", seeds=(0, 1), series="s", x=math.inf),
    Cell.of("RO", "1ofK", mean([0.25]), "correlation", objective="own"),
)  # fmt: skip


def verdict(word: str) -> Verdict:
    some = Evidence("own", "a over b", 0.12, 0.09, None, 0.0, 0.02, 0.9, None, 200, (0, 1))
    evidence = () if word == NOT_JUDGED else (some,)
    return Verdict("a-claim", "literal", "It is so.", "Table 0", word, "Measured.", evidence)


def result(name: str = "toy", scale: str = "cpu", **changes: Any) -> StudyResult:
    values: dict[str, Any] = {
        "title": "Toys", "question": "Is it so?", "paper": "Table 0", "chart": "dots",
        "cells": CELLS, "provenance": MADE, "verdicts": (verdict(HOLDS),),
    }  # fmt: skip
    return StudyResult(name=name, scale=scale, **{**values, **changes})


def smoke(name: str) -> StudyResult:
    return result(name, "smoke", verdicts=(verdict(NOT_JUDGED),))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    some = [
        result("length"),
        result("transfer", pictures={"a": "x/a.safetensors"}),
        smoke("transfer"),
    ]
    paths = [write_study_result(tmp_path, each) for each in some]
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "results/length-cpu.json", "results/transfer-cpu.json", "results/transfer-smoke.json",
    ]  # fmt: skip
    assert load_results(tmp_path) == some
    assert all(isinstance(each, StudyResult) for each in load_results(tmp_path))
    write_study_result(tmp_path, result("length", title="again"))
    assert [each.title for each in load_results(tmp_path)] == ["again", "Toys", "Toys"]
    assert {path.suffix for path in (tmp_path / "results").iterdir()} == {".json"}


def test_an_empty_store_has_no_results(tmp_path: Path) -> None:
    assert load_results(tmp_path) == []
    assert load_results(tmp_path / "nowhere") == []


def change(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document.update(values)


BROKEN: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (change(scale="cpuu"), "unknown scale 'cpuu': did you mean 'cpu'?"),
    (change(chart="pie"), "unknown chart 'pie'"),
    (change(name="../x"), "a study's name has small letters"),
    (change(study="toy"), "study is no field of it; another version wrote it"),
    (change(scale="smoke"), "at scale smoke every verdict is 'not judged'"),
    (lambda document: document.pop("question"), "question is missing"),
    (
        lambda document: document["verdicts"][0].update(verdict="maybe"),
        "unknown verdict on a-claim 'maybe'",
    ),
    (
        lambda document: document["verdicts"][0].update(verdict="undecided"),
        "the verdict on a-claim is 'undecided', and by its evidence it is 'holds'",
    ),
    (
        lambda document: document["verdicts"][0]["evidence"][0].update(low=-0.1),
        "the verdict on a-claim is 'holds', and by its evidence it is 'undecided'",
    ),
    (
        lambda document: document["verdicts"][0]["evidence"][0].update(low=0.5),
        "a verdict's evidence: 0.12 lies outside its interval",
    ),
    (
        lambda document: document["verdicts"][0]["evidence"][0].update(n="many"),
        'verdicts.0.evidence.0.n is "many", expected a valid integer',
    ),
    (lambda document: document["cells"][0].update(reported=62.0), "accuracy lies between 0 and 1"),
]


@pytest.mark.parametrize(("edit", "message"), BROKEN, ids=[message[:40] for _, message in BROKEN])
def test_an_edited_file_is_named(
    edit: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    path = write_study_result(tmp_path, result())
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    with pytest.raises(MultiwayError, match=message) as error:
        load_results(tmp_path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_cut_short_is_named(share: float, tmp_path: Path) -> None:
    path = write_study_result(tmp_path, result())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(MultiwayError, match="not valid JSON") as error:
        load_results(tmp_path)
    assert str(path) in str(error.value)


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    path = write_study_result(tmp_path, result())
    path = path.rename(path.with_name("toy-paper.json"))
    with pytest.raises(MultiwayError, match="holds the result of toy at scale cpu"):
        read_study_result(path)


def test_evidence_that_is_not_finite_is_refused() -> None:
    with pytest.raises(MultiwayError, match="is not finite"):
        Evidence("own", "", math.nan, None, None, 0.0, 0.02, 0.9, None, 1, ())
