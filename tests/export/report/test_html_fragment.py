"""The HTML that a notebook shows in place of a report."""

import dataclasses
import html
import html.parser
import re

import pytest
from rich.padding import Padding
from rich.text import Text

from keras_norm.export.report.html_fragment import html_fragment
from keras_norm.export.report.tables import add_row, new_table
from keras_norm.export.report.version_report import VersionReport
from keras_norm.export.results.check_result import Finding
from tests.export.report.reports import EXPECTED, artifact, report_of

HOSTILE = "<script>alert(1)</script>\"'&"


class Balanced(html.parser.HTMLParser):
    """Collects the tags of HTML, and fails if an element is not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def shown(fragment):
    """Return the part that is visible at first, as text."""
    return html.unescape(re.sub("<[^>]*>", " ", fragment.partition("<details>")[0]))


def test_a_report_shows_the_verdict_the_failures_the_advice_and_the_table_of_outputs(failing):
    failing = dataclasses.replace(failing, findings=(Finding("lstm", "is far", "recalibrate"),))
    text = shown(failing._repr_html_())
    places = [text.index(failing.verdict), *(text.index(f.detail) for f in failing.failures)]
    places += [text.index("recalibrate"), text.index("worst\nabs")]
    assert places[0] == min(places)
    assert places[-1] == max(places)
    assert "Train/inference gap" not in text


def test_the_other_tables_are_collapsed(passing):
    hidden = passing._repr_html_().partition("<details>")[2]
    assert "Train/inference gap" in hidden
    assert "Properties" in hidden


def test_the_elements_of_a_report_are_closed(passing, failing):
    for report in (passing, failing):
        tags = Balanced(report._repr_html_()).tags
        assert {"table", "details", "caption"} < set(tags)


@pytest.mark.parametrize(("color", "frame"), [("green", "#1a8a3a"), ("red", "#e5393f"), ("", None)])
def test_the_frame_has_the_color_of_the_verdict(color, frame):
    found = re.search("border-color: (#[0-9a-f]*)", html_fragment([Text("text")], color))
    assert (found and found[1]) == frame


def test_texts_are_escaped_everywhere():
    table = new_table(HOSTILE, HOSTILE)
    add_row(table, HOSTILE)
    items = [Text(HOSTILE), Padding(Text(HOSTILE, "bold"), (0, 0, 0, 2)), table, Text(HOSTILE)]
    page = html_fragment(items, more=HOSTILE)
    assert "<script" not in page
    assert page.count(html.escape(HOSTILE)) == 7
    assert "script" not in Balanced(page).tags


def test_a_hostile_name_in_a_report_is_escaped():
    report = report_of(artifact(HOSTILE, EXPECTED), artifact("b", EXPECTED, error=HOSTILE))
    assert "script" not in Balanced(report._repr_html_()).tags


def test_styles_of_cells_rows_and_texts_are_kept():
    table = new_table("", "")
    add_row(table, Text("cell", "bold red"))
    add_row(table, "row", style="green")
    page = html_fragment([Text.assemble(("part", "dim"), "rest"), table])
    assert '<span style="font-weight: bold; color: #e5393f">cell</span>' in page
    assert '<span style="color: #1a8a3a">row</span>' in page
    assert '<span style="opacity: .75">part</span>rest' in page


def test_the_fragment_needs_no_other_file_and_no_script(failing):
    assert not re.search(r"(src|href)=|url\(|@import|<script|<link", failing._repr_html_())


def test_the_page_of_versions_contains_the_fragment():
    report = VersionReport("old", 3, (("new", ()),))
    assert report._repr_html_() in report.page()
    assert report.verdict in shown(report._repr_html_())
