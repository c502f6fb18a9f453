"""Meshes from files: what they carry is read, and what is wrong with them is told."""

from pathlib import Path

import numpy as np
import pytest
import trimesh
from small_meshes import CARRIERS, CLOSE, FACES, VERTICES, forbidden, make, save
from trimesh.visual import TextureVisuals

from pointglue.errors import InputError, MissingDependencyError, PointglueWarning
from pointglue.geometry.meshes.plain_obj import plain_obj
from pointglue.geometry.meshes.trimesh_files import read_parts
from pointglue.io import Mesh, Part, read_mesh


class TestReading:
    @pytest.mark.parametrize("kind", [*CARRIERS, "off"])
    def test_vertices_and_faces_are_in_the_order_of_the_file(self, tmp_path, kind):
        (part,) = read_mesh(save(make(), tmp_path / f"in.{kind}")).parts
        assert np.abs(part.vertices - VERTICES).max() < CLOSE
        assert np.array_equal(part.faces, FACES)
        assert part.normals is part.colors is part.face_colors is part.uv is part.material is None

    def test_stl_has_three_vertices_a_face(self, tmp_path):
        mesh = read_mesh(save(make(), tmp_path / "in.stl"))
        assert np.abs(mesh.vertices[mesh.faces] - VERTICES[FACES]).max() < CLOSE
        assert len(mesh.vertices) == 3 * len(FACES)

    def test_endings_in_capitals(self, tmp_path):
        save(make(), tmp_path / "in.ply").rename(tmp_path / "IN.PLY")
        assert np.array_equal(read_mesh(tmp_path / "IN.PLY").faces, FACES)

    @pytest.mark.parametrize("kind", ["obj", "off", "ply"])
    def test_polygons_become_triangles(self, tmp_path, kind):
        points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 0.5, 1)]
        faces = [(0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)]
        rows = [" ".join(map(str, point)) for point in points]
        if kind == "obj":
            lines = [f"v {row}" for row in rows] + ["f " + " ".join(str(k + 1) for k in f) for f in faces]
        else:
            lines = rows + [" ".join(map(str, (len(f), *f))) for f in faces]
        head = {
            "obj": "",
            "off": "OFF\n5 5 0\n",
            "ply": "ply\nformat ascii 1.0\nelement vertex 5\nproperty float x\nproperty float y\n"
            "property float z\nelement face 5\nproperty list uchar int vertex_indices\nend_header\n",
        }[kind]
        (tmp_path / f"in.{kind}").write_text(head + "\n".join(lines) + "\n")
        mesh = read_mesh(tmp_path / f"in.{kind}")
        assert np.array_equal(mesh.vertices, points)
        assert len(mesh.faces) == 6
        assert trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).volume == pytest.approx(1 / 3)

    @pytest.mark.parametrize("kind", ["obj", "ply", "off"])
    def test_vertices_of_no_face_stay(self, tmp_path, kind, colors):
        vertices = np.insert(VERTICES, 5, [9.0, 9.0, 9.0], axis=0)
        faces = FACES + (FACES >= 5)
        shape = trimesh.Trimesh(vertices, faces, process=False)
        mesh = read_mesh(save(shape, tmp_path / f"in.{kind}"))
        assert np.array_equal(mesh.vertices[5], [9.0, 9.0, 9.0])
        assert np.array_equal(mesh.faces, faces)

    @pytest.mark.parametrize("ending", ["\n", "\r\n"])
    def test_plain_obj_is_as_trimesh_reads_it(self, tmp_path, ending):
        """With comments, exponents, spaces and a vertex of no face; whatever else there is, trimesh reads."""
        lines = ["# of a program", "", "v 1e-3 -2.5 3", "v  0.1 .2 +0.3", "v 4 5 6", "v 7 8 9.25", "f 3 1 4 "]
        file = tmp_path / "in.obj"
        file.write_bytes(ending.join(lines).encode())
        vertices, faces = plain_obj(file.read_bytes())
        (part,) = read_parts(file)
        assert np.array_equal(vertices, part.vertices)
        assert np.array_equal(faces, part.faces)
        assert read_mesh(file).parts[0].name == part.name

    @pytest.mark.parametrize(
        "line",
        ["f 1 2 3 3", "f 1/1 2/2 3/3", "f -1 -2 -3", "f 1 2 4", "f 1 2 x", "v 1 2 nan", "v 1 2 3 1", "o a"],
    )
    def test_obj_with_anything_else_is_left_to_trimesh(self, line):
        text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
        assert plain_obj(text.encode()) is not None
        assert plain_obj((text + line).encode()) is None

    def test_obj_vertices_are_split_on_seams(self, tmp_path):
        """Texture coordinates and normals have indices of their own; vertices stay in order."""
        (tmp_path / "in.obj").write_text(
            "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvt 0.5 0.5\nvn 0 0 1\n"
            "f 1/1/1 2/2/1 3/3/1\nf 1/5/1 3/3/1 4/4/1\n"
        )
        (part,) = read_mesh(tmp_path / "in.obj").parts
        assert len(part.vertices) == 5
        corners = np.array([[[0, 0], [1, 0], [1, 1]], [[0.5, 0.5], [1, 1], [0, 1]]])
        assert np.array_equal(part.uv[part.faces], corners)
        assert np.array_equal(
            part.vertices[part.faces, :2], [[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]]
        )
        assert np.array_equal(part.normals, [[0, 0, 1]] * 5)

    def test_ply_vertices_are_split_on_seams_with_what_they_carry(self, tmp_path):
        (tmp_path / "in.ply").write_text(
            "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
            "property float nx\nproperty float ny\nproperty float nz\n"
            "property uchar red\nproperty uchar green\nproperty uchar blue\n"
            "element face 2\nproperty list uchar int vertex_indices\nproperty list uchar float texcoord\n"
            "end_header\n0 0 0 0 0 1 10 0 0\n1 0 0 0 1 0 20 0 0\n1 1 0 1 0 0 30 0 0\n0 1 0 0 0 -1 40 0 0\n"
            "3 0 1 2 6 0 0 1 0 1 1\n3 0 2 3 6 0.5 0.5 1 1 0 1\n"
        )
        (part,) = read_mesh(tmp_path / "in.ply").parts
        assert len(part.vertices) == 5
        corners = np.array([[[0, 0], [1, 0], [1, 1]], [[0.5, 0.5], [1, 1], [0, 1]]])
        assert np.array_equal(part.uv[part.faces], corners)
        assert np.array_equal(part.colors[part.faces, 0], [[10, 20, 30], [10, 30, 40]])
        assert np.array_equal(part.normals[part.faces[:, 0]], [[0, 0, 1]] * 2)
        assert np.array_equal(part.vertices[part.faces[1]], [[0, 0, 0], [1, 1, 0], [0, 1, 0]])

    def test_parts_of_a_scene_are_moved_to_their_places(self, tmp_path, normals):
        """One shape twice, the second time moved, stretched, mirrored; its normals go along."""
        place = np.diag([-1.0, 2.0, 1.0, 1.0])
        place[:3, 3] = [5.0, 0.0, 0.0]
        shape = make()
        shape.vertex_normals = normals
        scene = trimesh.Scene()
        scene.add_geometry(shape, geom_name="box", node_name="a")
        scene.graph.update("b", geometry="box", matrix=place)
        scene.export(tmp_path / "in.glb")
        mesh = read_mesh(tmp_path / "in.glb")
        first, second = sorted(mesh.parts, key=lambda part: part.vertices[0, 0])
        assert {first.name, second.name} == {"box", "box_2"}
        assert np.abs(first.vertices - VERTICES).max() < CLOSE
        assert np.abs(second.vertices - (VERTICES * [-1, 2, 1] + [5, 0, 0])).max() < 1e-6  # of 5, by 32 bits
        volumes = [trimesh.Trimesh(part.vertices, part.faces, process=False).volume for part in mesh.parts]
        assert sorted(volumes) == pytest.approx([1.0, 2.0])  # neither is inside out
        expected = normals * [-1, 0.5, 1]
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        assert np.abs(second.normals - expected).max() < 1e-6  # normals of 32 bits

    def test_all_parts_are_one_list_of_vertices(self):
        parts = (Part("a", VERTICES, FACES), Part("b", VERTICES + 3, FACES, normals=VERTICES))
        mesh = Mesh(parts)
        assert np.array_equal(mesh.vertices, np.concatenate([VERTICES, VERTICES + 3]))
        assert np.array_equal(mesh.faces, np.concatenate([FACES, FACES + len(VERTICES)]))
        assert np.array_equal(mesh.normals, np.concatenate([0 * VERTICES, VERTICES]))
        moved = mesh.moved(mesh.vertices * 2, mesh.normals * 2)
        assert np.array_equal(moved.parts[1].vertices, (VERTICES + 3) * 2)
        assert np.array_equal(moved.parts[1].normals, VERTICES * 2)
        assert moved.parts[0].normals is None

    def test_trimesh_is_silent(self, tmp_path, capfd):
        """Its warnings have tracebacks, and would go to the terminal."""
        path = save(make(visual=TextureVisuals(uv=VERTICES[:, :2])), tmp_path / "in.ply")
        text = path.read_bytes().replace(b"\nelement vertex", b"\ncomment TextureFile no.png\nelement vertex")
        path.write_bytes(text)
        with pytest.warns(PointglueWarning, match=r"there is no .*no.png: this texture is lost"):
            assert read_mesh(path).parts[0].uv is not None
        assert capfd.readouterr() == ("", "")


