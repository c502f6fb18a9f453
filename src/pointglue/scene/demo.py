"""The scenes that come with pointglue."""

from pathlib import Path

from ..errors import SceneError
from .schema.fields import nearest
from .schema.loading import load_scene

__all__ = ["demo_path", "demo_titles"]

FOLDER = Path(__file__).parent / "demos"


def demo_titles() -> dict[str, str]:
    """Return the titles of the demos, which say what they show, by name.

    Returns
    -------
    dict of str to str
        The title of each demo by its name.
    """
    return {path.stem: load_scene(path).tables.title for path in sorted(FOLDER.glob("*.toml"))}


def demo_path(name: str) -> Path:
    """Return the scene file of a demo.

    Parameters
    ----------
    name : str
        One of the names of :func:`demo_titles`.

    Returns
    -------
    Path
        The TOML file.

    Raises
    ------
    SceneError
        If there is no such demo.
    """
    names = [path.stem for path in sorted(FOLDER.glob("*.toml"))]
    if name not in names:
        near = nearest(name, names) or f"; there are {', '.join(names)}"
        raise SceneError(f"there is no demo {name!r}{near}")
    return FOLDER / f"{name}.toml"
