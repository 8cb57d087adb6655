"""`multiway watermark`: embed, steal, detect, and the many ways to get it wrong."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from conftest import Command, Shared, cell, cells, invoke
from multiway.cli.detect import unlike
from multiway.data import load
from multiway.statistics import proportion
from multiway.training import accuracy, load_recipe, load_run, open_run, prepare, run_job
from multiway.watermark import Measured, halves
from tiny_artifacts import until
from warm import warm

Trained = Callable[..., Path]


@pytest.fixture(scope="module")
def task(shared: Shared) -> str:
    """Three classes of 24x24 images, each bright in its own third; room for TEST below."""
    random = np.random.RandomState(0)

    def split(n: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(n) % 3
        images = random.randint(0, 80, size=(n, 24, 24))
        for i, label in enumerate(labels):
            images[i, :12, 8 * label : 8 * label + 8] += 150
        return images.astype(np.uint8), labels.astype(np.int64)

    def make(folder: Path) -> None:
        (x_train, y_train), (x_test, y_test) = split(300), split(240)
        arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
        np.savez(folder / "task.npz", **arrays)  # type: ignore[arg-type]

    return f"npz:{shared('task', make) / 'task.npz'}"


@pytest.fixture(scope="module")
def runs(task: str, shared: Shared) -> Path:
    """A folder with an owner's run and three unmarked ones."""

    def make(folder: Path) -> None:
        ended = invoke(folder, *embed(task, "owner", "--json"))
        assert ended.returncode == 0, ended.stderr
        (folder / "embed.json").write_text(ended.stdout)
        images = load(task, "train")
        recipe = load_recipe("wong-mnist").override(epochs=4)
        for seed in range(3):
            job = prepare(images, "wong", "1ofk", recipe, seed=seed)
            run_job(job, open_run(folder / f"unmarked-{seed}", job.config, resume=False))

    return shared("watermark", make)


def embed(task: str, out: Path | str, *more: object) -> list[object]:
    return [
        "watermark", "embed", "--data", task, "--recipe", "wong-mnist", "--epochs", 6,
        "--marked", 60, "--out", out, *more,
    ]  # fmt: skip


def unmarked(runs: Path) -> list[object]:
    return [word for seed in range(3) for word in ("--unmarked", runs / f"unmarked-{seed}")]


