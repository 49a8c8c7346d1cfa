"""Reports in a real browser.

Nothing is loaded, cut, hidden or overlapping, in light, dark and print.

The pictures are left in the folder that VIPS_FAST_ARTEFACTS names, or in the test's own.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
from reported import REPORTED, page

playwright = pytest.importorskip("playwright.sync_api", reason="the extra browser is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to look with")

#: What is wrong with the page as it is laid out, as a list of texts.
LOOK = """() => {
  const wrong = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) wrong.push('the page is wider than the window');
  const box = e => e.getBoundingClientRect(), said = e => (e.textContent || '').trim().slice(0, 40);
  for (const chart of document.querySelectorAll('.chart, .map')) {
    // Names may end in an ellipsis; a value, a label and a bar may not leave their chart.
    const outer = box(chart), texts = [...chart.querySelectorAll('.name, .value, b')].filter(t => said(t));
    if (outer.width < 200) wrong.push('a figure is too small: ' + outer.width);
    for (const one of [...texts, ...chart.querySelectorAll('i')]) {
      const a = box(one), half = one.className === 'point' ? 5 : 1;
      const beside = a.left < outer.left - half || a.right > outer.right + half;
      if (beside || a.top < outer.top - 1 || a.bottom > outer.bottom + 1)
        wrong.push('cut: ' + (said(one) || one.outerHTML));
    }
    texts.forEach((one, i) => {
      const a = box(one);
      if (one.className === 'value' && one.scrollWidth > one.clientWidth + 1) wrong.push('cut: ' + said(one));
      if (one.className === 'name' && a.width < 40) wrong.push('no room: ' + said(one));
      if (parseFloat(getComputedStyle(one).fontSize) < 9.5) wrong.push('small: ' + said(one));
      for (const other of texts.slice(i + 1)) {
        const b = box(other);
        // Lines of text are higher than their letters; a third of a line may lie over another's.
        const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (x > 1 && y > a.height / 3) wrong.push('overlap: ' + said(one) + ' and ' + said(other));
      }
    });
  }
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('.scroll') || e.closest('details:not([open])')) continue;
    if (box(e).right > wide + 1) wrong.push('beyond the window: ' + e.tagName + ' ' + said(e));
  }
  return wrong;
}"""

#: Texts whose color is too near their ground's (WCAG 2.1: 4.5).
CONTRAST = """() => {
  const numbers = s => (s.match(/[\\d.]+/g) || []).map(Number);
  const linear = x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
  const light = c => { const v = c.slice(0, 3).map(x => linear(x / 255));
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const ground = e => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  const wrong = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.tagName === 'title' || !e.getClientRects().length) continue;
    const a = light(numbers(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) wrong.push(ratio.toFixed(2) + ': ' + e.textContent.trim().slice(0, 40));
  }
  return wrong;
}"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        with driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as running:
            yield running


@pytest.fixture
def folder(tmp_path):
    kept = os.environ.get("VIPS_FAST_ARTEFACTS")
    path = Path(kept) if kept else tmp_path
    path.mkdir(parents=True, exist_ok=True)
    return path


def opened(browser, path, width, scheme):
    view = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    console, loaded = [], []
    view.on("console", lambda message: console.append(message.text))
    view.on("pageerror", lambda error: console.append(str(error)))
    view.on("request", lambda request: loaded.append(request.url))
    view.goto(path.as_uri())
    return view, console, loaded


@pytest.mark.parametrize("name", REPORTED)
def test_nothing_is_cut_hidden_or_loaded(browser, folder, name):
    path = folder / f"{name}.html"
    path.write_text(page(name), "utf-8")
    # Neighbors on a wide screen differ by figures; each kind of figure is in one of these.
    wide = name in ("topics", "tainted", "coefficients", "images")
    for width, scheme in ((390, "light"), *[(1280, "dark")] * wide):
        view, console, loaded = opened(browser, path, width, scheme)
        if name in ("topics", "images") or "VIPS_FAST_ARTEFACTS" in os.environ:
            view.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
        assert view.evaluate(LOOK) == []
        assert view.evaluate(CONTRAST) == []
        assert console == [] and [url for url in loaded if not url.startswith("data:")] == [path.as_uri()]
        view.close()


def test_print(browser, folder):
    path = folder / "tainted.html"
    path.write_text(page("tainted"), "utf-8")
    view, console, _ = opened(browser, path, 1280, "dark")
    pdf = view.pdf(path=folder / "tainted.pdf", prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF") and len(pdf) < 3_000_000
    view.emulate_media(media="print")
    # On paper it is light whatever the screen is, the contents' links are gone, and each page has the word.
    assert view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert view.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    heads = "[...document.styleSheets[0].cssRules].filter(r => r instanceof CSSPageRule).map(r => r.cssText).join()"
    assert re.search(r'@top-center \{[^}]*content: "NOT PRIVATE"', view.evaluate(heads))
    assert view.evaluate(CONTRAST) == [] and console == []
    view.close()
