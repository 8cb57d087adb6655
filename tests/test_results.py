"""The one record: what it refuses, and that its JSON is the record."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiway.errors import MultiwayError
from multiway.results import Cell, Provenance, Result, number_text, read_result, write_result
from multiway.statistics import Interval, mean, proportion

MADE = Provenance("mnist5k", "wong", 50, (0, 1), 0.1, "2026-11-16", {"multiway": "0"}, 3)
CELL = Cell("A-RO", "A-1ofK", "accuracy", 0.887, 0.8, 0.9, 50, (0, 1), "own", "FGSM, Linf 0.2")


def result(*cells: Cell) -> Result:
    return Result(name="transfer", title="t", chart="heat map", cells=cells, provenance=MADE)


@given(
    value=st.floats(0, 1), width=st.floats(0, 1), n=st.integers(1, 10**6),
    x=st.one_of(st.none(), st.floats(0, 1e9), st.just(math.inf)),
)  # fmt: skip
def test_json_is_the_record(value: float, width: float, n: int, x: float | None) -> None:
    low, high = max(0.0, value - width), min(1.0, value + width)
    whole = result(replace(CELL, value=value, low=low, high=high, n=n, x=x))
    assert Result.from_dict(json.loads(json.dumps(whole.as_dict(), allow_nan=False))) == whole


def test_infinity_becomes_json_in_one_place() -> None:
    """A single image says nothing of its spread: the bounds are null, not an error."""
    cell = Cell.of("a", "b", mean([0.5]), "correlation")
    assert (cell.low, cell.high) == (None, None)
    assert cell.interval == Interval(0.5, -math.inf, math.inf, 1)
    assert cell.text == "0.50 [no interval]"
    whole = result(replace(cell, x=math.inf))
    assert whole.as_dict()["cells"][0]["x"] == "inf"
    assert whole.as_dict()["cells"][0]["low"] is None


def test_students_interval_ends_with_the_range_of_the_metric() -> None:
    cell = Cell.of("a", "b", Interval(0.9, 0.7, 1.1, 5), "accuracy")
    assert (cell.low, cell.high) == (0.7, 1.0)


def test_in_words() -> None:
    assert Cell.of("a", "b", proportion(98, 100), "accuracy").text == "98.0 [93.0, 99.4]"
    assert Cell.of("a", "b", Interval(0.02, -0.01, 0.05, 9), "lead").text == "+2.0 [-1.0, +5.0]"
    assert number_text(1.234, "distance") == "1.23"
    assert Cell("a", "b", "distance", 1.5, 1.0, None, 5).text == "1.50 [1.00, no bound]"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": 88.7, "high": 90.0}, "accuracy lies between 0 and 1 (88.7 % is 0.887)"),
        ({"low": 0.95}, "lies outside its interval"),
        ({"value": math.nan}, "is not finite"),
        ({"n": 0}, "at least 1 image"),
        ({"metric": "acuracy"}, "did you mean 'accuracy'?"),
        ({"x": math.nan}, "stands at NaN"),
    ],
)
def test_what_is_no_measurement(change: dict[str, object], message: str) -> None:
    with pytest.raises(MultiwayError, match=message.replace("(", r"\(").replace(")", r"\)")):
        replace(CELL, **change)  # type: ignore[arg-type]


def test_no_figure_is_there_twice() -> None:
    with pytest.raises(MultiwayError, match="A-RO / A-1ofK .* is there twice"):
        result(CELL, CELL)
    result(CELL, replace(CELL, objective="margin"), replace(CELL, x=1.0))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda d: d["cells"][0].update(value="0.887"),
            'cells.0.value is "0.887", expected a valid number',
        ),
        (lambda d: d["cells"][0].pop("n"), "cells.0.n"),
        (lambda d: d["cells"][0].update(shown=1), "another version wrote it"),
        (lambda d: d.update(chart="pie"), "unknown chart 'pie'"),
        (lambda d: d.update(pictures={"a": "../b"}), "lies outside the store"),
        (lambda d: d["provenance"].update(made="today"), "no date"),
    ],
)
def test_an_edited_file(tmp_path: Path, edit: object, message: str) -> None:
    document = result(CELL).as_dict()
    edit(document)  # type: ignore[operator]
    (tmp_path / "r.json").write_text(json.dumps(document))
    with pytest.raises(MultiwayError, match="r.json is no whole result: .*make it again") as error:
        read_result(tmp_path / "r.json")
    assert message in str(error.value)


def test_a_figure_that_was_edited(tmp_path: Path) -> None:
    """Into one that could be: only the checksum tells. What `--json` prints has none."""
    path = write_result(tmp_path / "r.json", result(CELL))
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document))  # in other lines it says the same
    assert read_result(path) == result(CELL)
    document["cells"][0]["value"] = 0.88
    path.write_text(json.dumps(document))
    with pytest.raises(MultiwayError, match="another checksum, so it was edited; .*make it again"):
        read_result(path)
    del document["checksum"]
    path.write_text(json.dumps(document))
    assert read_result(path).cells[0].value == 0.88


def test_a_file_that_was_cut_short(tmp_path: Path) -> None:
    path = write_result(tmp_path / "r.json", result(CELL))
    assert read_result(path) == result(CELL)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(MultiwayError, match="not valid JSON"):
        read_result(path)
