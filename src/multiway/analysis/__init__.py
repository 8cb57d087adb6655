"""What the encoding did: to the directions of the gradient, and to the transfer of attacks."""

from multiway.analysis.directions import (
    distance_to_boundary,
    harmful_directions,
    sign_directions,
)
from multiway.analysis.transfer import TransferCell, transfer_matrix

__all__ = [
    "TransferCell",
    "distance_to_boundary",
    "harmful_directions",
    "sign_directions",
    "transfer_matrix",
]
