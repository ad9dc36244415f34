"""What holds calls to the signatures: shapes by jaxtyping, types by beartype."""

import functools
import inspect
import random
from typing import Any

from beartype import BeartypeConf, beartype

__all__ = ["FIRST", "THEN", "begin_test", "checked_when_done", "some_calls"]

#: In each test the first calls of a function are checked, and of the others every so
#: many. A check takes half a millisecond, several times as long as a small energy.
FIRST, THEN = 10, 25

_test = 0

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


def begin_test():
    """Check the first calls of every function again."""
    global _test
    _test += 1


def some_calls(jaxtyped):
    """Return a decorator that does what jaxtyping's does, for some of the calls."""

    def decorate(function=None, *, typechecker):
        if function is None:
            return functools.partial(decorate, typechecker=typechecker)
        made = getattr(function, "__init__", None)
        if getattr(made, "__globals__", None) is globals():
            return function  # a class of which every call is decorated already
        checked = jaxtyped(function, typechecker=typechecker)
        if not inspect.isfunction(function):
            return checked
        test = n_calls = 0

        @functools.wraps(function)
        def called(*args, **kwargs):
            nonlocal test, n_calls
            if test != _test:
                test, n_calls = _test, 0
            n_calls += 1
            if n_calls <= FIRST or n_calls % THEN == 0:
                return checked(*args, **kwargs)
            return function(*args, **kwargs)

        return called

    return decorate
