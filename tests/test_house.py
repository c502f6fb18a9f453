"""The rules of the house that a linter does not know, checked on the syntax trees of all files."""

import ast
import collections
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, TESTS = ROOT / "src" / "pointglue", ROOT / "tests"
MOST_POSITIONAL = 8
MOST_PRIVATE_IN_TESTS = 19
# Words that begin a fragment ("Of the results."), not a sentence ("Return the results.").
FRAGMENT = re.compile(r"(Of|That|Those|So many|By|With|In|To|From|As|At|For|And|Not)\b")
# Files that play the same role in two packages, and so have the same name.
SAME_ROLE = {"__init__", "bodies", "jax", "kernels", "materials", "shapes", "solver", "state", "torch"}
NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}  # public, whatever their names say
Function = ast.FunctionDef | ast.AsyncFunctionDef


def trees(folder):
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(folder.rglob("*.py"))]


@pytest.fixture(scope="module")
def package():
    return trees(PACKAGE)


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE


def is_self(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def own_names(tree):
    """Names that a module defines itself, which it may use on any object of its own classes."""
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and is_self(node.value):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def private_accesses(tree, own=()):
    """Lines and texts of accesses to underscore names of other objects, other than a module's own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_self(node.value):
            if node.attr not in own:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                if is_private(name.name):
                    yield node.lineno, f"from {node.module} import {name.name}"


def positional(function):
    arguments = [*function.args.posonlyargs, *function.args.args]
    return [each.arg for each in arguments if each.arg not in ("self", "cls")]


def documented(tree):
    return [node for node in ast.walk(tree) if isinstance(node, Function | ast.ClassDef | ast.Module)]


def test_the_package_touches_no_underscore_names_of_other_modules(package):
    found = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path, tree in package
        for line, text in private_accesses(tree, set(own_names(tree)))
    ]
    assert found == []


def test_tests_hardly_touch_underscore_names():
    found = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path, tree in trees(TESTS)
        for line, text in private_accesses(tree)
        if not text.startswith("from ")
    ]
    assert len(found) <= MOST_PRIVATE_IN_TESTS, "\n".join(found)


def test_no_function_has_many_positional_parameters(package):
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {len(positional(node))}"
        for path, tree in package
        for node in ast.walk(tree)
        if isinstance(node, Function) and len(positional(node)) > MOST_POSITIONAL
    ]
    assert found == []


def test_docstrings_are_sentences(package):
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}"
        for path, tree in package
        for node in documented(tree)
        if FRAGMENT.match(text := ast.get_docstring(node) or "")
    ]
    assert found == []


def test_no_two_files_have_one_name_unless_they_play_one_role():
    names = collections.Counter(path.stem for path in PACKAGE.rglob("*.py") if "kernels" not in path.parts)
    assert {name for name, count in names.items() if count > 1} <= SAME_ROLE


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("fit._points", ["fit._points"]),
        ("self._points + cls._count", []),
        ("arrays._replace(x=1)", []),
        ("fit.__class__", []),
        ("class A:\n    def _mass(self): pass\n    def sum(self, other): return other._mass()", []),
        ("from x import _y, z", ["from x import _y"]),
    ],
)
def test_what_counts_as_an_access(code, expected):
    tree = ast.parse(code)
    assert [text for _, text in private_accesses(tree, set(own_names(tree)))] == expected


def test_what_counts_as_positional():
    (function,) = ast.parse("def f(self, a, /, b, c=1, *rest, d, **options): pass").body
    assert positional(function) == ["a", "b", "c"]
