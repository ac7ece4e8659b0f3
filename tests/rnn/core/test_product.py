"""The gradients of y = norm(x W), against the complex step of NumPy.

`sequence.backward` runs these passes: wide groups of columns with a per-sample norm use neither x W
nor its gradient.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.timestep_norm import TimestepNorm
from keras_norm.rnn.core.product import Product
from keras_norm.rnn.core.recurrence import Slot
from tests import oracles
from tests.ops import test_sample_norm

# A group of 12 columns uses the Gram matrix with 3 features, and does not with 5 features.
BATCH, FEATURES, MANY_FEATURES, WIDTH = 7, 3, 5, 12
NORMS = {
    "none": None,
    **test_sample_norm.NORMS,
    "batch": TimestepNorm(1e-2, learning=True),
    "moving": TimestepNorm(1e-2, learning=False),
}
every_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def moving(norm, width=WIDTH):
    """Moving mean and variance; a per-sample norm has none."""
    if not isinstance(norm, TimestepNorm):
        return []
    return [draw(1, width, seed=3), draw(1, width, seed=4) ** 2]


def normalize(norm, a, gamma):
    """Normalize the columns of a group with the NumPy oracle."""
    if norm is None:
        return a
    if isinstance(norm, TimestepNorm):
        if norm.learning:
            return oracles.batch_norm_train(a, gamma, epsilon=norm.epsilon)[0]
        return oracles.batch_norm_inference(
            a, *moving(norm, a.shape[-1]), gamma, epsilon=norm.epsilon
        )
    return test_sample_norm.oracle(norm, a, gamma)


def expected_gradients(norms, xs, kernel, gamma, dy):
    """Differentiate sum(dy * norm(x W)), one x for each block of columns, and all norms."""
    groups = [slice(k * WIDTH, (k + 1) * WIDTH) for k in range(len(norms))]

    def loss(xs, kernel, gamma):
        blocks = np.split(kernel, len(xs), axis=1)
        a = np.concatenate([x @ block for x, block in zip(xs, blocks, strict=True)], axis=-1)
        ys = [
            normalize(norm, a[..., group], None if norm is None else gamma[group])
            for norm, group in zip(norms, groups, strict=True)
        ]
        return (np.concatenate(ys, axis=-1) * dy).sum()

    def with_x(k):
        return lambda x: loss([*xs[:k], x, *xs[k + 1 :]], kernel, gamma)

    return [
        [oracles.gradient(with_x(k), x) for k, x in enumerate(xs)],
        oracles.gradient(lambda kernel: loss(xs, kernel, gamma), kernel),
        oracles.gradient(lambda gamma: loss(xs, kernel, gamma), gamma),
        dy.reshape(-1, dy.shape[-1]).sum(axis=0),
    ]


def center(norms, kernel):
    """Subtract the row means of each group with a LayerNorm; the map is its own transpose."""
    groups = np.split(kernel, len(norms), axis=1)
    centers = [isinstance(norm, SampleNorm) and norm.center for norm in norms]
    return np.concatenate(
        [
            group - group.mean(axis=1, keepdims=True) if centered else group
            for group, centered in zip(groups, centers, strict=True)
        ],
        axis=1,
    )


def product_of(norms, kernel, gamma, inputs):
    """Describe the product, as `compiled.recurrence_of` and `compiled.weights_of` do."""
    if inputs == 1:
        kernel = center(norms, kernel)
        norms = [
            dataclasses.replace(norm, center=False) if isinstance(norm, SampleNorm) else norm
            for norm in norms
        ]
    slots = tuple(Slot(f"norm {k}", WIDTH, norm) for k, norm in enumerate(norms))
    gammas = np.split(gamma, len(norms))
    named = {slot.name: tf.constant(g) for slot, g in zip(slots, gammas, strict=True) if slot.norm}
    return Product(slots, tf.constant(kernel), named, inputs)


def gradients(norms, xs, kernel, gamma, dy):
    """Return the gradients of the inputs, of the kernel, of gamma and of beta."""
    product = product_of(norms, kernel, gamma, len(xs))
    xs = list(map(tf.constant, xs))
    groups, d_groups = (product.groups(a) for a in (product.multiply(xs), tf.constant(dy)))
    statistics, rows, d_gamma, d_beta = {}, [], {}, {}
    for slot, a, d in zip(product.slots, groups, d_groups, strict=True):
        if slot.norm is not None:
            moving_statistics = moving(slot.norm)
            if moving_statistics:
                mean, variance = moving_statistics
                moving_statistics = [mean, 1 / np.sqrt(variance + slot.norm.epsilon)]
            statistics[slot.name] = slot.norm.statistics(a, None, moving_statistics)
        if product.needs_product(slot):
            of_slot = statistics[slot.name], product.gamma[slot.name], None
            d, d_gamma[slot.name], d_beta[slot.name] = slot.norm.backward(a, d, *of_slot)
        rows.append(d)
    arguments = xs, rows, statistics
    d_xs, ws = product.input_gradients(*arguments, product.grams(xs), product.transposed())
    d_kernel, of_grams, sums = product.weight_gradients(*arguments, ws)
    d_kernel = np.asarray(d_kernel)
    zeros = np.zeros(WIDTH)

    def join(by_slot):
        parts = [np.asarray(by_slot.get(slot.name, zeros)) for slot in product.slots]
        return np.concatenate([part.reshape(-1, WIDTH).sum(axis=0) for part in parts])

    return [
        d_xs,
        center(norms, d_kernel) if len(xs) == 1 else d_kernel,
        join(d_gamma | of_grams),
        join(sums | d_beta),
    ]


def assert_gradients(norms, inputs=1, leading=(BATCH,), features=FEATURES):
    columns = len(norms) * WIDTH
    xs = [draw(*leading, features, seed=10 + k) for k in range(inputs)]
    kernel, gamma, dy = draw(features, columns), draw(columns), draw(*leading, columns)
    found = gradients(norms, xs, kernel, gamma, dy)
    expected = expected_gradients(norms, xs, kernel, gamma, dy)
    for actual, exact in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(actual, exact, rtol=0, atol=1e-11)


@every_norm
@pytest.mark.parametrize("features", [FEATURES, MANY_FEATURES])
def test_the_gradients_of_one_group_equal_numpy(norm, features):
    assert_gradients([norm], features=features)


@pytest.mark.parametrize(
    "names",
    [("layer", "rms"), ("layer", "none"), ("batch", "ddof"), ("rms", "moving", "none")],
    ids=str,
)
def test_each_group_of_columns_has_its_own_norm(names):
    """A GRU has a norm of the gates z and r, and a norm of the candidate."""
    assert_gradients([NORMS[name] for name in names])


@every_norm
@pytest.mark.parametrize("inputs", [2, 3])
def test_blocks_of_columns_with_their_own_dropout_mask_share_a_norm(norm, inputs):
    """Each block of columns has its own x; LayerNorm subtracts the mean of all blocks."""
    assert_gradients([norm], inputs)


def test_three_dropout_masks_cross_two_groups():
    """A GRU has masks for z, r and n, and a norm of z and r: blocks of 8 columns, groups of 12."""
    assert_gradients([NORMS["layer"], NORMS["batch"]], inputs=3)


@pytest.mark.parametrize("name", ["none", "layer", "ddof, outside", "rms"])
def test_the_gradients_of_all_timesteps_are_added(name):
    assert_gradients([NORMS[name]], leading=(2, BATCH))


@every_norm
def test_only_batch_norms_few_columns_and_blocks_with_dropout_masks_keep_the_product(norm):
    """The backward pass of other per-sample norms reads the inputs and the kernel instead."""
    for inputs, features in ((1, FEATURES), (2, FEATURES), (1, MANY_FEATURES)):
        product = product_of([norm], draw(features, WIDTH), draw(WIDTH), inputs)
        reads = isinstance(norm, TimestepNorm) or inputs > 1 or features == MANY_FEATURES
        assert product.needs_product(product.slots[0]) == (norm is not None and reads)
