"""Which way up is a line of text? A classifier of an OCR package, on pictures rendered here.

    pip install 'tollbox[all,onnx]'
    pip install --no-deps rapidocr-onnxruntime
    cd examples/text_direction
    python text_direction.py                  # copies the model file here: direction.onnx
    tollbox run study.toml --out results
    tollbox report results --trust-code       # results/report.html

The network is the two-class direction classifier in the wheel of `rapidocr-onnxruntime`
(Apache-2.0), which tells upright text from text that is upside down before it is read. Upright is
the flagged class: an answer "upright" costs c*, and the attack looks for the nearest picture of
upright text that is taken for upside down, and would be turned before it is read.

`lines` are the pictures, as `study.toml` names them.
"""

from __future__ import annotations

import shutil
from importlib.metadata import distribution

from PIL import Image, ImageDraw, ImageFont

FILE = "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
HEIGHT, WIDTH = 48, 192
"""Of the pictures that the package shows to the network."""
MARGIN = 6
PAPER, INK = (245, 243, 238), (30, 32, 40)
UPRIGHT = 0
WORDS = (
    *("robust", "Tollbox 2026", "INVOICE", "open daily", "boundary", "Exit 14", "flagged"),
    *("query price", "Platform 9", "DANGER", "hello world", "Monday", "receipt no. 7", "Keep left"),
)


def copy_model(target: str = "direction.onnx") -> None:
    """The network's file. It is found by the list of what the package installed: the package itself
    need not be imported, which would take all that it needs for reading."""
    shutil.copyfile(str(distribution("rapidocr-onnxruntime").locate_file(FILE)), target)


def lines() -> list[tuple[Image.Image, int]]:
    """Upright lines of text, each with its label."""
    return [(rendered(words), UPRIGHT) for words in WORDS]


def rendered(words: str) -> Image.Image:
    """A line of text in the middle of a piece of paper, as large as it fits."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(picture)
    for size in range(HEIGHT, 0, -1):
        font = ImageFont.load_default(size)
        left, top, right, bottom = draw.textbbox((0, 0), words, font=font)
        width, height = right - left, bottom - top
        if width <= WIDTH - 2 * MARGIN and height <= HEIGHT - 2 * MARGIN:
            break
    draw.text(((WIDTH - width) / 2 - left, (HEIGHT - height) / 2 - top), words, INK, font)
    return picture


if __name__ == "__main__":
    copy_model()
