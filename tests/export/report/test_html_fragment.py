"""The HTML that a notebook shows in place of a report."""

import dataclasses
import html
import html.parser
import re

import pytest

from keras_norm.export.report.html_fragment import STYLE, html_fragment, html_table
from keras_norm.export.report.tables import BLANK, Cell, Column, Paragraph, Table, paragraph
from keras_norm.export.report.version_report import VersionReport
from keras_norm.export.results.check_result import Finding

HOSTILE = "<script>alert(1)</script>\"'&"


class Balanced(html.parser.HTMLParser):
    """Collects the tags of HTML, and fails if an element is not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("img", "wbr"):  # these elements have no end
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def shown(fragment):
    """Return the part that is visible at first, as text."""
    return html.unescape(re.sub("<[^>]*>", " ", fragment.partition("<details>")[0]))


def test_a_report_shows_the_verdict_the_failures_the_advice_and_the_table_of_outputs(failing):
    failing = dataclasses.replace(failing, findings=(Finding("lstm", "is far", "recalibrate"),))
    text = shown(failing._repr_html_())
    places = [text.index(failing.verdict), *(text.index(f.detail) for f in failing.failures)]
    places += [text.index("recalibrate"), text.index("worst abs")]
    assert places[0] == min(places)
    assert places[-1] == max(places)
    assert "Train/inference gap" not in text


def test_the_other_tables_are_collapsed_and_all_elements_are_closed(passing, failing):
    for report in (passing, failing):
        fragment = report._repr_html_()
        assert {"table", "details", "caption"} < set(Balanced(fragment).tags)
        hidden = fragment.partition("<details>")[2]
        assert "Train/inference gap" in hidden
        assert "Properties" in hidden


@pytest.mark.parametrize("status", ["pass", "fail", ""])
def test_the_frame_has_the_color_of_the_verdict(status):
    fragment = html_fragment([paragraph("first"), paragraph("second"), BLANK], status)
    frame = fragment.partition(f'<div class="verdict {status}">')[2].partition("</div>")[0]
    assert "first" in frame
    assert "second" in frame
    assert not status or f".verdict.{status} {{ border-color" in STYLE


def test_texts_are_escaped_everywhere():
    cell = Cell((HOSTILE, "b"), style=HOSTILE, note=HOSTILE, used=1.0)
    table = Table(HOSTILE, (Column(HOSTILE, view="page"), Column("b")), ((cell, HOSTILE),), HOSTILE)
    text = Paragraph(((HOSTILE, HOSTILE),), indent=True)
    for page in (html_fragment([paragraph(HOSTILE), text, table, text]), html_table(table, "page")):
        assert page.replace("<wbr>", "").count(html.escape(HOSTILE)) >= 5
        assert "script" not in Balanced(page).tags


def test_styles_are_classes():
    table = Table("", (Column("", "status"),), ((Cell("cell", "not applicable"),), ("row",)))
    page = html_fragment([Paragraph((("part", "dim"), ("rest", ""))), table])
    assert '<td data-name="verdict" class="status not-applicable"><div>cell</div></td>' in page
    assert '<span class="dim">part</span><span class="">rest</span>' in page


def test_the_last_cell_of_a_short_row_spans_the_columns_that_the_view_shows():
    columns = (Column("a"), Column("b"), Column("c", view="page"), Column("d", view="text"))
    table = Table("", columns, (("1", "2"),))
    for view in ("page", "text"):
        assert html_table(table, view).count('<td colspan="2"') == 1
        assert html_table(table, view).count("<th ") == 3


def test_the_fragment_needs_no_other_file_and_no_script(failing):
    assert not re.search(r"(src|href)=|url\(|@import|<script|<link", failing._repr_html_())


def test_the_page_of_versions_contains_the_fragment():
    report = VersionReport("old", 3, (("new", ()),))
    assert report._repr_html_() in report.page()
    assert report.verdict in shown(report._repr_html_())
