"""The check: artefacts beside the Keras model over a grid of inputs, and what the answers say.

`check.py` asks every source that `artifacts.py` finds for the inputs of `plan.py`. `properties.py`,
`statistics.py`, `metrics.py`, `cost.py` and `difference_profile.py` measure one thing each;
`rounding.py` says what counts as equal, `first_difference.py` where a difference begins, and
`findings.py` what to do.
"""
