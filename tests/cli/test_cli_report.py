"""`multiway report`: a page, Markdown and JSON; and one line for what is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Command
from multiway.store import Store
from multiway.studies.evidence import HOLDS, NOT_JUDGED, ONLY_OWN, OPPOSITE, UNDECIDED
from multiway.studies.result import write_study_result
from study_results import result, verdict


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "multiway-store"
    Store(folder).create()
    held = (verdict(HOLDS, "transfer-0"), verdict(ONLY_OWN, "transfer-1"))
    unjudged = (verdict(NOT_JUDGED, "transfer-0"), verdict(NOT_JUDGED, "transfer-1"))
    for each in (
        result("transfer", "smoke", verdicts=unjudged),
        result("transfer", verdicts=held),
        result("length", verdicts=(verdict(OPPOSITE, "length-white-box"),)),
    ):
        write_study_result(folder, each)
    return folder


def test_the_page_and_the_tables_are_written(
    in_process: Command, store: Path, tmp_path: Path
) -> None:
    done = in_process("report", "--out", "deep/report.html", "--markdown", "tables.md")
    assert done.returncode == 0
    html = (tmp_path / "deep" / "report.html").read_text()
    for name in ("length-cpu", "transfer-cpu", "transfer-smoke"):
        assert f'<section class="study" id="{name}"' in html
        assert (tmp_path / "tables" / f"{name}.md").exists()
    assert "](tables/length-cpu.md)" in (tmp_path / "tables.md").read_text()
    assert "transfer-0" in done.stdout
    assert "holds only against the paper's own attack" in done.stdout
    assert "written: deep/report.html" in done.stderr


def test_json_is_one_document(in_process: Command, store: Path) -> None:
    done = in_process("report", "--json")
    document = json.loads(done.stdout)
    assert document["written"] == ["report.html"]
    literal = {
        "holds": 1,
        "holds only against the paper's own attack": 1,
        "the opposite holds": 1,
        "the opposite holds in part": 0,
        "falls short": 0,
        "no effect of note": 0,
        "undecided": 0,
        "not judged": 2,
    }
    assert document["counts"] == {"literal": literal, "matched": dict.fromkeys(literal, 0)}
    assert [each["study"] for each in document["studies"]] == ["length", "transfer", "transfer"]
    assert {each["claim"] for each in document["verdicts"]} == {
        "transfer-0", "transfer-1", "length-white-box",
    }  # fmt: skip


def test_what_was_measured_anew_is_counted_once(in_process: Command, store: Path) -> None:
    """The undecided verdict stays in the list and says that it does not count."""
    before = json.loads(in_process("report", "--json").stdout)["counts"]["literal"]
    left = verdict(UNDECIDED, "length-white-box", needs=30)
    write_study_result(store, result("length", verdicts=(left,)))
    write_study_result(store, result("length", "fresh", verdicts=(verdict(HOLDS, left.claim),)))
    document = json.loads(in_process("report", "--json").stdout)
    assert document["counts"]["literal"] == {**before, "holds": 2, "the opposite holds": 0}
    flags = [(v["scale"], v["counts"]) for v in document["verdicts"] if v["study"] == "length"]
    assert flags == [("fresh", True), ("cpu", False)]


def test_results_are_published_and_read_again(
    in_process: Command, store: Path, tmp_path: Path
) -> None:
    ran = in_process("report", "--scale", "cpu", "--publish", "results", "--json")
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "length-cpu.json", "transfer-cpu.json",
    ]  # fmt: skip
    again = in_process("report", "results", "--out", "front.html", "--markdown", "docs/results.md",
                       "--json")  # fmt: skip
    assert again.returncode == 0, again.stderr
    one, other = (json.loads(each.stdout)["verdicts"] for each in (ran, again))
    assert one == other
    page = (tmp_path / "docs" / "results.md").read_text()
    assert " claims are judged" in page
    for path in (tmp_path / "docs" / "figures" / "results").glob("*.svg"):
        assert f"(figures/results/{path.name})" in page
    assert page.count("-chart.svg)") == 2
    assert page.count(".svg)") == 4
    # What is published must be judged.
    smoke = in_process("report", "--publish", "results")
    assert smoke.returncode == 2
    assert "smoke scale, which says nothing of the paper" in smoke.stderr


@pytest.mark.parametrize("name", ["length-cpu.json", "length-paper.json"])
def test_a_published_file_that_was_edited_is_named(
    in_process: Command, store: Path, tmp_path: Path, name: str
) -> None:
    in_process("report", "--scale", "cpu", "--publish", "results")
    path = tmp_path / "results" / "length-cpu.json"
    text = path.read_text().replace('"the opposite holds"', '"holds"')
    path.unlink()
    (tmp_path / "results" / name).write_text(text)
    done = in_process("report", "results")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "by its evidence it is 'the opposite holds'" in done.stderr
    both = in_process("report", "results", "--store", "multiway-store")
    assert "name one folder, not both" in both.stderr


def test_only_what_was_asked_for(in_process: Command, store: Path, tmp_path: Path) -> None:
    done = in_process("report", "--study", "transfer", "--scale", "cpu", "--json")
    (only,) = json.loads(done.stdout)["studies"]
    assert (only["study"], only["scale"]) == ("transfer", "cpu")
    assert 'id="length-cpu"' not in (tmp_path / "report.html").read_text()


def test_the_store_may_come_from_the_environment(
    in_process: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = store.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("MULTIWAY_STORE", str(moved))
    assert in_process("report", "--json").returncode == 0
    # What is given counts more than what is set.
    other = in_process("report", "--store", "nowhere")
    assert other.returncode == 2
    assert "there is no store in nowhere" in other.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--study", "transfre"],
            "unknown study in this store 'transfre': did you mean 'transfer'?",
        ),
        (["--scale", "cpuu"], "unknown scale 'cpuu': did you mean 'cpu'?"),
        (["--study", "length", "--scale", "paper"], "it has length (cpu), transfer (cpu), tr"),
        (["--out", "page.pdf"], "the page is a file that ends in .html"),
        (["--out", "multiway-store"], "the page is a file that ends in .html"),
        (["--out", "multiway-store/store.json/x.html"], "store.json is a file"),
        (["--markdown", "multiway-store/store.json"], "the page is a file that ends in .md"),
        (["--markdown", "multiway-store/store.json/x.md"], "store.json is a file"),
    ],
)
def test_mistakes_are_one_line(
    in_process: Command, store: Path, words: list[str], message: str
) -> None:
    done = in_process("report", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_an_empty_store_says_how_to_fill_it(in_process: Command, tmp_path: Path) -> None:
    done = in_process("report")
    assert done.returncode == 2
    assert "there is no store in multiway-store" in done.stderr
    assert "multiway reproduce --scale smoke --store multiway-store" in done.stderr
    assert list(tmp_path.iterdir()) == []
    Store(tmp_path / "empty").create()
    done = in_process("report", "--store", "empty")
    assert "no study has been finished in empty" in done.stderr
    assert "multiway reproduce" in done.stderr


def test_a_folder_that_is_no_store_is_refused(in_process: Command, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").touch()
    done = in_process("report", "--store", "pictures")
    assert done.returncode == 2
    assert "not a store" in done.stderr


def test_a_broken_result_is_named_and_no_page_is_written(
    in_process: Command, store: Path, tmp_path: Path
) -> None:
    broken = write_study_result(store, result())
    broken.write_text(broken.read_text()[:300])
    done = in_process("report")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "toy-cpu.json" in done.stderr
    assert not (tmp_path / "report.html").exists()
