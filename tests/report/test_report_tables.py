"""What stands in a table for given cells."""

from __future__ import annotations

import math
from dataclasses import replace

from multiway.report.labels import facts
from multiway.report.summary import made_rows
from multiway.report.tables import cell_text, result_tables
from multiway.results import Cell
from multiway.statistics import Interval, mean
from multiway.studies.evidence import HOLDS, NOT_JUDGED, ONLY_OWN, OPPOSITE, WORDS
from multiway.studies.result import verdict_counts
from study_results import (
    FGSM,
    accuracy,
    correlation,
    length,
    plain,
    provenance,
    result,
    transfer,
)


class TestBesideThePaper:
    """Where the paper has figures, each of ours has a line with the paper's and the difference."""

    def test_a_table_for_each_metric_and_objective(self) -> None:
        tables = result_tables(transfer())
        assert [(table.title, table.objectives, len(table.rows)) for table in tables] == [
            ("Accuracy, attacker ascends own", ("own",), 6),
            ("Accuracy, attacker ascends margin", ("margin",), 6),
            ("Correlation of gradient signs, gradients of own", ("own",), 2),
            ("Correlation of gradient signs, gradients of margin", ("margin",), 2),
        ]
        own, margin = tables[:2]
        assert own.columns == ["attacked", "crafted on", "ours [95 %]", "paper", "difference"]
        assert own.rows[0] == ["A-1ofK", "A-1ofK", "20.0* [15.0, 26.1]", "23.1", "-3.1"]
        assert own.rows[2] == ["A-1ofK", "AVG BB", "40.0 [33.5, 46.9]", "–", "–"]
        # The paper's figures stand beside its own attack only.
        assert margin.columns == ["attacked", "crafted on", "ours [95 %]"]
        assert "the paper gives no figures for this objective" in margin.caption
        assert "the paper gives no figures" not in own.caption

    def test_the_difference_is_that_of_the_figures_as_measured(self) -> None:
        # 20.0 and 20.04 are both shown as 20.0.
        cell = accuracy("a", "b", 40, reported=0.2004)
        (table,) = result_tables(result(cells=(cell, accuracy("a", "c", 50, reported=0.2))))
        assert [row[2:] for row in table.rows] == [
            ["20.0 [15.0, 26.1]", "20.0", "-0.0"], ["25.0 [19.5, 31.4]", "20.0", "+5.0"],
        ]  # fmt: skip

    def test_what_all_share_is_in_the_caption_and_what_differs_has_a_column(self) -> None:
        cells = (
            accuracy("a", "b", 3, reported=0.5),
            accuracy("a", "c", 4, attack="PGD, Linf 0.3", seeds=(7,)),
        )
        (table,) = result_tables(result(cells=cells))
        assert table.columns[5:] == ["attack", "seeds"]
        assert [row[5:] for row in table.rows] == [
            [FGSM, "training seeds 0, 1, 2"], ["PGD, Linf 0.3", "training seed 7"],
        ]  # fmt: skip
        assert table.caption == (
            "in %, differences in points; n=200; in brackets 95 % intervals"
        )  # fmt: skip

    def test_an_attack_without_an_objective_is_not_called_clean(self) -> None:
        cells = (
            accuracy("a", "AutoAttack", 3, None, attack="AutoAttack, Linf 0.3", reported=0.1),
            accuracy("a", "clean", 199, None),
        )
        attacked, clean = result_tables(result(cells=cells))
        assert (attacked.title, attacked.objectives) == (
            "Accuracy, attacked on several objectives", ("several objectives",),
        )  # fmt: skip
        assert "AutoAttack, Linf 0.3" in attacked.caption
        assert clean.title == "Accuracy, no attack"


