"""Build the package; the package indexes show the README with absolute addresses in its links."""

import pathlib
import re
import tomllib

import setuptools

ROOT = pathlib.Path(__file__).parent
PICTURES = (".gif", ".jpg", ".png", ".svg", ".webp")
# A block of code, or the target of a link or picture in Markdown or HTML.
CODE_OR_TARGET = re.compile(
    r"""```.*?```|(?<=\]\()[^)\s]+|(?<=src=")[^"]+|(?<=srcset=")[^"]+|(?<=href=")[^"]+""", re.DOTALL
)


def with_absolute_links(readme: str, repository: str) -> str:
    """Replace relative links and pictures by addresses on GitHub.

    Args:
        readme: a Markdown text; its links are relative to the repository's root.
        repository: address of the repository.

    Returns:
        The text. Blocks of code, web addresses and links inside the text (`#...`) are unchanged.
    """

    def absolute(found: re.Match[str]) -> str:
        text = found[0]
        if text.startswith(("```", "http://", "https://", "mailto:", "#")):
            return text
        kind = "raw" if text.endswith(PICTURES) else "blob"
        return f"{repository}/{kind}/main/{text}"

    return CODE_OR_TARGET.sub(absolute, readme)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    setuptools.setup(
        long_description=with_absolute_links(
            (ROOT / "README.md").read_text("utf-8"), project["urls"]["Repository"]
        ),
        long_description_content_type="text/markdown",
    )
