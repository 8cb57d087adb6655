"""Numbers that no machine can serve: said at once, in one line, with what they would take."""

from __future__ import annotations

import re
import resource
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from conftest import Command, command
from multiway.cli.options import parse_number
from multiway.errors import MultiwayError
from multiway.machine import check_memory, free_memory
from warm import warm

SIZES = r"would take [\d,.]+ .iB, and this machine has [\d,.]+ .iB free"
NUMBERS: list[tuple[str, float | None]] = [
    ("0.3", 0.3),
    ("8/255", 8 / 255),
    (" 8 / 255 ", 8 / 255),
    ("-1/3", -1 / 3),
    ("1e-5", 1e-5),
    ("inf", float("inf")),
    ("1e999999999", None),
    ("-1e999999999", None),
    ("1e999999999/3", None),
    ("3/1e999999999", None),
    ("9" * 400, None),
    ("9" * 100_000, None),
    ("9" * 100_000 + "/7", None),
    ("9" * 4000 + "/" + "9" * 4000, 1.0),
    ("1/0", None),
    ("1/2/3", None),
    ("nan", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "value"), NUMBERS, ids=range(len(NUMBERS)))
def test_a_number_is_read_at_once(text: str, value: float | None) -> None:
    started = time.process_time()
    if value is None:
        with pytest.raises(typer.BadParameter) as refused:
            parse_number(text)
        assert len(str(refused.value)) < 120
    else:
        assert parse_number(text) == value
    assert time.process_time() - started < 1


def train(npz: Path, *more: object) -> tuple[object, ...]:
    start = ("train", "--data", f"npz:{npz}", "--backbone", "wong", "--recipe", "wong-mnist")
    return (*start, "--epochs", 1, "--out", "run", *more)


TRAINED: list[tuple[tuple[object, ...], str]] = [
    (("--code-length", 99_999_999_999), SIZES),
    (("--encoding", "hadamard", "--code-length", 2**40), SIZES),
    (("--encoding", "padded", "--code-length", 10**28), SIZES),
    (("--beta", "1e30"), "beta 1e.30 is out of range: float32"),
    (("--validation", 0.9999), "of 300 images holds out 300 and trains on 0, of 0 of 3 classes"),
    (("--validation", 0.0001), "of 300 images holds out 0 and trains on 300"),
    (("--validation", 0.992), "holds out 298 and trains on 2, of 2 of 3 classes"),
]


@pytest.mark.parametrize(("more", "text"), TRAINED, ids=range(len(TRAINED)))
def test_a_training_that_cannot_be_is_refused_before_it_begins(
    in_process: Command, tiny_npz: Path, tmp_path: Path, more: tuple[object, ...], text: str
) -> None:
    started = time.process_time()
    done = in_process(*train(tiny_npz, *more))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert re.search(text, line), line
    assert time.process_time() - started < 10
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_batch_larger_than_the_set_is_the_set(in_process: Command, tiny_npz: Path) -> None:
    for more in ((), ("--adversary", "fgsm", "--eps", 0.1, "--resume", "--out", "attacked")):
        done = in_process(*train(tiny_npz, "--batch-size", 10**9, *more))
        assert done.returncode == 0, done.stderr


def test_a_limit_of_the_address_space_is_a_limit_of_what_is_free() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**26, before[1]))
        free = free_memory()
        with pytest.raises(MultiwayError, match=r"it would take 1\.0 GiB, .* MiB free; no"):
            check_memory(2**30, "it", "no")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert free is not None
    assert free <= 2**26
    check_memory(1, "it", "no")


def test_sizes_of_examinations(in_process: Command, tiny_runs: Path, tiny_npz: Path) -> None:
    run, data = tiny_runs / "ro", ("--data", f"npz:{tiny_npz}")
    tried: list[tuple[tuple[object, ...], str]] = [
        (("landscape", run, *data, "--eps", 0.1, "--points", 100_001), SIZES),
        (("landscape", run, *data, "--eps", 0.1, "--points", 10**29 + 1), SIZES),
        (("evaluate", run, *data, "--attack", "pgd", "--eps", "1e999999999"), "too large for a"),
        (
            ("transfer", run, tiny_runs / "ro-1", *data, "--eps", 0.1, "--kappa", 3),
            "add --objective margin",
        ),
        (
            ("watermark", "embed", "--out", "m", "--backbone", "wong", *data, "--kind", "content",
             "--source", 1, "--target", 0, "--scale", 9999),
            "larger than the images of 8 x 8",
        ),
    ]  # fmt: skip
    for words, text in tried:
        done = in_process(*words)
        assert done.returncode == 2, (words, done.stderr)
        assert re.search(text, done.stderr), done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_pictures_larger_than_the_machine(in_process: Command, tmp_path: Path) -> None:
    for split in ("train", "test"):
        for name in ("a", "b"):
            folder = tmp_path / "pictures" / split / name
            folder.mkdir(parents=True)
            Image.fromarray(np.zeros((8, 8), dtype=np.uint8)).save(folder / "1.png")
    for size in (10**6, 10**15):
        done = in_process(
            "train", "--data", "folder:pictures", "--image-size", size, "--out", "run"
        )
        assert done.returncode == 2
        assert re.search(SIZES, done.stderr), done.stderr


def test_a_training_that_runs_out_of_memory_says_so_and_what_was_kept(
    tiny_npz: Path, tmp_path: Path
) -> None:
    # All that is loaded, the weights and the codes of a batch fit; its loss does not.
    start = (
        "import resource, multiway.training\n"
        "mapped = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, 2 * (mapped + 3 * 2**28,))\n"
    )
    more = ("--encoding", "padded", "--code-length", 300_000, "--batch-size", 300)
    _, flag, main, *words = command(*train(tiny_npz, *more))
    process = warm(flag, start + main, *words, cwd=tmp_path)
    _, errors = process.communicate()
    lines = errors.strip().splitlines()
    assert process.returncode == 2, errors[-2000:]
    assert "Traceback" not in errors
    (line,) = [line for line in lines if line.startswith("error: ")]
    assert line.startswith("error: there was not enough memory ("), lines
    assert line.endswith("What was finished before is kept")
    assert (tmp_path / "run" / "state.safetensors").exists()
