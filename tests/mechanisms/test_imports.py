"""The mechanisms can be read alone: they import numpy, gmpy2 and each other only, but for how a
released list shows itself, which is imported when it is asked to."""

import ast
import pathlib
import sys

import pytest

import dp_transforms.mechanisms
from tests.test_architecture import LATE, named

MODULES = sorted(pathlib.Path(dp_transforms.mechanisms.__file__).parent.rglob("*.py"))
ALLOWED = {"numpy", "gmpy2"} | set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_mechanism_imports_no_beam_and_no_arrow(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        late = LATE.get(named(path), set())
        for name in {name for name in names if not name.startswith(tuple(late))}:
            assert name.startswith("dp_transforms.mechanisms") or name.split(".")[0] in ALLOWED


def test_the_table_shares_no_code_with_the_walk():
    source = pathlib.Path(dp_transforms.mechanisms.__file__).with_name("partition") / "table.py"
    imported = {
        node.module.rsplit(".", 1)[-1]
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dp_transforms")
    }
    assert imported == {"eta", "frequency_list", "randomness"}
