"""Letters and a logo as bitmaps, so that a mark looks the same wherever it is drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from multiway.errors import MultiwayError

__all__ = ["LETTERS", "draw_logo", "draw_text"]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

# Five dots wide and seven high, twelve in a row, in the order of LETTERS.
ART = """
.###. ####. .###. ####. ##### ##### .###. #...# .###. ..### #...# #....
#...# #...# #...# #...# #.... #.... #...# #...# ..#.. ...#. #..#. #....
#...# #...# #.... #...# #.... #.... #.... #...# ..#.. ...#. #.#.. #....
##### ####. #.... #...# ####. ####. #.### ##### ..#.. ...#. ##... #....
#...# #...# #.... #...# #.... #.... #...# #...# ..#.. ...#. #.#.. #....
#...# #...# #...# #...# #.... #.... #...# #...# ..#.. #..#. #..#. #....
#...# ####. .###. ####. ##### #.... .###. #...# .###. .##.. #...# #####

#...# #...# .###. ####. .###. ####. .#### ##### #...# #...# #...# #...#
##.## ##..# #...# #...# #...# #...# #.... ..#.. #...# #...# #...# #...#
#.#.# #.#.# #...# #...# #...# #...# #.... ..#.. #...# #...# #...# .#.#.
#.#.# #..## #...# ####. #...# ####. .###. ..#.. #...# #...# #.#.# ..#..
#...# #...# #...# #.... #.#.# #.#.. ....# ..#.. #...# #...# #.#.# .#.#.
#...# #...# #...# #.... #..#. #..#. ....# ..#.. #...# .#.#. ##.## #...#
#...# #...# .###. #.... .##.# #...# ####. ..#.. .###. ..#.. #...# #...#

#...# ##### .###. ..#.. .###. .###. ...#. ##### ..##. ##### .###. .###.
#...# ....# #...# .##.. #...# #...# ..##. #.... .#... ....# #...# #...#
.#.#. ...#. #..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
..#.. ..#.. #.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
..#.. .#... ##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
..#.. #.... #...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.
..#.. ##### .###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..
"""

LOGO = """
...###...
.##...##.
.#..#..#.
#...#...#
#.#####.#
#...#...#
.#..#..#.
.##...##.
...###...
"""


def draw_text(text: str, scale: int = 1) -> Tensor:
    """`text` as a mask, bool [7 scale, (6 len(text) - 1) scale]; True is ink.

    Args:
        text: letters A to Z, digits and spaces; small letters are drawn as capitals.
        scale: side of a dot in pixels.

    Example:
        >>> draw_text("HI")[3].int().tolist()
        [1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0]
    """
    unknown = sorted(set(text.upper()) - set(LETTERS) - {" "})
    if unknown or not text.strip():
        raise MultiwayError(
            f"a mark's text has letters A to Z, digits and spaces, not {''.join(unknown)!r}"
            if unknown
            else "a mark's text has at least one letter or digit"
        )
    gap = torch.zeros(7, 1, dtype=torch.bool)
    parts = [part for letter in text.upper() for part in (_glyph(letter), gap)][:-1]
    return enlarged(torch.cat(parts, dim=1), scale)


def draw_logo(scale: int = 1) -> Tensor:
    """A cross in a ring as a mask, bool [9 scale, 9 scale]; True is ink."""
    return enlarged(_mask(LOGO.split()), scale)


def _glyph(letter: str) -> Tensor:
    if letter == " ":
        return torch.zeros(7, 5, dtype=torch.bool)
    block, column = divmod(LETTERS.index(letter), 12)
    lines = ART.strip().split("\n\n")[block].splitlines()
    return _mask([line[6 * column : 6 * column + 5] for line in lines])


def _mask(lines: list[str]) -> Tensor:
    return torch.tensor([[dot == "#" for dot in line] for line in lines])


def enlarged(mask: Tensor, scale: int) -> Tensor:
    """Every dot of a mask as `scale` x `scale` pixels."""
    return mask.repeat_interleave(scale, dim=0).repeat_interleave(scale, dim=1)
