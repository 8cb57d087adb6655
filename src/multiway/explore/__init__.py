"""A page to play with: one image, one attack, two models."""

from multiway.explore.commands import Source
from multiway.explore.explorer import Explorer
from multiway.explore.server import Server

__all__ = ["Explorer", "Server", "Source"]
