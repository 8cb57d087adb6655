"""The paper's figures: they agree with each other where they must, and nothing is misspelt."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from multiway.data.corruptions import KINDS, PAPER_KINDS
from multiway.errors import MultiwayError
from multiway.studies import paper
from multiway.studies.paper import PaperGrid, check_known, columns, figure, rows, studies, table

NETWORKS = ("A-1ofK", "A-RO", "C-1ofK", "C-RO")


def share(study: str, row: str, column: str, metric: str = "accuracy") -> float:
    value = figure(study, row, column, metric)
    assert value is not None, (study, row, column, metric)
    return value


def printed(value: float) -> float:
    """A share as the tables print it, to a tenth of a percent."""
    return round(100 * value, 1)


def test_figures_lie_where_their_unit_allows() -> None:
    for study in studies():
        found = table(study)
        for metric, grid in found.metrics.items() if found else ():
            assert grid.unit == ("percent" if metric == "accuracy" else "number")
            for row in grid.rows:
                for column in grid.columns:
                    assert 0 <= share(study, row, column, metric) <= 1, (study, row, column)


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
    for row in ("Madry et al.", "RO"):
        cells = [share("corruption", row, kind) for kind in PAPER_KINDS]
        mean, average = 100 * sum(cells) / len(cells), printed(share("corruption", row, "AVG"))
        # Each cell is rounded by at most 0.05, and so is their mean; the average by as much again.
        assert 0.05 < abs(mean - average) < 0.1
        assert f"{mean:.2f}" in " ".join(table("corruption").notes)  # type: ignore[union-attr]


def test_corruption_columns_are_our_kinds() -> None:
    assert columns("corruption") == ("AVG", *PAPER_KINDS)
    for kind in KINDS:
        check_known("corruption", "1ofK", kind)


def test_figures_that_stand_in_two_places_agree() -> None:
    for metric in ("accuracy", "correlation"):
        for target in ("A-RO", "C-RO"):
            for source in ("A-1ofK", "C-1ofK"):
                cell = (target, source, metric)
                assert figure("ablation", *cell) == figure("transfer", *cell)
    assert figure("length", "2000", "white-box") == figure("transfer", "A-RO", "A-RO")
    lowest = min(share("confidence", row, "black-box") for row in rows("confidence"))
    assert lowest == figure("benchmark", "CIFAR-10, RO", "black-box from RO")
    for pair in (("A-RO", "A-1ofK"), ("A-1ofK", "A-RO")):
        there = figure("transfer", *pair, "correlation")
        assert there == figure("correlation", "Input", "RO, 1ofK", "correlation")


def test_gains_that_the_text_names() -> None:
    clean = [
        share("iterations", f"CIFAR-100, {name}", "white-box 0") for name in ("RO", "Madry et al.")
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


def test_what_the_paper_lacks_has_no_figure() -> None:
    assert figure("benchmark", "MNIST, 1ofK", "clean") is None
    assert figure("length", "2000", "black-box", "correlation") is None
    assert figure("autoattack-mnist", "RO", "AutoAttack") is None
    assert table("controls") is None
    assert rows("controls") == columns("controls") == ()


def test_a_misspelt_name_is_refused() -> None:
    check_known("benchmark", "MNIST, 1ofK", "white-box 5K x 50")
    with pytest.raises(MultiwayError, match="unknown study 'tranfer': did you mean 'transfer'"):
        figure("tranfer", "A-RO", "A-RO")
    with pytest.raises(MultiwayError, match="unknown row of benchmark 'MNIST RO'"):
        check_known("benchmark", "MNIST RO", "clean")
    with pytest.raises(MultiwayError, match="unknown column of autoattack-mnist 'Autoattack'"):
        check_known("autoattack-mnist", "RO", "Autoattack")


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
    assert PaperGrid.model_validate(good).value("a", "y") == 0.02
    with pytest.raises(ValidationError):
        PaperGrid.model_validate({**good, **change})


def test_rows_of_ours_stand_beside_rows_of_the_paper() -> None:
    beside = {study: names.baselines for study, names in paper._paper().added.items()}
    assert beside["iterations"] == {"CIFAR-100, 1ofK": "CIFAR-100, Madry et al."}
    for study, baselines in beside.items():
        for ours, theirs in baselines.items():
            check_known(study, ours, columns(study)[0])
            assert ours not in rows(study)
            assert theirs in rows(study)
