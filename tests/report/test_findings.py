"""Sentences about results: their figures are those of the files, and a wrong name is an error."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from multiway.errors import UnusableFile
from multiway.report.findings import FIGURE, FILE, insert_lines, read_findings
from multiway.report.summary import found_text
from multiway.results import Cell
from multiway.studies.evidence import HOLDS, Evidence
from multiway.studies.published import read_folder
from multiway.studies.result import StudyResult, Verdict
from study_results import result

RESULTS = Path(__file__).parents[2] / "results"
OTHER = "signs"


def results() -> list[StudyResult]:
    seen = Evidence("own", "RO over 1ofK", 0.305, 0.25, 0.36, 0.0, 0.02, 1.0, None, 50, (0, 1))
    claim = Verdict("more-robust", "literal", "RO is.", "Table 3", HOLDS, "So.", (seen,))
    alike = replace(seen, part="padded over RO", difference=0.0044, low=-0.01, high=0.02, margin=-1)
    other = replace(claim, claim="less-alike", evidence=(alike,), metric="correlation")
    cells = (
        Cell("RO", "FGSM", "accuracy", 0.409, 0.35, 0.47, 50, objective="own", white_box=True),
        Cell("RO", "FGSM", "correlation", 0.25, 0.2, 0.3, 50, objective="own"),
        Cell("RO", "clean", "accuracy", 0.98, 0.97, 0.99, 50),
    )
    first = replace(result(), verdicts=(claim, other), cells=cells)
    return [first, replace(first, name=OTHER, verdicts=(), cells=cells[2:])]


def write(folder: Path, text: str) -> Path:
    (folder / FILE).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("more-robust | RO over 1ofK | own", "+30.5 points [25.0, 36.0]"),
        ("-more-robust | RO over 1ofK | own", "-30.5 points [-36.0, -25.0]"),
        ("less-alike | padded over RO | own", "+0.004 [-0.010, 0.020]"),
        ("RO | clean", "98.0 [97.0, 99.0] %"),
        ("RO | FGSM | own | accuracy", "40.9 [35.0, 47.0] %"),
        ("RO | FGSM | own | correlation", "0.25 [0.20, 0.30]"),
        (f"{OTHER}: RO | clean", "98.0 [97.0, 99.0] %"),
    ],
)
def test_names_in_braces_become_figures(tmp_path: Path, name: str, figure: str) -> None:
    first, second = results()
    write(tmp_path, f"# Title\n\nAll in all.\n\n## {first.name}-cpu\n\nIt is {{{name}}},\nso.\n")
    found = read_findings(tmp_path, [first, second])
    assert found.of(first) == f"It is {figure}, so."
    assert found.of(second) == found_text(second)
    assert found.answer == ("All in all.",)


def test_the_answer_names_the_study_of_a_cell(tmp_path: Path) -> None:
    first, second = results()
    write(
        tmp_path,
        f"One.\n\nIt is {{{second.name}: RO | clean}} clean,\n"
        "{more-robust | RO over 1ofK | own}.\n",
    )
    answer = ("One.", "It is 98.0 [97.0, 99.0] % clean, +30.5 points [25.0, 36.0].")
    assert read_findings(tmp_path, [first, second]).answer == answer


def test_a_list_goes_between_its_marks_however_often(tmp_path: Path) -> None:
    first, _ = results()
    write(tmp_path, "All.\n\n## in ten lines\n\n- Clean: {RO | clean}.\n- Two.\n\n## intro-cpu\n")
    found = read_findings(tmp_path, [replace(first, name="intro")])
    assert found.lines == "- Clean: 98.0 [97.0, 99.0] %.\n- Two."
    page = tmp_path / "page.md"
    page.write_text("# Ä\n<!-- in ten lines -->\nold\n<!-- end -->\nafter\n")
    for _ in range(2):
        insert_lines(page, found)
        expected = f"# Ä\n<!-- in ten lines -->\n{found.lines}\n<!-- end -->\nafter\n"
        assert page.read_text() == expected


def test_a_line_says_how_many_images_and_trainings_are_behind_its_figures(tmp_path: Path) -> None:
    first, _ = results()
    clean = replace(first.cells[2], seeds=(0, 1, 2))
    more = replace(clean, row="one-hot", n=1000, seeds=(0,))
    first = replace(first, name="intro", cells=(*first.cells[:2], clean, more))
    text = "- {RO | clean} ({n}).\n- {RO | clean}, {more-robust | RO over 1ofK | own} ({n}).\n"
    text += "- {RO | clean}, {one-hot | clean} ({n})."
    write(tmp_path, f"All: {{RO | clean}}, {{n}}.\n\n## in ten lines\n\n{text}\n")
    one, two, three = read_findings(tmp_path, [first]).lines.split("\n")
    assert one.endswith("% (n=50; 3 trainings).")
    assert two.endswith("] (n=50; 2 to 3 trainings).")
    assert three.endswith("% (n=50 to 1,000; 1 to 3 trainings).")


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text("# Page\n<!-- in ten lines -->\n")
    with pytest.raises(UnusableFile, match="lacks the lines <!-- in ten lines --> and <!-- end"):
        insert_lines(page, read_findings(tmp_path, []))
    assert page.read_text() == "# Page\n<!-- in ten lines -->\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("## signs-paper\n\nIt holds.", "no result signs-paper"),
        ("It is {RO | clean}.", r"\{RO \| clean\} names 2 figures"),
        ("It is {RO | dirty}.", "names 0 figures"),
        ("It is {more-robust | RO over 1ofK | margin}.", "names 0 figures"),
        (f"It is {{{result().name}: RO | FGSM | own}}.", "names 2 figures"),
        ("## in ten lines\n\n- It is {toy: RO |\n  FGSM}", "does not end in the line"),
        ("## in ten lines\n\n- It is so; {n}", "a line without figures"),
        ("## doubts\n\nOne.\n\n## history\n\nTwo.\n\n## doubts\n\nThree.", "a heading twice"),
    ],
)
def test_a_figure_that_is_not_there_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UnusableFile, match=problem):
        read_findings(write(tmp_path, text), results())


def test_without_the_file_verdicts_speak(tmp_path: Path) -> None:
    found = read_findings(tmp_path, results())
    assert found.answer == ()
    assert found.of(results()[0]) == found_text(results()[0])


def test_every_published_result_is_put_into_words() -> None:
    published = read_folder(RESULTS)
    found = read_findings(RESULTS, published)
    assert found.answer
    assert set(found.studies) == {f"{each.name}-{each.scale}" for each in published}
    for name, (short, *_) in found.studies.items():
        assert len(re.findall(r"\.(?= [A-Z]|$)", short)) <= 3, name


def test_no_figure_is_typed_by_hand() -> None:
    """What is measured comes from the files; what is typed are settings: steps, eps, kinds."""
    typed = FIGURE.sub("", (RESULTS / FILE).read_text())
    assert not re.findall(r"\d %|\[[-\d]|\d points", typed)
