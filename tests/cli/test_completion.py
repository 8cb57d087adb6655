"""Shell completion, as shells ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from multiway.analysis import BUDGETS
from multiway.attacks import ATTACKS
from multiway.backbones import BACKBONES
from multiway.cli import choices
from multiway.data import DATASETS
from multiway.encoding import ENCODINGS
from multiway.objectives import OBJECTIVES
from multiway.studies import SCALES, STUDIES
from multiway.training import recipe_names
from multiway.watermark import KINDS, STARTS

PROGRAM = Path(sys.executable).parent / "multiway"


def asked(shell: str, line: str) -> list[str]:
    """What that shell is answered after `line`, whose last word is not finished."""
    words = line.split(" ")
    environment = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = subprocess.run(
        [PROGRAM], env={**os.environ, **environment, "_MULTIWAY_COMPLETE": f"complete_{shell}"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_names_are_those_of_the_code() -> None:
    assert sorted(choices.ATTACKS) == sorted(ATTACKS)
    assert sorted(choices.BACKBONES) == sorted(BACKBONES)
    assert sorted(choices.DATASETS) == sorted(DATASETS)
    assert sorted(choices.ENCODINGS) == sorted(ENCODINGS)
    assert choices.OBJECTIVES == OBJECTIVES
    assert sorted(choices.SCALES) == sorted(SCALES)
    assert choices.STUDIES == STUDIES
    assert choices.recipe_files() == recipe_names()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("multiway wat", ["watermark"]),
        ("multiway watermark st", ["steal"]),
        ("multiway train --encoding ro", ["ro", "ro-softmax"]),
        ("multiway train --backbone wrn", ["wrn-16-4", "wrn-28-4", "wrn-34-10"]),
        ("multiway train --data cifar10", ["cifar10", "cifar100", "cifar10-c"]),
        ("multiway train --recipe wong", ["wong-mnist", "wong-mnist-fgsm"]),
        ("multiway reproduce transfer co", ["correlation", "corruption", "confidence", "controls"]),
        ("multiway evaluate run --attack pgd --attack apgd", ["apgd", "apgd-t"]),
        ("multiway diagnose --effort ", list(BUDGETS)),
        ("multiway watermark embed --kind ", list(KINDS)),
        ("multiway watermark steal --start ", list(STARTS)),
        ("multiway data fetch sv", ["svhn"]),
    ],
)
def test_bash_is_answered(line: str, expected: list[str]) -> None:
    assert sorted(asked("bash", line)) == sorted(expected)


def test_zsh_and_fish_are_answered() -> None:
    line = "multiway train --encoding ro"
    assert {"ro", "ro-softmax"} <= set("".join(asked("zsh", line)).replace('"', " ").split())
    assert set(asked("fish", line)) == {"ro", "ro-softmax"}


def test_torch_is_not_loaded_for_it() -> None:
    code = (
        "import sys; sys.argv = ['multiway']\n"
        "from multiway.cli import main\n"
        "try: main()\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    words = {"COMP_WORDS": "multiway train --backbone res", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        env={**os.environ, **words, "_MULTIWAY_COMPLETE": "complete_bash"},
    )  # fmt: skip
    assert done.stdout.split()[-1] == "False"
    assert "resnet-20" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_bash_that_installed_it_completes(tmp_path: Path) -> None:
    script = """
    multiway --install-completion >/dev/null || exit 1
    . "$HOME/.bashrc"
    COMP_WORDS=(multiway reproduce --scale "") COMP_CWORD=3
    $(complete -p multiway | sed 's/.*-F \\([^ ]*\\).*/\\1/') multiway
    echo "${COMPREPLY[@]}"
    """
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=60,
        env={**os.environ, "HOME": str(tmp_path), "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["smoke", "cpu", "paper"]
