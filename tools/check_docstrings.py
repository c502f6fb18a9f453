"""Validate the docstrings of all public names with numpydoc; `make check` runs it.

Names in the `__all__` of the public packages have a summary that is a sentence, and say what they take and
return. Fields of a class may be described under Parameters, under Attributes, or by a text
below them.
"""

import ast
import inspect
import re
import sys
import textwrap
from itertools import pairwise
from typing import Any

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate
from public_api import documented

CHECKS = {
    "GL06": "unknown section",
    "GL07": "sections in the wrong order",
    "GL08": "no docstring",
    "SS02": "summary without a capital letter",
    "SS03": "summary without a full stop",
    "PR01": "parameters that are not described",
    "PR02": "unknown parameters",
    "PR03": "parameters in another order",
    "PR07": "parameter without a description",
    "RT01": "no Returns section",
    "RT03": "return value without a description",
}
FRAGMENT = re.compile(r"^(Of|That|Those|So many|By|With|In|To|From|As|At|For|And|Not)\b")


def problems(path: str, one: Any) -> list[str]:
    """Return what is wrong with the docstring of a public object, a line each."""
    if not (inspect.isclass(one) or inspect.isroutine(one)):
        return []  # constants and aliases of types
    found = {code: text for code, text in validate(path)["errors"] if code in CHECKS}
    if inspect.isclass(one):
        found = _of_class(Validator(get_doc_object(one)), one, found)
    if FRAGMENT.match(inspect.getdoc(one) or ""):
        found["fragment"] = "The summary is not a whole sentence"
    return [f"{code}: {text}" for code, text in found.items()]


def _of_class(doc: Validator, one: type, found: dict[str, str]) -> dict[str, str]:
    """Return the problems of a class that remain when fields are looked for under Attributes too."""
    if hasattr(one, "model_fields") or issubclass(one, BaseException) or getattr(one, "_is_protocol", False):
        # Tables of scene files describe their fields one by one; users construct no errors and no protocols.
        return {code: text for code, text in found.items() if not code.startswith("PR")}
    described = {
        *doc.doc_parameters,
        *doc.doc_other_parameters,
        *(entry[0] for entry in doc.doc["Attributes"]),
    }
    given = {name.lstrip("*") for name in doc.signature_parameters}
    missing = given - {name.lstrip("*") for name in described}
    missing -= _described_below(one)
    found = {code: text for code, text in found.items() if code not in ("PR01", "PR03")}
    if missing:
        found["PR01"] = f"Parameters {sorted(missing)} are not described"
    return found


def _described_below(one: type) -> set[str]:
    """Return the fields of a class, and of those that it derives from, that have a text right below them."""
    names = set()
    for each in one.__mro__:
        if not each.__module__.startswith("pointglue"):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body
        for field, text in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(text, ast.Expr)
                and ast.unparse(text)[0] in "'\""
            ):
                names.add(ast.unparse(field.target))
    return names


def main() -> int:
    """Print all problems, and return 1 if there are any."""
    count = 0
    everything = documented()
    for path, one in everything.items():
        for line in problems(path, one):
            count += 1
            print(f"{path}: {line}")
    print(f"{count} problems in the docstrings of {len(everything)} public names")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
