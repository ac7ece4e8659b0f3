"""Show the progress of a long call: a bar in a terminal or a notebook, nothing elsewhere."""

import contextlib
import html
import time
from typing import Any, Self

import rich.console
import rich.progress

DELAY = 1.0  # A call shows its progress bar after this number of seconds.

# The minimum number of seconds between two updates of the progress bar. If the bar is shown, a call
# of `Progress.step` with a text updates the bar at once.
INTERVAL = 0.2


class Progress(contextlib.AbstractContextManager["Progress"]):
    """Show the steps of a long call as a progress bar, and remove the bar at the end.

    A call that takes less than a second shows no bar. Output that is not a terminal, such as a
    file, gets no bar.

    Args:
        title: the name of the call, such as "check".
        total: number of steps; None if it is not known.
    """

    def __init__(self, title: str, total: int | None = None) -> None:
        self.title, self.total, self.done = title, total, -1
        self._started = self._shown = time.monotonic()
        self._console = rich.console.Console()
        self._bar: _TerminalBar | _NotebookBar | None = None

    def step(self, text: str = "") -> None:
        """Show that the next step of the call begins.

        Args:
            text: describes the step; a bar without texts is updated a few times per second.
        """
        self.done += 1
        now = time.monotonic()
        is_soon = now - self._shown < INTERVAL and not text
        if now - self._started < DELAY or (self._bar is not None and is_soon):
            return
        if self._bar is None:
            if self._console.is_jupyter:
                self._bar = _NotebookBar()
            elif self._console.is_terminal:
                self._bar = _TerminalBar(self._console)
            else:
                return
        self._shown = now
        self._bar.show(": ".join(filter(None, (self.title, text))), self.done, self.total)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.remove()


class _TerminalBar:
    """A progress bar in one line of a terminal."""

    def __init__(self, console: rich.console.Console) -> None:
        columns = (
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
        )
        self._progress = rich.progress.Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("", total=None)
        self._progress.start()

    def show(self, text: str, done: int, total: int | None) -> None:
        self._progress.update(self._task, description=text, completed=done, total=total)

    def remove(self) -> None:
        self._progress.stop()


class _NotebookBar:
    """A progress bar as HTML in the output of a notebook's cell; each step replaces the HTML."""

    def __init__(self) -> None:
        self._output: Any = None

    def show(self, text: str, done: int, total: int | None) -> None:
        size = "" if total is None else f' value="{done}" max="{total}"'
        count = str(done) if total is None else f"{done}/{total}"
        self._write(f"{count} {text}", f"<progress{size}></progress> {count} {html.escape(text)}")

    def remove(self) -> None:
        self._write("", "")

    def _write(self, text: str, page: str) -> None:
        from IPython.display import display

        output = {"text/plain": text, "text/html": page}
        if self._output is None:
            self._output = display(output, raw=True, display_id=True)
        else:
            self._output.update(output, raw=True)
