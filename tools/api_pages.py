"""Write the API pages, one for each public module with every name of its `__all__`; docs/conf.py calls it."""

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

from public_api import home, modules, names


def write(folder: Path) -> None:
    """Write all pages into a folder; those that have not changed stay as they are."""
    pages = {f"{module.__name__}.md": _page(module) for module in modules()}
    pages["index.md"] = _index()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _index() -> str:
    rows = [f"| [`{module.__name__}`]({module.__name__}.md) | {_first(module)} |" for module in modules()]
    tree = "\n".join(module.__name__ for module in modules())
    table = "\n".join(["| module | |", "| --- | --- |", *rows])
    return f"# API\n\n{table}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def _page(module: ModuleType) -> str:
    lines = [f"# {module.__name__}", "", _first(module), ""]
    here, elsewhere = [], []
    for name, one in names(module).items():
        path = f"{module.__name__}.{name}"
        (here if home(one, path) == path else elsewhere).append((name, one))
    if elsewhere:
        lines += ["| name | |", "| --- | --- |"]
        lines += [_link(home(one, f"{module.__name__}.{name}"), name, one) for name, one in elsewhere]
        lines.append("")
    if here:
        lines += ["```{eval-rst}", *(_directive(module, name, one) for name, one in here), "```", ""]
    return "\n".join(lines)


def _link(path: str, name: str, one: Any) -> str:
    return f"| {{py:obj}}`{name} <{path}>` | {_first(one)} |"


def _directive(module: ModuleType, name: str, one: Any) -> str:
    path = f"{module.__name__}.{name}"
    if inspect.isclass(one):
        lines = [f".. autoclass:: {path}", "   :members:"]
        if issubclass(one, BaseException):
            lines.append("   :show-inheritance:")
        elif hasattr(one, "model_fields"):  # its fields are on the page of scene files
            lines[1] = "   :no-members:"
        else:
            lines.append("   :inherited-members: object, Iterator, Protocol")
        return "\n".join([*lines, ""])
    if inspect.isroutine(one):
        return f".. autofunction:: {path}\n"
    if type(one).__module__ in ("builtins", "numpy"):  # a constant, whose docstring is that of its type
        return f".. py:data:: {path}\n\n   {_constant(one)}\n"
    return f".. autodata:: {path}\n"


def _constant(one: Any) -> str:
    """Return what a constant is, in a sentence."""
    if isinstance(one, dict):
        return f"A dictionary with the keys {', '.join(f'``{key!r}``' for key in one)}."
    if isinstance(one, tuple | list):
        return f"A {type(one).__name__} of {', '.join(f'``{each!r}``' for each in one)}."
    return f"An array of shape {one.shape}." if hasattr(one, "shape") else f"The value ``{one!r}``."


def _first(one: Any) -> str:
    """Return the first sentence of a docstring, on one line."""
    if not (inspect.isclass(one) or inspect.isroutine(one) or inspect.ismodule(one)):
        return ""
    summary = (inspect.getdoc(one) or "").split("\n\n")[0]
    return " ".join(summary.split()).replace("|", "\\|")
