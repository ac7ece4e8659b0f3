"""State dicts of tensors, straight from PyTorch: run it with `make test-compat`."""

import keras
import numpy as np
import pytest

from keras_norm.compat import load_torch_weights

torch = pytest.importorskip("torch", reason="`make test-compat` installs PyTorch")
FEATURES, UNITS = 5, 4


@pytest.fixture
def module():
    """Return a bidirectional LSTM after ten steps of training, in evaluation mode."""
    torch.manual_seed(0)
    module = torch.nn.LSTM(FEATURES, UNITS, bidirectional=True, batch_first=True)
    optimizer = torch.optim.Adam(module.parameters(), 0.05)
    for _ in range(10):
        optimizer.zero_grad()
        (module(torch.randn(8, 6, FEATURES))[0] ** 2).mean().backward()
        optimizer.step()
    return module.eval()


@pytest.fixture
def layer():
    layer = keras.layers.Bidirectional(keras.layers.LSTM(UNITS, return_sequences=True))
    layer.build((None, None, FEATURES))
    return layer


def check_outputs(layer, module, atol=1e-5):
    x = np.random.default_rng(1).normal(size=(3, 50, FEATURES)).astype("float32")
    with torch.no_grad():
        expected = module.float()(torch.tensor(x))[0].numpy()
    np.testing.assert_allclose(layer(x), expected, rtol=0, atol=atol)


def test_parameters_that_require_a_gradient(module, layer):
    load_torch_weights(layer, dict(module.named_parameters()))
    check_outputs(layer, module)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_tensors_of_another_dtype(dtype, module, layer):
    module.to(dtype)
    load_torch_weights(layer, module.state_dict())
    check_outputs(layer, module)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_file_that_safetensors_wrote(dtype, module, layer, tmp_path):
    from safetensors.torch import save_file

    save_file(module.to(dtype).state_dict(), tmp_path / "model.safetensors")
    load_torch_weights(layer, tmp_path / "model.safetensors")
    check_outputs(layer, module)


def test_a_module_inside_data_parallel(module, layer):
    load_torch_weights(layer, torch.nn.DataParallel(module).state_dict(), "module")
    check_outputs(layer, module)


def test_packed_sequences_are_masked_sequences(module):
    """The outputs after the end of a sequence are zeros, as those of `zero_output_for_mask`."""
    layer = keras.layers.LSTM(UNITS, return_sequences=True, zero_output_for_mask=True)
    layer = keras.layers.Bidirectional(layer)
    layer.build((None, None, FEATURES))
    load_torch_weights(layer, module.state_dict())
    x = np.random.default_rng(1).normal(size=(3, 6, FEATURES)).astype("float32")
    lengths = np.array([6, 4, 1])
    pack = torch.nn.utils.rnn.pack_padded_sequence
    packed = pack(torch.tensor(x), torch.tensor(lengths), batch_first=True)
    with torch.no_grad():
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0], batch_first=True)
    mask = np.arange(6) < lengths[:, None]
    np.testing.assert_allclose(layer(x, mask=mask), y.numpy(), rtol=0, atol=1e-5)


def test_the_output_without_sequences_is_h_n_of_both_directions(module):
    layer = keras.layers.Bidirectional(keras.layers.LSTM(UNITS))
    layer.build((None, None, FEATURES))
    load_torch_weights(layer, module.state_dict())
    x = np.random.default_rng(1).normal(size=(3, 6, FEATURES)).astype("float32")
    with torch.no_grad():
        _, (h_n, _) = module(torch.tensor(x))
    np.testing.assert_allclose(layer(x), torch.cat([*h_n], 1).numpy(), rtol=0, atol=1e-5)
