"""A few seconds of `make fuzz`: files with random damage are read or refused, nothing else."""

from __future__ import annotations

import pytest
from fuzzing import NAMES, fuzz


@pytest.mark.parametrize("name", NAMES)
def test_random_damage(name: str) -> None:
    fuzz(name, 10)
