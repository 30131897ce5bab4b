"""A price for each class: what an answer costs depends on which class it is.

    python examples/class_prices.py

Here a person looks at every picture that the model calls a coat or a shirt, which costs 20 and 50;
any other answer costs 1. An attack on a coat pays 20 for an answer "coat", and has to find a way
out that does not lead through the shirts. On the command line the same prices are a CSV file,
`tollbox attack --price prices.csv`:

    class,price
    4,20
    6,50
    default,1
"""

from __future__ import annotations

from collections import Counter

import tollbox as tb
from tollbox.models.embedded import CLASSES

BUDGET = 3000
IMAGES = 3


def main() -> None:
    model, images, labels, _ = tb.models.embedded()
    coat, shirt = CLASSES.index("Coat"), CLASSES.index("Shirt")
    prices = tb.Prices.per_class({coat: 20.0, shirt: 50.0}, default=1.0)
    coats = (model(images) == labels) & (labels == coat)
    results = tb.run(
        "a-hsja",
        model,
        images[coats][:IMAGES],
        labels[coats][:IMAGES],
        prices=prices,
        budget=BUDGET,
    )
    for result in results:
        answers = sum(result.ledger.counts.values(), Counter[int]())
        account = {CLASSES[label]: count for label, count in answers.most_common()}
        cost = result.ledger.cost
        print(f"image {result.index}: l2 {result.distance:.3f} at a cost of {cost:g}: {account}")


if __name__ == "__main__":
    main()
