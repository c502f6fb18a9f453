"""Runs as USD files, for Blender, Houdini, Maya and usdview: points, transforms and colours over time."""

import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import Array
from ..errors import InputError, MissingDependencyError, PointglueError
from ..files import atomic_write, explain_write_errors
from .archives import sync
from .frame_records import Frame, StoredObject
from .frames import FrameStore

__all__ = ["write_usd"]

ENDINGS = (".usdc", ".usda", ".usd")
MAX_UNSAVED = 2**27  # bytes of samples in memory, after which the file is saved
DEFAULT_RADIUS = 0.005  # m, of points and lines that have none


def write_usd(store: FrameStore, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the frames of a run to a USD file.

    Y is up, a unit is a metre, a time code is the number of a frame. Every object is a prim below ``/World``
    with `displayColor` and a material: a Mesh, BasisCurves or Points with samples of points, or of the
    transform if it is rigid. The file appears when it is complete, and replaces an earlier one only then.

    Parameters
    ----------
    store : FrameStore
        The run.
    path : str or path, optional
        The file, ending in ``.usdc``, ``.usda`` or ``.usd``; by default ``animation.usdc`` in the folder of
        the run.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If there are no frames, or `path` has another ending.
    MissingDependencyError
        If usd-core is missing.
    PointglueError
        If the file cannot be written.
    """
    target = store.directory / "animation.usdc" if path is None else Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise InputError(f"{target}: must end in {', '.join(ENDINGS)}")
    if target.is_dir():
        raise InputError(f"{target}: is a folder, not a file")
    try:
        from pxr import Tf, Usd
    except ImportError as error:
        raise MissingDependencyError("USD files need usd-core: pip install 'pointglue[usd]'") from error
    numbers = store.numbers()
    if not numbers:
        raise InputError(f"{store.directory}: has no frames to write")
    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(target) as temporary:
            temporary.touch()  # USD would not say why it cannot be written
            try:
                _write(Usd.Stage.CreateNew(str(temporary)), store, numbers)
            except Tf.ErrorException as error:
                raise PointglueError(f"{target}: cannot be written: {_reason(error)}") from error
            sync(temporary)
    return target


def _write(stage: Any, store: FrameStore, numbers: list[int]) -> None:
    """Write all objects and the samples of all frames to a stage, and save it."""
    from pxr import UsdGeom

    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    stage.SetTimeCodesPerSecond(store.rate)
    stage.SetFramesPerSecond(store.rate)
    stage.SetStartTimeCode(numbers[0])
    stage.SetEndTimeCode(numbers[-1])
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/World").GetPrim())
    prims: list[_Prim] = []
    for stored in store.objects:
        prims.append(_Prim(stage, stored, [prim.name for prim in prims]))
    unsaved = 0
    for number in numbers:
        frame = store.read(number)
        unsaved += sum(prim.add(frame) for prim in prims)
        if unsaved > MAX_UNSAVED:
            stage.GetRootLayer().Save()
            unsaved = 0
    stage.GetRootLayer().Save()


class _Prim:
    """The prim of an object, and its attributes that change."""

    def __init__(self, stage: Any, stored: StoredObject, taken: list[str]) -> None:
        from pxr import Gf, UsdGeom, Vt

        self.stored, self.name = stored, re.sub(r"^(?=[0-9])|[^A-Za-z0-9_]", "_", stored.name)
        while self.name in taken:
            self.name += "_"
        path = f"/World/{self.name}"
        self.rows: Array | slice = slice(None)
        widths = [2 * (stored.radius or DEFAULT_RADIUS)]
        if stored.faces is not None:
            self.shape = UsdGeom.Mesh.Define(stage, path)
            self.shape.CreateFaceVertexCountsAttr(
                Vt.IntArray.FromNumpy(np.full(len(stored.faces), 3, np.int32))
            )
            self.shape.CreateFaceVertexIndicesAttr(
                Vt.IntArray.FromNumpy(stored.faces.ravel().astype(np.int32))
            )
            self.shape.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
            self.shape.CreateDoubleSidedAttr(True)
        elif stored.segments is not None:
            counts, self.rows = _lines(stored.segments)
            self.shape = UsdGeom.BasisCurves.Define(stage, path)
            self.shape.CreateTypeAttr(UsdGeom.Tokens.linear)
            self.shape.CreateCurveVertexCountsAttr(counts)
            self.shape.CreateWidthsAttr(widths)
            self.shape.SetWidthsInterpolation(UsdGeom.Tokens.constant)
        else:
            self.shape = UsdGeom.Points.Define(stage, path)
            self.shape.CreateWidthsAttr(widths)
            self.shape.SetWidthsInterpolation(UsdGeom.Tokens.constant)
        prim = self.shape.GetPrim()
        prim.SetDisplayName(stored.name)
        color = Gf.Vec3f(*_linear(stored.color))
        self.shape.CreateDisplayColorAttr([color])
        _bind_material(stage, f"{path}/material", prim, color)
        self.points, self.extent = self.shape.CreatePointsAttr(), self.shape.CreateExtentAttr()
        self._set_points(stored.rest)
        self.transform = self.shape.AddTransformOp() if stored.motion == "transform" else None

    def add(self, frame: Frame) -> int:
        """Add the sample of a frame, and return the bytes that it takes."""
        if self.stored.motion == "points":
            return self._set_points(frame.points[self.stored.name], frame.number)
        if self.transform is not None:
            from pxr import Gf

            # USD multiplies rows with matrices.
            matrix = Gf.Matrix4d(frame.transforms[self.stored.name].T.astype(float).tolist())
            self.transform.Set(matrix, frame.number)
        return 0

    def _set_points(self, points: Array, *time: int) -> int:
        """Set the points and their extent, at a time or for all times, and return their bytes."""
        from pxr import Vt

        rows = np.ascontiguousarray(points[self.rows], dtype=np.float32)
        self.points.Set(Vt.Vec3fArray.FromNumpy(rows), *time)
        reach = 0.0 if self.stored.faces is not None else self.stored.radius or DEFAULT_RADIUS
        extent = np.array([rows.min(axis=0) - reach, rows.max(axis=0) + reach], dtype=np.float32)
        self.extent.Set(Vt.Vec3fArray.FromNumpy(extent), *time)
        return rows.nbytes


def _lines(segments: Array) -> tuple[list[int], Array]:
    """Return segments (m, 2) as polylines: the number of points of each, and the rows of all points."""
    breaks = np.flatnonzero(segments[1:, 0] != segments[:-1, 1]) + 1
    ends = [0, *breaks.tolist(), len(segments)]
    runs = [np.append(segments[start, :1], segments[start:stop, 1]) for start, stop in pairwise(ends)]
    return [len(run) for run in runs], np.concatenate(runs)


def _bind_material(stage: Any, path: str, prim: Any, color: Any) -> None:
    """Give a prim a matt material, since not every program shows `displayColor`."""
    from pxr import Sdf, UsdShade

    material = UsdShade.Material.Define(stage, path)
    shader = UsdShade.Shader.Define(stage, f"{path}/surface")
    shader.CreateIdAttr("UsdPreviewSurface")
    shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).Set(color)
    shader.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(0.6)
    material.CreateSurfaceOutput().ConnectToSource(shader.ConnectableAPI(), "surface")
    UsdShade.MaterialBindingAPI.Apply(prim).Bind(material)


def _linear(color: tuple[float, float, float]) -> list[float]:
    """Return an sRGB colour as linear light, which USD uses."""
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]


def _reason(error: Any) -> str:
    """Return the first of USD's messages, which the others follow from."""
    first = error.args[0].commentary if error.args else str(error)
    return str(first).rpartition(": ")[2].strip()
