"""Draw the paper's concept figures (Figures 2, 6 and 8) as SVG and PNG files.

    python docs/figures/draw.py [FOLDER]

The default folder is docs/gallery. `make studies-small` runs this script.
"""

from __future__ import annotations

import sys
from pathlib import Path

import concept_pictures
import search_picture

from tollbox.report.figures import save

FIGURES = {
    "concept-picture": concept_pictures.draw_agrest_and_search,
    "search-picture": search_picture.draw,
    "estimates-picture": concept_pictures.draw_estimates,
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        save(draw(), folder / f"{name}.svg", folder / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "gallery"))
