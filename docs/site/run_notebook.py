"""Runs a notebook's code cells in order, and prints what each shows, as JSON.

    python docs/site/run_notebook.py examples/first_attack.ipynb

Plain Python, without Jupyter: what a cell shows is what it prints, the value of its last line, and
the figures that it leaves open. The first error ends the run, with a traceback that names the cell.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["MPLBACKEND"] = "agg"


def run(notebook: dict[str, Any], space: dict[str, Any]) -> list[dict[str, Any]]:
    """What each code cell shows: `text`, and `figures` as PNG in base64."""
    shown = []
    codes = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, source in enumerate(codes, 1):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            value = _value("".join(source), f"cell {number}", space)
            if value is not None:
                sys.stdout.write(f"{value!r}\n")
        shown.append({"text": out.getvalue(), "figures": _figures()})
    return shown


def _value(source: str, name: str, space: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line, if that is an expression."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), space)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), space)


def _figures() -> list[str]:
    """The figures that are open, which are then closed."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    drawn: list[str] = []
    for number in pyplot.get_fignums() if pyplot else ():
        file = io.BytesIO()
        pyplot.figure(number).savefig(file, format="png", dpi=110, bbox_inches="tight")
        drawn.append(base64.b64encode(file.getvalue()).decode())
    if pyplot:
        pyplot.close("all")
    return drawn


if __name__ == "__main__":
    shown = run(json.loads(Path(sys.argv[1]).read_text("utf-8")), {"__name__": "__main__"})
    sys.stdout.write(json.dumps(shown))
