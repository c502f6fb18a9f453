"""The package as a whole: what import costs, what the names are, what is said when something is missing."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pointglue as pg

ROOT = Path(__file__).parents[1]


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_import_is_light():
    """Neither numba nor SciPy nor even NumPy: a third of a second is no question then."""
    done = python("import sys, pointglue; print({'numba', 'scipy', 'numpy', 'trimesh'} & set(sys.modules))")
    assert done.stdout.strip() == "set()"


def test_every_public_name_is_there():
    for name in pg.__all__:
        assert getattr(pg, name).__doc__
    assert set(pg.__all__) <= set(dir(pg))
    with pytest.raises(AttributeError, match="no attribute 'fit_rigidly'"):
        pg.fit_rigidly  # noqa: B018


def test_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert pg.__version__ == project["version"]
    assert (ROOT / "CHANGELOG.md").read_text().count(f"## {pg.__version__}") == 1
    assert (Path(pg.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize(("module", "package"), [("torch", "torch"), ("jax", "jax")])
def test_a_missing_extra_is_named(module, package):
    code = f"import sys; sys.modules['{package}'] = None; import pointglue.procrustes.{module}"
    done = python(code)
    assert f"pip install 'pointglue[{package}]'" in done.stderr
    assert "MissingDependencyError" in done.stderr


def test_compilation_is_announced_once_and_cached(tmp_path):
    """And it leaves the settings of numba, which are other people's too, as they were."""
    code = (
        "import numba, numpy as np, pointglue as pg; before = numba.config.SLP_VECTORIZE; x = np.eye(3);"
        "fit = pg.fit_rigid(x, x); fit.jvp(x); print(fit.gap); print(before == numba.config.SLP_VECTORIZE)"
    )
    first = python(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert first.stderr.count("compiling kernels (first run only") == 1
    assert first.stdout.splitlines()[-1] == "True"
    second = python(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert second.stderr == ""
    assert second.stdout == first.stdout


def test_other_peoples_functions_compile_beside_ours():
    """A jitclass is compiled from functions that belong to no module."""
    code = (
        "import numba, pointglue as pg; pg.fit_rigid; from numba.experimental import jitclass\n"
        "@jitclass([('x', numba.float64)])\nclass C:\n    def __init__(self):\n        self.x = 1.5\n"
        "print(C().x)"
    )
    assert python(code).stdout.strip() == "1.5"


def test_large_batches_work_while_python_shuts_down():
    code = (
        "import atexit, numpy as np, pointglue as pg; x = np.random.default_rng(0).random((20000, 8, 3));"
        "pg.fit_rigid(x, x); atexit.register(lambda: print(pg.fit_rigid(x, x).rotation.shape))"
    )
    assert python(code, POINTGLUE_NUM_THREADS="2").stdout.strip() == "(20000, 3, 3)"


def test_type_checkers_know_the_names(tmp_path):
    (tmp_path / "typo.py").write_text("import pointglue as pg\n\npg.fit_ridgid\npg.fit_rigid\n")
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    # The names are those of one file; make check looks at all the others.
    names = str(ROOT / "src" / "pointglue" / "__init__.py")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=skip", "typo.py", names],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 'typo.py:3: error: Module has no attribute "fit_ridgid"' in done.stdout
    assert "typo.py:4" not in done.stdout


def test_many_threads_of_the_caller_may_fit_at_once(rng):
    from concurrent.futures import ThreadPoolExecutor

    rest, points = rng.standard_normal((8, 3)), rng.standard_normal((20_000, 8, 3))
    expected = pg.fit_rigid(rest, points).rotation
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: pg.fit_rigid(rest, points).rotation, range(8)))
    assert all((result == expected).all() for result in results)


class TestCommandLine:
    def run(self, *arguments, **options):
        command = [sys.executable, "-m", "pointglue", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)

    def test_version(self):
        assert self.run("--version").stdout.strip() == f"pointglue {pg.__version__}"

    def test_help_names_the_commands(self):
        assert "bench" in self.run("--help").stdout

    def test_unknown_benchmark(self):
        done = self.run("bench", "nothing")
        assert done.returncode == 2
        assert "'nothing' is not one of" in done.stderr
        assert "core" in done.stderr

    def test_benchmark_without_its_peers(self):
        done = python("import sys; sys.modules['roma'] = None; from pointglue.cli import main;"
                      "sys.argv = ['pointglue', 'bench', 'core']; main()")  # fmt: skip
        assert done.returncode == 1
        assert (
            done.stderr.strip()
            == "pointglue: the benchmark needs roma: in the checkout, pip install -e '.[bench]'"
        )
