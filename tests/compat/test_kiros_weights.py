"""Masks and archives of Kiros' layers; test_outputs.py tests their outputs."""

import numpy as np
import pytest

from keras_norm.compat import load_kiros_weights
from tests.compat import kiros_code
from tests.compat.kiros_code import FEATURES, TIME
from tests.compat.layers import kiros_layer
from tests.compat.recorded import built, check_outputs, read


def loaded(kind, **options):
    layer = built(kiros_layer(kind, **options), FEATURES)
    load_kiros_weights(layer, read("kiros", kind).weights, "encoder_")
    return layer


@pytest.mark.parametrize("kind", ["lnlstm", "lngru"])
def test_masked_timesteps_keep_the_state(kind):
    layer, (weights, x, _) = loaded(kind), read("kiros", kind)
    mask = np.arange(TIME) < np.array([[3], [5]])
    expected = kiros_code.compute_outputs(kind, weights, x, mask)
    for training, atol in ((False, 1e-12), (True, 1e-10)):
        actual = np.asarray(layer(x, mask=mask, training=training))
        np.testing.assert_allclose(actual[mask], expected[mask], rtol=0, atol=atol)


def test_an_archive_with_several_layers_is_read_by_prefix(tmp_path):
    prefixes = {"encoder_": "lngru", "encoder_r_": "gru"}
    weights = {}
    for prefix, kind in prefixes.items():
        weights |= kiros_code.draw_weights(kind, prefix)
    np.savez(tmp_path / "skip.npz", history_errs=[], Wemb=np.ones((9, 6)), **weights)
    for prefix, kind in prefixes.items():
        layer = built(kiros_layer(kind), FEATURES)
        load_kiros_weights(layer, tmp_path / "skip.npz", prefix)
        check_outputs(read("kiros", kind), [layer], 1e-12)
