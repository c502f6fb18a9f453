"""The page in Chromium, used as a person does; what it shows is compared with the session of the server."""

import os
import shutil
import subprocess
import sys

import numpy as np
from studio_server import wait_until, write_box, write_octopus

from pointglue.errors import ConvergenceError
from pointglue.geometry import shapes
from pointglue.io import save_body
from pointglue.particles import OrientedBody, editing
from pointglue.scene import demo_path


def test_pose_an_octopus(person, studio):
    write_octopus(studio.folder)
    (studio.folder / "broken.ply").write_bytes(b"ply\nformat nonsense")
    assert "Open" in person.hint()
    person.open("broken.ply")
    person.page.wait_for_selector(".notes .error")
    assert "broken.ply: cannot be read" in person.notes()[0]
    person.click("Close note")
    person.open("octopus.ply")
    person.until("studio.app.object && studio.app.store.get('octopus', 'rest')")
    person.settle()
    person.shot("open", tour=True)
    assert person.colours() > 50
    assert person.overlapping() == []
    assert studio.document.surface("octopus").vertices.shape == person.array("octopus", "rest").shape

    person.mode("Pose")
    rest = person.array("octopus", "rest")
    # One on top, and four at the tips of arms: the picture has to show what the ray finds.
    top = rest[rest[:, 1].argmax()]
    tips = [rest[(rest @ direction).argmax()] for direction in np.array([[1, 0, 1], [-1, 0, 1], [1, 0, 0.2]])]
    for count, place in enumerate([top - [0, 0.1, 0], *tips]):
        at = person.on_screen([place])[0]
        at += 0.04 * (person.on_screen([rest.mean(0)])[0] - at)
        person.click_at(at)
        person.until("studio.app.object.handles.length === a", count + 1)
    person.tool("Drag handle")
    handles = person.array("octopus", "handles")
    at = person.on_screen(handles[1:2])[0]
    person.drag([at, at + [20, -60], at + [60, -150]])
    wait_until(lambda: studio.document.objects["octopus"]["handles"]["handle 2"].get("keys"))
    person.until("studio.app.object.handles[1].keys.length === 1")
    person.shot("pose", tour=True)
    moved = person.array("octopus", "vertices")
    assert np.linalg.norm(moved - rest, axis=1).max() > 0.2
    # What the page shows is what the deformation is.
    expected = studio.session._poses.vertices(studio.document, "octopus", 1)
    np.testing.assert_allclose(moved, expected, atol=1e-5)  # 32-bit numbers on the wire
    track = person.page.locator('[data-id="timeline"]').bounding_box()
    person.click_at((track["x"] + 0.4 * track["width"], track["y"] + 0.5 * track["height"]))
    person.until("studio.app.store.clock.frame > 40")
    person.drag([at + [60, -150], at + [20, -100], at + [-20, 20]])
    person.until("studio.app.object.handles[1].keys.length === 2")
    person.shot("keys", tour=True)
    assert person.page.locator(".marks i.key").count() == 2
    for keys in (1, 0):
        person.page.keyboard.press("Control+z")
        person.until("studio.app.object.handles[1].keys.length === a", keys)
    person.click("Reset")
    person.click_at((track["x"] + 1, track["y"] + 0.5 * track["height"]))
    person.until("studio.app.store.clock.frame === 1")
    np.testing.assert_allclose(person.array("octopus", "vertices"), rest, atol=1e-5)
    assert person.overlapping() == []


