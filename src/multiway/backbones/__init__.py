"""Networks to put an encoding on: the paper's, and small ones that a CPU can train."""

from multiway.backbones.build import (
    BACKBONES,
    build_backbone,
    import_function,
    rebuild_backbone,
)

__all__ = ["BACKBONES", "build_backbone", "import_function", "rebuild_backbone"]
