"""Formats of the files sink: their options, what is set unless you set it, the types they lack."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_TIMES = {
    # Spark's own would cut off microseconds, and the seconds of old zones.
    "timestampformat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampntzformat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_TEXT_CODECS = ("none", "uncompressed", "bzip2", "deflate", "gzip", "lz4", "snappy")
_TEXT_OPTIONS = (
    *("compression", "maxRecordsPerFile", "encoding", "lineSep", "locale", "timeZone"),
    *("dateFormat", "timestampFormat", "timestampNTZFormat"),
)
_JSON_KEYS = {
    *("string", "char", "varchar", "boolean", "byte", "short", "integer", "long"),
    *("float", "double", "decimal"),
}


@dataclass(frozen=True, slots=True)
class Format:
    """What Spark can write, as far as it can be read again."""

    name: str
    options: tuple[str, ...]
    codecs: tuple[str, ...]
    defaults: Mapping[str, str]
    lacks: Mapping[str, str]
    """Types that cannot be written, and what to do instead."""
    growth: float
    """Bytes for each byte of a segment: a first guess."""


_NO_TYPE = {
    "void": "Cast it to a type.",
    "interval": "Cast it to an interval of days or of months.",
}
_NO_SHAPE = {
    "geometry": "Make it text or binary with a function such as st_asbinary.",
    "geography": "Make it text or binary with a function such as st_asbinary.",
}
_NOT_FLAT = "Make it text with to_json, take fields out of it, or write JSON or Parquet."

_FORMATS = {
    "parquet": Format(
        name="parquet",
        options=("compression", "maxRecordsPerFile"),
        codecs=("none", "uncompressed", "gzip", "lz4", "lz4_raw", "snappy", "zstd"),
        defaults={},
        lacks=_NO_TYPE,
        growth=1.0,
    ),
    "json": Format(
        name="json",
        options=(*_TEXT_OPTIONS, "ignoreNullFields", "writeNonAsciiCharacterAsCodePoint"),
        codecs=_TEXT_CODECS,
        defaults=_TIMES,
        lacks={**_NO_TYPE, **_NO_SHAPE},
        growth=5.0,
    ),
    "csv": Format(
        name="csv",
        options=(
            *_TEXT_OPTIONS,
            *("sep", "quote", "escape", "charToEscapeQuoteEscaping", "quoteAll", "escapeQuotes"),
            *("header", "nullValue", "emptyValue"),
            *("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"),
        ),
        codecs=_TEXT_CODECS,
        defaults={
            **_TIMES,
            # Spark's own would cut blanks off the ends of every value.
            "ignoreleadingwhitespace": "false",
            "ignoretrailingwhitespace": "false",
        },
        lacks={
            **_NO_TYPE,
            **_NO_SHAPE,
            **dict.fromkeys(("array", "map", "struct", "variant"), _NOT_FLAT),
            "binary": "Make it text with base64 or hex.",
        },
        growth=3.0,
    ),
}


def format_named(name: str) -> Format:
    """The format; ``UsageError`` if there is none of that name."""
    found = _FORMATS.get(name.lower())
    if found is None:
        raise UsageError(
            f"the files sink cannot write {name!r}",
            hint=_did_you_mean(name.lower(), _FORMATS),
        )
    return found


def writer_options(form: Format, given: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark's writer takes them; ``UsageError`` for those it does not know."""
    checked = dict(form.defaults)
    known = {name.lower() for name in form.options}
    for name, value in given.items():
        own = form.name == "parquet" and name.startswith("parquet.")  # for Parquet's writer itself
        if not own and name.lower() not in known:
            raise UsageError(
                f"{name!r} is not an option for writing {form.name}",
                hint=_did_you_mean(name, form.options),
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        checked[name if own else name.lower()] = text
    codec = checked.get("compression", "none").lower()
    if codec not in form.codecs:
        raise UsageError(
            f"{form.name} cannot be compressed with {codec!r}",
            hint=_did_you_mean(codec, form.codecs),
        )
    return checked


def _did_you_mean(name: str, names: Collection[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    listed = f"There are {', '.join(names)}."
    return f"Did you mean {near[0]!r}? {listed}" if near else listed


def refuse_unfit(
    form: Format, partition_by: Sequence[str], options: Mapping[str, str], schema: StructType
) -> None:
    """``UsageError`` with everything about the columns that cannot be written and read again."""
    problems = [*_partition_problems(partition_by, schema)]
    written = [field for field in schema.fields if field.name not in partition_by]
    for field in written:
        problems += [f"{field.name}: {text}" for text in _type_problems(form, field.dataType)]
    if form.name == "csv" and len(written) == 1 and not options.get("nullvalue"):
        # A null alone in its line is an empty line, which readers of CSV skip.
        problems.append(f"{written[0].name}: a null in the only column needs nullValue, as r'\\N'")
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(
            f"these columns cannot become {form.name} files:{lines}",
            hint="Change them in the region, or choose another format.",
        )


def _partition_problems(partition_by: Sequence[str], schema: StructType) -> Iterator[str]:
    columns = schema.fieldNames()
    for name in partition_by:
        if name not in columns:
            yield f"{name}: to partition by, but not there. {_did_you_mean(name, columns)}"
        elif schema[name].dataType.typeName() in {"array", "map", "struct", "variant", "binary"}:
            yield f"{name}: directories cannot be named after {schema[name].dataType.typeName()}"
    if partition_by and not set(columns) - set(partition_by):
        yield "all columns are to partition by: none is left to write"


def _type_problems(form: Format, column: DataType) -> Iterator[str]:
    for each in _with_inner(column):
        name = each.typeName()
        if name in form.lacks:
            yield f"{form.name} has no {name}. {form.lacks[name]}"
            return
        if form.name == "json" and name == "map" and each.keyType.typeName() not in _JSON_KEYS:
            yield f"json has no keys of type {each.keyType.typeName()}. Cast them to string."


def _with_inner(column: Any) -> Iterator[Any]:
    """The type and, before or after it, all types in it."""
    yield column
    for part in ("elementType", "keyType", "valueType"):
        if hasattr(column, part):
            yield from _with_inner(getattr(column, part))
    for field in getattr(column, "fields", ()):
        yield from _with_inner(field.dataType)
