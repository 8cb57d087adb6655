"""Who computes artifacts: processes on this machine, or a Ray cluster."""

from multiway.engine.local import LocalEngine
from multiway.engine.schedule import Engine, Finished, Observer, Silent, compute, order

__all__ = ["Engine", "Finished", "LocalEngine", "Observer", "Silent", "compute", "order"]
