"""A classifier in a Hugging Face folder (`save_pretrained`), on a folder of pictures.

    pip install 'tollbox[cli,hf]'
    python examples/hugging_face_folder.py path/to/model path/to/pictures

The pictures lie in a folder for each class, called like the classes of the model; they may have any
size. Names, size, mean and std are those of the model's own files. The same in a command:

    tollbox attack --model hf:path/to/model --images path/to/pictures --limit 4 \\
        --attack frugal --price 10 --budget 2000 --out results
"""

from __future__ import annotations

import sys

import tollbox as tb


def main(folder: str, pictures: str, limit: int = 4, budget: float = 2000) -> tb.Results:
    model = tb.models.load(f"hf:{folder}")
    images = tb.load_images(pictures, limit=limit, model=model)
    results = tb.run(
        "frugal",
        model,
        images.images,
        images.labels,
        prices=tb.Prices(source=10, other=1),
        budget=budget,
    )
    print(f"pictures are {images.resizing}")
    for name, label, result in zip(images.names, images.labels, results, strict=True):
        told = f"{result.stop}, l2 {result.distance:.3f}, {result.ledger}"
        print(f"{name} ({images.class_names[label]}): {told}")
    return results


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
