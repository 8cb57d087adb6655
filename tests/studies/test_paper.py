"""The paper's figures: none is missing, and they agree with each other where they can."""

from __future__ import annotations

from importlib import resources

import pytest
import yaml
from pydantic import ValidationError

from multiway.data.corruptions import KINDS, PAPER_KINDS
from multiway.errors import MultiwayError
from multiway.studies.paper import Grid, check_known, columns, figure, rows, studies, table

# Rows x columns as the tables are printed; an average is a further column.
FINAL = {
    ("length", "accuracy"): 9 * 3,
    ("correlation", "correlation"): 3 * 3,
    ("transfer", "accuracy"): 4 * 4 + 4,
    ("transfer", "correlation"): 4 * 4,
    ("benchmark", "accuracy"): 4 * 6,
    ("corruption", "accuracy"): 2 * 11,
    ("watermark", "accuracy"): 5 * 2,
    # Two tables of six targets, one for each source.
    ("ablation", "accuracy"): 2 * 6,
    ("ablation", "correlation"): 2 * 6,
    ("confidence", "accuracy"): 5,
    ("epsilon", "accuracy"): 9,
    # Not a table: the one share that Fig. 1's caption tells.
    ("intro", "share"): 1,
}
# Three figures of two networks on two sets of data; transfer on four sets of data.
EARLIER = {("iterations", "accuracy"): 2 * 2 * 3, ("undefended", "accuracy"): 2 * 4}

NETWORKS = ("A-1ofK", "A-RO", "C-1ofK", "C-RO")


def grids(version: str) -> dict[tuple[str, str], Grid]:
    found = {study: table(study) for study in studies()}
    return {
        (study, metric): grid
        for study, one in found.items()
        if one is not None and one.version == version
        for metric, grid in one.metrics.items()
    }


def share(study: str, row: str, column: str, metric: str = "accuracy") -> float:
    value = figure(study, row, column, metric)
    assert value is not None, (study, row, column, metric)
    return value


def printed(value: float) -> float:
    """A share as the tables print it, to a tenth of a percent."""
    return round(100 * value, 1)


@pytest.mark.parametrize(("version", "expected"), [("final", FINAL), ("earlier", EARLIER)])
def test_every_cell_of_every_table_is_there(
    version: str, expected: dict[tuple[str, str], int]
) -> None:
    counted = {
        key: sum(len(values) for values in grid.rows.values())
        for key, grid in grids(version).items()
    }
    assert counted == expected


def test_figures_lie_where_their_unit_allows() -> None:
    for (study, metric), grid in {**grids("final"), **grids("earlier")}.items():
        assert grid.unit == ("percent" if metric == "accuracy" else "number")
        for row in grid.rows:
            for column in grid.columns:
                assert 0 <= share(study, row, column, metric) <= 1, (study, row, column)


def test_a_percentage_becomes_a_share_and_a_correlation_stays() -> None:
    assert figure("transfer", "A-RO", "A-1ofK") == 0.887
    assert figure("undefended", "MNIST, 1ofK", "black-box") == 0.0011
    assert figure("epsilon", "unbounded", "white-box") == 0.0
    assert figure("correlation", "Conv1", "RO, 1ofK", "correlation") == 0.0
    assert figure("ablation", "C-1ofK-MSE", "C-1ofK", "correlation") == 0.1


def test_transfer_averages_are_the_means_of_the_black_box_cells() -> None:
    for target in NETWORKS:
        others = [share("transfer", target, source) for source in NETWORKS if source != target]
        assert printed(sum(others) / 3) == printed(share("transfer", target, "AVG BB")), target


def test_correlation_is_symmetric_but_for_one_pair() -> None:
    uneven = set()
    for one in NETWORKS:
        assert share("transfer", one, one, "correlation") == 1
        for other in NETWORKS:
            there = share("transfer", one, other, "correlation")
            if there != share("transfer", other, one, "correlation"):
                uneven.add(frozenset((one, other)))
    assert uneven == {frozenset(("A-RO", "C-1ofK"))}


def test_corruption_averages_miss_the_means_of_their_cells_by_a_tenth() -> None:
    for row, mean, average in (("Madry et al.", 81.43, 81.5), ("RO", 83.49, 83.4)):
        cells = [share("corruption", row, kind) for kind in PAPER_KINDS]
        assert 100 * sum(cells) / len(cells) == pytest.approx(mean)
        assert printed(share("corruption", row, "AVG")) == average != round(mean, 1)
        # Each cell is rounded by at most 0.05, and so is their mean; the average by as much again.
        assert abs(mean - average) < 0.1


def test_corruption_columns_are_our_kinds() -> None:
    assert columns("corruption") == ("AVG", *PAPER_KINDS)
    for kind in KINDS:
        check_known("corruption", "1ofK", kind)


