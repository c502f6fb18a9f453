"""Meshes to files and back: what a mesh carries is there again, whatever the formats are."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from small_meshes import CARRIERS, CLOSE, FACES, FORMATS, VERTICES, forbidden, make, pixels, save, write
from trimesh.visual import TextureVisuals
from trimesh.visual.material import SimpleMaterial

from pointglue.errors import InputError, PointglueError
from pointglue.io import Mesh, Part, open_output, read_mesh


class TestRoundTrips:
    """From what trimesh writes, through this package, into every format."""

    @pytest.mark.parametrize("target", [*CARRIERS, "off"])
    @pytest.mark.parametrize("source", [*CARRIERS, "off"])
    def test_positions_and_order(self, tmp_path, source, target):
        mesh = read_mesh(save(make(), tmp_path / f"in.{source}"))
        moved = mesh.vertices * [1.0, -2.0, 3.0] + 0.1
        with open_output(tmp_path / f"out.{target}", mesh) as out:
            out.add(moved)
        (part,) = read_mesh(tmp_path / f"out.{target}").parts
        assert np.abs(part.vertices - moved).max() < 4 * CLOSE  # of numbers up to 3
        assert np.array_equal(part.faces, FACES)
        assert part.normals is part.colors is part.face_colors is part.uv is part.material is None

    @pytest.mark.parametrize("target", CARRIERS)
    @pytest.mark.parametrize("source", CARRIERS)
    def test_colors(self, tmp_path, source, target, colors):
        mesh = read_mesh(save(make(vertex_colors=colors), tmp_path / f"in.{source}"))
        (part,) = read_mesh(write(mesh, tmp_path / f"out.{target}")).parts
        assert np.array_equal(part.colors, colors)
        assert np.array_equal(part.faces, FACES)

    @pytest.mark.parametrize("target", CARRIERS)
    @pytest.mark.parametrize("source", ["obj", "glb", "gltf"])  # trimesh writes no texture with PLY
    def test_texture(self, tmp_path, source, target, uv, image):
        folder = tmp_path / "elsewhere"
        folder.mkdir()
        path = save(make(visual=TextureVisuals(uv=uv, image=image)), folder / f"in.{source}")
        mesh = read_mesh(path)
        (part,) = read_mesh(write(mesh, tmp_path / f"out.{target}")).parts
        assert np.abs(part.uv - uv).max() < CLOSE
        assert np.array_equal(pixels(part), np.array(image))
        assert np.array_equal(part.faces, FACES)

    @pytest.mark.parametrize("target", CARRIERS)
    def test_texture_coordinates_alone(self, tmp_path, target, uv):
        mesh = read_mesh(save(make(visual=TextureVisuals(uv=uv)), tmp_path / "in.ply"))
        assert mesh.parts[0].material is None
        (part,) = read_mesh(write(mesh, tmp_path / f"out.{target}")).parts
        assert np.abs(part.uv - uv).max() < CLOSE
        beside = {path.name for path in tmp_path.iterdir()} - {"in.ply", f"out.{target}"}
        assert beside == set()

    @pytest.mark.parametrize("target", CARRIERS)
    @pytest.mark.parametrize("source", CARRIERS)
    def test_colors_and_texture_together(self, tmp_path, source, target, colors, uv, image):
        part = Part("box", VERTICES, FACES, colors=colors, uv=uv, material=SimpleMaterial(image=image))
        mesh = read_mesh(write(Mesh((part,)), tmp_path / f"in.{source}"))
        (part,) = read_mesh(write(mesh, tmp_path / f"out.{target}")).parts
        assert np.abs(part.uv - uv).max() < CLOSE
        assert np.array_equal(part.colors, colors)
        assert np.array_equal(pixels(part), np.array(image))

    @pytest.mark.parametrize("target", CARRIERS)
    @pytest.mark.parametrize("source", CARRIERS)
    def test_normals(self, tmp_path, source, target, normals):
        shape = make()
        shape.vertex_normals = normals
        mesh = read_mesh(save(shape, tmp_path / f"in.{source}"))
        with open_output(tmp_path / f"out.{target}", mesh) as out:
            out.add(mesh.vertices, mesh.normals[:, [1, 2, 0]])
        (part,) = read_mesh(tmp_path / f"out.{target}").parts
        assert np.abs(part.normals - normals[:, [1, 2, 0]]).max() < 1e-6  # 32 bits twice
        assert np.array_equal(part.faces, FACES)

    @pytest.mark.parametrize("source", FORMATS)
    def test_into_stl(self, tmp_path, source):
        mesh = read_mesh(save(make(), tmp_path / f"in.{source}"))
        out = read_mesh(write(mesh, tmp_path / "out.stl"))
        assert np.abs(out.vertices[out.faces] - VERTICES[FACES]).max() < CLOSE

    def test_stl_normals_are_those_of_the_new_faces(self, tmp_path):
        mesh = read_mesh(save(make(), tmp_path / "in.stl"))
        with open_output(tmp_path / "out.stl", mesh) as out:
            out.add(mesh.vertices[:, [1, 2, 0]])
        written = trimesh.load_mesh(tmp_path / "out.stl", process=False)
        expected = make().face_normals[:, [1, 2, 0]]
        assert np.abs(written.face_normals - expected).max() < 1e-6  # 32 bits

    def test_colors_of_faces(self, tmp_path, rng):
        colors = rng.integers(0, 256, (len(FACES), 4)).astype(np.uint8)
        mesh = read_mesh(save(make(face_colors=colors), tmp_path / "in.ply"))
        (part,) = read_mesh(write(mesh, tmp_path / "out.ply")).parts
        assert np.array_equal(part.face_colors, colors)
        (part,) = read_mesh(write(mesh, tmp_path / "out.glb")).parts
        assert part.colors.shape == (len(VERTICES), 4)  # the mean about each vertex

    @pytest.mark.parametrize("target", ["obj", "off"])
    @pytest.mark.parametrize("size", [1e-7, 1e7])
    def test_text_has_digits_for_any_size(self, tmp_path, target, size):
        mesh = Mesh((Part("box", size * VERTICES, FACES),))
        out = read_mesh(write(mesh, tmp_path / f"out.{target}"))
        assert np.abs(out.vertices - mesh.vertices).max() < 1e-9 * size  # ten digits

    def test_a_jpeg_keeps_its_quality(self, tmp_path, rng):
        smooth = np.cumsum(np.cumsum(rng.integers(-3, 4, (64, 64, 3)), axis=0), axis=1) % 256
        Image.fromarray(smooth.astype(np.uint8)).save(tmp_path / "in.jpg", quality=98, subsampling=0)
        first = Image.open(tmp_path / "in.jpg")
        first.save(tmp_path / "worse.jpg")

        def off(picture):
            return np.abs(np.array(picture).astype(int) - np.array(first).astype(int)).max()

        assert off(Image.open(tmp_path / "worse.jpg")) > 40  # what a JPEG loses each time it is written
        (tmp_path / "in.obj").write_text(
            "mtllib in.mtl\nusemtl a\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nf 1/1 2/2 3/3\n"
        )
        (tmp_path / "in.mtl").write_text("newmtl a\nmap_Kd in.jpg\n")
        for target in ("obj", "glb", "ply"):
            mesh = read_mesh(tmp_path / "in.obj")
            (part,) = read_mesh(write(mesh, tmp_path / f"out.{target}")).parts
            picture = part.material.baseColorTexture if target == "glb" else part.material.image
            assert picture.format == "JPEG"
            assert off(picture) <= 4  # two conversions of colour spaces, in whole numbers

    def test_materials_without_texture(self, tmp_path):
        (tmp_path / "in.obj").write_text("mtllib in.mtl\nusemtl red\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
        (tmp_path / "in.mtl").write_text("newmtl red\nKd 1 0.2 0\nNs 7\nd 0.5\nillum 2\nmap_bump other.png\n")
        write(read_mesh(tmp_path / "in.obj"), tmp_path / "out.obj")
        text = (tmp_path / "out.mtl").read_text()
        assert "newmtl red" in text
        assert {"Kd 1 0.2 0", "Ns 7", "d 0.5", "illum 2"} <= set(text.splitlines())
        assert "bump" not in text
        (part,) = read_mesh(write(read_mesh(tmp_path / "in.obj"), tmp_path / "out.glb")).parts
        assert part.material.baseColorFactor.tolist() == [255, 51, 0, 255]


class TestParts:
    """Several objects or materials: kept as parts where the format has any, else one mesh."""

    @pytest.fixture
    def mesh(self, colors, uv, normals, image):
        other = Image.fromarray(255 - np.array(image))
        return Mesh(
            (
                Part("plain", VERTICES, FACES),
                Part("left", VERTICES + 2, FACES, uv=uv, material=SimpleMaterial(image=image, name="skin")),
                Part("colored", VERTICES + 4, FACES, colors=colors, normals=normals),
                Part(
                    "right", VERTICES + 6, FACES, uv=1 - uv, material=SimpleMaterial(image=other, name="skin")
                ),
            )
        )

    @pytest.mark.parametrize("kind", ["glb", "gltf"])
    def test_gltf_keeps_all(self, tmp_path, kind, mesh, normals, colors):
        parts = {part.name: part for part in read_mesh(write(mesh, tmp_path / f"out.{kind}")).parts}
        assert list(parts) == [part.name for part in mesh.parts]
        for part in mesh.parts:
            assert np.abs(parts[part.name].vertices - part.vertices).max() < 1e-6  # of 7, by 32 bits
            assert np.array_equal(parts[part.name].faces, FACES)
        assert np.abs(parts["left"].uv - mesh.parts[1].uv).max() < CLOSE
        assert np.array_equal(pixels(parts["left"]), pixels(mesh.parts[1]))
        assert np.array_equal(pixels(parts["right"]), pixels(mesh.parts[3]))
        assert np.array_equal(parts["colored"].colors, colors)
        assert np.abs(parts["colored"].normals - normals).max() < CLOSE
        assert parts["plain"].normals is parts["plain"].colors is parts["plain"].material is None

    def test_obj_keeps_materials(self, tmp_path, mesh, colors):
        write(mesh, tmp_path / "out.obj")
        text = (tmp_path / "out.mtl").read_text()
        assert [line[7:] for line in text.splitlines() if line.startswith("newmtl")] == [
            "default",
            "skin",
            "skin_2",
        ]
        plain, left, right = read_mesh(tmp_path / "out.obj").parts  # trimesh makes one part of a material
        assert np.abs(left.vertices - mesh.parts[1].vertices).max() < CLOSE
        for part, expected in ((left, mesh.parts[1]), (right, mesh.parts[3])):
            assert np.array_equal(part.faces, FACES)
            assert np.abs(part.uv - expected.uv).max() < CLOSE
            assert np.array_equal(pixels(part), pixels(expected))
        both = np.concatenate([VERTICES[FACES], VERTICES[FACES] + 4])
        assert np.abs(plain.vertices[plain.faces] - both).max() < 1e-9  # ten digits of 6

    @pytest.mark.parametrize("kind", ["ply", "off", "stl"])
    def test_the_others_make_one_mesh(self, tmp_path, kind, mesh):
        out = read_mesh(write(mesh, tmp_path / f"out.{kind}"))
        assert len(out.parts) == 1
        assert np.abs(out.vertices[out.faces] - mesh.vertices[mesh.faces]).max() < 1e-6  # of 7, by 32 bits

    def test_ply_joins_what_parts_carry(self, tmp_path, mesh, colors, uv):
        (part,) = read_mesh(write(mesh, tmp_path / "out.ply")).parts
        n = len(VERTICES)
        assert np.array_equal(part.colors[2 * n : 3 * n], colors)
        assert (part.colors[:n] == 255).all()
        assert np.abs(part.uv[n : 2 * n] - uv).max() < CLOSE
        assert (part.uv[:n] == 0).all()
        assert part.normals is None  # not all have them
        assert part.material is None  # there are two textures, and it can name one
        assert [path.name for path in tmp_path.iterdir()] == ["out.ply"]

    def test_ply_joins_colors_of_faces_and_vertices(self, tmp_path, colors):
        red = np.tile(np.array([255, 0, 0, 255], np.uint8), (len(FACES), 1))
        mesh = Mesh(
            (Part("a", VERTICES, FACES, face_colors=red), Part("b", VERTICES + 3, FACES, colors=colors))
        )
        (part,) = read_mesh(write(mesh, tmp_path / "out.ply")).parts
        assert np.array_equal(part.colors[: len(VERTICES)], red[: len(VERTICES)])
        assert np.array_equal(part.colors[len(VERTICES) :], colors)

    def test_obj_of_two_materials_that_share_vertices(self, tmp_path):
        (tmp_path / "in.obj").write_text(
            "mtllib in.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 5 5 5\n"
            "usemtl red\nf 1 2 3\nusemtl blue\nf 1 3 4\n"
        )
        (tmp_path / "in.mtl").write_text("newmtl red\nKd 1 0 0\nnewmtl blue\nKd 0 0 1\n")
        mesh = read_mesh(tmp_path / "in.obj")
        assert [len(part.vertices) for part in mesh.parts] == [3, 3]  # none of no face
        assert [part.material.name for part in mesh.parts] == ["red", "blue"]
        out = read_mesh(write(mesh, tmp_path / "out.obj"))
        found = {part.material.name: part.vertices[part.faces[0]].tolist() for part in out.parts}
        assert found == {
            "red": [[0, 0, 0], [1, 0, 0], [1, 1, 0]],
            "blue": [[0, 0, 0], [1, 1, 0], [0, 1, 0]],
        }


class TestOutput:
    @pytest.fixture
    def mesh(self):
        return Mesh((Part("box", VERTICES, FACES),))

    def names(self, folder):
        return sorted(path.name for path in folder.iterdir())

    def test_missing_folders_are_made(self, tmp_path, mesh):
        write(mesh, tmp_path / "a" / "b" / "out.ply")
        assert self.names(tmp_path / "a" / "b") == ["out.ply"]

    def test_frames_are_numbered(self, tmp_path, mesh):
        with open_output(tmp_path / "out.v2.ply", mesh, frames=3) as out:
            for k in range(3):
                out.add(VERTICES + k)
        assert self.names(tmp_path) == ["out.v2_0001.ply", "out.v2_0002.ply", "out.v2_0003.ply"]
        assert out.names == f"{tmp_path / 'out.v2_0001.ply'} to out.v2_0003.ply"
        for k in range(3):
            read = read_mesh(tmp_path / f"out.v2_000{k + 1}.ply")
            assert np.abs(read.vertices - (VERTICES + k)).max() < 1e-6  # of 3, by 32 bits

    def test_one_frame_is_numbered(self, tmp_path, mesh):
        with open_output(tmp_path / "out.ply", mesh, frames=1) as out:
            out.add(VERTICES)
        assert out.names == str(tmp_path / "out_0001.ply")
        assert self.names(tmp_path) == ["out_0001.ply"]

    def test_many_frames_have_longer_numbers(self, tmp_path, mesh):
        with open_output(tmp_path / "out.ply", mesh, frames=12_345) as out:
            out.add(VERTICES)
        assert self.names(tmp_path) == ["out_00001.ply"]

    @pytest.mark.parametrize("kind", ["obj", "ply"])
    def test_frames_share_their_texture(self, tmp_path, kind, uv, image):
        mesh = Mesh((Part("box", VERTICES, FACES, uv=uv, material=SimpleMaterial(image=image)),))
        with open_output(tmp_path / f"out.{kind}", mesh, frames=2) as out:
            out.add(VERTICES)
            beside = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
            assert not any(path.name.startswith(".") for path in beside)
            out.add(VERTICES + 1)
        files = {"obj": ["out.mtl", "out_material_0.png"], "ply": ["out.png"]}[kind]
        assert self.names(tmp_path) == sorted([*files, f"out_0001.{kind}", f"out_0002.{kind}"])
        assert all(path.stat().st_mtime_ns == written for path, written in beside.items())
        for k in (1, 2):
            (part,) = read_mesh(tmp_path / f"out_000{k}.{kind}").parts
            assert np.array_equal(pixels(part), np.array(image))

    def test_textures_of_the_source_are_left_alone(self, tmp_path, uv, image):
        """trimesh would call the new one material_0.png, too."""
        save(make(visual=TextureVisuals(uv=uv, image=image)), tmp_path / "in.obj")
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        write(read_mesh(tmp_path / "in.obj"), tmp_path / "out.obj")
        assert all(path.read_bytes() == content for path, content in before.items())

    def test_material_names_make_no_paths(self, tmp_path, uv, image):
        material = SimpleMaterial(image=image, name="../wood / oak")
        write(Mesh((Part("box", VERTICES, FACES, uv=uv, material=material),)), tmp_path / "in" / "out.obj")
        assert self.names(tmp_path) == ["in"]
        assert self.names(tmp_path / "in") == ["out.mtl", "out.obj", "out_.._wood___oak.png"]
        (part,) = read_mesh(tmp_path / "in" / "out.obj").parts
        assert np.array_equal(pixels(part), np.array(image))

    def test_gltf_is_one_file(self, tmp_path, mesh):
        write(mesh, tmp_path / "out.gltf")
        assert self.names(tmp_path) == ["out.gltf"]
        assert json.loads((tmp_path / "out.gltf").read_text())["asset"]["version"] == "2.0"

    def test_npy(self, tmp_path, mesh):
        with open_output(tmp_path / "out.npy", mesh, frames=3) as out:
            for k in range(3):
                out.add(VERTICES + k)
        assert np.array_equal(np.load(tmp_path / "out.npy"), [VERTICES, VERTICES + 1, VERTICES + 2])
        assert out.names == str(tmp_path / "out.npy")

    def test_npz(self, tmp_path, mesh):
        with open_output(tmp_path / "out.npz", mesh) as out:
            out.add(VERTICES[::-1])
        with np.load(tmp_path / "out.npz") as arrays:
            assert sorted(arrays) == ["faces", "vertices"]
            assert np.array_equal(arrays["vertices"], [VERTICES[::-1]])
            assert np.array_equal(arrays["faces"], FACES)

    def test_permissions_are_the_usual_ones(self, tmp_path, mesh):
        (tmp_path / "usual").touch()
        for kind in ("ply", "npy"):
            written = write(mesh, tmp_path / f"out.{kind}")
            assert written.stat().st_mode == (tmp_path / "usual").stat().st_mode

    @pytest.mark.parametrize("name", ["out.fbx", "out", ".ply"])
    def test_unknown_ending(self, tmp_path, mesh, name):
        with pytest.raises(
            InputError, match=r": must end in .glb, .gltf, .obj, .off, .ply, .stl, .npy or .npz"
        ):
            write(mesh, tmp_path / name)
        assert self.names(tmp_path) == []

    def test_a_folder_is_in_the_way(self, tmp_path, mesh):
        (tmp_path / "out.ply").mkdir()
        with pytest.raises(InputError, match=r"out.ply: is a folder, not a file"):
            write(mesh, tmp_path / "out.ply")

    def test_a_file_is_in_the_way(self, tmp_path, mesh):
        (tmp_path / "file").touch()
        with pytest.raises(
            PointglueError, match=r"out.ply: cannot be written: (File exists|Not a directory)"
        ):
            write(mesh, tmp_path / "file" / "out.ply")

    def test_a_folder_without_permission(self, tmp_path, mesh, monkeypatch):
        monkeypatch.setattr(Path, "touch", forbidden)  # nothing is, to root
        with pytest.raises(PointglueError, match=r"out.ply: cannot be written: Permission denied"):
            write(mesh, tmp_path / "out.ply")

    @pytest.mark.parametrize("kind", FORMATS)
    def test_a_full_disk_leaves_the_earlier_file(self, tmp_path, mesh, monkeypatch, kind):
        (tmp_path / f"out.{kind}").write_text("earlier")

        def full(path, content):
            with path.open("wb") as file:
                file.write(content[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(PointglueError, match=rf"out.{kind}: cannot be written: No space left on device"):
            write(mesh, tmp_path / f"out.{kind}")
        assert self.names(tmp_path) == [f"out.{kind}"]
        assert (tmp_path / f"out.{kind}").read_text() == "earlier"

    def interrupt(self, path, mesh, reason):
        with open_output(path, mesh) as out:
            assert path.read_text() == "earlier"
            if path.suffix in (".npy", ".npz"):
                out.add(VERTICES)
            raise reason

    @pytest.mark.parametrize("kind", ["npy", "npz"])
    def test_a_full_disk_under_an_array(self, tmp_path, mesh, kind):
        path = tmp_path / f"out.{kind}"
        path.write_text("earlier")
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with pytest.raises(PointglueError, match=rf"out.{kind}: cannot be written: No space left on device"):
            self.interrupt(path, mesh, full)
        assert self.names(tmp_path) == [path.name]
        assert path.read_text() == "earlier"

    @pytest.mark.parametrize("kind", [*FORMATS, "npy", "npz"])
    @pytest.mark.parametrize("reason", [KeyboardInterrupt, RuntimeError])
    def test_an_interruption_leaves_the_earlier_file(self, tmp_path, mesh, kind, reason):
        path = tmp_path / f"out.{kind}"
        path.write_text("earlier")
        with pytest.raises(reason):
            self.interrupt(path, mesh, reason)
        assert self.names(tmp_path) == [path.name]
        assert path.read_text() == "earlier"

    def test_an_interruption_while_a_file_is_written(self, tmp_path, mesh, uv, image, monkeypatch):
        """The texture is complete by then, but nothing appears before all is."""
        mesh = Mesh((Part("box", VERTICES, FACES, uv=uv, material=SimpleMaterial(image=image)),))
        (tmp_path / "out.obj").write_text("earlier")
        really = Path.write_bytes

        def interrupted(path, content):
            really(path, content)
            if path.suffix == ".obj":
                raise KeyboardInterrupt

        monkeypatch.setattr(Path, "write_bytes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(mesh, tmp_path / "out.obj")
        assert self.names(tmp_path) == ["out.obj"]
        assert (tmp_path / "out.obj").read_text() == "earlier"

    def test_a_mesh_may_replace_itself(self, tmp_path):
        path = save(make(), tmp_path / "in.ply")
        write(read_mesh(path).moved(VERTICES + 1), path)
        assert np.abs(read_mesh(path).vertices - (VERTICES + 1)).max() < 1e-6  # of 2, by 32 bits
