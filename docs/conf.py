"""Sphinx configuration."""

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tools"))

import api_pages  # noqa: E402  (it is in tools/)

api_pages.write(HERE / "reference" / "api")

project = "pointglue"
author = "The pointglue authors"
project_copyright = "2026, The pointglue authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "pointglue"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_preserve_defaults = True
napoleon_use_ivar = True  # attributes of a class are described once, with it
nitpicky = False


def setup(app: Any) -> None:
    """Keep napoleon from reading "gaps (Q, 3): ..." in the docstring of a property as a type."""
    app.connect("autodoc-process-docstring", _begin_properties_with_a_comment, priority=100)


def _begin_properties_with_a_comment(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    if what in ("property", "attribute", "data"):
        lines[:0] = ["..", ""]
