"""One pass per layer gives the statistics of inference; one pass with small batches does not."""

from benchmarks import stacked_norms


def test_a_pass_for_each_layer_is_closer_than_one_pass(monkeypatch):
    monkeypatch.setattr(stacked_norms, "SEEDS", 1)
    monkeypatch.setattr(stacked_norms, "DEPTH", 3)
    one, each = (
        stacked_norms.measure(32, layer_by_layer=by_layer, rows=256) for by_layer in (False, True)
    )
    assert each.mean < 1e-4 < one.mean
    assert each.variance < 0.01 < one.variance
