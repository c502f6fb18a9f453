"""Compiled loops: how they are made, how they are spread over threads, and four numbers at once."""

from .compilation import kernel
from .parallel import measured, run, thread_count, threads

__all__ = ["kernel", "measured", "run", "thread_count", "threads"]