class TestRowsAgainstColumns:
    """Where it has none, a table is as wide as the result."""

    def test_each_objective_has_its_own_and_the_clean_figures(self) -> None:
        own, margin = result_tables(
            plain(
                accuracy("a", "clean", 198, None),
                accuracy("a", "a", 10, white_box=True),
                accuracy("a", "b", 120),
                accuracy("b", "a", 130),
                accuracy("a", "b", 100, "margin"),
            )
        )
        assert own.columns == ["attacked / crafted on", "a", "b", "clean"]
        assert own.rows == [
            ["a", "5.0* [2.7, 9.0]", "60.0 [53.1, 66.5]", "99.0 [96.4, 99.7]"],
            ["b", "65.0 [58.2, 71.3]", "–", "–"],
        ]
        assert own.caption == (
            "in %; FGSM, Linf 0.2; n=200; training seeds 0, 1, 2; in brackets 95 % intervals; "
            "* white-box"
        )
        assert margin.columns == ["attacked / crafted on", "b", "clean"]
        assert margin.rows == [["a", "50.0 [43.1, 56.9]", "99.0 [96.4, 99.7]"]]

    def test_a_row_of_fewer_trainings_says_which(self) -> None:
        one, other = accuracy("a", "b", 120), accuracy("b", "b", 100)
        (table,) = result_tables(plain(one, replace(other, seeds=(0, 7))))
        assert table.columns == ["attacked / crafted on", "b", "training seeds"]
        assert [row[2] for row in table.rows] == ["0, 1, 2", "0, 7"]
        assert "training" not in table.caption
        # Networks that have a seed each are told apart by their names.
        (table,) = result_tables(plain(replace(one, seeds=(0,)), replace(other, seeds=(1,))))
        assert table.columns == ["attacked / crafted on", "b"]
        assert "training seeds 0, 1" in table.caption

    def test_a_row_for_each_x_and_a_column_for_each_line(self) -> None:
        lines = plain(
            *(
                accuracy(name, "white-box", right, series=name, x=x, attack=f"PGD, Linf {x:g}")
                for name, rights in (("a", (90, 50, 0)), ("b", (80, 40)))
                for x, right in zip((8 / 255, 0.2, math.inf), rights, strict=False)
            ),
            accuracy("a", "white-box", 200, None, series="a", x=0.0),
            chart="lines",
            x_name="eps",
        )
        (table,) = result_tables(lines)
        assert table.columns == ["eps", "a", "b", "attack"]
        assert table.rows == [
            ["0", "100.0 [98.1, 100.0]", "–", ""],
            ["8/255", "45.0 [38.3, 51.9]", "40.0 [33.5, 46.9]", "PGD, Linf 0.0313725"],
            ["0.2", "25.0 [19.5, 31.4]", "20.0 [15.0, 26.1]", "PGD, Linf 0.2"],
            ["no limit", "0.0 [0.0, 1.9]", "–", "PGD, Linf inf"],
        ]

    def test_what_has_no_x_has_a_table_of_its_own(self) -> None:
        cells = (accuracy("a", "b", 3, x=1.0), accuracy("a", "mean", 4))
        along, rest = result_tables(plain(*cells, chart="lines", x_name="steps"))
        assert (along.columns, along.rows[0][0]) == (["steps", "b"], "1")
        assert rest.columns == ["attacked / crafted on", "mean"]

    def test_panels_have_tables_of_their_own(self) -> None:
        cells = [correlation("b", "a", 0.2, panel=layer) for layer in ("input", "conv1")]
        tables = result_tables(plain(*cells, chart="heat map"))
        assert [table.title for table in tables] == [
            "input: Correlation of gradient signs, gradients of own",
            "conv1: Correlation of gradient signs, gradients of own",
        ]
        assert tables[0].caption.startswith("plain numbers; n=200")

    def test_objectives_that_have_no_column_in_common_share_a_table(self) -> None:
        cells = [
            accuracy(name, column, right, objective, attack=attack)
            for name in "ab"
            for column, right, objective, attack in (
                ("clean", 200, None, None),
                ("fgsm-ce", 100, "ce", "FGSM, Linf 0.2"),
                ("pgd-margin", 60, "margin", "PGD, 20 steps, Linf 0.2"),
                ("square", 20, None, "Square, Linf 0.2"),
            )
        ]
        (table,) = result_tables(plain(*cells, chart="table"))
        assert table.title == "Accuracy"
        assert table.columns[1:] == ["clean", "fgsm-ce", "pgd-margin", "square"]
        assert table.rows[1][1:] == [
            "100.0 [98.1, 100.0]", "50.0 [43.1, 56.9]", "30.0 [24.1, 36.7]", "10.0 [6.6, 14.9]",
        ]  # fmt: skip
        assert (
            "fgsm-ce: FGSM, Linf 0.2 on ce; pgd-margin: PGD, 20 steps, Linf 0.2 on margin; "
            "square: Square, Linf 0.2; n=200" in table.caption
        )
        assert table.objectives == ("no attack", "ce", "margin", "several objectives")

    def test_many_columns_become_rows(self) -> None:
        kinds = [f"kind {number}" for number in range(10)]
        cells = [accuracy(name, kind, 100, None) for name in "ab" for kind in kinds]
        (table,) = result_tables(plain(*cells))
        assert table.columns == ["crafted on", "a", "b"]
        assert [row[0] for row in table.rows] == kinds

    def test_images_that_differ_in_number_are_counted_in_the_cell(self) -> None:
        few = Cell("a", "c", "accuracy", 0.5, 0.2, 0.8, 10, objective="own", attack=FGSM)
        (table,) = result_tables(plain(accuracy("a", "b", 100), few))
        assert table.rows == [["a", "50.0 [43.1, 56.9] (n=200)", "50.0 [20.0, 80.0] (n=10)"]]
        assert "n=" not in table.caption

    def test_no_figure_is_lost_where_names_are_shared(self) -> None:
        cells = [accuracy("a", "b", right, attack=f"PGD, {right} steps") for right in (10, 20)]
        (table,) = result_tables(plain(*cells))
        assert [row[2] for row in table.rows] == ["5.0 [2.7, 9.0]", "10.0 [6.6, 14.9]"]
        assert [row[3] for row in table.rows] == ["PGD, 10 steps", "PGD, 20 steps"]

    def test_a_lead_is_in_points_and_has_its_sign(self) -> None:
        cell = Cell.of("b", "mean", Interval(-0.05, -0.1, 0.0, 200), "lead")
        (table,) = result_tables(plain(cell))
        assert table.rows == [["b", "-5.0 [-10.0, +0.0]"]]
        assert table.caption.startswith("in percentage points")


