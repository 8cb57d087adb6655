"""A store in which what was computed is found again: nothing is computed twice."""

from multiway.store.piece import Piece, Record, Workplace
from multiway.store.store import MARK, Damaged, Store

__all__ = ["MARK", "Damaged", "Piece", "Record", "Store", "Workplace"]
