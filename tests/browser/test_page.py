"""The page of a report: as text, and in a real browser where there is one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from page_data import BETTER, HALF_LIFE, family, method, sample, size
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import tollbox.report.page as page_module
from tollbox.attacks import PRESETS, Method
from tollbox.report import formatting
from tollbox.report.page import PLACE, packaged, page

HOSTILE = "<img src=x onerror=alert(1)>"
LINK = '<a href="http://x.y">x</a>'  # short enough to be shown whole
BEST = "best of all attacks"
LINES = f"plot.data.filter((t) => t.name !== '{BEST}')"
CHARTS = ("curves", "tradeoff", "success", "phases", "shares")
WIDTHS = (400, 1400)


class Elements(HTMLParser):
    """The elements of a page, and what stands in its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts:
            self.scripts[-1] += data


def hostile() -> dict[str, Any]:
    """A study whose every name is markup, and that would end the script it stands in."""
    text = json.dumps(sample())
    text = text.replace('"cgba"', json.dumps(LINK)).replace('"geoda"', json.dumps(HOSTILE))
    text = text.replace("ResNet-50", "</script>" + HOSTILE + "{{script}}")
    data: dict[str, Any] = json.loads(text)
    data["title"] = HOSTILE
    data["notes"] = [HOSTILE, "<!-- <script>"]
    data["gallery"]["images"][0]["original"] = "https://example.com/x.png"
    data["environment"] = {HOSTILE: HOSTILE}
    return data


def empty() -> dict[str, Any]:
    """A study of which nothing is finished."""
    names = ("curves", "levels", "tradeoff", "success", "phases", "shares")
    lists: dict[str, Any] = {name: [] for name in names}
    gone = {
        "table": {"columns": [], "rows": [], "best": []},
        "ranking": sample()["ranking"] | {"ranges": [], "standings": []},
        "best": [],
        "gallery": {"note": None, "rows": [], "images": []},
    }
    return sample() | lists | gone | {"level": None, "models": [], "prices": [], "attacks": []}


# As text ------------------------------------------------------------------------------------------


def test_all_places_are_filled_once_and_the_size_is_bounded() -> None:
    text = page(sample())
    assert PLACE.findall(packaged("page.html")) == ["title", "css", "data", "plotly", "script"]
    parts = Elements(text)
    assert [tag for tag, _ in parts.found].count("script") == 4
    assert not any(PLACE.search(part) for part in (*parts.scripts[:2], parts.scripts[3]))
    assert len(text.encode()) < 2_500_000


def test_plotly_is_shipped_with_its_licence_and_no_python_of_it_is_needed() -> None:
    script = packaged("vendor/plotly-basic.min.js")
    version = re.search(r"plotly.js \(basic - minified\) v([\d.]+)", script[:200])
    assert version is not None
    assert version[1] in (page_module.__doc__ or "")
    assert "Permission is hereby granted" in packaged("vendor/plotly-LICENSE.txt")
    assert "</script" not in script
    imports = "import sys, tollbox.report.page; print('plotly' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", imports], capture_output=True, text=True)
    assert answer.stdout == "False\n", answer.stderr


def test_the_data_comes_back_as_it_went_in() -> None:
    data = hostile()
    parts = Elements(page(data))
    assert json.loads(parts.scripts[1]) == data
    assert "<" not in parts.scripts[1]


def test_no_text_becomes_an_element() -> None:
    def tags(data: dict[str, Any]) -> list[str]:
        return [tag for tag, _ in Elements(page(data)).found]

    assert tags(hostile()) == tags(sample())
    assert "<title>&lt;img src=x onerror=alert(1)&gt;</title>" in page(hostile())


