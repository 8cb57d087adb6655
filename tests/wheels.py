"""The wheel of `make wheel`, and environments outside the repository that have it installed."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from conftest import Shared

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def wheel(shared: Shared) -> Path:
    """The one file that `make wheel` writes; without isolation, so that nothing is downloaded."""

    def make(folder: Path) -> None:
        pip = f"PIP=--no-build-isolation --wheel-dir {folder}"
        words = ["make", "-C", str(ROOT), "wheel", f"BIN={Path(sys.executable).parent}", pip]
        subprocess.run(words, check=True, capture_output=True, timeout=120)

    (file,) = shared("wheel", make).glob("*.whl")
    return file


def install_wheel(wheel: Path, folder: Path, extra: str = "") -> Path:
    """The `bin` of an empty environment with the wheel and what it asks for, and nothing else.

    The wheel is installed by pip. What it depends on, by its own metadata and by that of its
    dependencies, is not downloaded again but linked from the environment of the tests, file by
    file of each distribution: a package that the code imports and the metadata does not name is
    missing here, as it would be for a user. The repository is not on the path.
    """
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), *install], check=True, timeout=120
    )
    links = folder / "dependencies"
    links.mkdir()
    with zipfile.ZipFile(wheel) as file:
        (name,) = (each for each in file.namelist() if each.endswith(".dist-info/METADATA"))
        needed = email.message_from_bytes(file.read(name)).get_all("Requires-Dist", [])
    waiting, seen = [(Requirement(each), {"", extra}) for each in needed], set()
    while waiting:
        requirement, extras = waiting.pop()
        key = re.sub(r"[-_.]+", "-", requirement.name).lower()
        marker = requirement.marker
        wanted = marker is None or any(marker.evaluate({"extra": each}) for each in extras)
        if not wanted or (key, *requirement.extras) in seen:
            continue
        seen.add((key, *requirement.extras))
        found = metadata.distribution(requirement.name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (links / top).exists():
                (links / top).symlink_to(str(found.locate_file(top)))
        waiting += [(Requirement(each), {"", *requirement.extras}) for each in found.requires or ()]
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{links}\n")
    return environment / "bin"


def run_outside(program: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Start a program of such an environment in `folder`, as a user would."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [program, *words], cwd=folder, env=kept, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done
