import os
import shutil
from pathlib import Path

import pytest
import studio_server
from fuzzing import write_seeds
from pages import Person

from pointglue.studio.protocol import commands as messages
from pointglue.studio.runtime.session import Session

ROOT = Path(__file__).parents[2]
# WebGL without a graphics card; plain headless pictures show a hole where panels are.
FLAGS = [
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]


@pytest.fixture
def session(tmp_path):
    """A session without a server, with a bar that has just been opened."""
    studio_server.write_box(tmp_path)
    built = Session(tmp_path, clock=studio_server.ManualClock())
    built.apply(messages.Open(path="bar.ply"))
    yield built
    built.close()


@pytest.fixture(scope="session")
def seeds(tmp_path_factory):
    """A folder with what sequences of random commands begin with, to be copied."""
    folder = tmp_path_factory.mktemp("seeds")
    write_seeds(folder)
    return folder


@pytest.fixture
def studio(tmp_path):
    """A server on a folder of its own, in this process: tests look at its session too."""
    with studio_server.running(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or set CHROMIUM to its path")
    if not studio_server.STATIC.is_dir():
        pytest.skip("the page is not built: npm ci && npm run build in studio-client")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=found, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def person(browser, studio, tmp_path):
    """Somebody in front of the page.

    Pictures of it go to the folder POINTGLUE_SHOTS, or to that of the test; with POINTGLUE_TOUR those of the
    guided tour in docs are made anew.
    """
    # Waiting for an expression needs eval, which the page's own policy forbids.
    page = browser.new_page(viewport={"width": 1280, "height": 800}, bypass_csp=True)
    shots = Path(os.environ.get("POINTGLUE_SHOTS") or tmp_path / "shots")
    someone = Person(
        page, studio, shots, ROOT / "docs" / "images" if os.environ.get("POINTGLUE_TOUR") else None
    )
    someone.arrive()
    yield someone
    page.close()
    assert someone.errors == []
