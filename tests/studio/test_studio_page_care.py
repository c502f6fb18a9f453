"""What people trip over in the page: keys, trembling hands, sizes and units, simulations that stop."""

import shutil

import numpy as np
from studio_server import write_box

from pointglue.errors import ConvergenceError
from pointglue.geometry import shapes
from pointglue.io import save_body
from pointglue.particles import OrientedBody
from pointglue.particles.authoring import editing


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
        table = studio.document.objects["bar"]["handles"]
        assert len(table) == 3
        assert not any(handle.get("keys") for handle in table.values())
        assert len(studio.session.state.past) == steps

    # A click chooses, also by a hand that trembles.
    person.drag([at, at + [1, 1], at + [-1, 2]], steps=1)
    assert person.ask("studio.app.handles") == [2]
    kept()
    # Keys are for the dialog that is open.
    keyboard.press("Control+o")
    person.page.wait_for_selector("dialog[open]")
    for key in ("Delete", "Control+z"):
        person.press(key)
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
        person.press(key)
        kept()
    assert person.ask(moved, handles[2, 1])
    keyboard.press("Escape")
    person.until(f"!({moved})", handles[2, 1])
    mouse.move(*(at + [60, -120]), steps=3)
    mouse.up()
    person.idle()
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
    monkeypatch.setattr(type(studio.session.state.preview.simulation), "advance", fail)
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


def test_fields_are_filled_in_one_after_the_other(person, studio):
    """From field to field by Tab: each says what it says, and nothing of the others is lost or said again."""
    write_box(studio.folder)
    person.open("bar.ply")
    person.until("studio.app.object && studio.app.store.get('bar', 'rest')")
    person.page.click('input[data-id="Position (m) x"]')
    for value in ("1", "2", "3", "0", "45", "0", "2"):
        person.page.keyboard.press("Control+a")
        person.page.keyboard.type(value)
        person.page.keyboard.press("Tab")
    person.idle()
    expected = {"translate": [1, 2, 3], "rotate": [0, 45, 0], "scale": 2}
    assert studio.document.objects["bar"]["transform"] == expected

    person.mode("Author")
    person.click("Make it for me")
    person.until("studio.app.object.particles > 0")
    person.slide("Stiffness of all", 0.5)
    assert np.all(studio.document.bodies["bar"].stiffness == 0.5)
    before = studio.document.bodies["bar"].positions
    person.mode("View")
    person.page.click('input[data-id="Move by (m) x"]')
    for value in ("1", "2", "3"):
        person.page.keyboard.press("Control+a")
        person.page.keyboard.type(value)
        person.page.keyboard.press("Tab")
    person.idle()
    moved = studio.document.bodies["bar"].positions - before
    np.testing.assert_allclose(moved, np.broadcast_to([1.0, 2, 3], moved.shape), atol=1e-12)


def test_a_note_does_not_keep_the_mouse_from_the_picture(person, studio):
    write_box(studio.folder)
    person.open("bar.ply")
    person.until("studio.app.object && studio.app.store.get('bar', 'rest')")
    person.save("noted.toml")
    person.page.wait_for_selector(".notes .note")
    box = person.page.locator(".notes .note .text").bounding_box()
    under = person.ask("document.elementFromPoint(a[0], a[1]).tagName", [box["x"] + 20, box["y"] + 5])
    assert under == "CANVAS"
    person.click("Close note")
    person.until("document.querySelectorAll('.notes .note').length === 0")


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
        assert len(told) == asked
        assert (path.read_text(errors="replace") == "something else") == (asked == 2)
    assert told[1] == told[3] == "tool_posed.ply is there already. Replace it?"
