"""Figures, tables and Markdown of studies hold what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.colors
import pytest
import torch
from multiway.report.studies import (
    study_markdown,
    study_pictures,
    study_tables,
    write_markdown,
)
from multiway.report.studies.dot_plot import draw_study_dots
from multiway.report.studies.labels import SMOKE, difference, in_order, measured, verdict_counts
from multiway.report.studies.line_chart import draw_study_lines, left_out
from multiway.report.studies.matrix import draw_study_matrix
from multiway.report.studies.watermark import origin
from torch import nn

from multiway.analysis import landscapes, saliency
from multiway.errors import MultiwayError
from multiway.statistics import mean
from multiway.studies.cells import StudyCell
from multiway.studies.pictures import write_landscapes, write_saliency
from multiway.studies.result import FAILS, HOLDS, ONLY_OWN, UNMEASURED
from study_results import accuracy, correlation, length, provenance, result, transfer, verdict


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def panels(figure: Any) -> list[Any]:
    """The panels, without colour bars and empty places."""
    return [axes for axes in figure.axes if axes.get_title()]


def line(axes: Any, label: str) -> Any:
    (found,) = [each for each in axes.lines if each.get_label() == label]
    return found


class TestWords:
    def test_ours_has_its_interval_and_its_star(self) -> None:
        cell = accuracy("a", "b", 120, white_box=True, reported=0.62)
        assert measured(cell) == "60.0* [53.1, 66.5]"
        assert difference(cell) == "-2.0"
        assert difference(replace(cell, reported=0.5)) == "+10.0"
        assert difference(replace(cell, reported=None)) == "–"
        single = StudyCell.of("a", "b", mean([0.25]), metric="correlation", seeds=(0,))
        assert measured(single) == "0.25 [no interval]"

    def test_the_paper_gives_the_order_and_large_scales_come_first(self) -> None:
        some = [result("zebra"), transfer("smoke"), result("autoattack"), length(), transfer()]
        names = [(each.study, each.scale) for each in in_order(some)]
        assert names == [
            ("length", "cpu"), ("transfer", "cpu"), ("transfer", "smoke"), ("autoattack", "cpu"),
            ("zebra", "cpu"),
        ]  # fmt: skip

    def test_verdicts_are_counted(self) -> None:
        counts = verdict_counts([transfer(), transfer("smoke"), length()])
        assert counts == {HOLDS: 1, ONLY_OWN: 1, FAILS: 1, UNMEASURED: 2}


class TestTables:
    def test_a_table_for_each_metric_and_objective(self) -> None:
        tables = study_tables(transfer())
        assert [(table.title, len(table.rows)) for table in tables] == [
            ("Accuracy, attacker ascends own", 6),
            ("Accuracy, attacker ascends margin", 6),
            ("Correlation of gradient signs, gradients of own", 2),
            ("Correlation of gradient signs, gradients of margin", 2),
        ]
        own, margin = tables[:2]
        assert own.columns == ["attacked", "crafted on", "ours [95 %]", "paper", "difference"]
        assert own.rows[0] == ["A-1ofK", "A-1ofK", "20.0* [15.0, 26.1]", "23.1", "-3.1"]
        assert own.rows[2] == ["A-1ofK", "AVG BB", "40.0 [33.5, 46.9]", "–", "–"]
        for part in ("FGSM, Linf 0.2", "n=200", "seeds 0, 1, 2", "95 %", "* white-box"):
            assert part in own.caption
        # The paper's figures stand beside its own attack only.
        assert margin.columns == ["attacked", "crafted on", "ours [95 %]"]
        assert "the paper gives no figures for this objective" in margin.caption
        assert "the paper gives no figures" not in own.caption

    def test_what_differs_between_rows_has_a_column(self) -> None:
        cells = (accuracy("a", "b", 3), accuracy("a", "c", 4, attack="PGD, Linf 0.3"))
        (table,) = study_tables(result(cells=cells))
        assert table.columns[-1] == "attack"
        assert [row[-1] for row in table.rows] == ["FGSM, Linf 0.2", "PGD, Linf 0.3"]

    def test_an_attack_without_an_objective_is_not_called_clean(self) -> None:
        cells = (
            accuracy("a", "AutoAttack", 3, None, attack="AutoAttack, Linf 0.3", white_box=True),
            accuracy("a", "clean", 199, None),
        )
        attacked, clean = study_tables(result(cells=cells))
        assert attacked.title == "Accuracy, attack with no single objective"
        assert attacked.objective == "no single objective"
        assert "AutoAttack, Linf 0.3" in attacked.caption
        assert clean.title == "Accuracy, no attack"


class TestMatrix:
    def test_cells_hold_value_interval_and_paper(self) -> None:
        figure = draw_study_matrix(transfer())
        own, margin, rho, _ = panels(figure)
        assert own.get_title() == "Accuracy, attacker ascends own"
        shown = own.images[0].get_array()
        assert shown.shape == (2, 3)
        assert shown.ravel().tolist() == pytest.approx([20, 27.5, 40, 35, 42.5, 55])
        for part in ("20.0*", "[15.0, 26.1]", "paper 23.1", "27.5"):
            assert part in texts(own)
        assert sum(text.endswith("*") for text in texts(own)) == 2
        assert not any(text.startswith("paper") for text in texts(margin))
        # Nothing is shown where nothing was measured: a model and itself.
        assert texts(rho).count("–") == 2
        assert [label.get_text() for label in own.get_yticklabels()] == ["A-1ofK", "A-RO"]

    def test_writing_is_light_on_dark_and_dark_on_light(self) -> None:
        cells = (accuracy("a", "x", 10), accuracy("a", "y", 190))
        (axes,) = panels(draw_study_matrix(result(figure="matrix", cells=cells)))
        colours = {text.get_text(): text.get_color() for text in axes.texts}
        assert (colours["5.0"], colours["95.0"]) == ("white", "black")
        image = axes.images[0]
        for value, colour in ((5.0, "white"), (95.0, "black")):
            background = image.cmap(image.norm(value))[:3]
            contrast = abs(
                sum(background) - sum(matplotlib.colors.to_rgb(colour))
            )  # fmt: skip
            assert contrast > 1

    def test_clean_figures_stand_at_the_right_of_every_objective(self) -> None:
        cells = (*transfer().cells, accuracy("A-RO", "clean", 199, None))
        own, margin, *_ = panels(draw_study_matrix(replace(transfer(), cells=cells)))
        for axes in (own, margin):
            names = [label.get_text() for label in axes.get_xticklabels()]
            assert names == ["A-1ofK", "A-RO", "AVG BB", "clean"]
            assert "99.5" in texts(axes)


class TestLines:
    def test_lines_bands_and_the_papers_figures(self) -> None:
        own, margin = panels(draw_study_lines(length()))
        assert own.get_xscale() == "log"
        ours = line(own, "white-box")
        assert ours.get_ydata().tolist() == pytest.approx([30, 42.5, 55, 67.5])
        assert ours.get_xdata().tolist()[:3] == [10, 200, 2000]
        paper = line(own, "paper: white-box")
        assert paper.get_ydata().tolist() == pytest.approx([30, 40, 50, 60])
        assert paper.get_linestyle() == "--"
        assert paper.get_markerfacecolor() == "white"
        # The paper's figures and the clean ones are repeated beside the other objective.
        assert line(margin, "white-box").get_ydata().tolist() == pytest.approx([10, 22.5, 35, 47.5])
        assert line(margin, "paper: white-box").get_ydata().tolist() == pytest.approx(
            [30, 40, 50, 60]
        )
        assert line(margin, "clean").get_ydata()[0] == pytest.approx(95)
        labels = [label.get_text() for label in own.get_xticklabels()]
        assert labels == ["10", "200", "2000", "unbounded"]
        assert ours.get_xdata()[3] > 2000
        assert ours.get_color() != line(own, "clean").get_color()
        assert ours.get_marker() != line(own, "clean").get_marker()

    def test_bands_are_the_intervals(self) -> None:
        own, _ = panels(draw_study_lines(length()))
        cell = next(c for c in length().cells if (c.row, c.objective) == ("10", "own"))
        assert cell.low is not None
        heights = [
            float(point[1]) for band in own.collections for point in band.get_paths()[0].vertices
        ]
        assert any(height == pytest.approx(100 * cell.low) for height in heights)

    def test_numbers_close_together_stay_linear(self) -> None:
        cells = tuple(accuracy(str(eps), "white-box", 100 - eps) for eps in (2, 4, 8, 20))
        (axes,) = panels(draw_study_lines(result(figure="lines", cells=cells)))
        assert axes.get_xscale() == "linear"

    def test_numbers_may_be_columns_with_words_before_them(self) -> None:
        cells = [
            accuracy(f"{data}, {code}", f"{who} {steps}", 150 - steps)
            for data in ("MNIST", "SVHN")
            for code in ("1ofK", "RO")
            for who in ("white-box", "black-box")
            for steps in (1, 100)
        ]
        cells.append(accuracy("MNIST, RO", "AVG", 80))
        study = result("iterations", figure="lines", cells=tuple(cells))
        mnist, svhn = panels(draw_study_lines(study))
        assert mnist.get_title() == "MNIST: Accuracy, attacker ascends own"
        assert svhn.get_title().startswith("SVHN")
        assert line(mnist, "RO, black-box").get_xdata().tolist() == [1, 100]
        assert [cell.column for cell in left_out(study)] == ["AVG"]

    def test_a_code_length_at_another_beta_is_another_line(self) -> None:
        cells = (accuracy("10", "black-box", 50), accuracy("10, beta 1000", "black-box", 40))
        (axes,) = panels(draw_study_lines(result(figure="lines", cells=cells)))
        assert line(axes, "black-box, beta 1000").get_ydata().tolist() == pytest.approx([20])

    def test_no_number_anywhere_is_an_error(self) -> None:
        with pytest.raises(MultiwayError, match="rows or columns that are numbers"):
            draw_study_lines(result(figure="lines"))


class TestDots:
    def test_a_panel_a_column_and_a_marker_an_objective(self) -> None:
        cells = (
            accuracy("RO", "white-box", 120, "own", reported=0.62, white_box=True),
            accuracy("RO", "white-box", 40, "margin", white_box=True),
            accuracy("1ofK", "white-box", 100, "own", white_box=True),
            accuracy("RO", "clean", 198, None, reported=0.98),
        )
        figure = draw_study_dots(result(cells=cells))
        white, clean = panels(figure)
        assert [white.get_title(), clean.get_title()] == ["white-box", "clean"]
        assert [label.get_text() for label in white.get_yticklabels()] == ["RO", "1ofK"]
        dots = {
            (each.get_label(), float(each.get_xdata()[0])): each
            for each in white.lines
            if len(each.get_xdata()) == 1
        }
        assert set(dots) == {("own", 60.0), ("own", 50.0), ("margin", 20.0), ("the paper", 62.0)}
        own, margin = dots["own", 60.0], dots["margin", 20.0]
        assert own.get_marker() != margin.get_marker()
        assert own.get_color() != margin.get_color()
        # The cross stands on the line of the attack that it belongs to.
        assert dots["the paper", 62.0].get_ydata() == own.get_ydata()
        assert own.get_ydata()[0] != margin.get_ydata()[0]
        bars = [each.get_xdata() for each in white.lines if len(each.get_xdata()) == 2]
        assert any(bar == pytest.approx([53.1, 66.5], abs=0.05) for bar in bars)
        assert texts(white) == ["*", "*", "*"]
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == [
            "own", "margin", "no attack", "the paper",
        ]  # fmt: skip

    def test_without_objectives_all_is_in_one_panel(self) -> None:
        kinds = ("fog", "snow", "frost")
        cells = tuple(accuracy(code, kind, 90, None) for code in ("RO", "1ofK") for kind in kinds)
        (axes,) = panels(draw_study_dots(result(cells=cells)))
        assert [label.get_text() for label in axes.get_yticklabels()] == list(kinds)
        assert {each.get_label() for each in axes.lines if len(each.get_xdata()) == 1} == {
            "RO", "1ofK",
        }  # fmt: skip

    def test_a_column_that_names_its_objective_shares_a_panel(self) -> None:
        cells = tuple(
            accuracy("RO", column, 90, objective, white_box=column == objective)
            for objective in ("own", "ce")
            for column in (objective, f"{objective}, black-box")
        )
        white, black = panels(draw_study_dots(result(cells=cells)))
        assert [white.get_title(), black.get_title()] == ["white-box", "black-box"]
        for axes in (white, black):
            dots = [each.get_label() for each in axes.lines if len(each.get_xdata()) == 1]
            assert dots == ["own", "ce"]

    def test_a_single_value_has_no_bar(self) -> None:
        cell = StudyCell.of("a", "b", mean([0.25]), metric="correlation", seeds=(0,))
        (axes,) = panels(draw_study_dots(result(cells=(cell,))))
        assert [each.get_xdata() for each in axes.lines if each.get_label() == "b"] == [[0.25]]

    def test_correlations_share_one_axis(self) -> None:
        cells = (correlation("Input", "RO, RO'", 0.1), correlation("Input", "1ofK, 1ofK'", 0.6))
        more = (correlation("Input", "RO, RO'", 0.3, "margin"),)
        one, other = panels(draw_study_dots(result(cells=cells + more)))
        assert one.get_xlim() == other.get_xlim()
        assert one.get_xlim()[1] > 0.6


class TestPictures:
    @pytest.mark.parametrize("figure", ["matrix", "lines", "dots", "watermark"])
    def test_a_study_without_cells_shows_none(self, figure: str, tmp_path: Path) -> None:
        assert study_pictures(result(figure=figure, cells=()), tmp_path) == []

    def test_every_figure_says_n_seeds_and_attack(self, tmp_path: Path) -> None:
        for study in (transfer(), length(), result()):
            (picture,) = study_pictures(study, tmp_path)
            title = picture.figure.get_suptitle()
            for part in (study.title, "toys", "scale cpu", "n=200", "seeds 0, 1, 2", "FGSM"):
                assert part in title.replace("\n", " ")

    def test_the_intro_is_drawn(self, tmp_path: Path) -> None:
        (picture,) = study_pictures(result("intro", figure="intro"), tmp_path)
        told = " ".join(text.get_text() for text in picture.figure.texts)
        assert "1 of 4 directions harmful" in told

    def test_watermarks_are_points_of_task_and_mark(self, tmp_path: Path) -> None:
        cells = [
            accuracy("stolen", "test", 180, None, reported=0.89),
            accuracy("stolen", "mark", 190, None, reported=0.99),
            accuracy("RO, frozen, lr 0.1", "test", 150, None),
            accuracy("RO, frozen, lr 0.1", "mark", 20, None),
            accuracy("unmarked", "test", 182, None),
        ]
        study = result("watermark", figure="watermark", cells=tuple(cells))
        (picture,) = study_pictures(study, tmp_path)
        axes: Any = picture.figure.axes[0]
        points = [tuple(bar.lines[0].get_xydata()[0]) for bar in axes.containers]
        assert points == [pytest.approx((90, 95)), pytest.approx((75, 10))]
        crosses = [each.get_xydata()[0] for each in axes.lines if each.get_marker() == "x"]
        assert [tuple(cross) for cross in crosses] == [pytest.approx((89, 99))]

    @pytest.mark.parametrize(
        ("row", "encoding", "start"),
        [
            ("stolen", "1ofK", "owner"),
            ("unmarked", "1ofK", "unmarked"),
            ("scratch RO", "RO", "scratch"),
            ("fine-tuned RO", "RO", "frozen"),
            ("1ofK-MSE, free", "1ofK-MSE", "free"),
            ("somebody's", "somebody's", "unknown"),
        ],
    )
    def test_rows_tell_where_weights_came_from(self, row: str, encoding: str, start: str) -> None:
        assert origin(row) == (encoding, start)

    def test_arrays_become_pictures(self, tmp_path: Path) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
        images, labels = torch.rand(2, 1, 3, 4), torch.tensor([0, 2])
        models = {"net": network}
        gradients = {name: saliency(models, images, labels, name) for name in ("ce", "dlr")}
        write_saliency(tmp_path / "s.safetensors", images, labels, gradients, samples=[4, 9])
        made = landscapes(models, images, labels, eps=0.1, points=5)
        write_landscapes(tmp_path / "l.safetensors", made)
        fields: dict[str, Any] = {"cells": (), "pictures": {"maps": "s.safetensors"}}
        maps = study_pictures(result("saliency", figure="saliency", **fields), tmp_path)
        assert len(maps) == 2
        names = [axes.get_ylabel() for axes in maps[0].figure.axes if axes.get_ylabel()]
        assert names[:2] == ["image 4\nclass 0", "image 9\nclass 2"]
        fields["pictures"] = {"surfaces": "l.safetensors"}
        (surface,) = study_pictures(result("landscape", figure="landscape", **fields), tmp_path)
        assert len(surface.figure.axes) == 2

    def test_missing_arrays_are_named(self, tmp_path: Path) -> None:
        study = result(figure="saliency", pictures={"maps": "artifacts/none.safetensors"})
        with pytest.raises(MultiwayError, match="there is no file .*artifacts/none.safetensors"):
            study_pictures(study, tmp_path)


class TestMarkdown:
    def test_a_file_for_each_study_and_an_index(self, tmp_path: Path) -> None:
        paths = write_markdown([transfer("smoke"), transfer(), length()], tmp_path / "docs")
        assert [path.name for path in paths] == [
            "length-cpu.md", "transfer-cpu.md", "transfer-smoke.md", "index.md",
        ]  # fmt: skip
        index = paths[-1].read_text()
        assert (
            "1 ✓ holds, 1 ◐ holds only against the paper's own attack, 1 ✗ does not hold" in index
        )
        assert index.count("| transfer |") == 4
        assert "(transfer-smoke.md)" in index
        for name in ("own", "margin", "RO", "1ofK"):
            assert f"- **{name}**" in index

    def test_rows_are_those_of_the_tables(self) -> None:
        text = study_markdown(transfer())
        assert "| A-1ofK | A-1ofK | 20.0* [15.0, 26.1] | 23.1 | -3.1 |" in text
        assert "## Accuracy, attacker ascends margin" in text
        for part in ("n=200", "seeds 0, 1, 2", "12.3 minutes, on 2026-11-16", "torch 2.13.0"):
            assert part in text
        lines = text.splitlines()
        for place, row in enumerate(lines):
            if row.startswith("| ---"):
                assert lines[place - 1].count("|") == row.count("|") == lines[place + 1].count("|")

    def test_smoke_is_told_loudly(self) -> None:
        assert f"> **{SMOKE}**" in study_markdown(transfer("smoke"))
        assert SMOKE not in study_markdown(transfer())

    def test_words_cannot_become_markup(self) -> None:
        study = result(
            title="<b> | c",
            question="two\nlines",
            verdicts=(verdict(HOLDS, text="a | b"),),
            provenance=provenance(models="<script>"),
        )
        text = study_markdown(study)
        assert "# &lt;b> \\| c" in text
        assert "two lines" in text
        assert "| a \\| b (Table 3 (a)) |" in text
        assert "<script>" not in text
