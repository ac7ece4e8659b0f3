"""Let the shared checks' plain asserts show their values."""

import pytest

pytest.register_assert_rewrite("tests.check_layer")
