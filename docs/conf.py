"""The site's settings: `make docs`. What is made while it is built is in `docs/site/`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "site"), str(HERE.parent / "src")]

import tollbox  # noqa: E402

project = "tollbox"
author = "the tollbox authors"
version = release = tollbox.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "made_pages", "docstrings"]
exclude_patterns = ["site"]
html_theme = "furo"
html_title = f"tollbox {release}"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#5fd3a8", "color-brand-content": "#5fd3a8"},
}
highlight_language = "text"
pygments_style = "default"
pygments_dark_style = "github-dark"

myst_heading_anchors = 6  # links to headings work as on a code host
suppress_warnings = ["myst.header"]  # tables that commands wrote begin where they like
smartquotes = False  # options begin with two hyphens

default_role = "literal"  # docstrings have `code` as Markdown has it
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
maximum_signature_line_length = 90
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
NOT_DESCRIBED = (
    *("parts.registry.T", "core.ask.T", "core.ledger.AccountBefore", "engine.journal.Journal"),
    *("engine.cell_run.CellRun", "data.resizing.ModelConfiguration", "studies.toml.Source"),
    *("studies.inputs.StudyInputs", "studies.grid.Place", "studies.store.codec.End"),
    *("studies.store.codec.Trace", "core.exactness.Seen", "attacks.presets.Preset"),
    *("workers.executors.OnLoss", "core.execution.WorkerPool", "studies.toml.Item"),
    *("models.network.Network",),
)
"""What public signatures mention and no user needs to make."""
nitpick_ignore = [("py:class", f"tollbox.{name}") for name in NOT_DESCRIBED]
nitpick_ignore_regex = [("py:.*", r"(?!tollbox).*")]  # of other packages nothing is known here
