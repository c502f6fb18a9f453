"""``python -m pointglue`` is the command ``pointglue``."""

from .cli import main

main()
