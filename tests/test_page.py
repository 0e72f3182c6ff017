"""The page in a real browser, its charts, and a report on sweeps by hand."""

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from ablations.report.charts.draw import lines
from ablations.report.page import deliver
from ablations.report.sweep import flat, labels
from ablations.report.tables import study_tables
from tests.conftest import PROJECT, SMALL, TEXT, Command, unavailable

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
EVIL = '<img src=x onerror=alert(1)></script><script>document.title="owned"</script>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    if CHROMIUM is None:
        unavailable("there is no Chromium here")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield started
        started.close()


def visit(browser: Browser, file: Path, width: int, scheme: str = "light") -> tuple[Page, list[str], list[str]]:
    """The page in a window, with what it complained of and what it asked for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_function("document.querySelectorAll('.draw').length == document.querySelectorAll('.draw svg').length")
    return page, told, asked


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the ledger as it is committed, made anew."""
    from ablations.report.claims.judge import claims
    from ablations.report.results import load_plan, load_runs
    from ablations.report.tables import build, load_chapter

    folder = PROJECT / ".work" / "test-page" / tmp_path_factory.mktemp("page").name
    plan = load_plan("chapter")
    runs = load_runs(plan, PROJECT / "results")
    deliver(folder, "chapter", plan, runs, build(plan, runs, "chapter", load_chapter()), claims("chapter"))
    moved = tmp_path_factory.mktemp("chapter") / "reports"
    shutil.move(folder, moved)
    return moved / "index.html"


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1600, "dark")])
def test_it_draws_asks_for_nothing_and_fits(browser: Browser, chapter: Path, width: int, scheme: str) -> None:
    page, told, asked = visit(browser, chapter, width, scheme)
    assert told == [] and asked == [chapter.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    drawn = page.evaluate(
        """[...document.querySelectorAll('.draw')].map(
            d => [d.id, d.querySelectorAll('path, rect').length, d.scrollWidth - d.clientWidth])"""
    )
    assert len(drawn) >= 20
    assert all(marks > 3 and over <= 1 for _, marks, over in drawn), drawn
    boxes = page.evaluate(
        "[...document.querySelectorAll('.scroll')].map(s => [s.clientWidth, s.tabIndex, s.ariaLabel])"
    )
    assert all(box <= width and tab == 0 and label for box, tab, label in boxes)
    if width == 1600:
        tables = page.evaluate(
            "[...document.querySelectorAll('.claims')].map(t => t.scrollWidth - t.parentElement.clientWidth)"
        )
        assert max(tables) <= 0
    page.context.close()


def test_it_reads_in_both_schemes(browser: Browser, chapter: Path) -> None:
    """Text and ground differ by at least 4.5 to 1 (WCAG AA), in the text and in the charts."""
    for scheme in ("light", "dark"):
        page, _, _ = visit(browser, chapter, 1000, scheme)
        colours = page.evaluate(
            """[['body', 'color'], ['.soft', 'color'], ['a[href]', 'color'], ['.SUPPORTED', 'color'],
            ['.INCONCLUSIVE', 'color'], ['.draw svg text', 'fill']].map(
                ([s, p]) => getComputedStyle(document.querySelector(s))[p])"""
        )
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for colour in colours:
            assert contrast(colour, ground) >= 4.5, (scheme, colour, ground)
        page.context.close()


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours as the browser writes them."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_it_works_by_keyboard_and_has_words_for_each_chart(browser: Browser, chapter: Path) -> None:
    page, _, _ = visit(browser, chapter, 1000)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#content"
    first = page.locator("figure summary").first
    first.focus()
    page.keyboard.press("Enter")
    assert page.locator("figure details").first.get_attribute("open") is not None
    words = page.evaluate(
        "[...document.querySelectorAll('figure')].map(f => f.querySelector('details p').textContent.trim().length)"
    )
    assert min(words) > 20
    names = page.evaluate(
        """[...document.querySelectorAll('.draw svg')].map(
            s => s.getAttribute('aria-label') || s.innerHTML.includes('aria-label'))"""
    )
    assert all(names)
    headings = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(h => +h.tagName[1])")
    assert headings[0] == 1 and all(after - before <= 1 for before, after in itertools.pairwise(headings))
    page.context.close()


def test_it_is_small_and_prints(browser: Browser, chapter: Path, tmp_path: Path) -> None:
    assert chapter.stat().st_size < 3 * 2**20
    page, _, _ = visit(browser, chapter, 1000)
    page.pdf(path=str(tmp_path / "page.pdf"))
    assert (tmp_path / "page.pdf").read_bytes()[:5] == b"%PDF-" and (tmp_path / "page.pdf").stat().st_size > 50_000
    page.context.close()
    figures = chapter.parent / "figures"
    pngs, svgs = sorted(figures.glob("*.png")), sorted(figures.glob("*.svg"))
    assert len(pngs) == len(svgs) >= 20
    assert all(png.read_bytes()[:4] == b"\x89PNG" for png in pngs) and all(
        "<svg" in svg.read_text()[:200] for svg in svgs
    )


def a_study(tmp_path: Path, name: str) -> tuple[dict[str, Any], pd.DataFrame]:
    """Two variants with two seeds each, under names that someone chose with care."""
    rows = []
    for variant in ("a", "b"):
        for seed in (0, 1):
            folder = tmp_path / variant / str(seed)
            folder.mkdir(parents=True)
            (folder / "history.csv").write_text("step,train_loss,block1/entropy\n0,4.0,2.0\n5,3.0,1.5\n9,,1.0\n")
            made = {"commit": name, "clean": True, "seconds": 3.0, "processor": name, "packages": {"torch": name}}
            (folder / "provenance.json").write_text(json.dumps(made))
            row = {"study": "mine", "variant": variant, "seed": seed, "state": "done", "folder": folder}
            rows.append(row | {"heldout_perplexity": 40.0 + seed, "train_perplexity": 30.0, "parameters": 5})
    study = {"name": "mine", "question": name, "baseline": "a", "rows": {"a": name, "b": "plain"}}
    return study, pd.DataFrame(rows)


def test_names_from_configs_are_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    study, runs = a_study(tmp_path, EVIL)
    folder = PROJECT / ".work" / "test-page" / tmp_path.name
    deliver(folder, "quick", {"mine": {"study": study}}, runs, study_tables(study, runs, {}), [])
    page, told, asked = visit(browser, folder / "index.html", 1000)
    assert told == [] and asked == [(folder / "index.html").as_uri()]
    assert page.title() == "ablations: quick budget" and page.locator("img").count() == 0
    assert EVIL in page.locator("h3").first.inner_text()
    page.context.close()
    shutil.rmtree(folder)


def test_settings_of_a_sweep_are_told_apart_by_what_differs() -> None:
    def config(**model: Any) -> dict[str, Any]:
        return flat({"model": {"width": 8, **model}, "seed": 0})

    configs = {"x": config(heads=1), "y": config(heads=2)}
    assert labels(configs) == {"x": "model.heads=1", "y": "model.heads=2"}
    parts = {
        "x": config(mixer={"_target_": "m.One"}, heads=1),
        "y": config(mixer={"_target_": "m.Two", "base": 3}, heads=1),
    }
    assert labels(parts) == {"x": "model.mixer._target_=m.One", "y": "model.mixer._target_=m.Two"}
    assert labels({"only": config()}) == {"only": "only"}


def test_a_sweep_by_hand_gets_its_table_and_charts(run: Command, project: Path) -> None:
    """Three head counts with two seeds each, in the order of their numbers, with intervals; one command, no Python."""
    sweep = ("-m", "model.mixer.heads=2,16,4", "seed=0,1", *SMALL)
    assert run("ablations.train", *sweep).returncode == 0
    found = run("ablations.report.sweep", "budget=quick")
    assert found.returncode == 0, found.stderr
    folder = project / "reports" / "quick" / "sweep"
    frame = pd.read_csv(folder / "tables" / "sweep.csv")
    assert frame["row"].tolist() == ["model.mixer.heads=2", "model.mixer.heads=4", "model.mixer.heads=16"]
    assert (frame["heldout_perplexity_n"] == 2).all() and frame["heldout_perplexity_low"].notna().all()
    assert (folder / "index.html").exists() and (folder / "figures" / "sweep_rows.png").exists()
    assert frame["note"].isna().all()
    (project / "mine.txt").write_text(3 * TEXT)
    assert run("ablations.train", *sweep[:1], "model.mixer.heads=2", *SMALL).returncode == 0
    assert run("ablations.report.sweep", "budget=quick").returncode == 0
    after = pd.read_csv(folder / "tables" / "sweep.csv")
    assert after["row"].nunique() == 4 and after["row"].str.contains("heads=2, ").sum() == 2
    assert sorted(after["note"].fillna("")) == ["", *3 * ["2 of 2 by other code or text"]]
    elsewhere = run("ablations.report.sweep")
    assert elsewhere.returncode == 2 and "budget: chapter has no sweep by hand; allowed: quick" in elsewhere.stderr
    none = run("ablations.report.sweep", "budget=quick", "match=nope*")
    assert none.returncode == 2 and len(none.stderr.splitlines()) == 1 and "match: nope* fits no sweep" in none.stderr


def test_a_charts_words_follow_its_lines() -> None:
    """On every processor: they differ in how they sort what is equal, as the first step of each line is."""
    names = [f"line {i}" for i in range(40)]
    data = pd.DataFrame([{"what": name, "step": step, "value": step + 1.0} for name in names for step in (0, 5, 10)])
    chart = lines("x", {}, "x", data, "what", "value")
    assert chart is not None
    assert chart.text == "from step 0 to 10: " + "; ".join(f"{name}: 1.00 to 11.00" for name in names)


def test_a_chart_of_nothing_is_none() -> None:
    empty = pd.DataFrame({"step": [1], "what": ["a"], "value": [float("nan")]})
    assert lines("x", {}, "x", empty, "what", "value") is None
