"""CIFAR-10-C-style corruptions: 19 kinds at 5 severities, for images of any size."""

from multiway.data.corruptions.apply import corrupt, corrupt_with
from multiway.data.corruptions.kinds import KINDS, PAPER_KINDS, SEVERITIES, Kind
from multiway.data.corruptions.official import check_official, official

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
