"""Which folder may import which: arrows go one way, and public and private stay apart."""

import ast
import pathlib
from graphlib import TopologicalSorter

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("dp_transforms", "pipelines", "runner_configs")

MECHANISMS = "dp_transforms.mechanisms"
ARROWS = {
    f"{MECHANISMS}.noise": {MECHANISMS},
    f"{MECHANISMS}.exponential": {MECHANISMS},
    f"{MECHANISMS}.partition.walk": {MECHANISMS},
    f"{MECHANISMS}.partition.distributions": {MECHANISMS, f"{MECHANISMS}.partition.walk"},
    f"{MECHANISMS}.selection": {MECHANISMS, f"{MECHANISMS}.noise"},
    f"{MECHANISMS}.partition": {
        MECHANISMS,
        f"{MECHANISMS}.exponential",
        f"{MECHANISMS}.partition.distributions",
        f"{MECHANISMS}.noise",
        f"{MECHANISMS}.partition.walk",
    },
    "dp_transforms.columnar": set(),
    "dp_transforms.sample_data": {MECHANISMS},
    "dp_transforms.runtime": {
        "dp_transforms",
        "dp_transforms.budget",
        "dp_transforms.columnar",
        MECHANISMS,
        f"{MECHANISMS}.noise",
        f"{MECHANISMS}.partition",
        f"{MECHANISMS}.selection",
    },
    "dp_transforms.transforms": {
        "dp_transforms",
        "dp_transforms.budget",
        "dp_transforms.columnar",
        "dp_transforms.files",
        MECHANISMS,
        f"{MECHANISMS}.noise",
        f"{MECHANISMS}.partition",
        f"{MECHANISMS}.selection",
        "dp_transforms.runtime",
    },
    "dp_transforms.files": {
        "dp_transforms",
        "dp_transforms.columnar",
        MECHANISMS,
        f"{MECHANISMS}.noise",
        f"{MECHANISMS}.partition",
        "dp_transforms.runtime",
    },
    "dp_transforms.reports": {
        "dp_transforms",
        "dp_transforms.budget",
        "dp_transforms.files",
        MECHANISMS,
        f"{MECHANISMS}.noise",
        f"{MECHANISMS}.partition",
        f"{MECHANISMS}.partition.distributions",
        f"{MECHANISMS}.selection",
        "dp_transforms.postprocessing",
    },
    "dp_transforms.budget": {MECHANISMS, f"{MECHANISMS}.partition"},
    # The wall: neither of these two knows the other, and nothing that releases knows them.
    "dp_transforms.postprocessing": {
        MECHANISMS,
        f"{MECHANISMS}.partition",
        f"{MECHANISMS}.partition.distributions",
        f"{MECHANISMS}.noise",
        f"{MECHANISMS}.selection",
    },
    "dp_transforms.evaluation": {
        MECHANISMS,
        f"{MECHANISMS}.partition",
        f"{MECHANISMS}.partition.distributions",
        f"{MECHANISMS}.partition.walk",
    },
    "dp_transforms.frames": {
        "dp_transforms",
        "dp_transforms.budget",
        "dp_transforms.files",
        MECHANISMS,
        f"{MECHANISMS}.partition",
        f"{MECHANISMS}.noise",
        f"{MECHANISMS}.selection",
        "dp_transforms.postprocessing",
        "dp_transforms.reports",
        "dp_transforms.runtime",
    },
    "dp_transforms": {
        "dp_transforms.budget",
        "dp_transforms.columnar",
        MECHANISMS,
        f"{MECHANISMS}.partition",
        f"{MECHANISMS}.noise",
        f"{MECHANISMS}.selection",
        "dp_transforms.runtime",
    },
}
LATE = {
    "dp_transforms.mechanisms.released_list": {"dp_transforms.postprocessing.views"},
    "dp_transforms.mechanisms.partition.frobenius": {"dp_transforms.postprocessing.decoder"},
}
"""What a module imports inside functions alone: a released list, which is public, shows itself, and
noisy coordinates, which are public, are decoded."""

BEAM_AND_ARROW = {"apache_beam", "pyarrow"}
FORBIDDEN = {MECHANISMS: BEAM_AND_ARROW, "dp_transforms.columnar": {"apache_beam"}}


def named(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
    named(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))
}


def folder(module):
    is_package = MODULES[module].name == "__init__.py"
    return module if is_package else module.rpartition(".")[0]


def statements(tree):
    """All nodes but those that only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield node
        yield from statements(node)


def imported(module, tree=None):
    """The names of all that a module imports, inside functions too."""
    names = set()
    for node in statements(tree or ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names.update(inner & MODULES.keys() or {node.module})
    return names


IMPORTS = {module: imported(module) - LATE.get(module, set()) for module in MODULES}


def test_no_module_needs_itself():
    # Imports inside functions count, but for those of public releases that show themselves.
    graph = {
        module: imported(module) & MODULES.keys() - LATE.get(module, set())
        if module.startswith(MECHANISMS)
        else imported(module) & MODULES.keys()
        for module in MODULES
    }
    # Raises CycleError, which names the circle.
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("dp_transforms")])
def test_arrows_go_one_way(module):
    others = {folder(name) for name in IMPORTS[module] & MODULES.keys()} - {folder(module)}
    if module == MECHANISMS:
        # What one calls is named here once more.
        assert all(other.startswith(MECHANISMS) for other in others)
    else:
        assert others <= ARROWS.get(folder(module), set())
    assert not {name for name in IMPORTS[module] if name.split(".")[0] in PACKAGES[1:]}


@pytest.mark.parametrize("module", LATE)
def test_late_imports_are_in_functions(module):
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    inside = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert LATE[module] <= set.union(*(imported(module, node) for node in inside))
    for node in inside:
        node.body = [ast.Pass()]
    assert not imported(module, tree) & LATE[module]


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("pipelines.")])
def test_no_part_of_a_job_imports_a_job(module):
    jobs = {
        name
        for name, path in MODULES.items()
        if name.startswith("pipelines.") and "def main(" in path.read_text()
    }
    if folder(module) != "pipelines" or module == "pipelines.report":
        assert not IMPORTS[module] & jobs


@pytest.mark.parametrize("package", FORBIDDEN)
def test_kernels_know_no_runner(package):
    for module in MODULES:
        if module.startswith(package):
            roots = {name.split(".")[0] for name in IMPORTS[module]}
            assert not roots & FORBIDDEN[package], module
