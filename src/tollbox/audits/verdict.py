"""The verdict in words: only claims about what was measured on these images with these attacks.

1. Costs are upper bounds: stronger attacks may need less. So a price that makes these attacks
   unprofitable is a lower bound on the price that is needed.
2. An image that was not reached is not called safe: it was not reached within the budgets.
3. The verdict is two sentences: what an attack costs, and what would change that.
4. For one image there are no shares and no intervals: the sentences are about that image alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ..report.formatting import confidence, count, counted, distance, percent
from ..report.summary import demo_command, failures, goal_sentences, result_notes
from .costs import IN_PYTHON, QUANTILES, AuditRuns
from .data import number

STRONGER = "stronger attacks may require a higher price."


def level_words(level: Mapping[str, Any]) -> str:
    """Return an ε as text, e.g. 4/255 RMS (ℓ2 0.44)."""
    return f"{level['steps']:.3g}/255 RMS (ℓ2 {distance(level['epsilon'])})"


def _cost(value: float | None) -> str:
    if value is None:
        return "∞"
    return count(round(value)) if value >= 10 or float(value).is_integer() else distance(value)


def _estimate(found: Mapping[str, Any], one: bool = False) -> str:
    """Return a number as text, e.g. 182 (95 % CI 60–415); for `one` image, without the interval."""
    ends = confidence(_cost(found["low"]), _cost(found["high"]))
    return _cost(found["value"]) + ("" if one else f" ({ends})")


def _found(rows: list[dict[str, Any]], share: float, **keys: Any) -> dict[str, Any]:
    """Return the quantile for `share` from the row with these keys."""
    row = next(row for row in rows if all(row[key] == value for key, value in keys.items()))
    return dict(row["quantiles"][QUANTILES.index(share)])


def verdict(data: Mapping[str, Any]) -> list[str]:
    measured, given = data["images"]["measured"], data["images"]["given"]
    if not measured and not data["left_out"]:
        which, labels = (
            ("the one image", "label") if given == 1 else (f"all {given} images", "labels")
        )
        first = f"No result: the model misclassifies {which}."
        return [first, f"Check its mean and std, and the {labels}."]
    if not measured:
        which = "the one image" if given == 1 else "all images"
        first = f"No result yet: no attack is finished on {which}."
        return [first, "Resume the audit to get results."]
    if _all_failed(data):
        first = f"No result: all {count(data['failed'])} runs failed."
        fix = "Fix the cause (`tollbox status` shows the reasons), and run them again."
        return [first, fix]
    here, level, one = data["headline"], data["levels"][data["headline"]], measured == 1
    images, within = counted(measured, "image"), f"successfully within {level_words(level)}"
    if not level["reached"]:
        which = "The one image was not" if one else f"None of the {images} was"
        budget = f"{_cost(data['suite']['budget'])} queries{'' if one else ' each'} at c* = 1"
        first = f"{which} attacked {within}, with up to {budget}."
        return [first, "This does not prove safety: a larger budget may succeed."]
    reference, worth = data["reference"], data["criteria"]["worth"]
    equal, priced = (_found(data["costs"], 0.5, level=here, price=p) for p in (1, reference))
    who, least, each = f"Half of the {images} were", "at most ", " each"
    if one:
        who, least, each = "The one image was", "", ""
    if equal["value"] is None:
        first = (
            f"{percent(level['reached'])} of the {images} were attacked {within}; the budgets of "
            "this audit were too small for the others."
        )
    else:
        first = (
            f"{who} attacked {within} for {least}{_estimate(equal, one)} queries{each}; if a "
            f"flagged answer costs {count(reference)} times as much as any other, the cost is "
            f"{least}{_estimate(priced, one)}."
        )
    return [first, _limit(data, here) if worth is None else _profit(data, here, worth)]


def _all_failed(data: Mapping[str, Any]) -> bool:
    """Return whether all runs failed before any image was reached."""
    runs = sum(row["runs"] for row in data["runs"])
    return data["failed"] == runs and not any(level["reached"] for level in data["levels"])


def _unprofitable(found: Mapping[str, Any], one: bool) -> str:
    """Return a clause about the price that makes attacks unprofitable on most images."""
    most = "" if one else " on nine in ten images"
    if found["value"] is None:
        some = "one of them needs" if one else "some of them need"
        return f"no price makes these attacks unprofitable{most}: {some} no flagged answer"
    if found["value"] == 0:
        return f"these attacks are unprofitable{most} at any price, within their budgets"
    return (
        f"a flagged answer must cost more than {_estimate(found, one)} to make these attacks "
        f"unprofitable{most}"
    )


def _profit(data: Mapping[str, Any], here: int, worth: float) -> str:
    """Return a sentence about the price that makes attacks unprofitable."""
    one = data["images"]["measured"] == 1
    half, most = (
        _found(data["break_even"], share, level=here, worth=number(worth)) for share in (0.5, 0.9)
    )
    if not most["value"]:
        text = f"{_unprofitable(most, one)}."
    elif one:
        text = f"{_unprofitable(most, one)}; {STRONGER}"
    elif half["value"] == 0:
        text = (
            "these attacks are unprofitable on half of the images at any price, within their "
            "budgets, and on nine in ten if a flagged answer costs more than "
            f"{_estimate(most)}; {STRONGER}"
        )
    else:
        text = (
            f"a flagged answer must cost more than {_estimate(half)} to make these attacks "
            f"unprofitable on half of the images, and more than {_estimate(most)} on nine in ten; "
            f"{STRONGER}"
        )
    return f"If a changed image is worth {_cost(worth)}, {text}"


def _limit(data: Mapping[str, Any], here: int) -> str:
    """Return a sentence about the limit on flagged answers that would stop attacks."""
    few, half = (_found(data["flagged"], share, level=here)["value"] for share in (0.1, 0.5))
    if few is None:
        return "Fewer than one in ten images were reached, which is too few to suggest a limit."
    who, most = "Half of them", few if half is None else half
    if data["images"]["measured"] == 1:
        who = "It"
    elif half is None:
        who = "One in ten of them"
    needed = f"{who} needed at most {counted(int(most), 'flagged answer')}"
    if most != few:
        needed += f", and one in ten at most {count(few)}"
    return f"{needed}: a limit on flagged answers must be lower to stop such attacks."


def advice(data: Mapping[str, Any]) -> list[str]:
    """Return sentences about prices and limits that would make these attacks unprofitable."""
    if not data["images"]["measured"] or _all_failed(data):
        return []
    here, one = data["headline"], data["images"]["measured"] == 1
    worth = number(data["criteria"]["worth"])
    sentences = []
    for row in data["break_even"]:
        if row["level"] == here and row["worth"] == (worth or row["worth"]):
            text = _unprofitable(row["quantiles"][QUANTILES.index(0.9)], one)
            sentences.append(f"At a worth of {_cost(row['worth'])}, {text}.")
    few = _found(data["flagged"], 0.1, level=here)["value"]
    if few == 1:
        reached = "The image is" if one else "One in ten images are"
        single = "a single flagged answer, the one to the image itself"
        text = f"{reached} attacked successfully with {single}"
        sentences.append(f"{text}: a limit on flagged answers does not prevent that.")
    elif few is not None and few > 1:
        most = "" if one else " on nine in ten images"
        sentences.append(
            f"A limit of {counted(int(few) - 1, 'flagged answer')} for related queries would have "
            f"stopped these attacks{most}. Which queries are related is up to you, and is not "
            "measured here."
        )
    return sentences


def notes(runs: AuditRuns, data: Mapping[str, Any]) -> list[str]:
    """Return sentences that a reader needs in order to interpret the numbers."""
    results, images = runs.results, data["images"]
    sentences = [*results.sizes, *goal_sentences(results.study.goal, results.record.class_names)]
    for attack in results.study.attacks:
        if (surrogate := attack.surrogate) is not None:
            networks = ", ".join(surrogate.sources)
            sentences.append(f"The attacker of {attack.name} has the surrogate {networks}.")
    wrong = images["misclassified"]
    if images["given"] == wrong == 1:
        sentences.append("The model misclassifies the one image, which needs no attack.")
    elif wrong:
        given = counted(images["given"], "image")
        right = f"The model classifies {images['given'] - wrong} of {given} correctly"
        rest = "others need no attack and are" if wrong > 1 else "other needs no attack and is"
        sentences.append(f"{right}; the {rest} left out.")
    if images["measured"] == 1:
        sentences.append("There is one image only, so there are no shares and no intervals.")
    elif 1 < images["measured"] < 20:
        few = f"{images['measured']} images are few: intervals are wide"
        sentences.append(f"{few}, and quantiles of one in ten depend on one or two images.")
    if runs.left_out:
        names = ", ".join(
            f"{series.attack.name} at c* = {series.tariff.name} ({done} of {results.grid.width})"
            for series, done in runs.left_out
        )
        unfinished = "the image is not" if images["given"] == 1 else "not all images are"
        include = "Resume the audit to include them. At the same ε, the costs can only become lower"
        if len(data["criteria"]["epsilons"]) != 1:
            include += ", but the verdict may move to a smaller ε, at which costs are higher"
        sentences.append(f"Not measured, because {unfinished} finished: {names}. {include}.")
    return sentences + failures(runs.runs) + result_notes(results)


def commands(runs: AuditRuns, failed: int) -> list[str]:
    """Return the commands that resume an audit, in which `failed` runs failed, or that report it
    with other criteria."""
    record, results = runs.results.record, runs.results
    folder = shlex.quote(str(results.folder))
    if record.made_by == "demo":
        return [demo_command(results, folder)]
    resume = [f"tollbox resume {folder}"] if runs.left_out else []
    if record.where == IN_PYTHON:
        call = f"tb.audit(..., out={str(results.folder)!r})  # with the same arguments"
        resume = [call] if runs.left_out else []
    elif failed:
        resume.append(f"tollbox resume {folder} --failed")
    return [
        *resume,
        f"tollbox audit --out {folder} --worth 10000  # report another worth; nothing is run",
        f"tollbox report {folder}  # a report on each attack",
        f"# the images: digest {results.digest}",
    ]
