"""A small mesh for tests of files, and ways to write it."""

import errno
import os

import numpy as np
import trimesh
from trimesh.visual.material import PBRMaterial

from pointglue.geometry.shapes import box
from pointglue.io import open_output

VERTICES, FACES = box((1.0, 2.0, 0.5), (3, 4, 2))
CARRIERS = ["ply", "obj", "glb", "gltf"]  # of colours, normals, texture coordinates and textures
FORMATS = [*CARRIERS, "off", "stl"]
# Positions: single precision, and ten digits in text; trimesh itself writes eight.
CLOSE = 1e-7


def make(**more):
    return trimesh.Trimesh(VERTICES, FACES, process=False, **more)


def save(shape, path):
    """As trimesh writes it."""
    if path.suffix == ".gltf":
        shape = trimesh.Scene(shape)
    shape.export(path)
    return path


def write(mesh, path):
    with open_output(path, mesh) as out:
        out.add(mesh.vertices, mesh.normals)
    return path


def pixels(part):
    material = part.material
    picture = material.baseColorTexture if isinstance(material, PBRMaterial) else material.image
    return np.array(picture)


def forbidden(*_, **__):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
