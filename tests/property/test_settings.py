from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.settings import (
    OPTIONS,
    Option,
    Settings,
    SettingsError,
    options,
    resolve,
    variable_of,
)
from holdfast.settings.known import option_of
from holdfast.settings.refused import refusal_of
from holdfast.settings.values import (
    DURATION_UNITS,
    NANOS_PER_SECOND,
    SIZE_UNITS,
    read_duration,
    read_size,
)

LAYERS = ("arguments", "environ", "file", "code")
COUNTS: dict[str, Option[Any]] = {
    "num_retained": options.NUM_RETAINED,
    "max_concurrent": options.MAX_CONCURRENT,
    "tolerable_failed": options.TOLERABLE_FAILED,
    "history": options.HISTORY,
}

blanks = st.sampled_from(["", " ", "  "])
label_parts = st.sampled_from(["execution", "checkpointing", "state", "backend", "interval", "x"])


def cased(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from([text, text.upper(), text.capitalize()])


def units(table: dict[tuple[str, ...], int]) -> st.SearchStrategy[tuple[str, int]]:
    pairs = [(label, size) for labels, size in table.items() for label in labels]
    return st.sampled_from(pairs)


def refusal(option: Option[Any], text: str) -> str | None:
    try:
        option.read(text)
    except ValueError as error:
        return str(error)
    return None


def alone(key: str, text: str) -> Settings:
    return resolve(arguments={key: text}, environ={}, file=None, code={})


@given(st.integers(0, 10**6), units(DURATION_UNITS), blanks, blanks, st.data())
def test_a_duration_is_its_number_times_its_unit_however_it_is_written(
    number: int, unit: tuple[str, int], before: str, between: str, data: st.DataObject
) -> None:
    label, nanos = unit
    # The micro sign has a capital that means another letter, so Flink's own rule would miss it.
    written = label if "µ" in label else data.draw(cased(label))
    assert read_duration(f"{before}{number}{between}{written}{before}") == (
        number * nanos / NANOS_PER_SECOND
    )


@given(st.integers(0, 10**9))
def test_a_duration_without_a_unit_is_in_milliseconds(number: int) -> None:
    assert read_duration(str(number)) == read_duration(f"{number} ms")


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59_999))
def test_a_duration_may_be_written_as_iso_8601(
    days: int, hours: int, minutes: int, ms: int
) -> None:
    text = f"P{days}DT{hours}H{minutes}M{ms // 1000}.{ms % 1000:03}S"
    whole = ((days * 24 + hours) * 60 + minutes) * 60
    assert read_duration(text) == (whole * 1000 + ms) / 1000


@given(st.integers(0, 10**6), units(SIZE_UNITS), blanks, st.data())
def test_a_size_is_its_number_times_its_unit_however_it_is_written(
    number: int, unit: tuple[str, int], between: str, data: st.DataObject
) -> None:
    label, size = unit
    assert read_size(f"{number}{between}{data.draw(cased(label))}") == number * size


@given(st.text(max_size=12))
def test_whatever_is_written_is_read_or_refused_with_a_sentence(text: str) -> None:
    refusals = [said for option in OPTIONS if (said := refusal(option, text)) is not None]
    assert all(said.startswith(("must be ", "is ")) for said in refusals)


@given(
    st.dictionaries(
        st.sampled_from(sorted(COUNTS)),
        st.dictionaries(st.sampled_from(LAYERS), st.tuples(st.integers(1, 99), st.booleans())),
    )
)
def test_for_every_key_the_strongest_place_that_has_it_wins(
    assigned: dict[str, dict[str, tuple[int, bool]]],
) -> None:
    places: dict[str, dict[str, str]] = {layer: {} for layer in LAYERS}
    for name, by_layer in assigned.items():
        for layer, (value, old_spelling) in by_layer.items():
            option = COUNTS[name]
            key = option.old[0] if old_spelling and option.old else option.key
            places[layer][variable_of(key) if layer == "environ" else key] = str(value)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "holdfast.toml"
        file.write_text("".join(f'"{key}" = {value}\n' for key, value in places["file"].items()))
        found = resolve(
            arguments=places["arguments"],
            environ=places["environ"],
            file=file,
            code=places["code"],
        )
    origins = {line.key: line.origin.split()[0] for line in found.describe()}
    origin_of = {
        "arguments": "argument",
        "environ": "environment",
        "file": str(file),
        "code": "code",
    }
    for name, option in COUNTS.items():
        strongest = next((layer for layer in LAYERS if layer in assigned.get(name, {})), None)
        actual = getattr(found.checkpointing, name)
        if strongest is None:
            assert actual == option.read(option.default or "")
            assert origins[option.key] == "default"
        else:
            assert actual == assigned[name][strongest][0]
            assert origins[option.key] == origin_of[strongest]


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.default is not None])
def test_the_documented_default_is_what_holds_with_nothing_set(option: Option[Any]) -> None:
    nothing = resolve(arguments={}, environ={}, file=None, code={})
    assert alone(option.key, option.default or "") == nothing
    assert (option.key, option.default, "default") in nothing.describe()


@given(
    st.lists(label_parts | st.text(max_size=6), max_size=5).map(".".join),
    st.sampled_from(["arguments", "code"]),
)
def test_no_unknown_key_survives(key: str, layer: str) -> None:
    assume(not (option_of(key) or key.startswith("spark.") or refusal_of(key)))
    places: dict[str, Any] = {"arguments": {}, "environ": {}, "file": None, "code": {}}
    with pytest.raises(SettingsError, match="is not a key"):
        resolve(**{**places, layer: {key: "1"}})


@given(st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", max_size=20), st.text(max_size=3))
def test_no_unknown_variable_survives(name: str, value: str) -> None:
    variable = f"HOLDFAST_X{name}"
    with pytest.raises(SettingsError, match="stands for no key"):
        resolve(arguments={}, environ={variable: value}, file=None, code={})
