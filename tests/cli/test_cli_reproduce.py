"""`multiway reproduce`: bad input, plans, a run that is killed, and its lines of progress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import Command
from multiway.cli import progress
from multiway.cli.live_table import LiveTable
from multiway.cli.reproduce import _Work
from multiway.engine import Finished, LocalEngine
from multiway.schedule import order
from multiway.store import Store
from multiway.studies import Study, declare, measured_elsewhere, scale_of
from multiway.studies.benchmark import UNGUIDED_IMAGES
from multiway.studies.plan import ATTACKED, expected_difference, plan_study
from multiway.studies.result import result_path
from tiny_artifacts import Tiny, until
from warm import warm


def one_line(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("error: ")
    assert ran.stderr.count("\n") == 1
    return ran.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["transfre"], "unknown study 'transfre': did you mean 'transfer'? (allowed: intro, "),
        (["correlation", "nonsense"], "unknown study 'nonsense'"),
        (["intro", "--scale", "fresh"], "unknown study at scale fresh 'intro'"),
        (["transfer", "--scale", "smke"], "unknown scale 'smke': did you mean 'smoke'?"),
        (["transfer", "--engine", "rey"], "unknown engine 'rey': did you mean 'ray'?"),
        (["transfer", "--address", "host:1"], "--address and --gpus-per-task go with --engine ray"),
        (["transfer", "--gpus-per-task", "1"], "--address and --gpus-per-task go with --engine"),
        (["transfer", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["transfer", "--engine", "ray", "--gpus-per-task", "-1"], "'--gpus-per-task'"),
        (["transfer", "--device", "tpu9"], "unknown device 'tpu9'"),
        (
            ["correlation", "--engine", "ray", "--address", "here"],
            "--address here: write HOST:PORT, ray://HOST:PORT or auto",
        ),
        (
            ["correlation", "--engine", "ray", "--device", "cuda"],
            "--device cuda with --engine ray needs --gpus-per-task",
        ),
    ],
)
def test_bad_input(in_process: Command, words: list[str], message: str) -> None:
    assert message in one_line(in_process("reproduce", *words, "--store", "s"))


def test_ray_is_not_there(in_process: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    message = one_line(in_process("reproduce", "correlation", "--engine", "ray", "--store", "s"))
    assert message.endswith('not installed: pip install "multiway[cluster]"\n')


def test_data_that_is_not_there(
    in_process: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("MULTIWAY_DATA", str(tmp_path / "empty"))
    words = ("reproduce", "correlation", "--scale", "cpu", "--store", "s")
    assert "run `multiway data fetch mnist`" in one_line(in_process(*words))
    assert not (tmp_path / "s").exists()
    planned = in_process(*words, "--dry-run")
    assert planned.returncode == 0
    assert "no data" in planned.stdout
    explained, missing = planned.stderr.splitlines()
    assert explained.startswith("power: the chance to see an effect of 2 points")
    assert missing.startswith("not planned: mnist: ")
    assert "run `multiway data fetch mnist`" in missing
    document = json.loads(in_process(*words, "--dry-run", "--json").stdout)
    assert "multiway data fetch mnist" in document["studies"][0]["missing"]
    assert document["core_minutes"] == 0


def test_stores_that_are_none(in_process: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("x")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "store.json").write_text('{"format": 0, "multiway": "0.0.1"}')
    for store, message in {
        "file": "file is a file; a store is a folder",
        "folder": "folder is not empty and not a store (it has no store.json); take another",
        "old": "old is a store of format 0, and multiway",
    }.items():
        for more in ((), ("--dry-run",)):
            ran = in_process("reproduce", "correlation", "--store", store, *more)
            assert message in one_line(ran)
    assert (tmp_path / "folder" / "thesis.tex").read_text() == "x"


def test_a_plan_computes_nothing(in_process: Command, tmp_path: Path) -> None:
    ran = in_process("reproduce", "correlation", "--dry-run", "--json", "--store", "s", "--jobs", 2)
    assert ran.returncode == 0
    (plan,) = json.loads(ran.stdout)["studies"]
    # 3 layers x 3 pairs x 2 objectives; 2 encodings x 2 seeds, each with a substitute, their
    # gradients by objective, how far these agree, and on clean images the four of RO and two of
    # one-hot labels, the targets: a substitute of RO has its target's twin.
    assert (plan["cells"], plan["trainings"]) == (18, 8)
    assert plan["artifacts"] == plan["left"] == 42
    assert plan["seeds"] is None  # it compares no accuracies
    assert not (tmp_path / "s").exists()


def test_a_plan_says_its_power(in_process: Command, tmp_path: Path) -> None:
    """By the noncentral t: more seeds see more, and the claims of the smoke scale see little."""
    words = ("reproduce", "transfer", "--dry-run", "--store", "s")
    (plan,) = json.loads(in_process(*words, "--json").stdout)["studies"]
    assert plan["seeds"] == [2, 2]
    # AutoAttack, which counts in the worst case, is given half of the images; on clean ones
    # trainings lie closer together.
    least, most = expected_difference(50, 2, ATTACKED), expected_difference(100, 2)
    assert plan["power"] == [round(each.power(0.02), 2) for each in (least, most)]
    few = plan["power"][1]
    assert few < 0.2 < 0.5 < expected_difference(2000, 10).power(0.02)
    assert expected_difference(5000, 12, ATTACKED).power(0.02) < 0.3
    shown = in_process(*words)
    assert "power: the chance to see an effect of 2 points" in shown.stderr
    assert f"{few:.0%}" in shown.stdout
    # Of a study with some comparisons on fewer images, from the least to the most.
    scale = scale_of("smoke").robust_scale()
    study = declare("benchmark", scale_of("smoke"))
    small, large = UNGUIDED_IMAGES["smoke"], scale.images or 0
    assert small < (scale.hard_images or 0) < large
    found = plan_study(study, Store(tmp_path / "none"), set())
    ends = [round(expected_difference(n, 2).power(0.02), 2) for n in (small, large)]
    assert found.power == (min(ends), max(ends))


def cells(stdout: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(stdout)["results"][0]["cells"]
    return found


def test_a_killed_run_ends_in_the_same_cells(tmp_path: Path, in_process: Command) -> None:
    # Two steps of everything: what is asked here is not how well the networks do.
    words = ("reproduce", "correlation", "--scale", "smoke", "--trial", "--store")
    run = warm("-m", "multiway", *words, tmp_path / "killed", "--jobs", 2, cwd=tmp_path)
    artifacts = tmp_path / "killed" / "artifacts"
    until(lambda: len(list(artifacts.glob("*/*/artifact.json"))) >= 2)
    run.kill()
    run.wait()
    before = {path: path.stat().st_mtime_ns for path in artifacts.glob("*/*/artifact.json")}
    assert 2 <= len(before) < 12
    # One after the other in this process is a whole run, too.
    whole = Store(tmp_path / "whole").create()
    study = declare("correlation", scale_of("smoke", trial=True))
    assert all(whole.make(artifact) for artifact in order(study.artifacts()))
    ran = {
        store: in_process(*words, tmp_path / store, "--jobs", 1, "--json")
        for store in ("killed", "whole")
    }
    assert all(each.returncode == 0 for each in ran.values()), ran
    assert cells(ran["killed"].stdout) == cells(ran["whole"].stdout)
    assert len(cells(ran["whole"].stdout)) == 18
    # A trial is no result, and must not pass for one in a report.
    assert "a trial: everything started" in ran["whole"].stderr
    assert not list(tmp_path.glob("*/results/*.json"))
    # What was finished before the kill was not touched again.
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_study_that_is_whole_is_written_before_the_next_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scale, store = scale_of("smoke", trial=True), Store(tmp_path / "s").create()
    first, second = (declare(name, scale) for name in ("correlation", "signs"))
    work = _Work([first, second], scale, store, write=True)
    assert work.compute(LocalEngine(store, 1, "cpu")) is None
    written = result_path(store.directory, "correlation", "smoke")
    assert f"correlation is measured: wrote {written}" in capsys.readouterr().err
    known = {each.key for each in order(first.artifacts())}
    later = [each for each in order(second.artifacts()) if each.key not in known]
    assert later
    for each in later:
        made = store._folder(each) / "artifact.json"
        assert made.stat().st_mtime_ns > written.stat().st_mtime_ns
    assert json.loads(written.read_text())["name"] == "correlation"
    assert list(work.results) == ["correlation", "signs"]  # to be shown at the end
    # What is whole from the beginning is written at once; one that is damaged is made again.
    written.unlink()
    damaged = next(each for each in second.artifacts() if each.key not in known)
    (store._folder(damaged) / "artifact.json").write_text("{")
    again = _Work([first, second], scale, store, write=True)
    assert again.compute(LocalEngine(store, 1, "cpu")) is None
    assert written.exists()
    assert list(again.results) == ["correlation", "signs"]


def test_a_run_that_a_scheduler_ends_saves_what_it_has(tmp_path: Path) -> None:
    words = ("reproduce", "signs", "--scale", "smoke", "--seeds", 1, "--jobs", 1)
    where = ("--store", tmp_path / "s", "--outcomes", tmp_path / "outcomes")
    run = warm("-m", "multiway", *words, *where, cwd=tmp_path)
    study, store = declare("signs", scale_of("smoke").first_seeds(1)), Store(tmp_path / "s")
    until(lambda: any(each in store for each in study.artifacts()))
    run.terminate()
    _, errors = run.communicate()
    assert run.returncode == 128 + signal.SIGTERM
    assert errors.splitlines()[-1].startswith("stopped; what is finished is kept in the store")
    assert "Traceback" not in errors
    saved = measured_elsewhere([study], Store(tmp_path / "other").create(), tmp_path / "outcomes")
    assert saved == {each.key for each in study.artifacts() if each in store} != set()


def test_a_command_in_the_background_of_a_shell_is_ended_in_order(tmp_path: Path) -> None:
    """A shell that is no terminal's has what it starts with & ignore SIGINT."""
    words = f"{sys.executable} -m multiway reproduce signs --scale smoke --seeds 1 --jobs 1"
    script = f"{words} --store {tmp_path / 's'} & echo $!; wait $!"
    shell = subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    run = int(shell.stdout.readline())
    study, store = declare("signs", scale_of("smoke").first_seeds(1)), Store(tmp_path / "s")
    try:
        until(lambda: any(each in store for each in order(study.artifacts())))
    finally:
        os.kill(run, signal.SIGTERM)
    _, errors = shell.communicate(timeout=120)
    assert shell.returncode == 128 + signal.SIGTERM
    assert errors.splitlines()[-1].startswith("stopped; what is finished is kept in the store")


