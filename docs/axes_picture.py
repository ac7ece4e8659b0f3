"""Draw docs/pictures/axes_*.png: the elements that share one mean and variance, for each norm.

Usage: make axes-picture
"""

import itertools
import pathlib

import matplotlib.axes
import matplotlib.figure
import numpy as np

FOLDER = pathlib.Path("docs/pictures")
SHARED, OTHER, LINE, TEXT = "#f0a040", "#dce6f2", "#5b6b7f", "#303a46"
DEPTH = np.array([0.45, 0.4])  # of a step along the axis N, which points away from the reader
WIDTH, CHANNELS, SAMPLES = 5, 4, 4  # cells along the axes right, up and away

# Pictures by name: the axis to the right (empty: no such axis), and for each norm the axes that its
# statistics reduce. The axis up is C, and the axis away is N.
PICTURES = {
    "dense": ("", {"BatchNorm": "N", "LayerNorm": "C"}),
    "sequence": ("T", {"BatchNorm": "NT", "LayerNorm": "C", "BatchNorm at t": "N"}),
    "convolution": ("W", {"BatchNorm": "NW", "LayerNorm, axis 1": "C", "axes 1, 2": "CW"}),
}


def draw(axes: matplotlib.axes.Axes, right: str, reduced: str) -> None:
    """Draw a box of cells; color those that share statistics with the front top right cell."""
    width = WIDTH if right else 1
    last = {right: width - 1, "C": CHANNELS - 1, "N": 0}
    x_step, up, away = np.array([1.0, 0.0]), np.array([0.0, 1.0]), DEPTH
    for x, c, n in itertools.product(range(width), range(CHANNELS), range(SAMPLES)):
        cell = {right: x, "C": c, "N": n}
        is_shared = all(axis in reduced or cell[axis] == last[axis] for axis in cell)
        color = SHARED if is_shared else OTHER
        corner = x * x_step + c * up + n * away
        if n == 0:
            face(axes, corner, x_step, up, color)
        if c == CHANNELS - 1:
            face(axes, corner + up, x_step, away, color)
        if x == width - 1:
            face(axes, corner + x_step, away, up, color)
    label(axes, "C", [-0.45, CHANNELS / 2])
    if right:
        label(axes, right, [width / 2, -0.55])
    label(axes, "N", [width + 0.5 + SAMPLES / 2 * DEPTH[0], SAMPLES / 2 * DEPTH[1] - 0.45])
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.set_axis_off()


def face(
    axes: matplotlib.axes.Axes, corner: np.ndarray, a: np.ndarray, b: np.ndarray, color: str
) -> None:
    """Draw one face of a cell."""
    axes.fill(*np.transpose([corner, corner + a, corner + a + b, corner + b]), color, ec=LINE)


def label(axes: matplotlib.axes.Axes, name: str, position: list[float]) -> None:
    """Write the name of an axis."""
    axes.text(*position, name, ha="center", va="center", fontsize=22, color=TEXT)


def main() -> None:
    """Write all pictures."""
    for name, (right, norms) in PICTURES.items():
        figure = matplotlib.figure.Figure(figsize=(4 * len(norms), 4.4), layout="constrained")
        for panel, (norm, reduced) in zip(
            figure.subplots(1, len(norms)), norms.items(), strict=True
        ):
            draw(panel, right, reduced)
            panel.set_title(norm, fontsize=22, color=TEXT)
        figure.savefig(FOLDER / f"axes_{name}.png", dpi=110)


if __name__ == "__main__":
    main()
