"""CIFAR-10-C-style corruptions: 19 kinds at 5 severities, for images of any size."""

from multiway.data.corruptions.apply import check_official, corrupt, corrupt_with, official
from multiway.data.corruptions.kinds import KINDS, PAPER_KINDS, SEVERITIES, Kind

__all__ = [
    "KINDS",
    "PAPER_KINDS",
    "SEVERITIES",
    "Kind",
    "check_official",
    "corrupt",
    "corrupt_with",
    "official",
]