class TestMissingAssets:
    def test_material_library(self, tmp_path):
        (tmp_path / "in.obj").write_text("mtllib no.mtl\nusemtl a\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
        with pytest.warns(PointglueWarning, match=r"in.obj: there is no .*no.mtl: its materials are lost"):
            read_mesh(tmp_path / "in.obj")

    def test_texture(self, tmp_path):
        (tmp_path / "in.obj").write_text("mtllib in.mtl\nusemtl a\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
        (tmp_path / "in.mtl").write_text("newmtl a\nKd 1 0 0\nmap_Kd no.png\n")
        with pytest.warns(PointglueWarning, match=r"in.obj: there is no .*no.png: this texture is lost"):
            (part,) = read_mesh(tmp_path / "in.obj").parts
        assert part.material.diffuse.tolist() == [255, 0, 0, 255]

    def test_pillow(self, tmp_path, monkeypatch, uv, image):
        path = save(make(visual=TextureVisuals(uv=uv, image=image)), tmp_path / "in.glb")
        monkeypatch.setattr("pointglue.geometry.meshes.trimesh_files.find_spec", lambda name: None)
        with pytest.raises(MissingDependencyError, match=r"in.glb: .* pip install pillow"):
            read_mesh(path)


class TestReadingErrors:
    def refused(self, path, content=None):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_mesh(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
        return str(caught.value).removeprefix(f"{path}: ")

    def test_missing_file(self, tmp_path):
        assert self.refused(tmp_path / "no.ply") == "no such file"

    def test_folder(self, tmp_path):
        assert self.refused(tmp_path) == "is a folder, not a mesh"

    @pytest.mark.parametrize("name", ["mesh.fbx", "mesh"])
    def test_unknown_format(self, tmp_path, name):
        message = self.refused(tmp_path / name, b"x")
        assert message.startswith("is of no format that trimesh reads, ")
        assert ".glb, .gltf, " in message
        assert ".obj, .off, .ply, .stl" in message

    @pytest.mark.parametrize("kind", ["ply", "off", "glb", "gltf"])
    @pytest.mark.parametrize("content", [b"", b"nonsense"])
    def test_nonsense(self, tmp_path, kind, content):
        assert self.refused(tmp_path / f"in.{kind}", content).startswith(f"cannot be read as .{kind}: ")

    @pytest.mark.parametrize("kind", ["obj", "stl"])
    def test_nonsense_that_trimesh_takes_for_an_empty_mesh(self, tmp_path, kind):
        assert self.refused(tmp_path / f"in.{kind}", b"nonsense") == "holds no triangles"

    def test_half_a_file(self, tmp_path):
        content = save(make(), tmp_path / "in.ply").read_bytes()
        message = self.refused(tmp_path / "half.ply", content[: len(content) // 2])
        assert message == "cannot be read as .ply: PLY is unexpected length!"

    def test_broken_numbers(self, tmp_path):
        message = self.refused(tmp_path / "in.obj", b"v 0 0 0\nv 1 x 0\nv 0 1 0\nf 1 2 3\n")
        assert message.startswith("cannot be read as .obj: ")

    def test_points_only(self, tmp_path):
        assert self.refused(tmp_path / "in.obj", b"v 0 0 0\nv 1 0 0\n") == "holds no triangles"

    def test_vertices_not_finite(self, tmp_path):
        message = self.refused(tmp_path / "in.obj", b"v 0 0 0\nv 1 nan 0\nv 0 1 0\nf 1 2 3\n")
        assert message == "vertex 1 is not finite: [1.0, nan, 0.0]"

    def test_faces_of_vertices_that_do_not_exist(self, tmp_path):
        head = (
            "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
            "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
        )
        content = head + "0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n"
        message = self.refused(tmp_path / "in.ply", content.encode())
        assert message == "faces must index the 3 vertices, got 0 to 7"

    def test_forbidden(self, tmp_path, monkeypatch):
        path = save(make(), tmp_path / "in.ply")
        monkeypatch.setattr(Path, "open", forbidden)  # nothing is, to root
        assert self.refused(path) == "cannot be read: Permission denied"