def test_a_cell_says_what_is_not_known() -> None:
    single = Cell.of("a", "b", mean([0.25]), "correlation")
    assert cell_text(single) == "0.25 [no interval]"
    assert cell_text(replace(single, undefined=3)) == "0.25 [no interval], 3 undefined"


def test_the_seed_of_attacks_stands_where_there_are_attacks() -> None:
    seeded = provenance(attack_seed=5)
    cells = (accuracy("a", "b", 3, reported=0.5), accuracy("a", "clean", 199, None))
    attacked, clean = result_tables(plain(*cells, provenance=seeded))
    assert "attack seed 5" in attacked.caption
    assert "seed 5" not in clean.caption
    assert facts(plain(*cells, provenance=seeded)) == (
        "toys, n=200, training seeds 0, 1, 2, attack seed 5; FGSM, Linf 0.2"
    )
    # Beside a title, what that says is not said again.
    assert facts(plain(*cells), "FGSM, Linf 0.2 on toys") == "n=200, training seeds 0, 1, 2"
    drawn = plain(cells[1], provenance=seeded)
    assert "drawn with seed 5" in result_tables(drawn)[0].caption


def test_a_study_says_its_scale_and_how_it_was_made() -> None:
    assert facts(length()).startswith("toys, scale cpu, n=200, training seeds 0, 1, 2")
    made = dict(made_rows(result(paper="")))
    assert made["repeats"] == "nothing in the paper: a control that it lacks"
    assert made["took"] == "12.3 minutes, on 2026-11-16"
    assert made["attacks"] == FGSM


def test_verdicts_are_counted() -> None:
    some = (transfer(), transfer("smoke"), length())
    counts = verdict_counts([v for each in some for v in each.verdicts], "literal")
    assert counts == {
        **dict.fromkeys(WORDS, 0), HOLDS: 1, ONLY_OWN: 1, OPPOSITE: 1, NOT_JUDGED: 2,
    }  # fmt: skip
