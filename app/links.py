"""What a page shows is in its address (`?sweep=…&section=…&cell=…&request=…`), by names that no language changes.

Streamlit's own binding writes the label of an option into the address, which differs from language to language and
with every setting's name; here it is the identifier.
"""

from collections.abc import Iterable
from typing import TypeVar

import streamlit as st

T = TypeVar("T", str, int)


def follow(key: str, options: Iterable[T], default: T) -> T:
    """Sets the state `key` of a widget that is about to be drawn, and returns it.

    An address that was opened, or that the back button brought back, goes before what was chosen; what is none of
    `options` is replaced by `default`.
    """
    known = {str(option): option for option in options}
    told = st.query_params.get(key)
    if told is not None and told != st.session_state.get(_told(key)):
        st.session_state[key] = known.get(told, default)
    elif st.session_state.get(key) not in known.values():
        st.session_state[key] = default
    value: T = st.session_state[key]
    return value


def show(key: str, value: str | int | None) -> None:
    """Puts what is shown into the address; None takes it out."""
    if value is None:
        st.session_state.pop(_told(key), None)
        if key in st.query_params:
            del st.query_params[key]
    else:
        st.session_state[_told(key)] = str(value)
        if st.query_params.get(key) != str(value):
            st.query_params[key] = str(value)


def go_on_with(**values: str | int) -> None:
    """For callbacks: the next run of the page shows this, whatever stands in the address."""
    for key, value in values.items():
        st.session_state[key] = value
        told = st.query_params.get(key)
        if told is None:
            st.session_state.pop(_told(key), None)
        else:
            st.session_state[_told(key)] = told


def _told(key: str) -> str:
    return f"_{key}_in_address"
