"""Somebody in front of the page: clicks, drags and looks."""

import time

import numpy as np
from PIL import Image
from waiting import DEADLINE


class Person:
    """What a person does in the studio, and what the page shows.

    Whatever a person does is over when the server has dealt with it and the page shows what has come of it:
    what comes next in a test may look at both. Only what plays goes on by itself, and is waited for.
    """

    def __init__(self, page, studio, shots, tour):
        self.page, self.studio, self.shots, self.tour = page, studio, shots, tour
        self.errors = []
        page.set_default_timeout(1000 * DEADLINE)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def arrive(self):
        self.page.goto(self.studio.url + ("&smooth" if self.tour else ""))
        self.until("studio.app.store.state !== null")

    def until(self, condition, argument=None):
        """Wait for a condition in the page; what is there instead is told if it does not come about."""
        end = time.monotonic() + DEADLINE
        while not self.page.evaluate(f"(a) => Boolean(window.studio && ({condition}))", argument):
            assert time.monotonic() < end, f"not so: {condition} (a = {argument!r}); instead: {self.seen()}"
            self.page.wait_for_timeout(10)

    def seen(self):
        """What the page shows, in a few words, for whoever has waited for something else."""
        self.shot("given_up")
        return self.page.evaluate(SEEN) | {"notes": self.notes(), "errors": self.errors}

    def ask(self, expression, argument=None):
        return self.page.evaluate(f"(a) => ({expression})", argument)

    def click(self, name):
        self.page.click(f'[data-id="{name}"]:visible')
        self.idle()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
            self.idle()

    def pick(self, name):
        """Choose an object in the list, and look up when the panel is about it."""
        self.click(f"object {name}")
        self.page.wait_for_selector(f'li.active[data-id="object {name}"]')

    def mode(self, name):
        self.click(f"mode {name}")

    def tool(self, name):
        self.click(f"tool {name}")

    def choose(self, label, value):
        self.page.select_option(f'select[data-id="{label}"]', value)
        self.idle()

    def slide(self, label, value):
        selector = f'input[data-id="{label}"]'
        self.page.wait_for_selector(selector)
        # In one go: the panel may be made anew at any time, and an element that is gone tells nobody.
        self.ask(SLIDE, [selector, str(value)])
        self.idle()

    def type(self, label, value):
        self.page.fill(f'input[data-id="{label}"]', value)
        self.press("Enter")

    def tick(self, label, on):
        self.page.set_checked(f'input[data-id="{label}"]', on)
        self.idle()

    def open(self, *names):
        self.click("Open")
        for name in names:
            self.page.click(f'dialog li[data-id="{name}"]')
        self.page.wait_for_selector("dialog", state="hidden")
        self.idle()

    def save(self, name):
        self.click("Save")
        self.page.fill('[data-id="File name"]', name)
        self.click("Save here")
        self.page.wait_for_selector("dialog", state="hidden")
        self.idle()

    def state(self, path="", argument=None):
        return self.ask(f"studio.app.store.state{path}", argument)

    def object(self, name):
        return self.ask("studio.app.store.state.objects.find((o) => o.name === a)", name)

    def array(self, name, channel):
        found = "studio.app.store.get(a[0], a[1])"
        data = self.ask(f"{found} && [Array.from({found}.data), {found}.shape]", [name, channel])
        return None if data is None else np.array(data[0]).reshape(data[1])

    def on_screen(self, points):
        """Where points (n, 3) are on the screen (n, 2)."""
        flat = np.asarray(points, float).ravel().tolist()
        return np.array(self.ask("Array.from(studio.app.view.project(a))", flat)).reshape(-1, 3)[:, :2]

    def drag(self, path, steps=6, **keys):
        """Press, move along places (n, 2) of the screen, let go."""
        path = [tuple(map(float, place)) for place in path]
        for key in keys:
            self.page.keyboard.down(key)
        self.page.mouse.move(*path[0])
        self.page.mouse.down()
        for place in path[1:]:
            self.page.mouse.move(*place, steps=steps)
        self.page.mouse.up()
        for key in keys:
            self.page.keyboard.up(key)
        self.idle()

    def idle(self):
        """Wait until the server has dealt with all that was asked, and the page shows what has come of it.

        Of what plays there is always more to come, so the page need not have caught up with it.
        """
        # The panel is made anew a moment after a button in it is let go of.
        self.page.evaluate("() => new Promise((done) => setTimeout(done, 0))")
        end = time.monotonic() + DEADLINE
        while True:
            self.until("!studio.app.store.busy")
            playing = self.studio.session.replica.clock.status == "playing"
            if playing or self.studio.shown():
                return
            assert time.monotonic() < end, f"the page does not show all there is: {self.seen()}"
            self.page.wait_for_timeout(5)

    def click_at(self, place):
        self.page.mouse.click(float(place[0]), float(place[1]))
        self.idle()

    def middle(self):
        box = self.page.locator("main canvas").bounding_box()
        return np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])

    def notes(self):
        return self.page.locator(".notes .text").all_inner_texts()

    def hint(self):
        return self.page.inner_text('[data-id="hint"]')

    def settle(self):
        """Wait until the picture has been drawn."""
        self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def shot(self, name, tour=False):
        """A picture of the page, for people to look at."""
        self.settle()
        self.shots.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=self.shots / f"{name}.png")
        if tour and self.tour is not None:
            with Image.open(self.shots / f"{name}.png") as picture:
                fewer = picture.convert("RGB").point(lambda level: 5 * round(level / 5))  # half the bytes
                fewer.save(self.tour / f"studio_{name}.png", optimize=True)

    def colours(self):
        """How many different colours the picture has: nothing but the background has few."""
        return self.page.evaluate(COLOURS)

    def overlapping(self):
        """Pairs of parts of the page that lie over each other, or over its edge."""
        return self.page.evaluate(OVERLAPPING)


