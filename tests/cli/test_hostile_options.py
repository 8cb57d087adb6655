"""Hostile values of every option of every command: one line of error, or a right result.

The commands and their options are read off the command line, so a new one is covered by itself; it
only needs a line in `BASES`, which the first test asks for.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hostile import (
    BAD,
    CLASSES,
    NUMBERS,
    TEXTS,
    UNREADABLE_FOR_ROOT,
    Option,
    all_commands,
    bad_paths,
    run,
)  # fmt: skip

from conftest import Shared, invoke
from multiway.errors import visible
from multiway.store import Store
from multiway.studies.evidence import HOLDS
from multiway.studies.result import write_study_result
from study_results import result, verdict

COMMANDS = all_commands()
DATA = "--data {data}"
PAIR = f"{{ro}} {{one}} {DATA} --limit 3"
SHORT = "--recipe wong-mnist --epochs 1 --code-length 8"

# A command that is right, takes little time, and has --json where it has figures. `{out}` is a new
# place each time. The demo trains for minutes: it is stopped by the last thing that it checks.
BASES = {
    "demo": "--out {out} --limit 1 --epochs 1 --backbone nowhere",
    "train": f"--data {{data}} --backbone wong {SHORT} --out {{out}} --json",
    "transfer": f"{PAIR} --attack fgsm --eps 0.1 --objective margin --json",
    "correlate": f"{PAIR} --layers input --objective margin --json",
    "corrupt": f"{{ro}} {DATA} --limit 3 --kinds brightness --severities 1 --json",
    "evaluate": f"{{ro}} {DATA} --limit 3 --attack pgd --steps 1 --eps 0.1 --json",
    "explore": f"{PAIR} --eps 0.1 --no-browser --at image=99999 --json",
    "saliency": f"{{ro}} {DATA} --samples 0 --objective margin --out {{out}} --json",
    "landscape": f"{{ro}} {DATA} --samples 0 --objective margin --points 3 --eps 0.1 --out {{out}} "
    "--json",
    "curves": f"{{ro}} {DATA} --limit 3 --at 1 --eps 0.1 --objective margin --white-box --out "
    "{out} --json",
    "reproduce": "transfer --dry-run --store {out} --json",
    "report": "--store {store} --out {out}.html --json",
    "diagnose": f"{{ro}} {DATA} --limit 1 --effort quick --out {{out}} --json",
    "data list": "--data-dir {out} --json",
    "data fetch": "mnist5k --data-dir {out} --json",
    "data verify": "--data-dir {out} --json",
    "watermark embed": f"--data {{data}} {SHORT} --encoding ro --marked 6 --text I --out {{out}} "
    "--json",
    "watermark steal": f"{{owner}} {DATA} {SHORT} --out {{out}} --json",
    "watermark detect": f"{{ro}} --owner {{owner}} --unmarked {{one}} {DATA} --json",
}
# Where an option says nothing to the command above, one to which it does.
EVALUATE = f"{{ro}} {DATA} --limit 3 --eps 0.1 --json --attack"
NETWORK = f"--network nets:make --weights own {DATA}"
OTHER_BASES = {
    **{f"evaluate {option}": f"{EVALUATE} nattack --queries 4 --population 2"
       for option in ("--queries", "--population")},
    **{f"evaluate {option}": f"{EVALUATE} noise --draws 2" for option in ("--draws", "--kind")},
    "evaluate --out": f"{NETWORK} --limit 3 --json",
    "evaluate --norm": f"{EVALUATE} fgsm",
    **{f"transfer {option}": f"{PAIR} --attack pgd --eps 0.1 --objective margin --steps 1 --json"
       for option in ("--steps", "--step-size", "--restarts", "--kappa")},
    "transfer --queries": f"{PAIR} --attack square --eps 0.1 --queries 3 --json",
    "corrupt --example": f"{BASES['corrupt']} --out {{out}}",
    "curves --substitute": BASES["curves"].replace("--white-box ", ""),
    **{f"train {option}": f"{BASES['train']} --adversary pgd --eps 0.1 --steps 1"
       for option in ("--eps", "--steps", "--step-size", "--start", "--objective", "--lambda",
                      "--warmup", "--outer")},
    "train --trades-weight": f"{BASES['train']} --adversary pgd --eps 0.1 --steps 1 --outer trades",
    "curves --eps": BASES["curves"].replace("--at 1 ", "--at 10 "),
    "reproduce --gpus-per-task": f"{BASES['reproduce']} --engine ray",
    "reproduce --address": f"{BASES['reproduce']} --engine ray",
    "watermark embed --strength": BASES["watermark embed"].replace("--text I", "--kind noise"),
    "watermark embed --other": BASES["watermark embed"].replace("--text I", "--kind unrelated"),
}  # fmt: skip

# What may succeed, by option, for every command that has it; all else must be refused.
DIGITS = NUMBERS[-1]
ALLOWED: dict[str, set[str]] = {
    "--seed": {DIGITS},
    "--code-seed": {DIGITS},
    "--mark-seed": {DIGITS},
    "--limit": {DIGITS},  # more than there are is all of them
    "--save-every": {"0", "inf", "1e300", DIGITS},  # seconds
    "--eps": {"inf"},  # an attacker without a bound
    "--lambda": {"0"},
    "--warmup": {"0"},
    "--momentum": {"0"},
    "--kappa": {"0", DIGITS},  # a lead that is never reached
    "--samples": {"0"},
    # Made if they are missing; the embedded digits are there without any data.
    "--out": {"missing", "directory"},
    "--publish": {"missing", "directory"},
    "--store": {"missing", "directory"},
    "--outcomes": {"missing", "directory"},
    "--data-dir": {"missing", "directory"},
}
# These do minutes of work, or serve for ever, so their bases end in what is checked last.
ENDS = {
    "demo": "unknown backbone 'nowhere'",
    "diagnose": "an attack needs --eps",
    "explore": "image is a whole number",
}
LISTS = ("--samples", "--severities", "--at")
DEVICES = ("mps", "xla", "meta", "cuda:99", "cpu:1", "tpu")


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The results in what a command printed."""
    value = json.loads(text)
    for each in value.get("results", [value]) if isinstance(value, dict) else []:
        if isinstance(each, dict):
            yield each


