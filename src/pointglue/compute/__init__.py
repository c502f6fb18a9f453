"""Compiled loops: how they are made, how they are spread over threads, and four numbers at once."""

from .compilation import before_compilation, kernel
from .parallel import measured, run, thread_count, threads

__all__ = ["before_compilation", "kernel", "measured", "run", "thread_count", "threads"]