class Interrupted(_Work):
    """Its user stops it as soon as something was saved."""

    def save(self, study: Study) -> None:
        super().save(study)
        raise KeyboardInterrupt


def test_an_interrupted_run_has_its_first_seeds_as_a_whole(tmp_path: Path) -> None:
    scale, store = scale_of("smoke", trial=True), Store(tmp_path / "s").create()
    both = replace(scale, seeds=(0, 1))
    study, first = declare("signs", both), declare("signs", scale)
    work = Interrupted([study], both, store, tmp_path / "outcomes", write=False)
    with pytest.raises(KeyboardInterrupt):
        work.compute(LocalEngine(store, 1, "cpu"))
    known = {each.key for each in order(first.artifacts())}
    assert {each.key for each in order(study.artifacts()) if each in store} == known
    elsewhere = Store(tmp_path / "other").create()
    adopted = measured_elsewhere([study], elsewhere, tmp_path / "outcomes")
    assert adopted == {each.key for each in first.artifacts()}


def test_outcomes_that_cannot_be_saved_on_the_way_stop_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scale, store = scale_of("smoke", trial=True), Store(tmp_path / "s").create()
    (tmp_path / "outcomes").mkdir()
    (tmp_path / "outcomes" / "signs-smoke.safetensors").write_text("not outcomes")
    work = _Work([declare("signs", scale)], scale, store, tmp_path / "outcomes", write=True)
    assert work.compute(LocalEngine(store, 1, "cpu")) is None
    assert list(work.results) == ["signs"]
    assert "the outcomes of signs are not saved yet: " in capsys.readouterr().err


