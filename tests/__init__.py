"""Let the `assert` statements of shared checks show their values."""

import pytest

pytest.register_assert_rewrite("tests.check_layer")