def test_author_a_bar_and_let_it_fall(person, studio):
    write_box(studio.folder)
    person.open("bar.ply")
    person.until("studio.app.object && studio.app.store.get('bar', 'rest')")
    person.mode("Author")
    person.slide("Brush size", 0.12)
    person.slide("Spacing", 0.07)
    middle, right, left = person.on_screen([[0, 0, 0.2], [0.95, 0, 0.2], [-0.95, 0, 0.2]])
    person.drag([left, middle, right], steps=10)
    person.until("studio.app.object.particles > 15")
    sprayed = len(studio.document.bodies["bar"])
    # A whole stroke is one step back.
    person.click("Undo")
    person.until("studio.app.object.kind === 'handles'")
    person.click("Redo")
    person.until("studio.app.object.particles === a", sprayed)
    person.shot("spray", tour=True)
    # Sprayed particles are on the surface and not closer than the spacing.
    places = studio.document.bodies["bar"].positions
    away = np.linalg.norm(places[:, None] - places[None], axis=2) + 9 * np.eye(len(places))
    assert away.min() > 0.07 * 2 * 0.999
    assert np.abs(np.abs(places[:, 2]) - 0.2).min() < 1e-6

    person.tool("Connect")
    person.slide("Longest edge", 0.15)
    person.slide("Brush size", 0.4)
    person.drag([left, middle, right], steps=10)
    person.until("studio.app.object.edges > 20")
    person.tick("Ellipsoids", True)
    person.click("Fit ellipsoids")
    wait_until(lambda: np.ptp(studio.document.bodies["bar"].radii, axis=1).max() > 0.01)
    person.shot("ellipsoids", tour=True)

    person.tool("Paint")
    person.choose("Property", "stiffness")
    person.slide("Value", 0.95)
    person.slide("Brush size", 0.15)
    person.drag([left, 0.7 * left + 0.3 * middle])
    wait_until(lambda: studio.document.bodies["bar"].stiffness.max() == 0.95)
    assert studio.document.bodies["bar"].stiffness.min() == 0.3
    person.shot("paint", tour=True)

    person.tool("Rectangle")
    person.drag([right + [-60, -80], right + [60, 80]])
    person.until("studio.app.store.get('bar', 'selected_particles')")
    chosen = studio.document.selection.of("bar", "particles")
    assert len(chosen) > 1
    assert places[chosen, 0].min() > 0.4
    person.click("Group")
    person.until("studio.app.object.groups === 1")
    np.testing.assert_array_equal(studio.document.bodies["bar"].groups[0], chosen)
    person.drag([right + [0, -150], right + [1, -149]])  # where there is nothing
    person.until("!studio.app.store.get('bar', 'selected_particles')")
    person.click("group 1")
    person.until("studio.app.store.get('bar', 'selected_particles')")
    np.testing.assert_array_equal(studio.document.selection.of("bar", "particles"), chosen)
    person.tool("Lasso")
    person.choose("What", "vertices")
    person.drag([right + [-70, -90], right + [70, -90], right + [70, 90], right + [-70, 90]])
    person.until("studio.app.store.get('bar', 'selected_vertices')")
    person.click("Skin")
    person.click("Skin only these")
    vertices = studio.document.selection.of("bar", "vertices")

    def restricted():
        skin = studio.document.bodies["bar"].visual
        return np.isin(skin.links[vertices][skin.weights[vertices] > 0], chosen).all()

    wait_until(restricted)
    person.tool("Spray")
    person.page.wait_for_selector('[data-id="hint"]:has-text("Press Play")')
    person.choose("Colour by", "weight")
    person.shot("skin")
    person.choose("Colour by", "group")
    person.tick("Ellipsoids", False)

    person.mode("Play")
    person.tick("Ground", True)
    person.until("studio.app.store.state.ground !== null")
    person.type("Height of the ground", "-0.7")
    person.until("studio.app.store.state.ground === -0.7")
    person.click("Play")
    person.until("studio.app.store.clock.frame > 8")
    person.click("Play")
    person.until("studio.app.store.clock.status === 'paused'")
    fallen = person.array("bar", "vertices")
    assert fallen[:, 1].mean() < -0.05
    person.click("Play")
    # Take hold of it, and pull it up.
    at = person.on_screen([fallen.mean(0)])[0]
    person.page.mouse.move(*at)
    person.page.mouse.down()
    person.page.mouse.move(*(at + [0, -120]), steps=8)
    person.until("studio.app.store.clock.grabbed")
    start = person.ask("studio.app.store.clock.frame")
    person.until("studio.app.store.clock.frame > a + 20", start)
    person.shot("play", tour=True)
    lifted = person.array("bar", "vertices")
    person.page.mouse.up()
    person.until("!studio.app.store.clock.grabbed")
    assert lifted[:, 1].max() > fallen[:, 1].max() + 0.1
    assert person.overlapping() == []
    person.click("Reset")
    person.until("studio.app.store.clock.status === 'still'")
    assert person.notes() == []