def test_ablation_repeats_the_rows_of_transfer() -> None:
    for metric in ("accuracy", "correlation"):
        for target in ("A-RO", "C-RO"):
            for source in ("A-1ofK", "C-1ofK"):
                cell = (target, source, metric)
                assert figure("ablation", *cell) == figure("transfer", *cell)


def test_figures_that_stand_in_two_places_agree() -> None:
    white_box = figure("length", "2000", "white-box")
    assert white_box == figure("transfer", "A-RO", "A-RO") == 0.549
    lowest = min(share("confidence", row, "black-box") for row in rows("confidence"))
    assert lowest == figure("benchmark", "CIFAR-10, RO", "black-box from RO")
    for pair in (("A-RO", "A-1ofK"), ("A-1ofK", "A-RO")):
        there = figure("transfer", *pair, "correlation")
        assert there == figure("correlation", "Input", "RO, 1ofK", "correlation")


def test_figures_told_in_the_text() -> None:
    assert figure("transfer", "A-RO", "C-RO") == 0.829
    assert figure("transfer", "A-1ofK", "C-1ofK") == 0.568
    marks = {"fine-tuned 1ofK": 87.8, "fine-tuned RO": 12.9, "scratch 1ofK": 6.1, "scratch RO": 10}
    assert {row: printed(share("watermark", row, "mark")) for row in marks} == marks
    clean = [
        share("iterations", f"CIFAR-100, {who}", "white-box 0") for who in ("RO", "Madry et al.")
    ]
    assert round(100 * (clean[0] - clean[1])) == 7


def test_figures_that_contradict_each_other() -> None:
    # Table 1's black-box figure is none of those that Table 3 has for the same target.
    black_box = share("length", "2000", "black-box")
    assert black_box not in {figure("transfer", "A-RO", source) for source in NETWORKS}
    assert black_box == figure("transfer", "C-1ofK", "A-RO")
    # A larger ball holds the smaller one, yet 10/255 leaves more than 8/255 does.
    stronger = share("benchmark", "CIFAR-10, RO", "white-box 5K x 50")
    assert share("epsilon", "10", "white-box") > stronger
    # The paper's own network is the weaker one in one column of twelve.
    weaker = {
        (data, column)
        for data in ("MNIST", "CIFAR-10")
        for column in columns("benchmark")
        if share("benchmark", f"{data}, RO", column)
        <= share("benchmark", f"{data}, Madry et al.", column)
    }
    assert weaker == {("CIFAR-10", "black-box from RO")}


def test_a_contradiction_is_noted_beside_its_table() -> None:
    for study, word in (("length", "83.6"), ("transfer", "symmetric"), ("corruption", "81.43"),
                        ("benchmark", "73.8"), ("epsilon", "53.0")):  # fmt: skip
        found = table(study)
        assert found is not None
        assert any(word in note for note in found.notes), study


def test_what_the_paper_lacks_has_no_figure() -> None:
    assert figure("benchmark", "MNIST, 1ofK", "clean") is None
    assert figure("length", "2000", "black-box", "correlation") is None
    assert figure("iterations", "SVHN, RO", "white-box 100") is None
    assert figure("autoattack", "MNIST, RO", "AutoAttack") is None
    assert table("controls") is None
    assert rows("controls") == columns("controls") == ()


def test_rows_keep_the_papers_order() -> None:
    assert rows("confidence") == ("10", "300", "1500", "3000", "6000")
    assert rows("transfer") == NETWORKS


def test_a_misspelt_name_is_told() -> None:
    check_known("benchmark", "MNIST, RO", "white-box 5K x 50")
    check_known("benchmark", "MNIST, 1ofK", "clean")
    with pytest.raises(MultiwayError, match="unknown study 'tranfer': did you mean 'transfer'"):
        figure("tranfer", "A-RO", "A-RO")
    with pytest.raises(MultiwayError, match="unknown row of benchmark 'MNIST RO'"):
        check_known("benchmark", "MNIST RO", "clean")
    with pytest.raises(MultiwayError, match="unknown column of autoattack 'Autoattack'"):
        check_known("autoattack", "MNIST, RO", "Autoattack")


@pytest.mark.parametrize(
    "change",
    [
        {"rows": {"a": [1.0]}},
        {"columns": ["x", "x"]},
        {"unit": "share"},
        {"rows": {10: [1.0, 2.0]}},
        {"rows": {"a": [1.0, float("nan")]}},
        {"colour": "red"},
    ],
)
def test_a_grid_that_is_no_table_is_refused(change: dict[str, object]) -> None:
    good = {"unit": "percent", "columns": ["x", "y"], "rows": {"a": [1.0, 2.0]}}
    assert Grid.model_validate(good).value("a", "y") == 0.02
    with pytest.raises(ValidationError):
        Grid.model_validate({**good, **change})


@pytest.mark.parametrize("name", ["paper.yaml", "claims.yaml"])
def test_the_data_comes_with_the_package(name: str) -> None:
    file = resources.files("multiway.studies") / name
    assert file.is_file()
    assert yaml.safe_load(file.read_text(encoding="utf-8"))