def test_a_title_of_any_characters_can_be_written(tmp_path: Path) -> None:
    text = page(sample() | {"title": "ℓ2 \udcff \N{GRINNING FACE}"})
    (tmp_path / "page.html").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_numbers_must_be_finite(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        page(sample() | {"level": value})


def test_nothing_refers_to_another_place() -> None:
    for tag, attributes in Elements(page(sample())).found:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    for name in ("page.html", "page.css", "shared.js", "page.js"):
        found = re.findall(r"https?://[\w./-]+|@import|url\(|fetch\(|innerHTML", packaged(name))
        assert set(found) <= {"http://www.w3.org/2000/svg"}, name  # a name, which nobody fetches


# In a browser -------------------------------------------------------------------------------------


def resize(browser: webdriver.Chrome, width: int) -> None:
    """Make the window so wide, and wait until the page has followed."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_async_script("setTimeout(arguments[0], 400)")
    assert browser.execute_script("return innerWidth") == width


def visit(browser: webdriver.Chrome, file: Path) -> None:
    """Open a page, and wait until its script has come to the end: the links to its sections."""
    browser.get("about:blank")  # so that the last page, if it is the same one, is not waited for
    browser.get(file.as_uri())
    WebDriverWait(browser, 30).until(lambda page: page.find_elements(By.CSS_SELECTOR, "#top nav"))


def shown(browser: webdriver.Chrome, data: dict[str, Any], folder: Path, width: int = 1400) -> None:
    """Open the page of some data, and wait for its pictures."""
    resize(browser, width)
    (folder / "page.html").write_text(page(data), encoding="utf-8")
    visit(browser, folder / "page.html")
    browser.execute_async_script(
        "const done = arguments[0];"
        "Promise.all([...document.images].map((i) => i.decode().catch(() => 0))).then(() => done())"
    )


def trouble(browser: webdriver.Chrome) -> list[str]:
    """What the console says, and what was asked of any place but the file itself."""
    said = [entry["message"] for entry in browser.get_log("browser")]
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert any(url.endswith("page.html") for url in asked)  # else nothing is being watched
    return said + [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


def chart(browser: webdriver.Chrome, name: str, what: str) -> Any:
    """Something of what a chart shows: `plot` is its element."""
    script = f"const plot = document.getElementById('{name}-chart'); return {what}"
    return browser.execute_script(script)


def press(browser: webdriver.Chrome, place: str, key: str, label: str) -> None:
    """Choose one of a row of buttons, or of a list, in a section."""
    group = browser.find_element(By.CSS_SELECTOR, f"#{place} [data-key={key}]")
    for option in group.find_elements(By.CSS_SELECTOR, "label:has(input), option"):
        if option.text.replace("\u00a0", " ") == label:
            option.click()
            return
    raise AssertionError(f"no {label!r} in {group.text!r}")


@pytest.mark.parametrize("width", WIDTHS)
def test_everything_is_drawn_and_nothing_is_fetched(
    browser: webdriver.Chrome, tmp_path: Path, width: int
) -> None:
    shown(browser, sample(), tmp_path, width)
    for name in CHARTS:
        marks = "svg .scatterlayer .trace path, svg .barlayer .point path"
        paths = f"[...plot.querySelectorAll('{marks}')].filter((p) => p.getAttribute('d')).length"
        assert chart(browser, name, paths) >= 4, name
    sizes = browser.execute_script("return [...document.images].map((i) => i.naturalWidth)")
    assert len(sizes) == 14
    assert min(sizes) > 0
    assert trouble(browser) == []
    titles = "[...plot.querySelectorAll('.modebar-btn')].map((button) => button.dataset.title)"
    for name in CHARTS:  # no logo, and nothing that shares the chart
        assert chart(browser, name, titles) == ["Download plot", "Zoom", "Pan", "Reset axes"]


@pytest.mark.parametrize("attacks", [4, 14])
def test_the_page_does_not_scroll_sideways(
    browser: webdriver.Chrome, tmp_path: Path, attacks: int
) -> None:
    names = ("cgba", "a-cgba", "geoda", "a-geoda", "hsja", "hsja+as", "hsja+agrest", "a-hsja")
    more = (*names, "cgba+as", "cgba+agrest", "geoda+as", "geoda+agrest", "surfree", "a-surfree")
    long = "a model with a rather long name, of a folder/of/models/somewhere.pt2"
    shown(browser, sample(more[:attacks], ("ResNet-50", long)), tmp_path, WIDTHS[-1])
    parts = "document.documentElement.scrollWidth, document.body.scrollWidth"
    for width in (*WIDTHS[::-1], WIDTHS[-1]):  # also when it is made narrow, and wide again
        resize(browser, width)
        charts = chart(browser, "curves", "plot.querySelector('svg').getBoundingClientRect().width")
        assert 0.75 * min(width, 1120) < charts <= width
        assert max(browser.execute_script(f"return [{parts}]")) <= width
    assert trouble(browser) == []


def test_the_curves_follow_their_switches(browser: webdriver.Chrome, tmp_path: Path) -> None:
    data = sample()
    shown(browser, data, tmp_path)
    types = "[plot._fullLayout.xaxis.type, plot._fullLayout.yaxis.type]"
    lines = "plot.data.filter((t) => t.fill !== 'toself').map((t) => [t.name, t.x.at(-1), t.y])"
    assert chart(browser, "curves", types) == ["log", "log"]
    press(browser, "curves", "curveX", "linear")
    assert chart(browser, "curves", types) == ["linear", "log"]
    press(browser, "curves", "curveX", "log")
    press(browser, "curves", "curveY", "linear")
    assert chart(browser, "curves", types) == ["log", "linear"]
    press(browser, "success", "successX", "linear")
    assert chart(browser, "success", "plot._fullLayout.xaxis.type") == "linear"

    def expected(price: str, by: str) -> list[list[Any]]:
        found = [c for c in data["curves"] if c["price"] == price and c["by"] == by]
        best = [c | {"attack": BEST} for c in data["best"] if (c["price"], c["by"]) == (price, by)]
        every = [*found, *best]
        return [[c["attack"], c["x"][-1], [y for y in c["y"] if y is not None]] for c in every]

    assert chart(browser, "curves", lines) == expected("2", "cost")
    press(browser, "curves", "by", "flagged queries")
    assert chart(browser, "curves", lines) == expected("2", "source")
    assert chart(browser, "curves", "plot.layout.xaxis.title.text") == "flagged queries"
    press(browser, "success", "price", "c* = 100")  # one choice for the whole page
    assert chart(browser, "curves", lines) == expected("100", "source")
    checked = "#curves [data-key=price] label:has(:checked)"
    label = browser.find_element(By.CSS_SELECTOR, checked).text
    assert label.replace("\u00a0", " ") == "c* = 100"

    assert chart(browser, "curves", "plot.data.length") == 5
    browser.find_element(By.CSS_SELECTOR, "#curves [data-key=best]").click()
    assert chart(browser, "curves", lines) == expected("100", "source")[:-1]
    browser.find_element(By.CSS_SELECTOR, "#curves [data-key=bands]").click()
    assert chart(browser, "curves", "plot.data.length") == 8
    assert trouble(browser) == []


def ranked(browser: webdriver.Chrome) -> list[list[str]]:
    """The rows of the ranking, cell by cell."""
    rows = browser.find_elements(By.CSS_SELECTOR, "#ranking tbody tr")
    return [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")] for row in rows]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_ranking_is_by_g_beside_the_attack_that_is_chosen(
    browser: webdriver.Chrome, tmp_path: Path, width: int
) -> None:
    data = sample()
    shown(browser, data, tmp_path, width)
    sizes = {attack["name"]: size(attack["name"]) for attack in data["attacks"]}
    order = sorted(sizes, key=sizes.__getitem__)
    for against in ("cgba", "a-geoda"):
        press(browser, "ranking", "against", against)
        rows = ranked(browser)
        assert [row[0] for row in rows] == order
        for name, ratio, optimality, seconds, speed in rows:
            wanted = sizes[name] / sizes[against]
            value, small = ratio.split("\n")
            assert value == formatting.distance(wanted)
            ends = formatting.brackets(0.9 * wanted, 1.12 * wanted)
            assert small == ("the reference" if name == against else ends)
            assert optimality.split("\n")[0] == formatting.distance(1 - sizes[name])
            assert float(seconds) == pytest.approx(12.5 * len(name), rel=1e-2)
            assert float(speed.replace(",", "")) == pytest.approx(5000 / len(name), rel=1e-2)
        first = next(name for name in order if name != against)
        said = browser.find_element(By.CSS_SELECTOR, "#ranking .standing").text
        nearest = formatting.distance(sizes[first] / sizes[against])
        assert said.startswith(
            f"Over costs from 250 to 5,000, on 30 images, the distance of {first} is {nearest} ("
        )
        assert said.endswith(f"times that of {against}.")
    press(browser, "ranking", "price", "c* = 1000")
    assert {row[4] for row in ranked(browser)} == {"–"}
    assert trouble(browser) == []


def test_the_best_of_all_is_a_row_that_is_never_bold_and_not_ranked(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    shown(browser, sample(), tmp_path)
    rows = browser.find_elements(By.CSS_SELECTOR, "#table tbody tr")
    assert rows[-1].text.startswith(BEST)
    assert len(rows[-1].find_elements(By.CSS_SELECTOR, "td")) == 3
    assert not rows[-1].find_elements(By.CSS_SELECTOR, "strong")
    assert BEST not in [row[0] for row in ranked(browser)]
    alone = sample()
    alone["table"]["best"], alone["best"] = [], []
    for each in alone["ranking"]["standings"]:
        each |= {"seconds": None, "speed": None}
    shown(browser, alone, tmp_path)
    assert BEST not in browser.find_element(By.TAG_NAME, "main").text
    assert {len(row) for row in ranked(browser)} == {3}
    assert trouble(browser) == []


def test_a_band_covers_its_interval(browser: webdriver.Chrome, tmp_path: Path) -> None:
    data = sample(("cgba", "a-cgba"))  # so few have their intervals shown at once
    shown(browser, data, tmp_path)
    [band] = chart(browser, "curves", "plot.data.slice(0, 1).map((t) => [t.x, t.y])")
    points = set(zip(*band, strict=True))
    curve = next(c for c in data["curves"] if c["by"] == "cost")
    rows = zip(curve["x"], curve["y"], curve["low"], curve["high"], strict=True)
    drawn = [row for row in rows if row[1] is not None]
    assert min(x for x, _ in points) == drawn[0][0]
    for x, _, low, high in drawn:
        assert (x, low) in points
        assert high is None or (x, high) in points


def test_the_level_changes_points_and_rates(browser: webdriver.Chrome, tmp_path: Path) -> None:
    data = sample(models=("ResNet-50", "ViT"))
    shown(browser, data, tmp_path)

    def points() -> list[Any]:
        return sorted(zip(*chart(browser, "tradeoff", flat), strict=True))

    def expected(level: float) -> tuple[list[Any], list[Any]]:
        here = [t for t in data["tradeoff"] if (t["model"], t["level"]) == ("ResNet-50", level)]
        reached = sorted((t["flagged"], t["queries"]) for t in here if t["flagged"])
        return reached, [t for t in here if not t["flagged"]]

    markers = "plot.data.filter((t) => t.marker)"
    flat = f"[{markers}.flatMap((t) => t.x), {markers}.flatMap((t) => t.y)]"
    assert points() == expected(20.0)[0]
    rates = chart(browser, "success", "plot.data.map((t) => t.y)")
    press(browser, "tradeoff", "level", "5")
    reached, missed = expected(5.0)
    assert points() == reached
    listed = browser.find_elements(By.CSS_SELECTOR, "#tradeoff li")
    assert len(listed) == len({t["attack"] for t in missed}) == 4
    assert sum(item.text.count(": 31") for item in listed) == len(missed)
    assert chart(browser, "success", "plot.data.map((t) => t.y)") != rates
    assert trouble(browser) == []


def test_attacks_are_hidden_everywhere_and_by_keyboard(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    shown(browser, sample(), tmp_path)
    key = browser.find_element(By.CSS_SELECTOR, "#curves [data-attack=a-cgba]")
    key.send_keys(Keys.SPACE)
    assert key.get_attribute("aria-pressed") == "false"
    for name in ("curves", "tradeoff", "success", "shares"):
        assert "a-cgba" not in chart(browser, name, "plot.data.map((t) => t.name)")
    for label in ("hide all", "show all"):
        browser.find_element(By.XPATH, f"//section[@id='curves']//button[.='{label}']").click()
        hidden = label == "hide all"
        assert chart(browser, "success", "plot.hidden") is hidden
    assert chart(browser, "success", "plot.data.length") == 4
    radio = browser.find_element(By.CSS_SELECTOR, "#phases [data-key=price] input")
    radio.send_keys(Keys.ARROW_RIGHT)
    title = chart(browser, "phases", "plot.layout.xaxis.title.text")
    assert title.replace("\u00a0", " ") == "mean cost of a run (c* = 100)"
    press(browser, "phases", "unit", "share")
    sums = "plot.data[0].x.map((_, i) => plot.data.reduce((sum, t) => sum + t.x[i], 0))"
    assert chart(browser, "phases", sums) == pytest.approx([1.0] * 4)
    assert trouble(browser) == []


def test_tooltips_tell_the_numbers(browser: webdriver.Chrome, tmp_path: Path) -> None:
    data = sample()
    shown(browser, data, tmp_path)
    curve = data["curves"][0]
    at = curve["x"].index(1500)
    number = at - sum(y is None for y in curve["y"])  # a line begins where it is known
    y, low, high = (f"{curve[name][at]:.3g}" for name in ("y", "low", "high"))
    hover = "Plotly.Fx.hover(plot, [{{curveNumber: {0}, pointNumber: {1}}}]) || 1"
    text = "[...plot.querySelectorAll('.hoverlayer .hovertext text')].map((t) => t.textContent)"
    for name, place, expected in (
        (
            "curves",
            (0, number),
            f"cgbatotal cost 1,500median ℓ2 {y}95\u202f% CI {low}–{high}",
        ),
        ("phases", (1, 0), "cgba, searchmean cost 1,70035.8\u202f% of the run"),
    ):
        assert chart(browser, name, hover.format(*place))
        assert expected in chart(browser, name, text)
    assert trouble(browser) == []


def test_light_and_dark(browser: webdriver.Chrome, tmp_path: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    seen = {}
    for theme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": theme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        shown(browser, sample(), tmp_path)
        seen[theme] = browser.execute_script(ground)
    assert seen["light"] != seen["dark"]
    paper = chart(browser, "curves", "plot._fullLayout.paper_bgcolor")
    browser.find_element(By.CSS_SELECTOR, "button.theme").click()
    assert browser.execute_script(ground) == seen["light"]
    assert chart(browser, "curves", "plot._fullLayout.paper_bgcolor") != paper
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert trouble(browser) == []


def test_the_table_has_the_papers_form(browser: webdriver.Chrome, tmp_path: Path) -> None:
    shown(browser, sample(), tmp_path)
    lines = browser.find_element(By.CSS_SELECTOR, "table.results").text
    for part in ("budget 20,000", "[8.62, 12.2]", "found for 86.7\u202f%", "[16.3, ∞]", "–"):
        assert part in lines
    bold = [e.text for e in browser.find_elements(By.CSS_SELECTOR, "table.results strong")]
    assert bold == ["2.92", "7.21", "9.87", "4.18", "9.60", "13.0"]


def test_numbers_are_those_of_the_tables_in_files(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    values = [0.0, 1.2e-5, 0.00123, 0.0999, 0.5, 9.6, 10.04, 12.345, 123.4, 999.4, 999.6, 12345.0]
    values += [99_950.0, 123_456.0, 9_999_000.0, 2.5e8]
    data = sample(("cgba",))
    data["table"]["best"] = []
    [row] = data["table"]["rows"]
    cells = [
        {**row["cells"][1], "value": value, "success": number / 17}
        for number, value in enumerate(values)
    ]
    row["cells"] = cells
    data["table"]["columns"] = [data["table"]["columns"][0] | {"budget": v} for v in values]
    shown(browser, data, tmp_path)

    def texts(selector: str) -> list[str]:
        script = f"return [...document.querySelectorAll('{selector}')].map((e) => e.textContent)"
        found: list[str] = browser.execute_script(script)
        return found

    assert texts("#table td > :first-child") == [formatting.distance(value) for value in values]
    rates = [f"found for {formatting.percent(cell['success'])}" for cell in cells]
    assert texts("#table td small:last-child") == rates
    whole = [value for value in values if value.is_integer()]
    budgets = set(texts("#table thead small"))
    assert {f"budget {formatting.count(value)}" for value in whole} <= budgets


def test_words_are_explained_by_mouse_keyboard_and_touch(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    shown(browser, sample(), tmp_path, 400)
    terms = {
        name: [e.text for e in browser.find_elements(By.CSS_SELECTOR, f"{name} .term")]
        for name in ("header", "#summary", "#table", "#curves", "#tradeoff")
    }
    assert terms == {
        "header": ["hard budget"],
        "#summary": ["c*", "significantly different"],  # where they first stand
        "#table": ["significantly different"],
        "#curves": ["flagged"],
        "#tradeoff": ["flagged"],
    }
    said = "const s = getComputedStyle(arguments[0], '::after'); return [s.content, s.width]"
    for place in browser.find_elements(By.CSS_SELECTOR, ".term"):
        meaning = place.get_attribute("title")
        assert meaning
        assert browser.execute_script(said, place)[0] == "none"
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
        place.click()  # a touch, or the tabulator
        assert browser.execute_script("return document.activeElement === arguments[0]", place)
        content, width = browser.execute_script(said, place)
        assert content.strip('"') == meaning
        assert float(width.removesuffix("px")) <= 400
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    methods = browser.find_element(By.CSS_SELECTOR, "#table .methods").text
    assert all(f"{word}: " in methods for word in ("VA", "AS", "AGREST"))


def test_a_wide_table_says_that_it_scrolls_and_a_long_name_keeps_the_numbers_in_sight(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    data = sample(models=("ResNet-50", "ViT"))
    data["table"]["rows"][1]["method"] = "a method with a name " * 8 + "x" * 80
    shown(browser, data, tmp_path, 400)
    hint = browser.find_element(By.CSS_SELECTOR, "#table .hint")
    frame = browser.find_element(By.CSS_SELECTOR, "#table .frame")
    assert hint.is_displayed()
    assert "more" in frame.get_attribute("class")
    number = browser.find_element(By.CSS_SELECTOR, ".results tbody tr[data-attack] td")
    assert number.rect["x"] + number.rect["width"] < 400
    browser.execute_script("document.querySelector('#table .box').scrollLeft = 1e5")
    browser.execute_async_script("setTimeout(arguments[0], 200)")
    assert "more" not in frame.get_attribute("class")  # nothing is left to scroll to
    resize(browser, 1400)
    assert not hint.is_displayed()
    many = sample(models=tuple(f"model {n}" for n in range(4)))
    shown(browser, many, tmp_path, 1800)
    table = browser.find_element(By.CSS_SELECTOR, "table.results").rect
    text = browser.find_element(By.CSS_SELECTOR, "#table h2").rect
    assert table["width"] > text["width"]  # it uses the window
    assert table["x"] >= 0


def test_the_gallery_shows_what_is_chosen_and_all_of_it(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    data = sample()
    data["gallery"]["rows"] += [
        row | {"price": "1000"} for row in data["gallery"]["rows"] if row["attack"] == "cgba"
    ]
    shown(browser, data, tmp_path, 400)
    figures = browser.find_elements(By.CSS_SELECTOR, "#gallery .strip figure")
    assert len(figures) == 8
    for figure in figures:
        box = figure.rect
        assert 0 <= box["x"] < box["x"] + box["width"] <= 400
        assert box["width"] > 60
    section = browser.find_element(By.ID, "gallery")
    assert "amplified 5 times everywhere" in section.text
    assert [figures[3].text.splitlines(), figures[2].text.splitlines()] == [
        ["cost 20,000", "ℓ2 3.46", "lynx"],
        ["cost 6,000", "ℓ2 14.1"],
    ]
    press(browser, "gallery", "galleryAttack", "a-cgba")
    assert "a-cgba, c* = 100" in section.text.replace("\u00a0", " ")
    press(browser, "gallery", "galleryPrice", "c* = 1000")
    assert "This page has no images for a-cgba" in section.text
    press(browser, "gallery", "galleryAttack", "cgba")
    assert len(section.find_elements(By.CSS_SELECTOR, ".strip")) == 2
    assert trouble(browser) == []


def test_the_trade_off_has_honest_axes(browser: webdriver.Chrome, tmp_path: Path) -> None:
    data = sample()
    for point in data["tradeoff"]:
        point |= {"flagged": 10.0, "queries": 21.0}
    data["tradeoff"][0] |= {"flagged": 0.0, "queries": 24.0, "level": 20.0}
    shown(browser, data, tmp_path)
    ranges = chart(browser, "tradeoff", "['xaxis', 'yaxis'].map((a) => plot._fullLayout[a].range)")
    assert all(high - low >= 0.6 for low, high in ranges)  # a factor of four: 10 ** 0.602
    lines = "plot.data.filter((t) => t.name === 'half flagged').map((t) => [t.x, t.y])"
    [(across, up)] = chart(browser, "tradeoff", lines)
    assert up == pytest.approx([2 * x for x in across])
    text = browser.find_element(By.ID, "tradeoff").text
    assert "half of the queries flagged" in text
    assert "Zero flagged queries are drawn at 1." in text
    assert 1 in chart(browser, "tradeoff", "plot.data.flatMap((t) => t.x)")
    symbols = chart(browser, "tradeoff", "plot.data.flatMap((t) => t.marker?.symbol ?? [])")
    keys = browser.find_elements(By.CSS_SELECTOR, "#tradeoff .key[data-attack] svg > *")
    assert len(set(symbols)) == len(keys) == 4
    assert len({k.get_attribute("points") for k in keys}) == 4  # a circle has none


def test_success_begins_at_no_cost_on_a_linear_axis(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    shown(browser, sample(), tmp_path)
    press(browser, "success", "successX", "linear")
    firsts = chart(browser, "success", "plot.data.map((t) => [t.x[0], t.y[0]])")
    assert firsts == [[0, 0]] * 4


def test_many_attacks_are_grouped_by_family(browser: webdriver.Chrome, tmp_path: Path) -> None:
    many = tuple(p for p in PRESETS if method(p) in BETTER and family(p) in HALF_LIFE)
    shown(browser, sample(many), tmp_path)
    looks = chart(browser, "curves", f"{LINES}.map((t) => [t.name, t.line.color, t.line.dash])")
    assert len(looks) == len(many) > 12
    assert len({(colour, dash) for _, colour, dash in looks}) == len(many)
    colours = {(family(name), colour) for name, colour, _ in looks}
    assert len(colours) == len({name for name, _ in colours}) == 4
    button = browser.find_element(By.XPATH, "//section[@id='curves']//button[.='HSJA']")
    button.click()
    left = chart(browser, "success", "plot.data.map((t) => t.name)")
    assert {family(name) for name in left} == {"SurFree", "GeoDA", "CGBA"}
    button.click()
    assert chart(browser, "success", "plot.data.length") == len(many)
    assert trouble(browser) == []


def test_more_families_than_colours_differ_in_dashes(
    browser: webdriver.Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = tuple(p for p in PRESETS if method(p) in (Method.VANILLA, Method.AS, Method.BOTH))
    many = many[:38]  # of 42 looks, seven colours with six dashes each
    monkeypatch.setattr("page_data.HALF_LIFE", {family(name): 0.2 for name in many})
    shown(browser, sample(many), tmp_path)
    looks = chart(browser, "curves", f"{LINES}.map((t) => [t.line.color, t.line.dash])")
    assert len({family(name) for name in many}) > 7
    assert len({(colour, dash) for colour, dash in looks}) == len(many)
    assert trouble(browser) == []


def test_markup_in_names_is_shown_as_text(browser: webdriver.Chrome, tmp_path: Path) -> None:
    shown(browser, hostile(), tmp_path)
    assert browser.find_element(By.TAG_NAME, "h1").text == HOSTILE
    assert browser.title == HOSTILE
    wild = "[onerror], img:not([src^='data:']), a:not([href^='#']), svg image"
    assert browser.find_elements(By.CSS_SELECTOR, wild) == []
    ticks = chart(
        browser, "phases", "[...plot.querySelectorAll('.ytick')].map((t) => t.textContent)"
    )
    assert [t for t in ticks if t.startswith("<")] == [LINK, HOSTILE]
    assert trouble(browser) == []


def test_sections_without_data_are_left_out(browser: webdriver.Chrome, tmp_path: Path) -> None:
    shown(browser, empty(), tmp_path)
    heads = [e.text for e in browser.find_elements(By.TAG_NAME, "h2")]
    assert heads == ["Summary", "Environment"]
    assert [e.text for e in browser.find_elements(By.CSS_SELECTOR, "nav a")] == heads
    assert trouble(browser) == []


def test_readers_who_do_not_see_are_told(browser: webdriver.Chrome, tmp_path: Path) -> None:
    shown(browser, sample(models=("ResNet-50", "ViT")), tmp_path)
    levels = [int(e.tag_name[1]) for e in browser.find_elements(By.CSS_SELECTOR, "h1, h2, h3, h4")]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for place in browser.find_elements(By.CSS_SELECTOR, "button, input, select, img, .chart, pre"):
        assert place.accessible_name, place.get_attribute("outerHTML")
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
