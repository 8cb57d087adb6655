"""Networks to put an encoding on: the paper's, and small ones that a CPU can train."""

from multiway.backbones.build import (
    BACKBONES,
    build_backbone,
    build_named,
    rebuild_backbone,
)
from multiway.backbones.normalize import Normalize

__all__ = ["BACKBONES", "Normalize", "build_backbone", "build_named", "rebuild_backbone"]