def test_embed_prints_one_document_and_makes_an_ordinary_run(
    runs: Path, task: str, in_process: Command
) -> None:
    result = json.loads((runs / "embed.json").read_text())
    assert cell(result, column="mark")["n"] == 40
    assert cell(result, column="mark")["value"] >= 0.9
    assert cell(result, column="test")["n"] == 120
    config = json.loads((runs / "owner" / "config.json").read_text())
    assert config["watermark"]["mark"]["text"] == "TEST"
    assert config["watermark"]["trained"] == 60
    assert (runs / "owner" / "results" / "watermark.json").exists()
    evaluated = in_process("evaluate", runs / "owner", "--data", task, "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    assert cell(json.loads(evaluated.stdout), column="clean")["n"] == 240


def test_steal_then_detect(runs: Path, task: str, in_process: Command, tmp_path: Path) -> None:
    thief = tmp_path / "thief"
    words = ["watermark", "steal", runs / "owner", "--data", task, "--encoding", "1ofk",
             "--start", "free"]  # fmt: skip
    stolen = in_process(*words, "--epochs", 2, "--out", thief, "--json")
    assert stolen.returncode == 0, stolen.stderr
    result = json.loads(stolen.stdout)
    assert cell(result, column="test")["n"] == 120
    config = json.loads((thief / "config.json").read_text())
    assert config["theft"]["start"] == "free"
    assert config["data"]["images"] == 120
    # The first half fine-tunes, the second measures.
    first, second = halves(load(task, "test"))
    assert config["data"]["sha256"] == first.sha256
    measured = cell(result, column="test")
    expected = accuracy(load_run(thief)[0], second)
    assert (measured["value"], measured["low"]) == (expected.value, expected.low)
    assert config["recipe"]["lr"] == pytest.approx(0.0005)
    assert "lr 0.005 -> 0.0005" in config["recipe"]["changed"]

    again = in_process(*words, "--epochs", 2, "--out", thief, "--resume")
    assert again.returncode == 0
    assert "is finished already" in again.stderr

    found = in_process(
        "watermark", "detect", thief, runs / "owner", "--owner", runs / "owner", *unmarked(runs),
        "--data", task, "--out", tmp_path / "pics", "--json",
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    by_name = {one["suspect"]: one for one in document["details"]["detections"]}
    assert set(by_name) == {"thief", "owner"}
    assert by_name["owner"]["carries"] is True
    assert by_name["owner"]["p_value"] < 0.01
    assert set(by_name["owner"]["unmarked"]) == {f"unmarked-{seed}" for seed in range(3)}
    assert by_name["thief"]["mark"]["value"] == cell(result, column="mark")["value"]
    assert by_name["owner"]["plain"]["n"] == 40
    # Two epochs at a tenth of the rate: this thief has lost a third of the task.
    (warning,) = document["provenance"]["warnings"]
    assert warning.startswith("the task accuracy of thief (66.7 %) is more than 10 points")
    assert len(cells(document, column="mark")) == 5
    assert cell(document, row="thief", column="mark")["series"] == "1ofk, free"
    for name in ("watermark.png", "watermark.svg", "marked.png", "marked.svg", "watermark.json"):
        assert (tmp_path / "pics" / name).stat().st_size > 0


def test_what_save_pretrained_keeps_is_stolen_and_found_as_well(
    runs: Path, task: str, in_process: Command, tmp_path: Path
) -> None:
    for name in ("owner", "unmarked-0"):
        load_run(runs / name)[0].save_pretrained(tmp_path / name)
    weights: list[bytes] = []
    words: tuple[object, ...]
    for source, more in ((runs, ()), (tmp_path, ("--recipe", "wong-mnist"))):
        thief = tmp_path / f"thief-{len(weights)}"
        words = ("watermark", "steal", source / "owner", "--data", task, "--encoding", "1ofk")
        done = in_process(*words, "--epochs", 1, "--out", thief, *more)
        assert done.returncode == 0, done.stderr
        weights.append((thief / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    for left_out, words in (("--data", ("--recipe", "wong-mnist")), ("--recipe", ("--data", task))):
        done = in_process("watermark", "steal", tmp_path / "owner", *words, "--out", tmp_path / "x")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.endswith(f"knows nothing of its training: give {left_out}\n")
    found = []
    for folder in (runs, tmp_path):
        innocent = [*unmarked(runs)[2:], "--unmarked", folder / "unmarked-0"]
        words = ("watermark", "detect", folder / "owner", "--owner", runs / "owner")
        done = in_process(*words, *innocent, "--data", task, "--json")
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout)["details"]["detections"])
    assert found[0] == found[1]
    assert found[0][0]["carries"] is True


def test_detect_tells_a_person_what_it_found(runs: Path, task: str, in_process: Command) -> None:
    found = in_process(
        "watermark", "detect", runs / "unmarked-2", "--owner", runs / "owner",
        *unmarked(runs)[:4], "--data", task,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "no evidence of the mark" in found.stdout
    assert "unmarked-2: no evidence of the mark (p = " in found.stderr


def test_unlike_networks_are_warned_of(
    runs: Path, task: str, in_process: Command, tmp_path: Path
) -> None:
    """A suspect that never learned the task is not one of those that did."""
    recipe = load_recipe("wong-mnist").override(epochs=1, lr=1e-6)
    job = prepare(load(task, "train"), "wong", "1ofk", recipe)
    run_job(job, open_run(tmp_path / "weak", job.config, resume=False))
    detect = ["watermark", "detect", "--data", task, "--owner", runs / "owner", *unmarked(runs)]
    found = in_process(*detect, tmp_path / "weak", runs / "owner", "--json")
    assert found.returncode == 0, found.stderr
    (warning,) = json.loads(found.stdout)["provenance"]["warnings"]
    (line,) = [one for one in found.stderr.splitlines() if one.startswith("warning: ")]
    assert line == f"warning: {warning}"
    assert warning.startswith("the task accuracy of weak (")
    assert "the p-value compares unlike networks" in warning
    assert "multiway watermark steal --start scratch" in warning
    assert "warning" not in in_process(*detect, runs / "owner").stderr


@pytest.mark.parametrize(("right", "far"), [(69, True), (71, False), (99, False), (100, False)])
def test_ten_points_beyond_all_unmarked_networks_are_far(right: int, far: bool) -> None:
    def network(name: str, correct: int) -> Measured:
        return Measured(name, "1ofk", "unknown", proportion(correct, 100), proportion(1, 100))

    warning = unlike([network("x", right)], [network("a", 80), network("b", 92)])
    assert (warning is not None) is far
    if warning is not None:
        assert "x (69.0 %) is more than 10 points" in warning
        assert "(80.0 to 92.0 %)" in warning


def test_fewer_marked_images_may_be_held_out(
    runs: Path, task: str, in_process: Command, tmp_path: Path
) -> None:
    words = embed(task, tmp_path / "few", "--epochs", 1, "--held-out", 7, "--json")
    ended = in_process(*words)
    assert ended.returncode == 0, ended.stderr
    assert cell(json.loads(ended.stdout), column="mark")["n"] == 7
    config = json.loads((tmp_path / "few" / "config.json").read_text())
    assert config["watermark"]["held_out"] == 7
    found = in_process(
        "watermark", "detect", tmp_path / "few", "--owner", tmp_path / "few", *unmarked(runs),
        "--data", task, "--json",
    )  # fmt: skip
    assert json.loads(found.stdout)["details"]["detections"][0]["mark"]["n"] == 7


def test_a_network_from_elsewhere_can_be_a_suspect(
    runs: Path, task: str, in_process: Command, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere.py").write_text(
        "from pathlib import Path\n"
        "from multiway.training import load_run\n"
        f"def stolen():\n    return load_run(Path({str(runs / 'owner')!r}))[0]\n"
    )
    words = ["--network", "elsewhere:stolen", "--weights", "own", "--owner", runs / "owner"]
    found = in_process("watermark", "detect", *words, *unmarked(runs), "--data", task, "--json")
    assert found.returncode == 0, found.stderr
    (detection,) = json.loads(found.stdout)["details"]["detections"]
    assert detection["suspect"] == "stolen"
    assert detection["carries"] is True


def test_a_killed_embedding_is_resumed_to_the_same_weights(
    task: str, tmp_path: Path, in_process: Command
) -> None:
    more = ["--epochs", 10, "--save-every", 0]
    process = warm("-m", "multiway", *embed(task, "cut", *more), cwd=tmp_path)
    lines = tmp_path / "cut/metrics.jsonl"
    until(lambda: lines.exists() and lines.read_text().count("\n") >= 2)
    process.kill()
    process.wait()
    assert (tmp_path / "cut/state.safetensors").exists()
    assert not (tmp_path / "cut/model.safetensors").exists()
    for words in (embed(task, "cut", *more, "--resume"), embed(task, "whole", *more)):
        ended = in_process(*words)
        assert ended.returncode == 0, ended.stderr
    cut, whole = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("cut", "whole"))
    assert cut == whole


def refuse(ended: subprocess.CompletedProcess[str], message: str) -> None:
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1
    assert message in ended.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--source", 2, "--target", 2], "source and target of the mark are both class 2"),
        (["--marked", 101], "101 images of class 1 are to be marked"),
        (["--scale", 2], "14 x 46 pixels, larger than the images of 24 x 24"),
        (["--kind", "contents"], "did you mean 'content'"),
        (["--source", "horse"], "unknown class of npz:"),
        (["--text", "T€ST"], "letters A to Z"),
        (["--kind", "unrelated"], "needs the name of the other data set"),
        (["--other", "mnist5k"], "--other belongs to a mark of kind unrelated, not content"),
        (["--kind", "noise", "--text", "ABC"], "--text belongs to a mark of kind content, not"),
        (["--kind", "noise", "--scale", 1], "leave --scale out, or give --kind content"),
        (["--kind", "unrelated", "--logo"], "not unrelated, which takes --other"),
        (
            ["--kind", "unrelated", "--strength", 0.1],
            "--strength belongs to a mark of kind content",
        ),
        (["--text", "ABC", "--logo"], "--logo takes the place of --text"),
        (["--held-out", 41], "41 images of class 1 are to be marked"),
        (["--held-out", 0], "at least one image must be marked, not 0"),
        (["--strength", 2], "above 0 and up to 1"),
        (["--recipe", "wong"], "did you mean 'wong-mnist'"),
    ],
)
def test_embeddings_that_cannot_be(
    task: str, in_process: Command, tmp_path: Path, more: list[object], message: str
) -> None:
    refuse(in_process(*embed(task, tmp_path / "run", *more)), message)
    assert not (tmp_path / "run").exists()


