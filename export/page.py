"""A report as one page that needs no other file."""

import importlib.resources

from keras_norm.export.report import Report
from keras_norm.export.terminal import number, place, property_names, tolerances

MISSING = 'The HTML report needs {}, which is not installed: pip install "keras-norm[report]"'


def render(report: Report) -> str:
    """The page as text: verdict, tables, plots; styles and plots are inside it.

    Args:
        report: the report.

    Raises:
        ImportError: jinja2 or matplotlib is missing.
    """
    require_report_extra()
    import jinja2

    from keras_norm.export.plots import plots

    source = importlib.resources.files("keras_norm.export").joinpath("report.html").read_text()
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(number=number, place=place)
    return environment.from_string(source).render(
        report=report,
        plots=plots(report),
        properties=property_names(report),
        tolerances=tolerances(report),
    )


def require_report_extra() -> None:
    """Raise ImportError if jinja2 or matplotlib is not installed."""
    for package in ("jinja2", "matplotlib"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ImportError(MISSING.format(package)) from error
