"""The page of an audit: as text, and in a real browser where there is one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from test_page import Elements, resize, visit

import tollbox as tb
from tollbox.audits import costs
from tollbox.audits.audit import PAGE, audit, conclude
from tollbox.audits.costs import AuditRuns
from tollbox.audits.criteria import Criteria
from tollbox.report.formatting import distance
from tollbox.report.page import packaged
from tollbox.testing import half_space

HOSTILE = "<img src=x onerror=alert(1)>"
CHARTS = ("cost-chart", "pays-chart", "limit-chart", "phases-chart", "against-chart")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit with hostile names, beside another one, with a growing price."""
    out = tmp_path_factory.mktemp("audit")
    generator = torch.Generator().manual_seed(0)
    plane = half_space(1.0, (1, 8, 8))
    images = (plane.source + 0.05 * torch.randn(6, 1, 8, 8, generator=generator)).clamp(0, 1)
    names = [HOSTILE, "</script><b>", "other"]
    for name, away in ((HOSTILE, 1.0), ("{{script}}</script>", 1.3)):
        model = half_space(away, (1, 8, 8)).model()
        where = out / str(away)
        audit(model, images, [0] * 6, out=where, name=name, budget=150, class_names=names)
    policy = tb.Prices.escalating({1: 1.0, 5: 100.0})
    conclude(out / "1.0", Criteria.of(policy=policy), other=out / "1.3")
    return out / "1.0"


def test_no_text_becomes_an_element_and_nothing_is_fetched(folder: Path) -> None:
    parts = Elements((folder / PAGE).read_text())
    tags = [tag for tag, _ in parts.found]
    assert tags.count("script") == 4
    assert "img" not in tags
    assert "b" not in tags
    assert "<" not in parts.scripts[1]
    assert json.loads(parts.scripts[1])["title"] == f"What it costs to attack {HOSTILE}"
    for name in ("audit.js", "audit.css"):
        text = packaged(name, "tollbox.audits")
        assert not re.findall(r"https?://|@import|url\(|fetch\(|innerHTML", text), name


@pytest.fixture
def opened(browser: webdriver.Chrome, folder: Path) -> Iterator[webdriver.Chrome]:
    browser.set_window_size(1400, 900)
    visit(browser, folder / PAGE)
    yield browser
    logs: list[dict[str, Any]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert not logs, logs


def test_all_is_shown(opened: webdriver.Chrome, folder: Path) -> None:
    found = json.loads((folder / "audit.json").read_text())
    body = opened.find_element(By.TAG_NAME, "main").text
    for sentence in (*found["verdict"], *found["advice"], *found["against"]["verdict"]):
        assert sentence in body
    for name in CHARTS:
        assert opened.find_elements(By.CSS_SELECTOR, f"#{name} .main-svg"), name
    pictures = opened.find_elements(By.CSS_SELECTOR, "#weakest img")
    assert len(pictures) == 3 * len(found["weakest"]) > 0
    assert all(picture.size["width"] > 0 for picture in pictures)


def test_the_ranking_and_the_time_are_shown(opened: webdriver.Chrome, folder: Path) -> None:
    found = json.loads((folder / "audit.json").read_text())
    shown = {row["attack"]: row for row in found["ranking"]["standings"] if row["price"] == 10}
    for attack, row in shown.items():
        cells = opened.find_elements(By.CSS_SELECTOR, f"#ranking [data-attack='{attack}'] td")
        wanted = "1" if attack == "frugal" else distance(row["G"]["value"])
        assert len(cells) == 4
        assert cells[1].text.split("\n")[0] == wanted
        assert f"O {distance(row['O']['value'])} [" in cells[1].text
        [run] = opened.find_elements(By.CSS_SELECTOR, f"#suite [data-attack='{attack}']")
        assert run.text.count("queries/s") == 5


@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_is_no_wider_than_the_window(opened: webdriver.Chrome, width: int) -> None:
    resize(opened, width)
    wide = opened.execute_script("return document.documentElement.scrollWidth")
    opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= width


def ask(page: webdriver.Chrome, name: str, value: str) -> None:
    field = page.find_element(By.ID, f"ask-{name}")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(value, Keys.TAB)


@pytest.mark.parametrize(("worth", "price"), [(50, 3), (900, 40), (7000, 700)])
def test_what_is_asked_of_the_page_is_what_the_answers_say(
    opened: webdriver.Chrome, folder: Path, worth: int, price: int
) -> None:
    """Its script computes as `answers.py` does."""
    ask(opened, "worth", str(worth))
    ask(opened, "price", str(price))
    with tb.studies.StudyResults(folder) as results:
        runs = AuditRuns.of(results)
        levels = Criteria().levels(runs.smallest, runs.values)
        chosen = json.loads((folder / "audit.json").read_text())["headline"]
        at = runs.accounts(levels)[chosen]
    even = costs.quantile(costs.break_even(at, worth), 0.9)
    found = costs.costs(at, price)
    tiles = opened.find_elements(By.CSS_SELECTOR, "#asked-tiles b")
    shown = [tile.text.replace("\u202f", "").replace(",", "") for tile in tiles]
    if even > 10:
        assert shown[0] == str(int(np.ceil(even)))
    share = f"{100 * float(np.mean(found <= worth)):.3g}"
    assert shown[1] == f"{share}%"
    assert shown[2] == f"{costs.quantile(found, 0.5):.0f}"
    assert shown[3] == f"{costs.quantile(costs.costs(at, np.inf), 0.1):.0f}"


def test_a_price_can_be_hidden_and_the_theme_changed(opened: webdriver.Chrome) -> None:
    def lines() -> int:
        drawn = "return document.getElementById('cost-chart').data.length"
        return int(opened.execute_script(drawn))

    before = lines()
    key = opened.find_element(By.CSS_SELECTOR, "#verdict .key")
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert lines() == before - 2
    opened.find_element(By.CSS_SELECTOR, "button.theme").click()
    theme = "return document.documentElement.dataset.theme"
    assert opened.execute_script(theme) == "dark"