def test_glue_save_reload_and_run(person, studio):
    write_box(studio.folder, "cube.ply", (0.4, 0.4, 0.4), (3, 3, 3), shift=(0.6, -0.7, 0))
    write_box(studio.folder)
    for name in ("bar.ply", "cube.ply"):
        person.open(name)
        person.until("studio.app.active === a && studio.app.store.get(a, 'rest')", name.removesuffix(".ply"))
    person.mode("Glue")
    person.choose("It is", "rigid")
    person.until("studio.app.object.kind === 'rigid'")
    person.pick("bar")
    person.choose("It is", "flesh")
    person.until("studio.app.object.kind === 'flesh' && studio.app.store.get('bar', 'points')")
    # Hold the left end of the bar, hang the cube below its right end.
    end = person.on_screen([[-1, 0, 0]])[0]
    person.drag([end + [-60, -100], end + [60, 100]])
    person.until("studio.app.store.get('bar', 'selected_points')")
    person.click("Hold")
    person.until("studio.app.object.table.pin")
    person.pick("cube")
    top = person.on_screen([[0.6, -0.5, 0]])[0]
    person.drag([top + [-110, -45], top + [110, 45]])
    person.until("studio.app.store.get('cube', 'selected_points')")
    rows = studio.document.selection.of("cube", "points")
    person.choose("3. By", "spring")
    person.click("Attach")
    person.until("studio.app.store.state.attach.length === 1")
    tie = person.state(".attach[0]")
    assert tie["points"] == len(rows)
    assert tie["health"] == "good"
    person.shot("glue", tour=True)
    ends, shares = person.array("", "tie 0"), person.array("", "share 0")
    assert len(ends) == 2 * len(shares) == 16 * len(rows)
    assert person.overlapping() == []
    # The springs hold from frame 10 on until frame 20.
    track = person.page.locator('[data-id="timeline"]').bounding_box()
    for what, frame in (("attach", 10), ("release", 20)):
        share = (frame - 1) / 119
        person.click_at([track["x"] + share * track["width"], track["y"] + 10])
        person.until("studio.app.store.clock.frame === a", frame)
        person.click(f"{what} 0")
        person.until("studio.app.store.state.attach[0].table[a[0]] === 'frame ' + a[1]", [what, frame])
    assert person.page.locator(".marks i").count() == 2
    person.ask("studio.app.send({type: 'set', path: ['frames', 'count'], value: 4})")
    person.until("studio.app.store.state.frames.end === 4")
    assert person.page.locator(".marks i").count() == 0  # what comes after the last frame has no place

    person.save("hung.toml")
    person.until("studio.app.store.state.saved && studio.app.store.state.path === 'hung.toml'")
    before = studio.document
    person.ask("studio.app.send({type: 'new'})")
    person.until("studio.app.store.state.objects.length === 0")
    person.open("hung.toml")
    person.until("studio.app.store.state.objects.length === 2")
    assert studio.document.scene == before.scene
    run_scene(studio.folder, "hung.toml", "hung_run")
    person.open("hung_run")
    person.until("studio.app.store.state.run !== null && studio.app.store.get('run: cube', 'vertices')")
    person.click("Play")
    person.until("studio.app.store.clock.frame === 4 && studio.app.store.clock.status === 'still'")
    from pointglue.io import FrameStore

    store = FrameStore.open(studio.folder / "hung_run")
    expected = store.positions(store.read(4))
    np.testing.assert_allclose(person.array("run: bar", "vertices"), expected["bar"], atol=1e-6)
    drawn = person.ask(
        "Array.from(studio.app.view.visuals.get('run: bar').geometry.attributes.position.array)"
    )
    np.testing.assert_allclose(np.reshape(drawn, (-1, 3)), expected["bar"], atol=1e-6)
    person.shot("run", tour=True)
    person.click("Close run")
    person.until("studio.app.store.state.run === null && studio.app.store.get('bar', 'rest')")
    assert not [note for note in person.notes() if "Saved" not in note]


