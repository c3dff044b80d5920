"""Helper for tests of user errors."""

from collections.abc import Callable

import pytest

from nodewise.core.errors import UserError


def user_error(call: Callable[..., object], *arguments: object, **options: object) -> str:
    """Return the text of the UserError that a call raises; check that it is one line."""
    with pytest.raises(UserError) as caught:
        call(*arguments, **options)
    text = str(caught.value)
    assert text.isprintable()
    return text
