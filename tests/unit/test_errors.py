from __future__ import annotations

import inspect
import pickle
import re

import pytest

from holdfast import errors
from holdfast.errors import AlreadyPublished, HoldfastError, NotRestorable

ALL = [
    cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, HoldfastError)
]


def test_an_error_says_what_happened_to_whom_and_what_to_do() -> None:
    error = NotRestorable("batch is gone", hint="Use batch 4.", batch=3, path="/log")
    assert str(error) == "batch is gone [batch=3, path=/log]\n  hint: Use batch 4."


def test_an_error_survives_a_pickle() -> None:
    error = AlreadyPublished("other contents", hint="Stop one.", checkpoint_id=7)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is AlreadyPublished
    assert str(copy) == str(error)
    assert copy.ids == {"checkpoint_id": 7}


def test_an_error_reads_the_same_for_programs() -> None:
    assert NotRestorable("gone", batch=3).to_dict() == {
        "code": "NOT_RESTORABLE",
        "message": "gone",
        "hint": None,
        "retryable": False,
        "ids": {"batch": 3},
    }


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [cls.code for cls in ALL]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("cls", ALL)
def test_the_drawn_tree_is_the_real_one(cls: type[HoldfastError]) -> None:
    drawn = re.findall(r"^([│├└─ ]*)(\w+)(?: |$)", errors.__doc__ or "", re.MULTILINE)
    (indent,) = [indent for indent, name in drawn if name == cls.__name__]
    assert len(indent) // 4 == len(cls.__mro__) - len(HoldfastError.__mro__)
