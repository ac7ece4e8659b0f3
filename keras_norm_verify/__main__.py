"""Verify an exported file from the command line: python -m keras_norm_verify model.tflite.

Exit status: 0 the outputs are the expected outputs; 1 an output differs, or the file was changed; 2
the file was not run.
"""

import sys
from collections.abc import Sequence

from keras_norm_verify.golden_cases import GoldenCasesError
from keras_norm_verify.printable import escape_unknown_letters
from keras_norm_verify.verify import print_result

WRONG_USE = 2


def main(arguments: Sequence[str]) -> int:
    """Verify an artifact, and return the exit status.

    Args:
        arguments: path of the artifact, and optionally the path of its golden cases.
    """
    if not 1 <= len(arguments) <= 2:
        print("usage: python -m keras_norm_verify ARTIFACT [GOLDEN_CASES.npz]", file=sys.stderr)
        return WRONG_USE
    escape_unknown_letters()
    try:
        return print_result(*arguments)
    except GoldenCasesError as error:
        print(f"keras-norm: {error}", file=sys.stderr)
        return WRONG_USE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
