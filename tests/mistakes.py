"""Check the errors that users' mistakes cause."""

from collections.abc import Callable

import pytest

from nodewise.core.errors import UserError


def user_error(call: Callable[..., object], *arguments: object, **options: object) -> str:
    """Return the message of the UserError that a call raises, and assert that it is one line."""
    with pytest.raises(UserError) as caught:
        call(*arguments, **options)
    text = str(caught.value)
    assert text.isprintable()
    return text
