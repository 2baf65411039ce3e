from __future__ import annotations

import pytest

from holdfast.errors import UsageError
from holdfast.sinks.files.sink import files


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"format": "jsonl"}, "Did you mean 'json'"),
        ({"format": "orc"}, "parquet, json, csv"),
        ({"format": "csv", "haeder": True}, "Did you mean 'header'"),
        ({"format": "json", "header": True}, "not an option for writing json"),
        ({"compression": "gzp"}, "Did you mean 'gzip'"),
        ({"format": "json", "compression": "zstd"}, "cannot be compressed"),
        ({"roll_size": "big"}, "must be a size"),
        ({"roll_size": 0}, "more than nothing"),
        ({"roll_size": "1mb", "maxRecordsPerFile": 5}, "do not go together"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        files("out", **arguments)  # type: ignore[arg-type]


def test_options_reach_sparks_writer_as_text() -> None:
    sink = files("out", "CSV", header=True, maxRecordsPerFile=5, partition_by="day")
    assert sink.options["header"] == "true"
    assert sink.options["maxrecordsperfile"] == "5"
    assert sink.partition_by == ("day",)
    own = files("out", **{"parquet.block.size": 1024})  # type: ignore[arg-type]
    assert own.options == {"parquet.block.size": "1024"}
