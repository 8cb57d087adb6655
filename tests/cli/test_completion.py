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
from multiway.cli import options
from multiway.data import DATASETS
from multiway.encoding import ENCODINGS
from multiway.objectives import OBJECTIVES
from multiway.studies import SCALES, STUDIES
from multiway.training import recipe_names
from multiway.watermark import KINDS, STARTS
from warm import warm

PROGRAM = Path(sys.executable).parent / "multiway"


def question(shell: str, line: str) -> dict[str, str]:
    """How that shell asks what may follow `line`, whose last word is not finished."""
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    return {**asked, "_MULTIWAY_COMPLETE": f"complete_{shell}"}


def asked(shell: str, line: str) -> list[str]:
    """What that shell is answered by the installed program."""
    done = subprocess.run(
        [PROGRAM], env={**os.environ, **question(shell, line)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_names_are_those_of_the_code() -> None:
    assert sorted(options.ATTACKS) == sorted(ATTACKS)
    assert sorted(options.BACKBONES) == sorted(BACKBONES)
    assert sorted(options.DATASETS) == sorted(DATASETS)
    assert sorted(options.ENCODINGS) == sorted(ENCODINGS)
    assert options.OBJECTIVES == OBJECTIVES
    assert sorted(options.SCALES) == sorted(SCALES)
    assert options.STUDIES == STUDIES
    assert options.recipe_files() == recipe_names()


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
def test_a_line_is_completed(line: str, expected: list[str], tmp_path: Path) -> None:
    program = "import sys; sys.argv[0] = 'multiway'; from multiway.cli import main; main()"
    process = warm("-c", program, cwd=tmp_path, env={**os.environ, **question("bash", line)})
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert sorted(output.split()) == sorted(expected)


def test_each_shell_is_answered() -> None:
    line = "multiway train --encoding ro"
    assert set(asked("bash", line)) == {"ro", "ro-softmax"}
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
    assert done.stdout.split() == ["smoke", "cpu", "fresh", "paper"]
