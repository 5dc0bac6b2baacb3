"""Imports of folders from each other: arrows go one way, and public and private stay apart."""

import ast
import functools
import pathlib
import sys
from graphlib import TopologicalSorter

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("dp_transforms", "pipelines", "runner_configs")

MECHANISMS = "dp_transforms.mechanisms"
KERNELS = "mechanisms mechanisms.partition mechanisms.selection"


def full(name):
    return f"dp_transforms.{name}" if name != "." else "dp_transforms"


ARROWS = {
    "mechanisms.partition.walk": "mechanisms",
    "mechanisms.selection": "mechanisms",
    "mechanisms.decoding": "mechanisms",
    "mechanisms.partition": "mechanisms mechanisms.decoding mechanisms.partition.walk",
    "columnar": "",
    "sample_data": "mechanisms",
    "budget": ". mechanisms mechanisms.partition",
    # The wall: neither of these two knows the other, and nothing that releases knows them.
    "postprocessing": f"mechanisms.decoding {KERNELS}",
    "evaluation": "mechanisms mechanisms.partition mechanisms.partition.walk",
    ".": "mechanisms mechanisms.partition",
    "runtime": f". budget columnar {KERNELS}",
    "files": ". budget columnar runtime mechanisms",
    "reports": f". budget files postprocessing {KERNELS}",
    # Only here is known what a kind of release is.
    "releases": f". budget columnar files postprocessing reports {KERNELS}",
    "engines": f". columnar releases runtime {KERNELS}",
    "beam": f". budget columnar engines files postprocessing releases runtime {KERNELS}",
    "frames": f". budget engines files postprocessing releases reports runtime {KERNELS}",
}
ARROWS = {full(name): {*map(full, imported.split())} for name, imported in ARROWS.items()}

ALLOWED = {"dp_transforms", "numpy", "gmpy2", *sys.stdlib_module_names}
"""The mechanisms can be read alone."""


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
LEAVES = {
    "dp_transforms.public_names",
    "dp_transforms.errors",
    "dp_transforms.database_urls",
    "dp_transforms.mechanisms.arrays",
}
"""Modules that import nothing of the package, and that every folder may import: by the first one
packages load their public names, and the last one names types of arrays."""


def folder(module):
    is_package = MODULES[module].name == "__init__.py"
    return module if is_package or module in ARROWS else module.rpartition(".")[0]


def parsed(module):
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def statements(tree):
    """All nodes but those that only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")):
            yield node
            yield from statements(node)


def imported(tree):
    """The names of all that is imported, inside functions too."""
    names = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names.update(inner & MODULES.keys() or {node.module})
    return names


@functools.cache
def imports(module):
    """The names that a module imports, inside functions too, but for leaves."""
    return imported(parsed(module)) - LEAVES


def test_no_module_needs_itself():
    # Imports inside functions count.
    graph = {module: imported(parsed(module)) & MODULES.keys() for module in MODULES}
    # Raises CycleError, which names the circle.
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


@pytest.mark.parametrize("module", sorted(LEAVES))
def test_leaves_import_nothing_of_the_package(module):
    assert not imported(parsed(module)) & MODULES.keys()


def test_arrows_go_one_way():
    for module in [name for name in MODULES if name.startswith("dp_transforms")]:
        imported = {folder(name) for name in imports(module) & MODULES.keys()} - {folder(module)}
        assert imported <= ARROWS.get(folder(module), set()), module
        assert not {name.split(".")[0] for name in imports(module)} & {*PACKAGES[1:]}, module


def test_the_report_imports_no_job():
    parts = [name for name in MODULES if name.startswith("pipelines.")]
    jobs = {name for name in parts if "def main(" in MODULES[name].read_text()}
    assert jobs and not imports("pipelines.report") & jobs


def test_kernels_know_no_runner():
    for module in MODULES:
        roots = {name.split(".")[0] for name in imports(module)}
        assert not module.startswith(MECHANISMS) or roots <= ALLOWED, module
        assert not module.startswith("dp_transforms.columnar") or "apache_beam" not in roots


def test_the_table_shares_no_code_with_the_walk():
    tree = parsed(f"{MECHANISMS}.partition.table")
    own = [node for node in statements(tree) if getattr(node, "module", "") in MODULES]
    names = {alias.name for node in own for alias in node.names}
    assert names == {"Eta", "FrequencyList", "ObjectArray", "RandomTape", "draw_below"}


def test_only_tests_of_benchmarks_import_them():
    # A test of the product must not need a change because a benchmark changes.
    tests = ROOT / "tests"
    for path in tests.rglob("test_*.py"):
        if path.parent != tests / "benchmarks":
            folders = {name.partition(".")[0] for name in imported(ast.parse(path.read_text()))}
            assert "benchmarks" not in folders, path


VAGUE_NAMES = {"beside", "found", "one", "said", "told"}
"""Variables that do not say what they hold."""

FOLDERS_BESIDE_THE_PRODUCT = ["benchmarks", "examples", "proofs", "tests"]
"""Folders whose variables say what they hold, as those of the product do."""


def bound_names(tree):
    """The names that code gives to variables, arguments, attributes and what it imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name


@pytest.mark.parametrize(
    "code",
    [
        "told = 1",
        "found: int = 1",
        "[0 for one in x]",
        "(said := 2)",
        "lambda beside: 0",
        "def f(*, found): 0",
        "import x as told",
        "self._found = 1",
        "try: 0\nexcept E as one: 0",
    ],
)
def test_vague_names_are_seen(code):
    assert {name.strip("_") for name in bound_names(ast.parse(code))} & VAGUE_NAMES


def vague_names(path):
    """The names of ``VAGUE_NAMES`` that a file gives to something."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {name.strip("_") for name in bound_names(tree)} & VAGUE_NAMES


def test_variables_of_the_product_say_what_they_hold():
    assert len(MODULES) > 50
    for path in MODULES.values():
        assert not vague_names(path), path


@pytest.mark.parametrize("folder", FOLDERS_BESIDE_THE_PRODUCT)
def test_variables_of_other_folders_say_what_they_hold(folder):
    paths = [*(ROOT / folder).rglob("*.py")]
    assert paths
    for path in paths:
        assert not vague_names(path), path
