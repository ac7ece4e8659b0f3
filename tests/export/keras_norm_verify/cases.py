"""Golden cases of a small function, for the tests."""

import dataclasses
import io
import json

import numpy as np

from keras_norm_verify import GoldenCase, GoldenCases
from keras_norm_verify.golden_cases_file import pack_golden_cases

X = np.random.default_rng(0).normal(size=(3, 5, 2)).astype("float32")


def case(**changes):
    case = GoldenCase("batch 3", "serving_default", {"x": X}, {"y": X.sum(axis=-1)}, {"y": 1e-3})
    return dataclasses.replace(case, **changes)


def golden_cases(*cases):
    return GoldenCases("m", "what m does", {"numpy": "2"}, {"": "f00"}, cases or (case(),))


def sum_features(signature, inputs):
    return {"y": inputs["x"].sum(axis=-1)}


def stored(*keys, to, **arrays):
    """Make the bytes of golden cases with one changed field, and with other arrays."""
    with np.load(io.BytesIO(pack_golden_cases(golden_cases()))) as file:
        arrays = dict(file) | arrays
    fields = json.loads(str(arrays["golden_cases"]))
    parent = fields
    for key in keys[:-1]:
        parent = parent[key]
    parent[keys[-1]] = to
    arrays["golden_cases"] = np.array(json.dumps(fields))
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()
