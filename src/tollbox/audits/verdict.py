"""An audit in words. They claim what was seen, of these images and by these attacks, and no more.

1. Costs are at most what an attacker needs: others may do with less. So a price that makes these
   attacks uneconomic is a price that is needed at least.
2. What was not reached is not said to be safe: it was not reached within the budgets.
3. The verdict is two sentences: what it costs, and what would change that.
4. Of one image there are no shares, and no intervals: the words speak of that image alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ..report.numbers import count, distance, percent
from ..report.words import counted, goal_sentences
from .answers import QUANTILES
from .data import number
from .evidence import IN_PYTHON, Evidence


def with_words(evidence: Evidence, data: dict[str, Any]) -> dict[str, Any]:
    """The data with its verdict, what to do with it, notes, and the commands to go on."""
    return data | {
        "verdict": verdict(data),
        "advice": advice(data),
        "notes": notes(evidence, data),
        "commands": commands(evidence),
    }


def level_words(level: Mapping[str, Any]) -> str:
    """An ε in words: 4/255 RMS (ℓ2 0.44)."""
    return f"{level['steps']:.3g}/255 RMS (ℓ2 {distance(level['epsilon'])})"


def _cost(value: float | None) -> str:
    if value is None:
        return "∞"
    return count(round(value)) if value >= 10 or float(value).is_integer() else distance(value)


def _interval(found: Mapping[str, Any]) -> str:
    return f"{_cost(found['value'])} [{_cost(found['low'])}, {_cost(found['high'])}]"


def _found(rows: list[dict[str, Any]], share: float, **keys: Any) -> dict[str, Any]:
    """The quantile of a share in the row with these keys."""
    row = next(row for row in rows if all(row[key] == value for key, value in keys.items()))
    return dict(row["quantiles"][QUANTILES.index(share)])


def verdict(data: Mapping[str, Any]) -> list[str]:
    """Two sentences for whoever reads nothing else."""
    measured, given = data["images"]["measured"], data["images"]["given"]
    if not measured and not data["left_out"]:
        which = "the one image" if given == 1 else f"all {given} images"
        return [
            f"Nothing can be said: the model misclassifies {which}.",
            f"Check its mean and std, and the {'label' if given == 1 else 'labels'}.",
        ]
    if not measured:
        which = "the one image" if given == 1 else "all images"
        return [
            f"Nothing can be said yet: no attack is finished on {which}.",
            "Go on with the audit to have its answers.",
        ]
    if _all_failed(data):
        return [
            f"Nothing can be said: all {count(data['failed'])} runs failed.",
            "Mend why (`tollbox status` has the reasons), and run them again.",
        ]
    here, level = data["headline"], data["levels"][data["headline"]]
    within = f"within {level_words(level)} of the original"
    if not level["reached"]:
        one = measured == 1
        many = f"None of the {counted(measured, 'image')} was"
        which = "The one image was not" if one else many
        return [
            f"{which} brought {within} by the attacks of this audit, with up to "
            f"{_cost(data['suite']['budget'])} queries{'' if one else ' each'} at equal prices.",
            "That is no proof of safety: a larger budget may show more.",
        ]
    dear = data["reference"]
    cheap = _found(data["costs"], 0.5, level=here, price=1)
    costly = _found(data["costs"], 0.5, level=here, price=dear)
    if cheap["value"] is None:
        first = (
            f"{percent(level['reached'])} of the {counted(measured, 'image')} were brought "
            f"{within}; for the others the budgets of this audit did not suffice."
        )
    elif measured == 1:
        first = (
            f"The one image was brought {within} for {_cost(cheap['value'])} queries; where a "
            f"flagged answer costs {count(dear)} times any other, the same takes a cost of "
            f"{_cost(costly['value'])}."
        )
    else:
        first = (
            f"Half of the {counted(measured, 'image')} were brought {within} for at most "
            f"{_interval(cheap)} queries each; where a flagged answer costs {count(dear)} times "
            f"any other, the same takes a cost of {_interval(costly)}."
        )
    return [first, _second(data, here)]


def _all_failed(data: Mapping[str, Any]) -> bool:
    """Whether no run ended well, and none had come near before."""
    runs = sum(row["runs"] for row in data["runs"])
    return data["failed"] == runs and not any(level["reached"] for level in data["levels"])


def _second(data: Mapping[str, Any], here: int) -> str:
    """What would change that."""
    worth, one = data["questions"]["worth"], data["images"]["measured"] == 1
    if worth is not None:
        half, found = (
            _found(data["break_even"], share, level=here, worth=number(worth))
            for share in (0.5, 0.9)
        )
        what = f"If a changed image is worth {_cost(worth)}"
        if found["value"] is None:
            where = ": one of them takes" if one else " on nine in ten images: some of them take"
            return (
                f"{what}, no price of flagged answers makes these attacks uneconomic{where} no "
                "flagged answer."
            )
        if found["value"] == 0:
            where = "" if one else " on nine in ten images"
            return (
                f"{what}, these attacks, as far as their budgets let them go, do not pay{where} at "
                "any price."
            )
        if one:
            return (
                f"{what}, a flagged answer has to cost more than {_cost(found['value'])} before "
                "these attacks no longer pay; better attacks may call for more."
            )
        if half["value"] == 0:
            return (
                f"{what}, these attacks, as far as their budgets let them go, do not pay on half "
                "of the images at any price, and no longer on nine in ten once a flagged answer "
                f"costs more than {_interval(found)}; better attacks may call for more."
            )
        return (
            f"{what}, a flagged answer has to cost more than {_interval(half)} before these "
            f"attacks no longer pay on half of the images, and more than {_interval(found)} on "
            "nine in ten; better attacks may call for more."
        )
    few, half = (_found(data["flagged"], share, level=here) for share in (0.1, 0.5))
    if few["value"] is None:
        return "Fewer than one in ten were, so nothing is said of a limit on flagged answers."
    if half["value"] == few["value"]:
        who = "It" if one else "Half of them"
        second = f"{who} took no more than {_flagged(half['value'])}"
    elif half["value"] is None:
        second = f"One in ten of them took no more than {_flagged(few['value'])}"
    else:
        second = (
            f"Half of them took no more than {_flagged(half['value'])}, and one in ten no more "
        )
        second += f"than {few['value']}"
    return f"{second}: a limit that is to stop such attacks has to lie below that."


def _flagged(value: float) -> str:
    return counted(int(value), "flagged answer")


def advice(data: Mapping[str, Any]) -> list[str]:
    """What would make attacks uneconomic, as far as it was seen."""
    if not data["images"]["measured"] or _all_failed(data):
        return []
    here, one = data["headline"], data["images"]["measured"] == 1
    most = "" if one else " on nine in ten images"
    said = []
    asked = data["questions"]["worth"]
    only = None if asked is None else number(asked)
    for row in data["break_even"]:
        if row["level"] != here or row["worth"] != (only or row["worth"]):
            continue
        found = row["quantiles"][QUANTILES.index(0.9)]
        worth = _cost(row["worth"])
        if found["value"] is None:
            said.append(
                f"At a worth of {worth} no price is high enough: some runs took no flagged answer."
            )
        elif found["value"] == 0:
            pay = "do not pay" if one else "pay on fewer than one in ten images"
            said.append(
                f"At a worth of {worth} these attacks, as far as their budgets let them go, {pay}, "
                "whatever flagged answers cost."
            )
        else:
            least = _cost(found["value"]) if one else _interval(found)
            said.append(
                f"At a worth of {worth} a flagged answer has to cost more than {least} for these "
                f"attacks not to pay{most}."
            )
    few = _found(data["flagged"], 0.1, level=here)
    if few["value"] == 1:
        falls = "The image falls" if one else "One in ten images fall"
        said.append(
            f"{falls} with the flagged answer to the image itself and no other: a limit on flagged "
            "answers does not stop that."
        )
    elif few["value"] is not None and few["value"] > 1:
        limit = int(few["value"]) - 1
        said.append(
            f"A limit of {counted(limit, 'flagged answer')} on attempts that belong together would "
            f"have stopped these attacks{most}; what belongs together is for whoever sets it, and "
            "is not measured here."
        )
    return said


def notes(evidence: Evidence, data: Mapping[str, Any]) -> list[str]:
    """What a reader of the numbers must know."""
    results, images = evidence.results, data["images"]
    said = [*results.sizes, *goal_sentences(results.study.goal, results.record.class_names)]
    if images["given"] == images["misclassified"] == 1:
        said.append("The model misclassifies the one image, which needs no attack.")
    elif images["misclassified"]:
        right = images["given"] - images["misclassified"]
        said.append(
            f"The model classifies {right} of {counted(images['given'], 'image')} correctly; the "
            f"other{'s need' if images['misclassified'] > 1 else ' needs'} no attack and "
            f"{'are' if images['misclassified'] > 1 else 'is'} left out."
        )
    if images["measured"] == 1:
        said.append("One image says little of others: there are no shares, and no intervals.")
    elif images["measured"] and images["measured"] < 20:
        said.append(
            f"{images['measured']} images are few: intervals are wide, and quantiles of one in ten "
            "stand on one or two images."
        )
    if evidence.left_out:
        names = ", ".join(
            f"{series.attack.name} at c* = {series.tariff.name} ({done} of {results.grid.width})"
            for series, done in evidence.left_out
        )
        unfinished = "the image is not" if images["given"] == 1 else "not all images are"
        said.append(
            f"Not measured, since {unfinished} finished: {names}. The numbers are those of "
            "the other attacks, and can only become lower: go on with the audit."
        )
    if evidence.failed:
        said.append(f"{counted(evidence.failed, 'run')} failed, and count up to where they came.")
    if evidence.without_start:
        said.append(
            f"{counted(evidence.without_start, 'run')} found no adversarial image to begin with."
        )
    said += [f"{text[:1].upper()}{text[1:]}." for text in results.warnings]
    return said + results.exactness


def commands(evidence: Evidence) -> list[str]:
    """How to go on with it, and how to ask it something else."""
    record, results = evidence.results.record, evidence.results
    folder = shlex.quote(str(results.folder))
    if record.made_by == "demo":
        size = f"--images {len(results.images)} --seed {results.study.seeds[0]}"
        return [f"tollbox demo {size} --out {folder}"]
    more = [f"tollbox resume {folder}"] if evidence.left_out else []
    more += [f"tollbox resume {folder} --failed"] if evidence.failed else []
    if record.where == IN_PYTHON:
        more = (
            []
            if not evidence.left_out
            else [f"tb.audit(..., out={str(results.folder)!r})  # as it was begun"]
        )
    return [
        *more,
        f"tollbox audit --out {folder} --worth 10000  # ask it something else; nothing is run",
        f"tollbox report {folder}  # attack by attack",
        f"# the images: digest {results.digest}",
    ]
