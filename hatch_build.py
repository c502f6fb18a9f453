"""Builds the studio's page into the package: with the Node of this machine, or with the one on PyPI."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What the page is made from; if nothing of it is newer than the page, the page stays.
SOURCES = ("src", "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")


class StudioPage(BuildHookInterface):
    """Runs `npm ci` and `npm run build` in studio-client."""

    def dependencies(self):
        """Return Node from PyPI where there is none."""
        client = Path(self.root) / "studio-client"
        if not client.is_dir():
            return []
        npm = _npm(client)
        return [] if npm.has_node() else [npm.WHEEL]

    def initialize(self, version, build_data):
        """Build the page, and put it into the wheel though git ignores it."""
        root = Path(self.root)
        client, page = root / "studio-client", root / "src" / "pointglue" / "studio" / "static" / "index.html"
        build_data["artifacts"].append("src/pointglue/studio/static/**")
        if not client.is_dir() or _fresh(client, page):
            return
        if version == "editable" and os.environ.get("POINTGLUE_NO_PAGE"):
            return  # for whom the studio is not worth the time to build it
        try:
            npm = _npm(client)
            npm.run("ci", "--no-audit", "--no-fund")
            npm.run("run", "build")
        except (OSError, subprocess.CalledProcessError) as error:
            if version != "editable":
                raise
            print(f"The studio's page was not built, all else works: {error}", file=sys.stderr)


def _npm(client):
    """Return the module that runs npm in the folder of the page."""
    spec = importlib.util.spec_from_file_location("studio_client_npm", client / "npm.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _fresh(client, page):
    """Return whether the page is newer than all that it is made from."""
    if not page.is_file():
        return False
    files = [
        file for name in SOURCES for file in [client / name, *(client / name).glob("**/*")] if file.is_file()
    ]
    return max(file.stat().st_mtime for file in files) <= page.stat().st_mtime
