"""What holds calls to the signatures: shapes by jaxtyping, types by beartype."""

import functools
import random
from typing import Any

from beartype import BeartypeConf, beartype

__all__ = ["checked_when_done"]

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, too


def checked_when_done(function):
    """Check arguments and result of a call when it returns, but none that raises.

    jaxtyping asks for a check before the call, of a function that returns Any,
    and for one of everything afterwards. Without the first a bad argument still
    meets the door's own `InputError`, which the tests want to see; with the second
    a door that lets it pass fails.
    """
    if function.__annotations__.get("return") is Any:
        return function
    check = _check(function)

    @functools.wraps(function)
    def unseen(*args, **kwargs):
        # Of a container beartype looks at an item that it draws at random.
        state = random.getstate()
        try:
            return check(*args, **kwargs)
        finally:
            random.setstate(state)

    return unseen
