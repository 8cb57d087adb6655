"""Files that would do more than hold pixels, and configurations that point where nobody looked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import Command
from multiway.data import load
from multiway.data.folder import FORMATS, open_image
from multiway.errors import MultiwayError

# Encapsulated PostScript that writes a file when an interpreter runs it.
POSTSCRIPT = """%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
(PLACE) (w) file dup (owned) writestring closefile
showpage
%%EOF
"""


def eps(path: Path, witness: Path) -> Path:
    path.write_text(POSTSCRIPT.replace("PLACE", str(witness)))
    return path


def pictures(folder: Path) -> Path:
    """Two classes of ten 8x8 pictures."""
    for label, shade in (("dark", 20), ("light", 220)):
        (folder / label).mkdir(parents=True)
        for index in range(10):
            Image.fromarray(np.full((8, 8), shade + index, np.uint8)).save(
                folder / label / f"{index}.png"
            )
    return folder


@pytest.mark.parametrize("name", ["x.eps", "x.png"])
def test_postscript_in_a_folder_is_refused_and_not_run(tmp_path: Path, name: str) -> None:
    folder, witness = pictures(tmp_path / "pics"), tmp_path / "witness"
    bad = eps(folder / "dark" / name, witness)
    with pytest.raises(MultiwayError, match="allowed are PNG, JPEG, BMP"):
        load(f"folder:{folder}", "train")
    with pytest.raises(MultiwayError, match="no image of a kind"):
        open_image(bad)
    assert not witness.exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_allowed_is_read(tmp_path: Path, kind: str) -> None:
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    Image.fromarray(pixels).convert("RGB").save(tmp_path / "x", format=kind)
    with open_image(tmp_path / "x") as image:
        assert image.size == (8, 8)
        assert image.format == kind


def test_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (9, 8)).save(tmp_path / "x.png")
    monkeypatch.setattr("multiway.data.folder.MAX_PIXELS", 64)
    with pytest.raises(MultiwayError, match=r"9 x 8 pixels, and at most 64"):
        open_image(tmp_path / "x.png")


def test_a_run_that_names_a_folder_is_not_followed(tmp_path: Path, in_process: Command) -> None:
    witness = tmp_path / "witness"
    data = f"folder:{pictures(tmp_path / 'pics')}"
    done = in_process(
        "train", "--data", data, "--backbone", "wong", "--encoding", "1ofk",
        "--recipe", "digits", "--epochs", 1, "--out", "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # As if it had been downloaded: the configuration points at pictures that came with it.
    shutil.copytree(tmp_path / "pics", tmp_path / "run" / "pics")
    eps(tmp_path / "run" / "pics" / "dark" / "x.eps", witness)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["data"]["name"] = "folder:run/pics"
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    commands: list[tuple[str, ...]] = [(name, "run") for name in ("evaluate", "corrupt", "curves")]
    commands += [("watermark", "steal", "run", "--out", "thief")]
    for command in commands:
        refused = in_process(*command)
        assert refused.returncode == 2
        assert "repeat it with --data folder:run/pics if you trust it" in refused.stderr
    assert not witness.exists()
    confirmed = in_process("evaluate", "run", "--data", data)
    assert confirmed.returncode == 0, confirmed.stderr
    assert "no image of a kind" in in_process("evaluate", "run", "--data", "folder:run/pics").stderr
    assert not witness.exists()
