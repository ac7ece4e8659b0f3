"""The check: what models answer, and what the answers say.

`plan.py` has the calls, `running.py` makes them of the sources that `artifacts.py` finds, and
`judging.py` holds the answers, which are plain arrays, against the Keras model's. `sweep.py` goes
through all data, a part at a time in `batches.py`, and so do `measure.py`, for processes that share
them, and `versions.py`, for models that are meant to differ. `first_difference.py` looks where a
difference begins, and `findings.py` says what to do. `check.py` is all of it in one call.
"""
