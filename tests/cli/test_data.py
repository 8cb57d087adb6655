"""`multiway data` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from multiway.cli.data import app
from multiway.errors import MultiwayError

runner = CliRunner()


def write_cifar10(root: Path) -> None:
    """Whole batches of one black image each: readable, not the publisher's."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for stem in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (folder / f"{stem}.bin").write_bytes(bytes(3073))


def test_list_as_json(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    result = runner.invoke(app, ["list", "--data-dir", str(tmp_path), "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["data_dir"] == str(tmp_path)
    rows = {row["name"]: row for row in document["datasets"]}
    assert rows["cifar10"]["state"] == "present"
    assert (rows["cifar10"]["train"], rows["cifar10"]["test"]) == (5, 1)
    assert rows["mnist"]["state"] == "missing"


def test_list_for_people(tmp_path: Path) -> None:
    result = runner.invoke(app, ["list"], env={"MULTIWAY_DATA": str(tmp_path), "COLUMNS": "200"})
    assert result.exit_code == 0
    for word in ("mnist5k", "cifar10-c", "missing", "4,000", "folder:DIR"):
        assert word in result.stdout


def test_verify_exits_with_1_only_for_altered_files(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    command = ["verify", "cifar10", "--data-dir", str(tmp_path), "--json"]
    result = runner.invoke(app, command)
    assert result.exit_code == 0
    assert {row["state"] for row in json.loads(result.stdout)["files"]} == {"subset"}
    (tmp_path / "cifar-10-batches-bin/test_batch.bin").write_bytes(b"<html>")
    result = runner.invoke(app, command)
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["altered"] is True
    assert "web page" in document["files"][-1]["detail"]
    result = runner.invoke(app, command[:-1], env={"COLUMNS": "400"})
    assert result.exit_code == 1
    assert "altered" in result.stdout
    assert str(tmp_path / "cifar-10-batches-bin/test_batch.bin") in result.stdout


def test_verify_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = runner.invoke(app, ["verify", "--data-dir", str(tmp_path)])
    assert result.exit_code == 0
    assert "plausible" in result.stdout
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = runner.invoke(app, ["verify", "--data-dir", str(tmp_path)])
    assert result.exit_code == 0
    assert "No data set is in" in result.stdout


def test_fetch_of_what_needs_no_network(tmp_path: Path) -> None:
    result = runner.invoke(app, ["fetch", "mnist5k", "--data-dir", str(tmp_path), "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["name"] == "mnist5k"
    assert document["files"][0].endswith("mnist_5k.csv.gz")
    result = runner.invoke(app, ["fetch", "mnist5k"])
    assert "mnist5k is here" in result.stdout


def test_mistakes_reach_the_caller_as_multiway_errors(tmp_path: Path) -> None:
    for command in (["fetch", "mnits"], ["verify", "mnits"]):
        result = runner.invoke(app, [*command, "--data-dir", str(tmp_path)])
        assert isinstance(result.exception, MultiwayError)
        assert "did you mean 'mnist'" in str(result.exception)


@pytest.mark.parametrize("command", ["list", "fetch", "verify"])
def test_help_shows_an_example(command: str) -> None:
    result = runner.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: multiway data {command}" in result.stdout
    assert "--data-dir" in result.stdout
    assert "--json" in result.stdout


def test_the_command_file_imports_nothing_heavy() -> None:
    code = (
        "import sys, importlib.util as u\n"
        "spec = u.spec_from_file_location('command', sys.argv[1])\n"
        "module = u.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print([n for n in ('torch', 'numpy', 'pooch', 'scipy', 'PIL') if n in sys.modules])"
    )
    import multiway.cli.data

    result = subprocess.run(
        [sys.executable, "-c", code, str(multiway.cli.data.__file__)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "[]"
