"""The page in Chromium, used as a person does; what it shows is compared with the session of the server."""

import os
import shutil
import subprocess
import sys

import numpy as np
from studio_server import write_box, write_octopus

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
    assert len(studio.document.objects["octopus"]["handles"]["handle 2"]["keys"]) == 1
    assert person.ask("studio.app.object.handles[1].keys.length") == 1
    person.shot("pose", tour=True)
    moved = person.array("octopus", "vertices")
    assert np.linalg.norm(moved - rest, axis=1).max() > 0.2
    # What the page shows is what the deformation is.
    expected = studio.session.poses.vertices(studio.document, "octopus", 1)
    np.testing.assert_allclose(moved, expected, atol=1e-5)  # 32-bit numbers on the wire
    track = person.page.locator('[data-id="timeline"]').bounding_box()
    person.click_at((track["x"] + 0.4 * track["width"], track["y"] + 0.5 * track["height"]))
    assert person.ask("studio.app.store.clock.frame") > 40
    person.drag([at + [60, -150], at + [20, -100], at + [-20, 20]])
    person.until("studio.app.object.handles[1].keys.length === 2")
    person.shot("keys", tour=True)
    assert person.page.locator(".marks i.key").count() == 2
    for keys in (1, 0):
        person.press("Control+z")
        assert person.ask("studio.app.object.handles[1].keys.length") == keys
    person.click("Reset")
    person.click_at((track["x"] + 1, track["y"] + 0.5 * track["height"]))
    assert person.ask("studio.app.store.clock.frame") == 1
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
    sprayed = len(studio.document.bodies["bar"])
    assert sprayed == person.ask("studio.app.object.particles") > 15
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
    assert person.ask("studio.app.object.edges") > 20
    person.tick("Ellipsoids", True)
    person.click("Fit ellipsoids")
    assert np.ptp(studio.document.bodies["bar"].radii, axis=1).max() > 0.01
    person.shot("ellipsoids", tour=True)

    person.tool("Paint")
    person.choose("Property", "stiffness")
    person.slide("Value", 0.2)
    person.slide("Brush size", 0.15)
    person.drag([left, 0.7 * left + 0.3 * middle])
    assert studio.document.bodies["bar"].stiffness.min() == 0.2
    assert studio.document.bodies["bar"].stiffness.max() == 0.9
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
    vertices, skin = studio.document.selection.of("bar", "vertices"), studio.document.bodies["bar"].visual
    assert np.isin(skin.links[vertices][skin.weights[vertices] > 0], chosen).all()
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
    assert person.ask("studio.app.store.clock.status") == "paused"
    fallen = person.array("bar", "vertices")
    assert fallen[:, 1].mean() < -0.05
    # Take hold of it while it is paused, so that it is where it is seen; pull it up, and let it go on.
    at = person.on_screen([fallen.mean(0)])[0]
    person.page.mouse.move(*at)
    person.page.mouse.down()
    person.page.mouse.move(*(at + [0, -120]), steps=8)
    person.idle()
    assert person.ask("studio.app.store.clock.grabbed")
    start = person.ask("studio.app.store.clock.frame")
    person.press(" ")
    person.until("studio.app.store.clock.frame > a + 20", start)
    person.shot("play", tour=True)
    lifted = person.array("bar", "vertices")
    person.page.mouse.up()
    person.idle()
    assert not studio.session.replica.clock.grabbed
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
    assert len(ends) == 2 * len(shares) >= 16 * len(rows)  # eight parents or more
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
    assert person.state(".undo") == steps + 3
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
        person.press("Control+s")  # so that opening the next one asks nothing
        person.page.wait_for_selector("dialog[open]")
        person.click("Save here")
        person.until("studio.app.store.state.saved")


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
        person.idle()
        if seed % 6 == 0:
            person.drag([person.middle() + [-60, 10], person.middle() + [50, -20]], steps=3)
        assert not [note for note in person.notes() if "unforeseen" in note], (clicked, person.notes())
    assert len(set(clicked)) > 25, clicked
    person.page.reload()
    person.until("studio.app.store.state !== null")
    person.idle()
    assert [each["name"] for each in person.state(".objects")] == list(studio.document.objects)
