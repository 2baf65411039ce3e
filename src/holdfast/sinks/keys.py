"""Keys of rows: which row of several with the same key counts, and which keys are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from holdfast.sinks.interface import Epoch


def newest_by_key(epoch: Epoch, key: Sequence[str], tasks: int) -> DataFrame:
    """Of rows with the same key the newest: of the last batch, and there the one written last.

    All rows of a key are in one task.
    """
    if epoch.batch is not None:
        return last_by_key(epoch.batch, key, tasks)
    return _last(epoch.rows(), key, tasks, _order_in_files())


def last_by_key(rows: DataFrame, key: Sequence[str], tasks: int) -> DataFrame:
    """Of the rows of a batch with the same key the last one. All rows of a key are in one task."""
    from pyspark.sql import functions as sf

    return _last(rows, key, tasks, {"_hf_row": sf.monotonically_increasing_id()})


def _order_in_files() -> dict[str, Any]:
    from pyspark.sql import functions as sf

    folder = sf.regexp_extract("_metadata.file_path", r"/(\d+)-[^/]*/[^/]*$", 1)
    return {
        "_hf_batch": folder.cast("long"),
        "_hf_file": sf.col("_metadata.file_path"),
        "_hf_row": sf.col("_metadata.row_index"),
    }


def _last(rows: DataFrame, key: Sequence[str], tasks: int, order: Mapping[str, Any]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    columns, keys = [column(name) for name in rows.columns], [column(name) for name in key]
    last = Window.partitionBy(*keys).orderBy(*(sf.col(name).desc() for name in order))
    return (
        rows.select(*columns, *(place.alias(name) for name, place in order.items()))
        .repartition(tasks, *keys)
        .withColumn("_hf_rank", sf.row_number().over(last))
        .where("_hf_rank = 1")
        .select(*columns)
    )


def column(name: str) -> Any:
    """A column of Spark's, whatever characters its name has."""
    from pyspark.sql import functions as sf

    escaped = name.replace("`", "``")
    return sf.col(f"`{escaped}`")


def refuse_missing_key(key: Sequence[str], schema: StructType) -> None:
    """The key must be among the columns."""
    missing = [name for name in key if name not in schema.fieldNames()]
    if missing:
        raise UsageError(
            f"the key of the sink is not among the columns: {', '.join(missing)}",
            hint=f"The rows have {', '.join(schema.fieldNames())}.",
        )


def refuse_null_keys(rows: pa.RecordBatch, key: Sequence[str], sink: str) -> None:
    """A row without a key can be neither found nor replaced."""
    for name in key:
        if rows.column(name).null_count:
            raise null_key(name, sink)


def null_key(name: str, sink: str) -> UsageError:
    """Rows without a key are refused."""
    return UsageError(
        f"rows have no value in key column {name!r}",
        hint="Leave them out in the region, or give the sink another key.",
        sink=sink,
    )
