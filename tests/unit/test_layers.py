"""The layers of the package: imports go one way, and a query's core needs torch and numpy only.

1. A package imports its own layer and those below, never one above (`LAYERS`, from the bottom).
   Imports for type checking and inside functions count, too.
2. No import cycle between modules, nor between packages of a layer; imports for type checking are
   left out, since they are never run.
3. An import inside a function is of a package that is optional or slow (`LAZY`). In `cli/`, and in
   the modules of `LATE`, it may be of tollbox, so that help and listings do not wait for torch.
4. What must run on a bare GPU image imports torch, numpy and scipy only (`BARE`).
"""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "tollbox"
SOURCE = Path(__file__).parents[2] / "src" / PACKAGE
LAYERS = (
    {"errors", "_lazy", "core"},
    {"engine", "theory"},
    {"parts", "models", "data", "detection"},
    {"attacks"},
    {"workers"},
    {"_run", "model_check"},
    {"attack", "studies", "testing", "interop"},
    {"report"},
    {"paper", "audits"},
    {"cli"},
)
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
APART = {("parts", "models"), ("parts", "data"), ("data", "models"), ("data", "parts")}
APART |= {("models", "parts")}
"""(importer, imported) of one layer that know nothing of each other."""
ANYTHING = {PACKAGE, f"{PACKAGE}.__main__"}
"""Modules that import from everywhere, when a name is used first."""
LAZY = {
    *("matplotlib", "PIL", "safetensors", "pandas", "rich", "cyclopts"),  # extras
    *("transformers", "timm", "torchvision", "onnxruntime"),  # model zoos
    "torch",  # slow: `tollbox status` does not wait for it
}
LATE = {f"{PACKAGE}.attacks.presets", f"{PACKAGE}.paper.experiments"}
BARE = set(RANKS) - {"report", "paper", "audits", "cli"}
NEEDED = {*sys.stdlib_module_names, "torch", "numpy", "scipy", PACKAGE}
WITH_TRITON = {f"{PACKAGE}.core.kernels"}
"""What is loaded where triton is, and does without it elsewhere."""


class Import(NamedTuple):
    """One name that a module imports."""

    importer: str
    imported: str
    """A module of tollbox, or the first word of another package."""
    typing: bool
    """Under `if TYPE_CHECKING`."""
    inside: bool
    """Inside a function."""

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported}"

    @property
    def internal(self) -> bool:
        """Whether it is a module of tollbox."""
        return self.imported.partition(".")[0] == PACKAGE

    @property
    def packages(self) -> tuple[str, str]:
        """The packages of the two, both of tollbox."""
        return package_of(self.importer), package_of(self.imported)


def package_of(module: str) -> str:
    """The first word below tollbox; empty for tollbox itself."""
    return module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]


def modules_of(source: Path) -> dict[str, Path]:
    """The file of each module of a source tree."""
    found = {}
    for file in sorted(source.rglob("*.py")):
        words = [PACKAGE, *file.relative_to(source).with_suffix("").parts]
        found[".".join(words[:-1] if words[-1] == "__init__" else words)] = file
    return found


def imports_of(source: Path) -> list[Import]:
    """All imports of a source tree."""
    modules = modules_of(source)
    return [
        each
        for module, file in modules.items()
        for each in _imports(ast.parse(file.read_text()), module, file, set(modules))
    ]


def _imports(tree: ast.Module, module: str, file: Path, modules: set[str]) -> Iterator[Import]:
    here = module.split(".")[: None if file.name == "__init__.py" else -1]

    def targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
            return
        above = here[: len(here) - node.level + 1] if node.level else []
        base = ".".join([*above, *((node.module or "").split(".") if node.module else [])])
        for alias in node.names:
            if (base, alias.name) == (PACKAGE, "__version__"):  # a constant, of no layer
                continue
            whole = f"{base}.{alias.name}"
            yield whole if whole in modules else base

    def walk(node: ast.AST, typing: bool, inside: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in dict.fromkeys(targets(node)):
                internal = name.partition(".")[0] == PACKAGE
                shown = name if internal else name.partition(".")[0]
                yield Import(module, shown, typing, inside)
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                yield from walk(child, True, inside)
            for child in node.orelse:
                yield from walk(child, typing, inside)
            return
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, typing, inside)

    yield from walk(tree, False, False)


def violations(source: Path) -> list[str]:
    """What breaks the rules above, a line each."""
    imports = [each for each in imports_of(source) if each.importer not in ANYTHING]
    unknown = {package_of(name) for name in modules_of(source)} - {"", "__main__", *RANKS}
    found = [
        *(f"{PACKAGE}.{name} is in none of the layers" for name in sorted(unknown)),
        *_upward([each for each in imports if not {*each.packages} & unknown]),
        *_cycles(source, imports),
        *(
            f"{each}, inside a function"
            for each in imports
            if each.inside
            and not each.typing
            and each.imported not in LAZY
            and not (each.internal and (each.packages[0] == "cli" or each.importer in LATE))
        ),
        *(
            f"{each}, which a bare installation does not have"
            for each in imports
            if package_of(each.importer) in BARE
            and not (each.inside or each.typing)
            and each.imported.partition(".")[0] not in NEEDED
            and not (each.importer in WITH_TRITON and each.imported == "triton")
        ),
    ]
    return list(dict.fromkeys(found))


