"""Find the public names of the package: what its API pages list, and whose docstrings are checked."""

import importlib
import inspect
from types import ModuleType
from typing import Any

# Modules that users import. Modules in an `__all__`, such as geometry.shapes, come along by themselves.
PUBLIC = (
    "pointglue",
    "pointglue.procrustes",
    "pointglue.procrustes.torch",
    "pointglue.procrustes.jax",
    "pointglue.glue",
    "pointglue.deform",
    "pointglue.particles",
    "pointglue.elastic",
    "pointglue.scene",
    "pointglue.io",
    "pointglue.view",
    "pointglue.geometry",
    "pointglue.assets",
    "pointglue.errors",
)
# Modules that are no part of the API: the command line, the studio's server, and what other modules share.
INTERNAL = (
    "__main__", "actions", "checks", "cli", "compute", "console", "files", "studio", "version",
)  # fmt: skip


def modules() -> list[ModuleType]:
    """Return the public modules, each once, in the order of `PUBLIC`."""
    found: dict[str, ModuleType] = {}

    def add(module: ModuleType) -> None:
        if module.__name__ not in found:
            found[module.__name__] = module
            for name in module.__all__:
                if inspect.ismodule(inner := getattr(module, name)):
                    add(inner)

    for name in PUBLIC:
        add(importlib.import_module(name))
    return list(found.values())


def names(module: ModuleType) -> dict[str, Any]:
    """Return the objects in the `__all__` of a module by name, modules left out."""
    listed = {name: getattr(module, name) for name in module.__all__}
    return {name: one for name, one in listed.items() if not inspect.ismodule(one)}


def home(one: Any, path: str) -> str:
    """Return where an object is documented: at the shortest public path but the top of the package.

    `path` is where it was found: `pointglue.fit_rigid` is documented as `pointglue.procrustes.fit_rigid`.
    """
    name = path.rpartition(".")[2]
    for module in modules():
        if module.__name__ != "pointglue" and name in module.__all__ and getattr(module, name) is one:
            return f"{module.__name__}.{name}"
    return path


def documented() -> dict[str, Any]:
    """Return all public objects by the path at which they are documented."""
    found: dict[str, Any] = {}
    for module in modules():
        for name, one in names(module).items():
            found.setdefault(home(one, f"{module.__name__}.{name}"), one)
    return found