def test_an_unrelated_mark_is_not_made_from_the_task(
    task: str, in_process: Command, tmp_path: Path
) -> None:
    words = ["--kind", "unrelated", "--other", task, "--source", 2]
    refuse(in_process(*embed(task, tmp_path / "run", *words)), "shares images with the task")
    # The digits of mnist5k are some of mnist's; here a file with one of them.
    x, y = load("mnist5k", "test").images[:9, 0].numpy(), np.arange(9) % 3
    np.savez(tmp_path / "some.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    other = f"npz:{tmp_path / 'some.npz'}"
    words = ["--kind", "unrelated", "--other", other, "--marked", 2]
    refuse(in_process(*embed("mnist5k", tmp_path / "run", *words)), "with the task, mnist5k")
    assert not (tmp_path / "run").exists()


def copied(run: Path, out: Path, **parts: Mapping[str, object]) -> Path:
    """A run with other values in parts of its configuration."""
    config = json.loads((run / "config.json").read_text())
    for part, values in parts.items():
        config[part] |= dict(values)
    out.mkdir()
    (out / "config.json").write_text(json.dumps(config))
    (out / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes())
    return out


def test_runs_whose_configuration_was_changed(
    runs: Path, task: str, in_process: Command, tmp_path: Path
) -> None:
    owner = copied(runs / "owner", tmp_path / "counted", watermark={"trained": "x"})
    words = ["watermark", "detect", runs / "owner", "--owner", owner, *unmarked(runs)]
    refuse(in_process(*words, "--data", task), 'describes its mark wrongly: trained is "x"')
    stolen = copied(runs / "owner", tmp_path / "misspelt", recipe={"epochz": 3})
    words = ["watermark", "steal", stolen, "--data", task, "--out", tmp_path / "thief"]
    refuse(in_process(*words), "the stolen run's recipe cannot be read: epochz is no field")


def test_a_path_in_a_runs_configuration_is_not_followed(
    runs: Path, task: str, in_process: Command, tmp_path: Path
) -> None:
    owner = runs / "owner"
    for words in (
        ["watermark", "steal", owner, "--out", tmp_path / "thief"],
        ["watermark", "detect", owner, "--owner", owner, *unmarked(runs)],
    ):
        refuse(in_process(*words), f"a path on this machine; repeat it with --data {task}")
    # Nor is the path of the unrelated images, which is another one.
    marked = {"mark": {"kind": "unrelated", "source": 1, "target": 0, "other": "npz:x.npz"}}
    other = copied(owner, tmp_path / "other", watermark=marked)
    words = ["watermark", "detect", owner, "--owner", other, *unmarked(runs), "--data", task]
    refuse(in_process(*words), "a path on this machine; repeat it with --other npz:x.npz")
    refuse(in_process(*words, "--other", "npz:x.npz"), "x.npz")


def test_a_fine_tuning_half_without_some_class(
    runs: Path, task: str, in_process: Command, tmp_path: Path
) -> None:
    """The owner's data set is replaced by one whose test set has a single image of class 2."""
    arrays = dict(np.load(task.removeprefix("npz:")))
    keep = np.concatenate([np.flatnonzero(arrays["y_test"] != 2), [2]])
    arrays["x_test"], arrays["y_test"] = arrays["x_test"][keep], arrays["y_test"][keep]
    np.savez(tmp_path / "few.npz", **arrays)
    words = ["watermark", "steal", runs / "owner", "--data", "npz:few.npz", "--out", "thief"]
    refuse(in_process(*words), "has no image of class 2")


def test_thefts_that_cannot_be(runs: Path, task: str, in_process: Command, tmp_path: Path) -> None:
    steal = ["watermark", "steal", runs / "owner", "--data", task, "--out", tmp_path / "thief"]
    refuse(in_process(*steal, "--start", "freee"), "did you mean 'free'")
    refuse(in_process(*steal, "--encoding", "rho"), "did you mean 'ro'")
    refuse(in_process("watermark", "steal", "nothing", "--out", "x"), "there is no run nothing")
    refuse(in_process(*steal[:5], "--out", runs / "owner"), "holds a finished run already")


def test_models_of_other_classes_are_not_judged(
    runs: Path, task: str, tiny_npz: Path, in_process: Command, tmp_path: Path
) -> None:
    data = load(f"npz:{tiny_npz}", "train")
    renamed = type(data)(data.name, "train", data.images, data.labels, ("x", "y", "z"))
    recipe = load_recipe("wong-mnist").override(epochs=1)
    job = prepare(renamed, "wong", "1ofk", recipe)
    run_job(job, open_run(tmp_path / "other", job.config, resume=False))
    detect = ["watermark", "detect", "--data", task, "--owner", runs / "owner", *unmarked(runs)]
    ended = in_process(*detect, tmp_path / "other")
    refuse(ended, "was trained on the classes x, y, z, ... (3), and the mark of")
    (tmp_path / "wider.py").write_text(
        "import torch\n"
        "def five():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 5))\n"
    )
    words = ["--network", "wider:five", "--weights", "own"]
    refuse(in_process(*detect, *words), "5 classes")


def test_detections_that_cannot_be(
    runs: Path, task: str, in_process: Command, tmp_path: Path
) -> None:
    owner, innocent = runs / "owner", runs / "unmarked-0"
    detect = ["watermark", "detect", "--data", task]
    refuse(in_process(*detect, owner, "--owner", innocent), "the owner's run carries no mark")
    refuse(in_process(*detect, owner, "--owner", owner), "at least one unmarked network")
    refuse(
        in_process(*detect, innocent, "--owner", owner, "--unmarked", owner), "was marked itself"
    )
    refuse(in_process(*detect, "--owner", owner, *unmarked(runs)), "name a suspect")
    (tmp_path / "file").write_text("")
    words = [*detect, owner, "--owner", owner, *unmarked(runs), "--out", tmp_path / "file"]
    refuse(in_process(*words), "is a file")


def test_help_names_an_example(in_process: Command) -> None:
    for name in ("embed", "steal", "detect"):
        ended = in_process("watermark", name, "--help")
        assert f"Example: multiway watermark {name}" in ended.stdout.replace("\n", " ")
