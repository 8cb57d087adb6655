"""Threat models: what an attacker may do to an image."""

from multiway.threat.ball import Streams, Threat, column, make_streams, radii
from multiway.threat.norms import L1, L2, Linf, check_norm

__all__ = ["L1", "L2", "Linf", "Streams", "Threat", "check_norm", "column", "make_streams", "radii"]