SLIDE = """((slider) => {
  slider.value = a[1];
  for (const kind of ['input', 'change']) slider.dispatchEvent(new Event(kind, { bubbles: true }));
})(document.querySelector(a[0]))"""

SEEN = """() => {
  const store = window.studio?.app.store;
  return {
    clock: store?.clock, busy: store?.busy, mode: window.studio?.app.mode, tool: window.studio?.app.tool,
    path: store?.state?.path, undo: store?.state?.undo, ground: store?.state?.ground,
    objects: store?.state?.objects, attach: store?.state?.attach, frames: store?.state?.frames,
    dialog: document.querySelector('dialog[open]')?.textContent,
  };
}"""

COLOURS = """() => {
  studio.app.view.renderer.render(studio.app.view.scene, studio.app.view.camera);
  const small = document.createElement('canvas'), pen = small.getContext('2d');
  [small.width, small.height] = [160, 120];
  pen.drawImage(document.querySelector('main canvas'), 0, 0, 160, 120);
  const pixels = pen.getImageData(0, 0, 160, 120).data, seen = new Set();
  for (let k = 0; k < pixels.length; k += 4) seen.add(pixels[k] << 16 | pixels[k + 1] << 8 | pixels[k + 2]);
  return seen.size;
}"""

OVERLAPPING = """() => {
  const found = [], homes = 'header, nav, main, aside, footer, .status';
  const parts = [...document.querySelectorAll(homes)];
  const boxes = parts.map((part) => part.getBoundingClientRect());
  const beside = (a, b) => a.right <= b.left + 0.5 || a.bottom <= b.top + 0.5;
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
    if (!beside(a, b) && !beside(b, a)) found.push([parts[i].tagName, parts[i + 1 + j].tagName]);
  }));
  const texts = 'header button, nav button, aside button, aside label, footer button, .status span';
  for (const item of document.querySelectorAll(texts)) {
    const text = item.getBoundingClientRect(), home = item.closest(homes).getBoundingClientRect();
    const outside = text.left < home.left - 1 || text.right > home.right + 1;
    if (text.width && outside) found.push([item.textContent, 'outside']);
    if (item.scrollWidth > item.clientWidth + 2) found.push([item.textContent, 'cut off']);
  }
  return found;
}"""
