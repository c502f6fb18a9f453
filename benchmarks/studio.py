"""Dragging a handle of a mesh of 50,000 vertices in the studio: what an update costs.

The page is drawn without a graphics card here, which is by far the slowest part and says nothing of other
machines: its script is timed by itself.

pointglue bench studio [--markdown] [--quick] [--json FILE]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import numpy as np
import trimesh
from _racing import Results, Row, main
from websockets.sync.client import connect

from pointglue.geometry import shapes

SIZE, CELLS = (2.0, 0.4, 0.4), (480, 26, 26)
HANDLES = np.array([[x, y, z] for x in (-0.9, -0.3, 0.3, 0.9) for y in (-0.2, 0.2) for z in (-0.2, 0.2)])
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
FPS = 20


@contextmanager
def studio(folder: Path):
    """The command, and the address that it prints."""
    command = [
        sys.executable,
        "-c",
        "from pointglue.cli import main; main()",
        "studio",
        "bar.ply",
        "--no-browser",
    ]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, re.search(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]+)", process.stdout.readline())
    finally:
        process.terminate()
        process.wait(20)


class Client:
    """A page without a browser; it has applied an update as soon as it has it."""

    def __init__(self, found, quantise: bool) -> None:
        self.socket = connect(
            f"ws://127.0.0.1:{found[1]}/socket?token={found[2]}",
            additional_headers={"Origin": f"http://127.0.0.1:{found[1]}"},
            max_size=None,
            proxy=None,
        )
        self.handles = 0
        self.send("hello", quantise=quantise)

    def send(self, kind: str, **values) -> None:
        self.socket.send(json.dumps({"type": kind, **values}))

    def update(self, wait: float = 120.0) -> int:
        """The size of the next one, which is acknowledged."""
        while isinstance(data := self.socket.recv(timeout=wait), str):
            pass
        header = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
        if header["state"] and header["state"]["objects"]:
            self.handles = len(header["state"]["objects"][0]["handles"])
        self.send("ack", number=header["number"])
        return len(data)

    def quiet(self) -> None:
        """Take what is still on its way."""
        while True:
            try:
                self.update(2.0)
            except TimeoutError:
                return

    def drag(self, k: int) -> None:
        place = HANDLES[-1] + [0.0, 0.15 * np.cos(0.1 * k), 0.1 * np.sin(0.07 * k)]
        self.send("drag_handle", object="bar", handle=f"handle {len(HANDLES)}", position=place.tolist())


def cpu(process: subprocess.Popen) -> float:
    """Seconds of the processor so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def served(process, found, count: int, *, quantise: bool) -> dict[str, float]:
    """Updates a second that are asked for one after the other, their size, and what they cost."""
    client = Client(found, quantise)
    client.quiet()
    begin, spent, sizes = perf_counter(), cpu(process), []
    for k in range(count):
        client.drag(k)
        sizes.append(client.update())
    seconds, spent = perf_counter() - begin, cpu(process) - spent
    client.socket.close()
    return {"rate": count / seconds, "ms": 1e3 * spent / count, "kb": float(np.median(sizes)) / 1e3}


def shown(found, seconds: float) -> dict[str, float] | None:
    """Updates a second in Chromium while another client drags, and the page's script a piece."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        frames = []
        page.on("websocket", lambda socket: socket.on("framereceived", lambda data: frames.append(len(data))))
        page.goto(found[0])
        page.wait_for_timeout(5000)
        tools = page.context.new_cdp_session(page)
        tools.send("Performance.enable")

        def script() -> float:
            return {m["name"]: m["value"] for m in tools.send("Performance.getMetrics")["metrics"]}[
                "ScriptDuration"
            ]

        driver = Client(found, quantise=True)
        driver.quiet()
        frames.clear()
        before, begin, k = script(), perf_counter(), 0
        while perf_counter() - begin < seconds:
            driver.drag(k)
            driver.update()
            page.wait_for_timeout(1000 / FPS)
            k += 1
        spent, count, lasted = script() - before, len(frames), perf_counter() - begin
        driver.socket.close()
        browser.close()
    return {"rate": count / lasted, "script": 1e3 * spent / max(count, 1)}


def measure(quick: bool = False) -> Results:
    vertices, faces = shapes.box(SIZE, CELLS)
    count = 40 if quick else 200
    with tempfile.TemporaryDirectory() as folder:
        trimesh.Trimesh(vertices, faces, process=False).export(Path(folder) / "bar.ply")
        with studio(Path(folder)) as (process, found):
            first = Client(found, quantise=False)
            first.quiet()
            for place in HANDLES:
                first.send("add_handle", object="bar", position=place.tolist())
            while first.handles < len(HANDLES):
                first.update()
            first.quiet()
            first.socket.close()
            plain, small = (served(process, found, count, quantise=each) for each in (False, True))
            page = shown(found, 3.0 if quick else 10.0)
    size = f"{len(vertices):,} vertices, {len(HANDLES)} handles"
    cells = [
        ["server alone, 32 bits", f"{plain['rate']:.0f}", f"{plain['ms']:.1f} ms", f"{plain['kb']:.0f} kB"],
        ["server alone, 16 bits", f"{small['rate']:.0f}", f"{small['ms']:.1f} ms", f"{small['kb']:.0f} kB"],
    ]
    rows = [
        Row(f"update of {size}, server alone, {bits} bits", 1e-3 * each["ms"])
        for bits, each in ((32, plain), (16, small))
    ]
    if page is not None:
        cells.append(
            ["Chromium without a graphics card", f"{page['rate']:.1f}", f"{page['script']:.1f} ms", ""]
        )
        rows.append(Row(f"update of {size}, script of the page", 1e-3 * page["script"]))
    headings = [size, "updates a second", "processor time", "size"]
    return Results(
        "studio", rows, ["Of the page, its script is what is timed"], "websockets", headings, cells
    )


if __name__ == "__main__":
    main("studio")
