"""What the tutorial, the how-tos and the concepts show runs as it stands there, page by page.

1. A page's blocks are run in order, in a folder of the page's own: `python` in one namespace, `sh`
   by a shell that stops at the first failure. One whose first line is a comment with a file's name
   is written to that file instead. Blocks without a language are for other machines.
2. A `text` block after one that is run is what it prints, but for the digits: each of its lines is
   among those that are printed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in (
        *(DOCS / "howto").glob("*.md"),
        *(DOCS / f"{name}.md" for name in ("index", "tutorial", "prices", "exactness")),
    )
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w-]+\.(?:py|toml))\n")


class Page:
    """A page whose blocks are run in a folder."""

    def __init__(self, folder: Path, name: str = "a page") -> None:
        self.folder, self.name = folder, name
        self.space: dict[str, Any] = {}
        self.printed: str | None = None
        self.count = 0

    def run(self, text: str) -> None:
        """All blocks of a page."""
        for language, block in BLOCK.findall(text):
            self.block(language, block)

    def block(self, language: str, block: str) -> None:
        """One block, as its language says."""
        file = FILE.match(block)
        self.count += language in ("python", "sh", "toml")
        if file is not None:
            (self.folder / file[1]).write_text(block)
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(block, self.name, "exec"), self.space)
            self.printed = out.getvalue()
        elif language == "sh":
            self.printed = self.shell(block)
        elif language == "text":
            assert self.printed is not None, block
            missing = set(without_digits(block)) - set(without_digits(self.printed))
            assert missing == set(), self.printed
        else:
            assert language in ("", "toml"), language

    def shell(self, block: str) -> str:
        """What a shell prints; it must succeed."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=self.folder,
            env=os.environ | {"PATH": path, "COLUMNS": "100", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def without_digits(text: str) -> Iterator[str]:
    """The lines of a text, with a 0 for each number."""
    return (re.sub(r"\d[\d.,]*", "0", line).strip() for line in text.splitlines() if line.strip())


@pytest.mark.parametrize("document", PAGES)
def test_what_a_page_shows_runs(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = Page(tmp_path, document)
    page.run((DOCS / document).read_text(encoding="utf-8"))
    assert page.count


@pytest.mark.parametrize(
    "text",
    [
        "```python\nraise ValueError\n```\n",
        "```sh\nfalse\n```\n",
        "```sh\nfalse | cat\n```\n",
        "```python\nprint(1, 'cell')\n```\n\n```text\n1 cells\n```\n",
        "```toml\n# a.toml\nb = 1\n```\n\n```sh\ngrep c a.toml\n```\n",
        "```bash\ntrue\n```\n",
    ],
)
def test_a_page_that_is_wrong_is_found(text: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ValueError)):
        Page(tmp_path).run(text)


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    page = Page(tmp_path)
    page.run("```toml\n# a.toml\nb = 12.5\n```\n\n```sh\ncat a.toml\n```\n\n```text\nb = 3\n```\n")
    assert page.count == 2
