"""The site, built as `make docs` builds it and then read. Nothing is loaded from elsewhere, no link is dead."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import vips_fast
from vips_fast.cli.signature import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
NEEDS = ("sphinx", "myst_nb", "pydata_sphinx_theme", "sphinx_design", "ipykernel")
missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]

# Not in the extra `test`: building is no part of the quick tests, and `make docs` fails for most of the same reasons.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing), reason=f'the site needs the extra "docs"; not installed: {", ".join(missing)}'),
]


class Page(HTMLParser):
    """The files that a page loads, its links, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.ids = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in {"script", "img", "iframe", "source", "video", "embed"} and given.get("src"):
            self.loads.append(given["src"])
        elif tag == "link" and given.get("rel") != "canonical" and given.get("href"):
            self.loads.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    top = tmp_path_factory.mktemp("site")
    built = top / "site" / vips_fast.__version__
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for command in (
        ["-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", top / "doctrees", ROOT / "docs", built],
        [ROOT / "docs" / "_ext" / "versions.py", built.parent],
    ):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
    return built


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


def test_nothing_is_loaded_from_another_host(site, pages):
    for path, page in pages.items():
        assert not [url for url in page.loads if re.match(r"(https?:)?//", url)], path.name
    for path in site.rglob("*.css"):
        found = re.findall(r"(?:@import\s+|url\()[\"']?\s*(?:https?:)?//[^)\"']*", path.read_text("utf-8"))
        assert not found, path.name


def test_no_link_is_dead(site, pages):
    ids = {path.resolve(): set(page.ids) for path, page in pages.items()}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file)).resolve() if file else path.resolve()
            if not target.exists() or (anchor and target in ids and unquote(anchor) not in ids[target]):
                dead.append((path.name, link))
    assert not dead


def test_the_reference_has_every_public_name_and_command_and_no_private_one(pages):
    described = {name for page in pages.values() for name in page.ids if name.startswith("vips_fast.")}
    assert {f"vips_fast.{name}" for name in vips_fast.__all__} <= described
    private = [name for name in described if any(re.match(r"_(?!_)", part) for part in name.split("."))]
    assert not private
    (page,) = [page for path, page in pages.items() if path.name == "commands.html"]
    assert {f"vips-fast-{name.replace(' ', '-')}" for name in COMMANDS} <= set(page.ids)


def test_the_reference_lists_every_page_of_a_package_with_a_summary(site):
    text = (site / "reference" / "index.html").read_text("utf-8")
    rows = re.findall(
        r'<tr class="row-(?:odd|even)"><td>.*?href="generated/([\w.]+)\.html".*?</td>\s*<td><p>(.*?)</p>', text, re.S
    )
    written = {path.stem for path in (site / "reference" / "generated").glob("*.html")}
    assert {name for name, _ in rows} == written and all(len(said.split()) > 2 for _, said in rows)


def test_search_and_versions_need_no_server_of_others(site):
    index = (site / "searchindex.js").read_text("utf-8")
    assert '"epsilon"' in index and "tutorials/notes" in index
    (entry,) = json.loads((site.parent / "versions.json").read_text())
    assert entry["version"] == vips_fast.__version__ and entry["preferred"]
    assert f"{vips_fast.__version__}/index.html" in (site.parent / "index.html").read_text()
