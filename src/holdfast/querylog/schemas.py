"""Schema files of state stores: version 2 (one schema) and 3 (one per column family)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from holdfast.errors import DamagedFile, UnknownFormat
from holdfast.querylog.javadata import JavaReader, java_int, java_short, java_utf

DEFAULT_FAMILY = "default"
_CHUNK_CHARS = 21845
"""Spark cuts at 65535 characters, which may be too many bytes; a third of it never is."""


@dataclass(frozen=True, slots=True)
class FamilySchema:
    """Key and value of one column family, as Spark's schema JSON."""

    name: str
    key: str
    value: str
    key_id: int = 0
    value_id: int = 0
    key_encoder: str = ""
    user_key: str = ""

    @property
    def has_key(self) -> bool:
        """False for an aggregation without keys."""
        return bool(_fields(self.key))


@dataclass(frozen=True, slots=True)
class StateSchema:
    """One schema file."""

    version: int
    families: tuple[FamilySchema, ...]


def decode_schema(data: bytes, path: str) -> StateSchema:
    """Version 2 or 3."""
    reader = JavaReader(data, path)
    version = reader.utf()
    if version == "v2":
        families: tuple[FamilySchema, ...] = (
            FamilySchema(DEFAULT_FAMILY, _text(reader), _text(reader)),
        )
    elif version == "v3":
        families = tuple(_family(reader) for _ in range(reader.int32()))
    else:
        raise UnknownFormat(
            f"state schema version {version!r} is not known",
            hint="Known: v2 and v3 (Spark 4.3).",
            path=path,
        )
    if not reader.at_end:
        raise DamagedFile("there are bytes behind the schema", path=path)
    _check(families, path)
    return StateSchema(int(version[1:]), families)


def encode_schema(schema: StateSchema) -> bytes:
    """The inverse of ``decode_schema``."""
    if schema.version == 2:
        (family,) = schema.families
        return java_utf("v2") + _chunks(family.key) + _chunks(family.value)
    out = java_utf("v3") + java_int(len(schema.families))
    for family in schema.families:
        out += java_utf(family.name)
        out += java_short(family.key_id) + _chunks(family.key)
        out += java_short(family.value_id) + _chunks(family.value)
        out += _chunks(family.key_encoder) + _chunks(family.user_key)
    return out


def _family(reader: JavaReader) -> FamilySchema:
    name = reader.utf()
    key_id, key = reader.int16(), _text(reader)
    value_id, value = reader.int16(), _text(reader)
    return FamilySchema(name, key, value, key_id, value_id, _text(reader), _text(reader))


def _text(reader: JavaReader) -> str:
    return "".join(reader.utf() for _ in range(reader.int32()))


def _chunks(text: str) -> bytes:
    parts = [text[at : at + _CHUNK_CHARS] for at in range(0, len(text), _CHUNK_CHARS)] or [""]
    return java_int(len(parts)) + b"".join(java_utf(part) for part in parts)


def _check(families: tuple[FamilySchema, ...], path: str) -> None:
    for family in families:
        for schema in (family.key, family.value):
            try:
                _fields(schema)
            except (ValueError, KeyError, TypeError) as cause:
                raise DamagedFile("file does not hold a schema", path=path) from cause


def _fields(schema: str) -> list[Any]:
    fields = json.loads(schema)["fields"]
    if not isinstance(fields, list):
        raise TypeError("fields")
    return fields