def run_scene(folder, scene, out):
    """As from the command line."""
    done = subprocess.run(
        [sys.executable, "-m", "pointglue", "run", scene, "-o", out, "--quiet"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr


def test_a_stroke_goes_on_and_fields_say_what_is_true(person, studio):
    write_box(studio.folder)
    person.open("bar.ply")
    person.until("studio.app.object && studio.app.store.get('bar', 'rest')")
    person.mode("Author")
    person.slide("Brush size", 0.1)
    person.slide("Spacing", 0.07)
    left, middle, right = person.on_screen([[-0.9, 0, 0.2], [0, 0, 0.2], [0.9, 0, 0.2]])
    person.drag([left, middle], steps=10)
    half = len(studio.document.bodies["bar"])
    # Over what is sprayed already, and on, in two jumps of the mouse: it does not stop, and leaves no hole.
    mouse = person.page.mouse
    mouse.move(*left)
    mouse.down()
    mouse.move(*middle)
    mouse.move(*right)
    person.until("studio.app.object.particles > a", half + 5)
    mouse.up()
    person.idle()
    places = np.sort(studio.document.bodies["bar"].positions[:, 0])
    assert np.diff(places).max() < 0.2
    person.click("Reset")
    person.idle()
    person.page.wait_for_function("document.querySelector('[data-id=work]').textContent === ''")

    person.click("New")  # which asks, and is refused by nobody being there
    assert person.object("bar")
    person.page.once("dialog", lambda dialog: dialog.accept())
    person.click("New")
    person.until("!studio.app.objects.length")
    person.click("Undo")
    person.until("studio.app.objects.length === 1")

    person.mode("Play")
    person.type("Frames", "-5")
    person.page.wait_for_selector(".notes .error")
    person.page.wait_for_function("document.querySelector('[data-id=Frames]').value === '120'")


def test_place_pose_and_undo_one_by_one(person, studio):
    write_box(studio.folder)
    person.open("bar.ply")
    person.until("studio.app.object && studio.app.store.get('bar', 'rest')")
    person.click("Z up")
    person.until("studio.app.store.state.objects[0].table.transform?.rotate[0] === -90")
    person.type("Position (m) y", "3")
    person.until("studio.app.store.get('bar', 'rest').data[1] > 2")
    np.testing.assert_allclose(person.array("bar", "rest").mean(0), [0, 3, 0], atol=0.1)
    person.click("Frame")
    seen = person.on_screen(person.array("bar", "rest"))
    box = person.page.locator("main canvas").bounding_box()
    assert (seen > [box["x"], box["y"]]).all()
    assert (seen < [box["x"] + box["width"], box["y"] + box["height"]]).all()
    person.shot("placed")
    assert person.overlapping() == []

    person.mode("Pose")
    for count, place in enumerate(person.array("bar", "rest")[[0, 100, 200]]):
        at = person.on_screen([place])[0]
        person.click_at(at + 0.1 * (person.on_screen([[0, 3, 0]])[0] - at))
        person.until("studio.app.object.handles.length === a", count + 1)
    steps = person.state(".undo")
    person.slide("Fall-off", 2)
    person.slide("Stretch", 0.5)
    person.choose("Distance", "euclidean")
    person.idle()
    person.until("studio.app.store.state.undo === a", steps + 3)
    person.click("Undo")
    person.until("studio.app.object.table.distance !== 'euclidean'")
    assert person.object("bar")["table"]["stretch"] == 0.5
    assert studio.document.objects["bar"]["falloff"] == 2

    for name in ("handle 1", "handle 2"):
        person.page.click(f'li[data-id="{name}"]', modifiers=["Shift"])
    person.click("Chain")
    person.until("studio.app.object.links.length === 1")
    person.shot("chain")
    person.click("Remove handle")
    person.until("studio.app.object.handles.length === 1")
    person.click("Undo")
    person.until("studio.app.object.handles.length === 3")

    person.mode("View")
    before = person.array("bar", "handles")
    person.type("Move by (m) x", "1.5")
    person.until("studio.app.store.get('bar', 'rest').data[0] > 0")
    np.testing.assert_allclose(person.array("bar", "handles"), before + [1.5, 0, 0], atol=1e-5)
    assert person.page.input_value('input[data-id="Move by (m) x"]') == "0"
    person.shot("moved with handles")


def test_flesh_falls_on_the_ground_and_the_end_is_told(person, studio):
    write_box(studio.folder)
    person.open("bar.ply")
    person.until("studio.app.object && studio.app.store.get('bar', 'rest')")
    person.choose("It is", "flesh")
    person.until("studio.app.object.kind === 'flesh'")
    person.mode("Glue")
    person.mode("Play")
    assert "tick Ground" in person.page.inner_text("aside")
    person.tick("Ground", True)
    person.until("studio.app.store.state.ground !== null")
    person.type("Height of the ground", "-0.7")
    person.until("studio.app.store.state.ground === -0.7")
    person.mode("Glue")  # what plays is seen in any mode
    person.click("Play")
    person.until("studio.app.store.clock.frame > 20")
    drawn = "studio.app.view.visuals.get('bar').geometry.getAttribute('position').array[1]"
    rest = person.array("bar", "rest")[0, 1]
    person.until(f"{drawn} < a", rest - 0.1)
    person.click("Play")
    person.page.keyboard.press("f")
    person.mode("Play")
    person.shot("on_ground")
    assert person.notes() == []
    assert person.array("bar", "vertices")[:, 1].min() > person.state(".ground")
    studio.stop()
    person.page.wait_for_selector('[data-id="offline"]:visible')
    assert "start pointglue studio again" in person.page.inner_text('[data-id="offline"]')
    person.shot("offline")


def test_scenes_that_come_along_are_shown_in_every_mode(person, studio):
    for name in ("donkey_on_stairs", "cloth_with_buttons", "dented_wall"):
        shutil.copy(demo_path(name), studio.folder / f"{name}.toml")
        person.page.once("dialog", lambda dialog: dialog.accept())  # what is open has not been saved
        person.open(f"{name}.toml")
        person.until("studio.app.store.state.path === a", f"{name}.toml")
        person.until("studio.app.objects.every((o) => !o.vertices || studio.app.store.get(o.name, 'rest'))")
        for mode in ("View", "Author", "Pose", "Glue", "Play"):
            person.mode(mode)
            for item in person.state(".objects"):
                if person.page.locator(f'[data-id="object {item["name"]}"]').count():
                    person.pick(item["name"])
                    assert "NaN" not in person.page.inner_text("aside")
        person.mode("View")
        assert person.colours() > 50
        person.page.keyboard.press("Control+s")  # so that opening the next one asks nothing
        person.page.wait_for_selector("dialog[open]")
        person.click("Save here")
        person.until("studio.app.store.state.saved")


def test_keys_and_clicks_change_only_what_they_say(person, studio):
    write_box(studio.folder)
    person.open("bar.ply")
    person.until("studio.app.object && studio.app.store.get('bar', 'rest')")
    person.mode("Pose")
    for count, place in enumerate(person.on_screen([[-0.8, 0, 0.2], [0, 0, 0.2], [0.8, 0, 0.2]])):
        person.click_at(place)
        person.until("studio.app.object.handles.length === a", count + 1)
    person.tool("Drag handle")
    rest, handles = person.array("bar", "rest"), person.array("bar", "handles")
    at, steps = person.on_screen(handles[2:])[0], person.state(".undo")
    mouse, keyboard = person.page.mouse, person.page.keyboard

    def kept():
        person.idle()
        table = studio.document.objects["bar"]["handles"]
        assert len(table) == 3
        assert not any(handle.get("keys") for handle in table.values())
        assert len(studio.session._past) == steps

    # A click chooses, also by a hand that trembles.
    person.drag([at, at + [1, 1], at + [-1, 2]], steps=1)
    assert person.ask("studio.app.handles") == [2]
    kept()
    # Keys are for the dialog that is open.
    keyboard.press("Control+o")
    person.page.wait_for_selector("dialog[open]")
    for key in ("Delete", "Control+z"):
        keyboard.press(key)
        kept()
    keyboard.press("Escape")
    person.page.wait_for_selector("dialog", state="hidden")
    # While the mouse drags they wait, but for Escape, after which nothing has been.
    mouse.move(*at)
    mouse.down()
    mouse.move(*(at + [40, -90]), steps=5)
    moved = "Math.abs(studio.app.store.get('bar', 'handles').data[7] - a) > 0.1"
    person.until(moved, handles[2, 1])
    for key in ("Delete", "Control+z"):
        keyboard.press(key)
        kept()
    assert person.ask(moved, handles[2, 1])
    keyboard.press("Escape")
    person.until(f"!({moved})", handles[2, 1])
    mouse.move(*(at + [60, -120]), steps=3)
    mouse.up()
    kept()
    np.testing.assert_allclose(person.array("bar", "vertices"), rest, atol=1e-5)
    np.testing.assert_allclose(person.array("bar", "handles"), handles, atol=1e-5)
    # And then they do what they always do.
    person.drag([at, at + [0, -40]])
    person.until("studio.app.object.handles[2].keys.length === 1")
    assert person.page.locator(".marks i.key").count() == 1
    keyboard.press("Control+z")
    person.until("studio.app.object.handles[2].keys.length === 0")
    keyboard.press("Delete")
    person.until("studio.app.object.handles.length === 2")

    # A name that is none is not taken; one with a point in it gets its ending all the same.
    person.click("Save")
    for name in ("  ", ".toml"):
        person.page.fill('[data-id="File name"]', name)
        person.click("Save here")
        assert person.page.locator("dialog[open]").count() == 1
    person.page.fill('[data-id="File name"]', "version 1.5")
    person.click("Save here")
    person.until("studio.app.store.state.path === 'version 1.5.toml'")
    scene = studio.folder / "version 1.5.toml"
    assert scene.is_file()
    # What was found is thrown away only if somebody says so twice.
    found = studio.folder / ".pointglue-studio" / "found-1"
    found.mkdir()
    shutil.copy(scene, found / "scene.toml")
    keyboard.press("Control+z")
    person.page.wait_for_selector('[data-id="Discard"]')
    person.click("Discard")  # which asks, and is refused by nobody being there
    person.idle()
    assert found.exists()
    person.page.once("dialog", lambda dialog: dialog.accept())
    person.click("Discard")
    person.until("!studio.app.store.state.found")
    assert not found.exists()


def test_what_stops_by_itself_says_why(person, studio, monkeypatch):
    body = OrientedBody.from_mesh(shapes.box((2.0, 0.4, 0.4), (20, 4, 4)), spacing=0.2)
    groups = ([0, 1, 2], [2, 3], [4, 5])  # which share a particle
    for group in groups:
        body = editing.group(body, group)
    save_body(studio.folder / "bar.npz", body)
    (studio.folder / "bar.toml").write_text('[objects.bar]\nkind = "particles"\nbody = "bar.npz"\n')
    person.open("bar.toml")
    person.until("studio.app.object && studio.app.store.get('bar', 'particles')")
    person.mode("Author")
    for number, group in enumerate(groups):
        person.click(f"group {number + 1}")
        chosen = "String(studio.app.store.get('bar', 'selected_particles')?.data)"
        person.until(f"{chosen} === a", ",".join(map(str, group)))

    def fail(*arguments, **options):
        raise ConvergenceError("the bar has flown apart")

    person.click("Step")
    person.until("studio.app.store.clock.frame === 2")
    monkeypatch.setattr(type(studio.session._preview.simulation), "advance", fail)
    person.click("Play")
    person.page.wait_for_selector('.status.problem:has-text("the bar has flown apart")')
    person.mode("View")
    assert "the bar has flown apart" in person.hint()
    person.shot("problem")
    person.click("Reset")
    person.page.wait_for_selector(".status:not(.problem)")
    assert "Drag to turn" in person.hint()


def camera(person):
    """Where one looks from, and where to."""
    return np.array(
        person.ask("[studio.app.view.camera.position.toArray(), studio.app.view.controls.target.toArray()]")
    )


def test_a_small_object_beside_a_large_one(person, studio):
    write_box(studio.folder, "wall.ply", (20, 10, 1), (10, 5, 1))
    write_box(studio.folder, "pin.ply", (0.2, 0.05, 0.05), (8, 2, 2), shift=(0, 0, 3))
    for name in ("wall", "pin"):
        person.open(f"{name}.ply")
        person.until("studio.app.active === a && studio.app.store.get(a, 'rest')", name)

    def wide(name):
        return np.ptp(person.on_screen(person.array(name, "rest"))[:, 0])

    assert wide("pin") < 20
    person.page.keyboard.press("f")
    assert wide("pin") > 200
    person.mode("Author")
    person.page.wait_for_selector('label:has([data-id="Spacing"]) output:text-is("0.012 m")')
    left, right = person.on_screen([[-0.09, 0, 3.025], [0.09, 0, 3.025]])
    person.drag([left, right], steps=10)
    person.until("studio.app.object.particles > 5")
    person.shot("small_author")
    places = studio.document.bodies["pin"].positions
    away = np.linalg.norm(places[:, None] - places[None], axis=2) + 9 * np.eye(len(places))
    assert 0.012 * 0.999 < away.min() < 0.03
    person.mode("View")
    person.type("Scale by (times)", "2")
    person.until("studio.app.view.sizeOf('pin') > 0.39")
    np.testing.assert_allclose(np.ptp(studio.document.bodies["pin"].positions, 0), 2 * np.ptp(places, 0))

    # Another name or one object less leaves the view where it is; one more is looked at from there.
    person.page.mouse.move(*person.middle())
    person.page.mouse.down(button="right")
    person.page.mouse.move(*(person.middle() + [-120, 40]), steps=4)
    person.page.mouse.up(button="right")
    looked = camera(person)
    person.page.once("dialog", lambda dialog: dialog.accept("needle"))
    person.click("Rename…")
    person.until("studio.app.active === 'needle'")
    person.click("Undo")
    person.until("studio.app.active === 'pin'")
    person.click("Remove object")
    person.until("studio.app.objects.length === 1")
    np.testing.assert_allclose(camera(person), looked)
    person.click("Undo")
    person.until("studio.app.objects.length === 2")
    person.settle()
    before, after = (each[0] - each[1] for each in (looked, camera(person)))
    assert np.linalg.norm(after) > 5 * np.linalg.norm(before)
    np.testing.assert_allclose(after / np.linalg.norm(after), before / np.linalg.norm(before), atol=1e-6)

    # Ground that is out of sight comes into view, and belongs to all that can be framed.
    person.pick("pin")
    person.page.keyboard.press("f")
    person.mode("Play")
    person.tick("Ground", True)
    person.until("studio.app.store.state.ground !== null")
    box = person.page.locator("main canvas").bounding_box()
    for lower in (False, True):
        if lower:
            person.type("Height of the ground", "-30")
            person.until("studio.app.store.state.ground === -30")
            person.page.keyboard.press("a")
        shown = person.on_screen([*person.array("wall", "rest"), [0, person.state(".ground"), 0]])
        assert (shown > [box["x"], box["y"]]).all()
        assert (shown < [box["x"] + box["width"], box["y"] + box["height"]]).all()
    assert person.notes() == []


def test_other_units_are_noticed(person, studio):
    write_box(studio.folder, "tool.ply", (200, 40, 40), (10, 2, 2))
    person.open("tool.ply")
    person.until("studio.app.object && studio.app.store.get('tool', 'rest')")
    assert "It is 200 m large" in person.page.inner_text('[data-id="units"]')
    person.shot("units")
    person.click("Scale 0.001")
    person.until("Math.abs(studio.app.size - 0.2) < 1e-6")
    person.settle()
    assert np.ptp(person.on_screen(person.array("tool", "rest"))[:, 0]) > 200  # it is in sight
    assert person.page.locator('[data-id="units"]').count() == 0
    person.mode("Pose")
    person.click_at(person.on_screen([[0, 0, 0.02]])[0])
    person.until("studio.app.object.handles.length === 1")
    person.mode("View")
    person.type("Scale by (times)", "0.01")
    person.page.wait_for_selector('[data-id="units"]:has-text("2 mm")')
    person.click("Scale 100")
    person.until("Math.abs(studio.app.size - 0.2) < 1e-6")

    # A file that is there is replaced only if somebody says so.
    path = studio.folder / "tool_posed.ply"
    path.write_text("something else")
    told = []

    def answer(dialog):
        told.append(dialog.message)
        if dialog.type == "prompt":
            dialog.accept(dialog.default_value)
        elif len(told) == 4:
            dialog.accept()
        else:
            dialog.dismiss()

    person.page.on("dialog", answer)
    for asked in (2, 4):
        person.click("Export pose")
        wait_until(lambda asked=asked: person.ask("1") and len(told) == asked)
        person.idle()
        assert (path.read_text(errors="replace") == "something else") == (asked == 2)
    assert told[1] == told[3] == "tool_posed.ply is there already. Replace it?"


ANYTHING = """(seed) => {
  let state = seed;
  const random = (below) => (state = (state * 48271) % 2147483647) % below;
  const kinds = 'nav button, aside button, aside input, aside select, aside li, footer button, header button';
  const parts = [...document.querySelectorAll(kinds)]
    .filter((part) => !part.disabled && !['Open', 'Save'].includes(part.dataset.id));
  const part = parts[random(parts.length)];
  const numbers = ['-1', '0', '1e300', '', '3', '1e-300'];
  if (part instanceof HTMLSelectElement) part.selectedIndex = random(part.options.length);
  else if (part.type === 'number') part.value = numbers[random(6)];
  else if (part.type === 'range') part.value = String(part.min + random(1000));
  else part.click();
  for (const kind of ['input', 'change']) part.dispatchEvent(new Event(kind, { bubbles: true }));
  return part.dataset.id;
}"""


def test_anything_goes(person, studio):
    """Whatever is clicked, chosen and typed, in any order: the page and the server go on."""
    write_box(studio.folder)
    person.open("bar.ply")
    person.until("studio.app.object && studio.app.store.get('bar', 'rest')")
    clicked = []
    for seed in range(1, 121):
        clicked.append(person.ask(f"({ANYTHING})(a)", 7919 * seed))
        if seed % 6 == 0:
            person.drag([person.middle() + [-60, 10], person.middle() + [50, -20]], steps=3)
        assert not [note for note in person.notes() if "unforeseen" in note], (clicked, person.notes())
    person.idle()
    assert len(set(clicked)) > 25
    person.page.reload()
    person.until("studio.app.store.state !== null")
    assert [each["name"] for each in person.state(".objects")] == list(studio.document.objects)
