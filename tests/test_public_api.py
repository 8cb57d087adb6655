"""`import multiway as mw`: what is there, that it is loaded lazily, and that it is exemplified."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import multiway as mw

PROMISED = {
    "Codebook", "Encoding", "EncodedClassifier", "encode_model", "Linf", "L2", "L1", "FGSM",
    "PGD", "APGD", "TargetedAPGD", "FAB", "Square", "NAttack", "Boundary", "AutoAttack",
    "Noise", "CW", "DDN", "EAD", "DeepFool", "Normalize", "evaluate", "transfer", "correlate",
    "diagnose", "train", "load_run", "MultiwayError",
}  # fmt: skip
PACKAGES = {
    "analysis", "attacks", "backbones", "data", "objectives", "report", "results", "statistics",
    "studies", "training", "watermark",
}  # fmt: skip


def test_dir_is_what_is_promised() -> None:
    assert set(dir(mw)) == PROMISED | PACKAGES | {"__version__"}
    assert set(mw.__all__) == PROMISED | PACKAGES


def test_names_are_loaded_when_they_are_used() -> None:
    """`multiway --help` must not wait for torch."""
    program = (
        "import sys, multiway as mw, multiway.cli.app\n"
        "heavy = {'torch', 'matplotlib', 'scipy', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "dir(mw); mw.PGD; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_what_the_commands_use_is_imported_by_its_package() -> None:
    """A submodule is there by accident where only another module happens to import it."""
    files = (Path(mw.__file__).parent / "cli").glob("*.py")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    used = set(re.findall(r"\bmw\.(\w+)\.(\w+)", text))
    assert ("data", "corruptions") in used
    for package, name in used:
        module = getattr(mw, package)
        assert not isinstance(module, ModuleType) or name in module.__all__, (package, name)


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_packages_are_attributes(name: str) -> None:
    assert isinstance(getattr(mw, name), ModuleType)


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_every_public_name_has_an_example(name: str) -> None:
    """It is run as a doctest of the module that holds it."""
    value = getattr(mw, name)
    assert value.__name__ == name
    finder = doctest.DocTestFinder(recurse=False)
    assert any(test.examples for test in finder.find(value, name)), f"{name} has no example"


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'multiway' has no attribute 'pgd'"):
        mw.pgd  # noqa: B018
