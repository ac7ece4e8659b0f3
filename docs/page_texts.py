"""A Sphinx extension: excerpts in the search results of a site that is opened from a folder.

Sphinx' search fetches each page that it found, and shows an excerpt. A browser refuses to fetch
files of a folder (file://), but it loads scripts. So this extension writes the texts of all pages
into a script, _static/page_texts.js, which _static/search_from_folder.js loads in a folder.
"""

import json
import pathlib

import bs4
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_js_file("search_from_folder.js")
    app.connect("build-finished", write_page_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_page_texts(app: Sphinx, error: Exception | None) -> None:
    """Write _static/page_texts.js: the text of each page, by the page's path in the site."""
    if error or app.builder.name != "html":
        return
    folder = pathlib.Path(app.outdir)
    paths = sorted(app.builder.get_target_uri(name) for name in app.env.found_docs)
    texts = {path: text_of((folder / path).read_text("utf-8")) for path in paths}
    script = f"window.pageTexts = {json.dumps(texts, ensure_ascii=False)};\n"
    (folder / "_static" / "page_texts.js").write_text(script, "utf-8")


def text_of(page: str) -> str:
    """Return the main part of a page as HTML; only sections and targets of links keep their tag.

    >>> text_of('<nav>Menu</nav><main><h1 id="a">Title</h1><p>A <b>word</b>.</p></main>')
    '<main role="main"><h1 id="a">Title</h1>A word.</main>'
    """
    soup = bs4.BeautifulSoup(page, "html.parser")
    content = soup.find("article", class_="bd-article") or soup.main
    for tag in content.find_all(["script", "style", "nav"]) + content.select(".headerlink"):
        tag.decompose()
    for tag in content.find_all(id=None):
        tag.unwrap()
    content.name, content.attrs = "main", {"role": "main"}
    return str(content)