def test_a_study_that_cannot_be_judged_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scale, store = scale_of("smoke", trial=True), Store(tmp_path / "s").create()
    first, second = (declare(name, scale) for name in ("intro", "correlation"))
    broken = replace(first, cells=(*first.cells, first.cells[0]))  # one cell twice
    work = _Work([broken, second], scale, store, write=True)
    assert work.compute(LocalEngine(store, 1, "cpu")) is None
    assert "intro has no result yet: " in capsys.readouterr().err
    assert list(work.results) == ["correlation"]


def test_lines_where_there_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY", -1)  # at every turn
    a, b, c, d = (Tiny(name, tmp_path, guess=60.0) for name in "abcd")
    with LiveTable(capacity=2) as watch:
        watch.planned([d], [a, b, c])
        assert watch.left() == pytest.approx(3 * 60 / 2)
        watch.started(a)
        watch.started(b)
        watch.advanced(a.key, 0.5)
        assert watch.left() == pytest.approx(2.5 * 60 / 2)
        watch.finished(a, Finished(a.key, seconds=30.0))  # twice as fast as was thought
        assert watch.left() == pytest.approx(2 * 30 / 2)
        watch.waiting(b)
        watch.waiting(b)
        watch.finished(b, Finished(b.key))
        assert watch.left() == pytest.approx(1 * 30 / 2)  # b says nothing of our own speed
        watch.started(c)
        watch.finished(c, Finished(c.key, error="no luck"))
        assert watch.left() == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "1 artifacts are in the store, 3 are to be made"
    assert "tiny a (50%)" in lines[1]
    assert lines.count("tiny b: another process is making it; it is waited for") == 1
    assert "failed: tiny c: no luck" in lines
    assert lines[-1].startswith("1 made, 1 there before, 1 made by another process, 1 failed; ")


def test_a_folder_of_data_is_that_of_one_command_alone(in_process: Command, tmp_path: Path) -> None:
    """What a command sets for its workers would hide the real data sets from later tests."""
    before = dict(os.environ)
    done = in_process("reproduce", "intro", "--scale", "smoke", "--dry-run", "--data-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert dict(os.environ) == before