def _upward(imports: list[Import]) -> Iterator[str]:
    for each in imports:
        if not each.internal:
            continue
        importer, imported = each.packages
        if imported not in RANKS:
            yield f"{each}, which is above all layers"
        elif RANKS[imported] > RANKS[importer]:
            yield f"{each}, which is a layer above"
        elif (importer, imported) in APART:
            yield f"{each}, which is beside it"


def _cycles(source: Path, imports: list[Import]) -> Iterator[str]:
    run = [
        each
        for each in imports
        if each.internal and not each.typing and not (each.inside and each.importer in LATE)
    ]
    modules: dict[str, set[str]] = {name: set() for name in modules_of(source)}
    packages: dict[str, set[str]] = {name: set() for name in RANKS}
    for each in run:
        for module in _loaded(each.imported) - _loaded(each.importer):
            modules[each.importer].add(module)
        importer, imported = each.packages
        if importer != imported and RANKS.get(importer) == RANKS.get(imported):
            packages[importer].add(imported)
    for what, graph in (("modules", modules), ("packages", packages)):
        while cycle := _cycle(graph):
            yield f"{' imports '.join(cycle)}: a cycle of {what}"
            graph[cycle[0]].discard(cycle[1])


def _loaded(module: str) -> set[str]:
    """The modules that importing one runs: itself, and the packages that it is in."""
    words = module.split(".")
    return {".".join(words[:count]) for count in range(2, len(words) + 1)}


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_imports_go_one_way() -> None:
    found = violations(SOURCE)
    assert not found, "\n" + "\n".join(found)


CLEAN = {
    "core/cell.py": "import math\nimport torch\n",
    "engine/engine.py": "from ..core import cell\nfrom .. import __version__\n",
    "data/images.py": "from ..core.cell import Cell\n\ndef load():\n    from PIL import Image\n",
    "models/zoo.py": "from ..data.images import ImageSet\nfrom .. import errors\n",
    "cli/app.py": "import cyclopts\nfrom ..models.zoo import resnet50\n",
    "errors.py": "",
    "__main__.py": "def main():\n    from .cli import app\n",
}


def tree(folder: Path, changes: dict[str, str]) -> list[str]:
    """The violations of a small package after changes."""
    for name, text in {**CLEAN, **changes}.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(text)
    return violations(folder)


UPWARD = "tollbox.core.cell imports tollbox.engine.engine, which is a layer above"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"core/cell.py": "from ..engine import engine"}, [UPWARD, "a cycle of modules"]),
        (
            {
                "core/cell.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
                "    from ..engine.engine import Engine"
            },
            [UPWARD],
        ),
        (
            {"core/cell.py": "def f():\n    from ..engine.engine import Engine"},
            [UPWARD, "a cycle of modules", f"{UPWARD.partition(',')[0]}, inside a function"],
        ),
        ({"core/cell.py": "import tollbox"}, ["imports tollbox, which is above all layers"]),
        ({"core/cell.py": "from . import noise", "core/noise.py": "from .cell import Cell"}, [""]),
        ({"data/x.py": "from ..models import zoo"}, ["which is beside it", "a cycle of packages"]),
        ({"parts/x.py": "from ..data import images"}, ["which is beside it"]),
        ({"data/x.py": "import PIL.Image"}, ["tollbox.data.x imports PIL, which a bare"]),
        ({"data/x.py": "def f():\n    import json"}, ["imports json, inside a function"]),
        ({"cli/x.py": "def f():\n    from ..models import zoo"}, []),
        (
            {
                "_run.py": "from .model_check import a",
                "model_check.py": "from . import testing",
                "testing.py": "",
            },
            ["tollbox.model_check imports tollbox.testing, which is a layer above"],
        ),
        (
            {
                "engine/a.py": "from ..theory import a",
                "theory/a.py": "",
                "theory/b.py": "from ..engine import engine",
            },
            ["a cycle of packages"],
        ),
        ({"extra/x.py": ""}, ["tollbox.extra is in none of the layers"]),
    ],
)
def test_what_breaks_a_rule_is_reported(
    tmp_path: Path, changes: dict[str, str], expected: list[str]
) -> None:
    found = tree(tmp_path, changes)
    assert len(found) == len(expected), found
    for line, words in zip(found, expected, strict=True):
        assert words in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("core/prices.py", "from ..studies.grid import Grid", "a layer above"),
        ("engine/engine.py", "from ..cli import app", "a layer above"),
        ("data/tables.py", "from ..models import devices", "beside it"),
    ],
)
def test_an_import_added_to_the_package_is_reported(
    tmp_path: Path, file: str, line: str, expected: str
) -> None:
    copy = tmp_path / PACKAGE
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    before = set(violations(copy))
    (copy / file).write_text(f"{(copy / file).read_text()}\n{line}\n")
    added = set(violations(copy)) - before
    importer = f"{PACKAGE}.{file.removesuffix('.py').replace('/', '.')}"
    assert any(each.startswith(importer) and expected in each for each in added), added
