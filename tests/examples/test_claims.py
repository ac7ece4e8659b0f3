"""The smallest preset gives the table of the paper, and the curves."""

import json

import pytest

from examples import claims

# Ba et al. 2016, Table 1; RMSNorm as LayerNorm without the re-centring of the weight matrix.
TABLE_1 = {
    "BatchNorm": "yes no yes yes yes no",
    "LayerNorm": "yes yes no yes no yes",
    "RMSNorm": "yes no no yes no yes",
}


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    out = tmp_path_factory.mktemp("claims")
    assert claims.main(["--preset", "smoke", "--out", str(out)]) == 0
    assert (out / "curves.png").is_file()
    return json.loads((out / "results.json").read_text())["entries"]


@pytest.mark.parametrize("norm", TABLE_1)
def test_the_invariances_are_those_of_the_paper(entries, norm):
    column = 1 + list(TABLE_1).index(norm)
    rows = claims.invariance_rows(entries["invariance"])
    assert [row[column] for row in rows] == TABLE_1[norm].split()


def test_layernorm_computes_the_same_in_both_modes_and_batchnorm_does_not(entries):
    gaps = {entry["model"]: entry["gap"] for entry in entries["mode_gap"]}
    assert gaps["LN-LSTM"] < 1e-12  # float64's rounding
    assert gaps["BN-LSTM"] > 0.01


def test_layernorm_holds_what_grows_without_it(entries):
    last = {
        (entry["task"], entry["model"]): entry["summed_inputs"][-1]
        for entry in entries["recurrence"]
    }
    assert last["gain 2", "SimpleRNN"] > 3 * last["gain 1", "SimpleRNN"]
    assert last["gain 2", "LN-SimpleRNN"] < 3 * last["gain 1", "LN-SimpleRNN"]


def test_with_layernorm_the_gradient_does_not_depend_on_the_gain(entries):
    first = {
        (entry["task"], entry["model"]): entry["gradients"][1] for entry in entries["recurrence"]
    }
    assert first["gain 2", "SimpleRNN"] > 100 * first["gain 0.5", "SimpleRNN"]
    assert first["gain 2", "LN-SimpleRNN"] == pytest.approx(
        first["gain 1", "LN-SimpleRNN"], rel=0.01
    )