def wrong(text: str) -> str:
    """What is wrong with the figures that were printed; nothing is a right result."""
    for document in documents(text):
        for cell in document.get("cells", []):
            value, low, high = cell["value"], cell["low"], cell["high"]
            if value is None or not math.isfinite(value):
                return f"{cell['column']} is {value}"
            if (low is not None and low > value) or (high is not None and high < value):
                return f"{cell['column']}: {value} is not in [{low}, {high}]"
            if cell["metric"] == "accuracy" and not 0 <= value <= 1:
                return f"{cell['column']} is an accuracy of {value}"
    return ""


@pytest.fixture(scope="module")
def place(
    shared: Shared, trained_runs: Path, tiny_npz: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with all that the commands of `BASES` need, and bad paths."""

    def make(folder: Path) -> None:
        words = BASES["watermark embed"].format(data=f"npz:{tiny_npz}", out="owner")
        done = invoke(folder, "watermark", "embed", *words.split())
        assert done.returncode == 0, done.stderr

    folder = tmp_path_factory.mktemp("hostile")
    shutil.copytree(shared("owner", make) / "owner", folder / "owner")
    for name in ("ro", "1ofk"):
        shutil.copytree(trained_runs / name, folder / name)
    shutil.copy(tiny_npz, folder / "tiny.npz")
    Store(folder / "store").create()
    write_study_result(
        folder / "store", result("transfer", verdicts=(verdict(HOLDS, "transfer-0"),))
    )
    (folder / "nets.py").write_text(
        "from torch import nn\n"
        "def make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))\n"
    )
    (folder / "broken.py").write_text(BROKEN)
    (folder / "exits.py").write_text("import sys\nsys.exit(0)\n")
    bad_paths(folder / "bad")
    return folder


def words_for(command: str, option: Option, value: str, number: int, tiny_npz: str) -> list[str]:
    """The command's base with `option` set to `value`, in place of what the base gives it."""
    base = OTHER_BASES.get(f"{command} {option.flag}", BASES[command])
    if option.flag == "--data-dir":
        base = base.replace("{data}", "mnist")  # which is looked for there
    filled = [
        word.format(
            data=f"npz:{tiny_npz}", ro="ro", one="1ofk", owner="owner", store="store",
            out=f"out-{option.flag.strip('-')}-{number}",
        )
        for word in base.split()
    ]  # fmt: skip
    if option.argument:
        # The base's own argument, if it has one, stands first.
        rest = filled if filled[0].startswith("-") else filled[1:]
        return [*command.split(), *rest, "--", value]
    while option.flag in filled:
        index = filled.index(option.flag)
        del filled[index : index + 2]
    return [*command.split(), *filled, f"{option.flag}={value}"]


def values_of(option: Option, bad: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """What is tried for an option: (what is said of it in `ALLOWED`, the value)."""
    texts = [] if option.kind == "flag" else [*TEXTS] if option.kind == "text" else []
    if option.kind == "number" or option.flag in LISTS:
        texts += NUMBERS
    if option.flag == "--device":
        texts += DEVICES
    yield from ((text, text) for text in texts if text not in option.defaults)
    prefixes = {"--data": ("npz:", "folder:"), "--other": ("npz:", "folder:"), "--recipe": ("",)}
    for prefix in ("",) if option.kind == "path" else prefixes.get(option.flag, ()):
        yield from ((name, f"{prefix}{path}") for name, path in bad.items())


def names(line: str, option: Option, value: str) -> bool:
    """Whether a line of error says what was given."""
    ways = {option.flag, option.flag.strip("-").replace("-", "_"), repr(value), visible(value)}
    ways.add(visible(value.partition(":")[2] or value))
    with contextlib.suppress(ValueError):
        ways |= {str(float(value)), json.dumps(float(value))}
    return any(way in line for way in ways if way)


def fault(
    done: subprocess.CompletedProcess[str] | str,
    command: str,
    option: Option,
    said: str,
    value: str,
) -> str:
    """What is wrong with how a command took a hostile value."""
    if isinstance(done, str):
        return done
    if any(character in done.stdout + done.stderr for character in "\x1b\u202e"):
        return "a terminal would obey this"
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    allowed = said in ALLOWED.get(option.flag, ())
    if done.returncode == 0:
        return wrong(done.stdout) if allowed else "accepted"
    if done.returncode != 2 or len(errors) != 1 or "--debug" in errors[0]:
        return done.stderr
    if allowed and ENDS.get(command, "no end") in errors[0]:
        return ""
    return "" if names(errors[0], option, value) else f"does not say what was given: {errors[0]}"


CASES = [(command, kind) for command in COMMANDS for kind in CLASSES]


def test_every_command_has_a_base() -> None:
    assert set(BASES) == set(COMMANDS)


@pytest.mark.parametrize(("command", "kind"), CASES)
def test_a_hostile_value_is_one_line_of_error_or_a_right_result(
    command: str, kind: str, place: Path, record_property: Callable[[str, object], None]
) -> None:
    bad = {name: place / "bad" / name for name in BAD}
    if os.access(bad["unreadable"], os.R_OK):
        bad["unreadable"] = UNREADABLE_FOR_ROOT
    faults, tried = [], 0
    for option in COMMANDS[command]:
        for said, value in values_of(option, bad) if option.column == kind else ():
            for folder in (bad["missing"], bad["directory"]):  # as they were
                shutil.rmtree(folder, ignore_errors=True)
            bad["directory"].mkdir()
            tried += 1
            words = words_for(command, option, value, tried, str(place / "tiny.npz"))
            found = fault(run(partial(invoke, place, *words)), command, option, said, value)
            faults += [f"{option.flag} {value[:60]!r}: {found}"] if found else []
    record_property("inputs", tried)
    assert not faults, "\n".join(faults)


BROKEN = """
import sys, torch
from torch import nn

print("I talk while I am imported")

class Fails(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.error, self.weight = error, nn.Parameter(torch.zeros(1))
    def forward(self, images):
        print("I talk in every pass")
        raise self.error

def raises(**sizes): raise KeyError("width")
def silent(**sizes): raise ValueError
def exits(**sizes): sys.exit(0)
def forward(**sizes): return Fails(AttributeError("no such layer"))
def forward_exits(**sizes): return Fails(SystemExit(0))
def forward_silent(**sizes): return Fails(EOFError())
"""
FAILURES = {
    "broken:raises": "KeyError: 'width' (broken.py:15)",
    "broken:silent": "ValueError (broken.py:16)",
    "broken:exits": "SystemExit: 0 (broken.py:17)",
    "exits:any": "SystemExit: 0 (exits.py:2)",
    "broken:forward": "AttributeError: no such layer (broken.py:13)",
    "broken:forward_exits": "SystemExit: 0 (broken.py:13)",
    "broken:forward_silent": "EOFError (broken.py:13)",
}
# Commands that run code which a user names.
NAMING = [
    command
    for command, options in COMMANDS.items()
    if command != "demo" and {"--network", "--backbone"} & {option.flag for option in options}
]


@pytest.mark.parametrize("command", NAMING)
def test_a_network_that_fails_is_one_line_with_its_place(command: str, place: Path) -> None:
    takes_network = "--network" in {option.flag for option in COMMANDS[command]}
    base = BASES[command].format(
        data=f"npz:{place / 'tiny.npz'}", ro="", one="1ofk", owner="owner", out="net-{}"
    )
    if command == "watermark steal":  # which trusts what its run was built with, and nothing else
        done = invoke(place, *command.split(), *base.split(), "--backbone", "broken:raises")
        assert "has the backbone 'wong', not 'broken:raises'" in done.stderr
        return
    for path, expected in FAILURES.items():
        more = ["--network", path, "--weights", "own"] if takes_network else ["--backbone", path]
        out = f"{command}-{path}".replace(":", "-").replace(" ", "-")
        done = invoke(place, *command.split(), *base.format(out).split(), *more)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert (done.returncode, done.stdout, len(errors)) == (2, "", 1), done.stderr
        assert expected in errors[0]


def test_what_a_network_prints_goes_to_stderr(place: Path, tiny_npz: Path) -> None:
    (place / "talks.py").write_text(
        "from torch import nn\nprint('hello')\nclass Talks(nn.Sequential):\n"
        "    def forward(self, x):\n        print('pass')\n        return super().forward(x)\n"
        "def make(): return Talks(nn.Flatten(), nn.Linear(64, 3))\n"
    )
    words = f"evaluate --network talks:make --weights own --data npz:{tiny_npz} --limit 3 --json"
    done = invoke(place, *words.split())
    assert json.loads(done.stdout)["provenance"]["n"] == 3
    assert {"hello", "pass"} <= set(done.stderr.splitlines())


# In the name of a run: markup of rich, of TeX and of terminals, and an override of direction.
NAME = "[red]{0}$x$\x1b[31m\u202e"
EXAMINING = [command for command in NAMING if any(o.flag == "runs" for o in COMMANDS[command])]
# These end before they print a table, or have none.
TABLELESS = {"diagnose", "explore", "saliency", "landscape"}


@pytest.mark.parametrize("command", sorted({*EXAMINING} - TABLELESS))
def test_a_run_is_called_what_its_folder_is_called(command: str, place: Path) -> None:
    if not (place / NAME).exists():
        shutil.copytree(place / "ro", place / NAME)
    words = BASES[command].replace(" --json", "").split()
    filled = [
        word.format(
            data=f"npz:{place / 'tiny.npz'}", ro=NAME, one="1ofk", owner="owner", out="named"
        )
        for word in words
    ]
    done = invoke(place, *command.split(), *filled)
    assert done.returncode == 0, done.stderr
    assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
    # A narrow column folds a long name; its parts are there all the same.
    shown = "".join(character for character in done.stdout if character not in " \n│")
    assert "[red]{0}$x$" in shown
    assert "31m" in shown
