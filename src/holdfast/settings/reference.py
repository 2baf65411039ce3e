"""The reference page ``docs/settings.md``, made from the options themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.settings.failing import FAILURE_OPTIONS
from holdfast.settings.known import RESERVED_VARIABLES
from holdfast.settings.options import JOB_OPTIONS, Option
from holdfast.settings.refused import REFUSED, SPARK_KEYS_OF_HOLDFAST, Refused
from holdfast.settings.rocksdb import ROCKSDB_OPTIONS
from holdfast.settings.values import DURATION_UNITS, SIZE_UNITS

_HEAD = """\
# Settings

<!-- Made by `python -m holdfast.settings`; a test compares. -->

A setting may come from several places. The strongest wins:

1. an argument: `--set key=value`, or the flag that stands for the key
2. the environment: `HOLDFAST_` and the key in capitals, every other character than letters and
   digits as `_`: `HOLDFAST_EXECUTION_CHECKPOINTING_INTERVAL`. Keys that begin with `holdfast.` do
   not say it twice: `HOLDFAST_WORK_DIR`
3. a file, `holdfast.toml`
4. the job's code: `hf.Job("page-views", settings={{"execution.checkpointing.interval": "10 s"}})`
5. the default

```toml
"execution.checkpointing.interval" = "10 s"   # as one key

[state.backend]                               # or as tables
type = "rocksdb"

[spark.executor]
memory = "4g"
```

Flink's keys are taken as they are, old spellings too. Where one place has a key in two spellings,
the current one counts. A key or a `HOLDFAST_` variable that is not known is refused, and everything
that is wrong is said in one error (`SETTINGS`), in whichever place it stands. These variables are
no settings and are left alone: {reserved}.

## Values

Values are read as Flink reads them. Case matters in text only.

- **duration**: a whole number and a unit ({durations}). Without a unit it is milliseconds. ISO 8601
  (`PT10S`) works too.
- **size**: a whole number and a unit ({sizes}), 1 kb being 1024 bytes. Without a unit it is bytes.
- **boolean**: `true` or `false`. **Named values** may be written with `-` or `_`.
"""

_ROCKSDB = """
## RocksDB

Only with `state.backend.type` `rocksdb`. What is not set is left to Spark. Spark counts in whole
kilobytes or megabytes; other sizes are refused with the nearest that works.
"""

_SPARK = """
## Spark's own settings

Keys that begin with `spark.` go to Spark as they are, from every place but the environment. These
are refused because Holdfast sets them, and so is a Spark key that says the same as another setting:
"""

_REFUSED = """
## Flink's keys that do nothing here

They are refused with the reason, except where the value asks for nothing.
"""

_NOT_ROCKSDB = (*JOB_OPTIONS, *FAILURE_OPTIONS)


def markdown() -> str:
    """The whole page."""
    flink = [option for option in _NOT_ROCKSDB if not option.holdfast_only]
    holdfast = [option for option in _NOT_ROCKSDB if option.holdfast_only]
    return "".join(
        (
            _HEAD.format(
                reserved=_listed(sorted(RESERVED_VARIABLES)),
                durations=_units(DURATION_UNITS),
                sizes=_units(SIZE_UNITS),
            ),
            "\n## Flink's keys\n\n" + _options(flink),
            "\n## Holdfast's keys\n\n" + _options(holdfast),
            _ROCKSDB + "\n" + _options(ROCKSDB_OPTIONS),
            _SPARK + "\n" + _spark(),
            _REFUSED + "\n" + _refused(REFUSED),
        )
    )


def _options(options: Iterable[Option[Any]]) -> str:
    rows = [
        (f"`{option.key}`", _type(option), _default(option), _meaning(option)) for option in options
    ]
    return _table(("key", "type", "default", "meaning"), rows)


def _type(option: Option[Any]) -> str:
    least = f", at least {option.least}" if option.least else ""
    most = f", at most {option.most}" if option.most else ""
    return option.kind.name + least + most


def _default(option: Option[Any]) -> str:
    return option.otherwise if option.default is None else f"`{option.default}`"


def _meaning(option: Option[Any]) -> str:
    old = f" Old: {_listed(option.old)}." if option.old else ""
    return option.description + old


def _refused(keys: Iterable[Refused]) -> str:
    rows = [(f"`{key.key}`", _listed(key.harmless) or "-", f"{key.why}.") for key in keys]
    return _table(("key", "accepted values", "why, or what instead"), rows)


def _spark() -> str:
    rows = [(f"`{key}`", f"{instead}.") for key, instead in SPARK_KEYS_OF_HOLDFAST.items()]
    return _table(("key", "instead"), rows)


def _units(units: Iterable[Sequence[str]]) -> str:
    return "; ".join(_listed(labels) for labels in units)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
