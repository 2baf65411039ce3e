"""A failure as Flink's Java client wants it: with a serialized Java object inside.

The client refuses an answer without one and tries again for a minute. The object is a
``SerializedThrowable`` of three texts, written here in Java's serialization format.
"""

from __future__ import annotations

import base64
import struct

_NULL, _OBJECT, _STRING, _CLASS, _REFERENCE, _END = (
    b"\x70",
    b"\x73",
    b"\x74",
    b"\x72",
    b"\x71",
    b"\x78",
)
_TEXT_TYPE = _REFERENCE + struct.pack(">I", 0x7E0001)
"""The type name that the first field has written is referred to by the others."""


def failure_cause(name: str, message: str) -> dict[str, str]:
    """A failure in the shape that Flink gives it."""
    serialized = base64.b64encode(serialized_throwable(name, message)).decode()
    return {"class": name, "stack-trace": message, "serialized-throwable": serialized}


def serialized_throwable(name: str, message: str) -> bytes:
    """The bytes of an ``org.apache.flink.util.SerializedThrowable``."""
    return b"".join(
        (
            b"\xac\xed\x00\x05",
            _OBJECT,
            _classes(),
            *(_NULL, _text(message), _NULL, _NULL, _END),
            *(_text(message), _text(name), _NULL),
        )
    )


def _classes() -> bytes:
    text_type = _text("Ljava/lang/String;")
    own = (
        _field("L", "fullStringifiedStackTrace", text_type),
        _field("L", "originalErrorClassName", _TEXT_TYPE),
        _field("[", "serializedException", _text("[B")),
    )
    throwable = (
        _field("L", "cause", _text("Ljava/lang/Throwable;")),
        _field("L", "detailMessage", _TEXT_TYPE),
        _field("[", "stackTrace", _text("[Ljava/lang/StackTraceElement;")),
        _field("L", "suppressedExceptions", _text("Ljava/util/List;")),
    )
    return b"".join(
        (
            _class("org.apache.flink.util.SerializedThrowable", 7284183123441947635, 2, own),
            _class("java.lang.Exception", -3387516993124229948, 2, ()),
            _class("java.lang.Throwable", -3042686055658047285, 3, throwable),
            _NULL,
        )
    )


def _class(name: str, version: int, flags: int, fields: tuple[bytes, ...]) -> bytes:
    head = _CLASS + _short(name) + struct.pack(">qBH", version, flags, len(fields))
    return head + b"".join(fields) + _END


def _field(kind: str, name: str, type_name: bytes) -> bytes:
    return kind.encode() + _short(name) + type_name


def _text(text: str) -> bytes:
    return _STRING + _short(text)


def _short(text: str) -> bytes:
    # Java writes characters beyond these in its own way; a length has 16 bits.
    data = text.encode("ascii", "backslashreplace").replace(b"\0", b"?")[:0xFFFF]
    return struct.pack(">H", len(data)) + data
