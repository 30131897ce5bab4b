"""The notebooks of `examples/` as pages: run while the site is built, so that what they show is
what they do. They are kept without outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
NOTEBOOKS = sorted((HERE.parents[1] / "examples").glob("*.ipynb"))


class Running(NamedTuple):
    """A notebook under way."""

    process: subprocess.Popen[str]
    folder: tempfile.TemporaryDirectory[str]


def made() -> dict[str, Callable[[], str]]:
    """By the name of a notebook, what gives its page; all are begun at once."""
    running = cache(lambda: {path.stem: _begin(path) for path in NOTEBOOKS})
    return {path.stem: partial(_page, path, running) for path in NOTEBOOKS}


def _begin(path: Path) -> Running:
    """A notebook under way, in a folder of its own."""
    folder = tempfile.TemporaryDirectory(prefix="notebook-")
    source = os.pathsep.join([str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": source}
    command = [sys.executable, str(HERE / "run_notebook.py"), str(path)]
    process = subprocess.Popen(
        command, cwd=folder.name, env=environment, stdout=subprocess.PIPE, text=True
    )
    return Running(process, folder)


def _page(path: Path, running: Callable[[], dict[str, Running]]) -> str:
    process, folder = running()[path.stem]
    out, _ = process.communicate()
    folder.cleanup()
    if process.returncode:
        raise RuntimeError(f"{path.name} ended with exit code {process.returncode}")
    return page(json.loads(path.read_text("utf-8")), json.loads(out))


def page(notebook: dict[str, Any], shown: list[dict[str, Any]]) -> str:
    """A notebook and what it shows, as Markdown without its heading."""
    blocks, outputs = [], iter(shown)
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
            continue
        blocks.append(f"```python\n{source}\n```")
        output = next(outputs)
        if output["text"]:
            blocks.append(f"```text\n{output['text'].rstrip()}\n```")
        for picture in output["figures"]:
            data = f"data:image/png;base64,{picture}"
            blocks.append(f'<img class="figure" alt="The figure of this cell" src="{data}">')
    if blocks and blocks[0].startswith("# "):
        blocks[0] = blocks[0].partition("\n")[2]
    return "\n\n".join(blocks)
