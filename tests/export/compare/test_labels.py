"""Labels that do not fit the outputs of the model are refused."""

import numpy as np
import pytest

from keras_norm.export.compare.labels import read_labels

SCORES = np.zeros((4, 3))


@pytest.mark.parametrize(
    ("labels", "outputs", "message"),
    [
        ({"z": np.zeros(4)}, [SCORES], "must be names of outputs: 'y'. Received: 'z'"),
        ({0: np.zeros((4, 2), int)}, [SCORES], r"must have the shape \(4, 3\) or \(4,\)"),
        ({0: np.zeros(4)}, [SCORES], r"must have the shape \(4, 3\). Received \(4,\)"),
        ({0: np.array(["a"] * 4)}, [SCORES], "must be numbers"),
        ({0: np.full((4, 3), np.nan)}, [SCORES], "must be finite"),
        ({0: np.array([0, 1, 2, 3])}, [SCORES], "must be class numbers below 3. Received: 3"),
        (
            {0: np.array([0, 3, 6, 0])},
            [np.array([[0.1], [2.9], [6.2], [0.0]])],
            "'y' must be 0 or 1, .*Received: 6. Give float labels to compute the mean",
        ),
        ({0: np.zeros(4)}, [], "The model has no such output"),
        ({0: np.zeros(4)}, [SCORES, SCORES], "2 outputs"),
    ],
)
def test_wrong_labels_raise(labels, outputs, message):
    with pytest.raises(ValueError, match=message):
        read_labels(labels, dict(zip("yz", outputs, strict=False)))
