"""Without an extra's packages the rest works, and a sentence says how to install them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MISSING = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Missing())
"""
EXTRAS = ("cyclopts", "rich", "PIL", "safetensors", "matplotlib")
ATTACK = """
import torch, tollbox as tb
model = tb.models.from_callable(lambda images: (images.mean((1, 2, 3)) > 0.5).long())
[result] = tb.run(tb.preset("a-hsja"), model, torch.full((1, 1, 4, 4), 0.4), [0], budget=90)
print(result.stop)
"""
AUDIT = """
import sys, tempfile, torch, tollbox as tb
model = tb.models.from_callable(lambda images: (images.mean((1, 2, 3)) > 0.5).long())
with tempfile.TemporaryDirectory() as folder:
    images = torch.full((2, 1, 4, 4), 0.4) + torch.arange(2)[:, None, None, None] / 100
    found = tb.audit(model, images, [0, 0], out=f"{folder}/out", budget=100)
    page = (found.folder / "audit.html").read_text()
print(len(found.data["verdict"]), "The images cannot be shown: " in page)
"""
PICTURE = """
from pathlib import Path
from tollbox.data.image_files import is_grey
is_grey(Path("some.png"))
"""
FIGURE = "from tollbox.report.figures import draw_phases\ndraw_phases([])"
DRAWING = (
    "import tollbox.paper.outputs, tollbox.report.figures, tollbox.cli.report_work\nprint('fine')"
)
EMBEDDED = "import tollbox as tb\ntb.models.embedded()"
NAMED = "import sys, tollbox as tb\ntb.models.load({!r})"
FOOLBOX = "import tollbox as tb\ntb.foolbox.Attack('frugal', budget=9)"
ART = "import tollbox as tb\ntb.art.Attack('frugal', None, budget=9)"
POLARS = """
from tollbox.studies.results import StudyResults
StudyResults.to_polars(None)
"""
RAY = """
import torch, tollbox as tb
tb.studies.RayEngines().rooms(torch.device("cpu"))
"""
COMMAND = "from tollbox.__main__ import main\nsys.argv = ['tollbox', 'presets']\nmain()"


def without(missing: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    text = MISSING.format(missing=set(missing)) + code
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)


def test_an_audit_needs_none_of_the_extras_but_for_pictures() -> None:
    answer = without(EXTRAS, AUDIT)
    assert (answer.stdout, answer.stderr) == ("2 True\n", "")


def test_the_core_needs_none_of_the_extras() -> None:
    answer = without(EXTRAS, ATTACK)
    assert (answer.returncode, answer.stdout) == (0, "budget\n"), answer.stderr


def test_drawing_is_imported_without_matplotlib() -> None:
    assert without(("matplotlib",), DRAWING).stdout == "fine\n"


@pytest.mark.parametrize(
    ("package", "extra", "code"),
    [
        ("cyclopts", "cli", COMMAND),
        ("rich", "cli", COMMAND),
        ("PIL", "cli", PICTURE),
        ("safetensors", "cli", EMBEDDED),
        ("matplotlib", "report", FIGURE),
        ("transformers", "hf", NAMED.format("hf:owner/net")),
        ("transformers", "hf", NAMED.format("clip:owner/net")),
        ("timm", "timm", NAMED.format("timm:net")),
        ("torchvision", "torchvision", NAMED.format("torchvision:net")),
        ("onnxruntime", "onnx", NAMED.format(f"onnx:{__file__}")),
        ("foolbox", "foolbox", FOOLBOX),
        ("art", "art", ART),
        ("polars", "polars", POLARS),
        ("ray", "ray", RAY),
    ],
)
def test_a_missing_package_is_told_with_how_to_install_it(
    package: str, extra: str, code: str
) -> None:
    answer = without((package,), code)
    assert answer.returncode == 1
    last = answer.stderr.splitlines()[-1]
    assert f"{package} is not installed: " in last
    assert last.endswith(f"; install it with `pip install 'tollbox[{extra}]'`.")
    assert (len(answer.stderr.splitlines()) == 1) == (code is COMMAND)  # the user's, no traceback


def test_the_extras_hold_what_is_not_in_the_core() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(lines: list[str]) -> set[str]:
        return {line.partition(">")[0] for line in lines}

    assert names(project["dependencies"]) == {"torch", "numpy", "scipy"}
    extras = project["optional-dependencies"]
    assert names(extras["cli"]) == {"cyclopts", "rich", "pillow", "safetensors"}
    assert names(extras["report"]) == {"matplotlib", "pillow"}
    assert extras["all"] == ["tollbox[cli,report]"]
    assert "tollbox[all,docs]" in extras["dev"]
