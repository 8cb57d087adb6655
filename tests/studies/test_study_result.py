"""Results of studies: what is written is read again, and what is broken is named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiway.errors import MultiwayError
from multiway.statistics import Interval, mean, proportion
from multiway.studies.cells import StudyCell
from multiway.studies.result import (
    HOLDS,
    UNMEASURED,
    Evidence,
    StudyResult,
    load_results,
    read_result,
    write_result,
)
from study_results import accuracy, length, provenance, result, transfer, verdict


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    some = [length(), transfer(), transfer("smoke")]
    paths = [write_result(tmp_path, each) for each in some]
    assert [path.name for path in paths] == [
        "length-cpu.json", "transfer-cpu.json", "transfer-smoke.json",
    ]  # fmt: skip
    assert all(path.parent == tmp_path / "results" for path in paths)
    assert load_results(tmp_path) == some
    assert [path.name for path in (tmp_path / "results").iterdir() if path.suffix != ".json"] == []


def test_a_second_writing_replaces_the_first(tmp_path: Path) -> None:
    write_result(tmp_path, result(title="first"))
    write_result(tmp_path, result(title="second"))
    assert [each.title for each in load_results(tmp_path)] == ["second"]


def test_an_empty_store_has_no_results(tmp_path: Path) -> None:
    assert load_results(tmp_path) == []
    assert load_results(tmp_path / "nowhere") == []


def test_the_file_has_the_agreed_names(tmp_path: Path) -> None:
    value = json.loads(write_result(tmp_path, transfer()).read_text())
    assert set(value) == {
        "study", "scale", "title", "question", "paper", "figure", "provenance", "cells",
        "verdicts", "pictures",
    }  # fmt: skip
    assert set(value["cells"][0]) == {
        "row", "column", "metric", "objective", "measured", "low", "high", "n", "seeds", "attack",
        "white_box", "reported",
    }  # fmt: skip
    assert value["cells"][0]["measured"] == 0.2
    assert set(value["verdicts"][0]) == {
        "claim", "text", "where", "verdict", "why", "evidence",
    }  # fmt: skip
    assert value["verdicts"][0]["evidence"][0]["seeds"] == [0, 1, 2]


def test_a_cell_holds_an_interval_and_the_difference() -> None:
    measured = proportion(120, 200)
    cell = StudyCell.of("a", "b", measured, seeds=(0,), reported=0.5)
    assert cell.interval == measured
    assert cell.difference == pytest.approx(0.1)
    assert StudyCell.of("a", "b", measured, seeds=(0,)).difference is None


@pytest.mark.parametrize(
    ("metric", "values", "low", "high"),
    [("correlation", [0.9, 0.2], -1.0, 1.0), ("distance", [0.1, 3.0], 0.0, None)],
)
def test_an_interval_does_not_leave_the_range_of_its_metric(
    metric: str, values: list[float], low: float, high: float | None
) -> None:
    wide = mean(values)  # Student's over two values is wider than the range
    cell = StudyCell.of("a", "b", wide, metric=metric, seeds=(0, 1))
    assert wide.low < low
    assert (cell.low, cell.measured) == (low, wide.value)
    assert cell.high == (wide.high if high is None else high)
    with pytest.raises(MultiwayError, match=f"has low .*: {metric} lies between"):
        replace(cell, low=low - 0.1)


def test_unknown_bounds_are_null_and_come_back_infinite(tmp_path: Path) -> None:
    cell = StudyCell.of("a", "b", mean([0.25]), metric="correlation", seeds=(0,))
    assert (cell.low, cell.high) == (None, None)
    write_result(tmp_path, result(cells=(cell,)))
    (read,) = load_results(tmp_path)
    assert read.cells[0].interval == Interval(0.25, -math.inf, math.inf, 1)
    evidence = Evidence.of(mean([0.1]), objective="own", seeds=(0,))
    assert (evidence.low, evidence.high) == (None, None)


def change(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda value: value.update(fields)


def change_cell(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda value: value["cells"][0].update(fields)


BROKEN = [
    (change(scale="cpuu"), "unknown scale 'cpuu': did you mean 'cpu'?"),
    (change(figure="pie"), "unknown figure 'pie'"),
    (change(study="../x"), "a study's name has small letters"),
    (change(cells={}), "cells: input should be a valid"),
    (change(colour="red"), "colour is no field of a result; another version wrote it"),
    (change(pictures={"x": "../../etc/passwd"}), "picture 'x' lies outside the store"),
    (change(pictures={"x": "/etc/passwd"}), "picture 'x' lies outside the store"),
    (change(scale="smoke", verdicts=[{
        "claim": "c", "text": "t", "where": "w", "verdict": HOLDS, "why": "y", "evidence": [],
    }]), "at scale smoke every verdict is 'not measured at this scale'"),
    (lambda value: value.pop("question"), "question: field required"),
    (lambda value: value["cells"].append(value["cells"][0]), "RO / white-box .* is there twice"),
    (lambda value: value["provenance"].update(made="yesterday"), "'yesterday', which is no date"),
    (lambda value: value["provenance"].update(minutes=-1), "'minutes' is -1"),
    (change_cell(measured="0.6"), 'cells.0.measured: input should be a valid number, not "0.6"'),
    (change_cell(measured=60.0), "has measured 60: accuracy lies between 0 and 1"),
    (change_cell(reported=62.0), "has reported 62: accuracy lies between 0 and 1"),
    (change_cell(metric="accurracy"), "did you mean 'accuracy'?"),
    (change_cell(low=0.61), "0.6 lies outside its interval"),
    (change_cell(high=0.59), "0.6 lies outside its interval"),
    (change_cell(n=0), "has n=0"),
    (change_cell(n=True), "cells.0.n: input should be a valid integer, not true"),
    (change_cell(seeds=["one"]), "cells.0.seeds.0: input should be a valid integer"),
    (change_cell(metric="correlation", measured=-1.5), "correlation lies between -1 and 1"),
    (change_cell(metric="distance", measured=-0.5), "distance lies between 0 and inf"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "told"), BROKEN, ids=[told[:40] for _, told in BROKEN])
def test_an_edited_file_is_named(
    edit: Callable[[dict[str, Any]], None], told: str, tmp_path: Path
) -> None:
    path = write_result(tmp_path, result())
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))
    with pytest.raises(MultiwayError, match=told) as error:
        load_results(tmp_path)
    assert str(path) in str(error.value)
    assert "multiway reproduce" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_cut_short_is_named(share: float, tmp_path: Path) -> None:
    path = write_result(tmp_path, result())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(MultiwayError, match="not valid JSON .* multiway reproduce") as error:
        load_results(tmp_path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("text", ["[]", "null", "3", '{"study": "toy"}', "NaN"])
def test_other_json_is_no_result(text: str, tmp_path: Path) -> None:
    path = write_result(tmp_path, result())
    path.write_text(text)
    with pytest.raises(MultiwayError, match="is no whole result"):
        load_results(tmp_path)


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    path = write_result(tmp_path, result())
    path = path.rename(path.with_name("toy-paper.json"))
    with pytest.raises(MultiwayError, match="holds the result of toy at scale cpu"):
        read_result(path)


def test_what_cannot_be_is_refused_before_it_is_written() -> None:
    with pytest.raises(MultiwayError, match="unknown verdict on a-claim 'maybe'"):
        verdict("maybe")
    with pytest.raises(MultiwayError, match="is not finite"):
        Evidence("own", math.nan, None, None, 1, ())
    with pytest.raises(MultiwayError, match="no date"):
        provenance(made="today")
    with pytest.raises(MultiwayError, match="there twice"):
        result(cells=(accuracy("a", "b", 3), accuracy("a", "b", 4)))
    assert result("toy", "smoke", verdicts=(verdict(UNMEASURED),)).verdicts[0].evidence == ()


def test_from_dict_takes_back_what_as_dict_gave() -> None:
    assert StudyResult.from_dict(transfer().as_dict()) == transfer()
