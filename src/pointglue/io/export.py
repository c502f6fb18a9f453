"""Runs in the formats of other programs, whether they are complete or not."""

import os
from pathlib import Path
from typing import Literal, get_args

from ..checks import check_choice
from ..errors import InputError
from .frames import FrameStore
from .sequences import write_sequence
from .usd import ENDINGS, write_usd

__all__ = ["ExportFormat", "export_run"]

ExportFormat = Literal["usd", "ply", "obj"]


def export_run(
    run: FrameStore | str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    format: ExportFormat | None = None,
) -> Path:
    """Write the frames of a run to a USD file, or to a folder of numbered PLY or OBJ files.

    Parameters
    ----------
    run : FrameStore, str or path
        A run, or its folder. It may have been interrupted, or still be under way.
    output : str or path, optional
        The USD file or the folder to write; by default ``animation.usdc``, ``ply`` or ``obj`` in the folder
        of the run.
    format : {"usd", "ply", "obj"}, optional
        The format; by default "usd", and then `output` must be the name of a USD file.

    Returns
    -------
    Path
        The file or the folder.

    Raises
    ------
    InputError
        If there are no frames, or `output` does not fit the format.
    MissingDependencyError
        If the package for USD is missing.
    PointglueError
        If a file cannot be written.
    """
    if format is not None:
        check_choice("format", format, get_args(ExportFormat))
    if format is None and output is not None and Path(output).suffix.lower() not in ENDINGS:
        raise InputError(
            f"{Path(output)}: must end in {', '.join(ENDINGS)}; "
            "for a folder of mesh files, give the format ply or obj"
        )
    store = run if isinstance(run, FrameStore) else FrameStore.open(run)
    if format is None or format == "usd":
        return write_usd(store, output)
    if output is not None and Path(output).suffix:
        raise InputError(f"{Path(output)}: must be a folder: {format} has a file for each frame")
    return write_sequence(store, output, format=format)[0].parent
