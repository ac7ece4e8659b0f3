"""Turn an LSTM of PyTorch into a TFLite file of any batch size and length, and check the file.

`python -m examples.from_torch convert` loads examples/from_torch.safetensors, a classifier of
handwritten digits that PyTorch trained, into a Keras model. It writes a TFLite file, and compares
it with the outputs of PyTorch. The command `train` trains the classifier again, with PyTorch.
"""

import argparse
import pathlib

import keras
import numpy as np
import safetensors.numpy
from sklearn.datasets import load_digits

import keras_norm
from keras_norm.compat import load_torch_weights, read_weights
from keras_norm.export import export_tflite, open_runner

UNITS, ROWS, CLASSES, TRAINING = 16, 8, 10, 1500
FILE = pathlib.Path(__file__).with_suffix(".safetensors")
TOLERANCE = 1e-5


def load():
    """Load the digits as sequences (samples, 8 timesteps, 8 features), with their classes."""
    digits = load_digits()
    return (digits.images / 16.0).astype("float32"), digits.target


def train(epochs):
    """Train a classifier with PyTorch; return its state dict, test inputs and their outputs."""
    import torch
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(ROWS, UNITS, num_layers=2, bidirectional=True, batch_first=True)
            self.norm = nn.LayerNorm(2 * UNITS)
            self.head = nn.Linear(2 * UNITS, CLASSES)

        def forward(self, rows):
            return self.head(self.norm(self.lstm(rows)[0]).mean(dim=1))

    torch.manual_seed(0)
    model, (x, classes) = Classifier(), map(torch.tensor, load())
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(epochs):
        for batch in torch.randperm(TRAINING).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), classes[batch]).backward()
            optimizer.step()
    x, classes = x[TRAINING:], classes[TRAINING:]
    entries = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        print(f"test accuracy {(model(x).argmax(1) == classes).float().mean():.1%}")
        for name, rows in (("8", x[:20]), ("16", torch.cat([x[:5], x[5:10]], dim=1))):
            entries |= {f"{name}.rows": rows, f"{name}.logits": model(rows)}
    return {name: tensor.numpy() for name, tensor in entries.items()}


def build():
    """Build the classifier in Keras; return it, and a dict: PyTorch module name -> Keras layers."""
    lstm = [keras.layers.LSTM(UNITS, return_sequences=True) for _ in range(2)]
    lstm = [keras.layers.Bidirectional(layer) for layer in lstm]
    norm = keras_norm.LayerNormalization(epsilon=1e-5)  # PyTorch's default epsilon
    head = keras.layers.Dense(CLASSES, name="logits")
    layers = [*lstm, norm, keras.layers.GlobalAveragePooling1D(), head]
    model = keras.Sequential([keras.Input((None, ROWS), name="rows"), *layers])
    return model, {"lstm": lstm, "norm": norm, "head": head}


def main(argv=None):
    """Run the command `train` or `convert`; return 0 if the Keras outputs equal PyTorch's."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("train", "convert"))
    parser.add_argument("--weights", type=pathlib.Path, default=FILE, help="state dict and outputs")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/from_torch"))
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args(argv)
    if args.command == "train":
        safetensors.numpy.save_file(train(args.epochs), args.weights)
        return 0
    entries = read_weights(args.weights)
    model, modules = build()
    load_torch_weights(modules, entries, prefix="model")
    file = export_tflite(model, args.out / "model.tflite", overwrite=True)
    differences = []
    with open_runner(file) as run:
        for length in ("8", "16"):
            rows, expected = entries[f"{length}.rows"], entries[f"{length}.logits"]
            differences.append(np.abs(run({"rows": rows})["logits"] - expected).max())
            print(f"{file}, inputs {rows.shape}: difference to PyTorch {differences[-1]:.1e}")
    return 0 if max(differences) <= TOLERANCE else 1


if __name__ == "__main__":
    raise SystemExit(main())
