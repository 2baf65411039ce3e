"""Checkpoints as people read them: those of a running job, and one on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.show_jobs import columns, heading, named
from holdfast.cli.terminal import counted, in_bytes, prose
from holdfast.cli.times import clock, duration

if TYPE_CHECKING:
    from holdfast.checkpoints.metadata import CheckpointMetadata, InputSnapshot, RegionSnapshot

Document = Mapping[str, Any]
_STYLES = {"COMPLETED": "green", "FAILED": "red"}


def history(console: Console, found: Document) -> None:
    """``holdfast checkpoints JOB``."""
    if not found["checkpoints"]:
        prose(console, "No checkpoint yet.")
        return
    made = columns(
        "id", "status", "triggered", "duration", "written", "full size", "in-flight", "alignment",
        "cause", left=3,
    )  # fmt: skip
    made.columns[-1].justify = "left"
    for each in found["checkpoints"]:
        made.add_row(*_row(each))
    console.print(made)
    for each in found["checkpoints"]:
        if each["failure"]:
            prose(console, f"{each['id']}: {each['failure']}", "red")


def _row(each: Document) -> list[Text | str]:
    return [
        str(each["id"]),
        Text(each["status"], _STYLES.get(each["status"], "")),
        clock(each["triggered"]),
        duration(each["duration"]),
        in_bytes(each["checkpointed_size"]),
        in_bytes(each["state_size"]),
        in_bytes(each["in_flight"]) if each["in_flight"] else "-",
        duration(each["alignment"]) if each["alignment"] else "-",
        each["cause"].lower(),
    ]


def one_of_job(console: Console, each: Document) -> None:
    """``holdfast checkpoints JOB --details ID``."""
    facts = {
        "checkpoint": str(each["id"]),
        "status": each["status"] + (", discarded since" if each["discarded"] else ""),
        "failure": each["failure"] or "",
        "triggered": f"{clock(each['triggered'])}, {each['cause'].lower()}",
        "duration": duration(each["duration"]),
        "written": in_bytes(each["checkpointed_size"]),
        "full size": in_bytes(each["state_size"]),
        "in-flight": in_bytes(each["in_flight"]),
        "path": each["path"] or "",
    }
    console.print(named(facts))
    heading(console, f"Regions: {len(each['acknowledged'])} of {each['regions']} have answered")
    console.print(_answers(each["acknowledged"].values()))


def _answers(regions: Sequence[Document] | Any) -> Table:
    made = columns(
        "region", "cut", "start delay", "alignment", "sync", "async", "written", "full size",
        "in-flight",
    )  # fmt: skip
    for region in regions:
        made.add_row(
            Text(region["uid"], "bold"),
            _cut(region["cut"]),
            *(duration(region[k]) for k in ("start_delay", "alignment", "sync", "async_")),
            *(in_bytes(region[k]) for k in ("checkpointed_size", "state_size", "in_flight")),
        )
    return made


def _cut(batch: int) -> str:
    return "before batch 0" if batch < 0 else f"{batch:,}"


# On disk


def below(console: Console, checkpoints: Sequence[Document]) -> None:
    """``holdfast checkpoints list``."""
    if not checkpoints:
        prose(console, "There is no checkpoint here.")
        return
    made = columns("id", "job", "completed", "size", "directory", left=3)
    made.columns[-1].justify = "left"
    for each in checkpoints:
        made.add_row(
            str(each["id"]),
            Text(each["job_name"]),
            clock(each["completed"]),
            in_bytes(each["size"]),
            Text(each["name"], overflow="fold"),
        )
    console.print(made)


def metadata(console: Console, checkpoint: CheckpointMetadata, path: str) -> None:
    """``holdfast checkpoints show``."""
    console.print(named(_facts(checkpoint, path)))
    for region in checkpoint.regions:
        heading(console, f"Region {region.uid}")
        console.print(named(_region(region)))
        if region.operators:
            console.print(_operators(region.operators))
    if checkpoint.in_flight:
        heading(console, "In-flight data")
        console.print(_segments(checkpoint))
    if checkpoint.transactions:
        heading(console, "Pending transactions")
        console.print(_transactions(checkpoint))


def _facts(checkpoint: CheckpointMetadata, path: str) -> dict[str, str]:
    taken = checkpoint.completed - checkpoint.triggered
    how = ["unaligned" if checkpoint.unaligned else "aligned"]
    how += ["full" if checkpoint.full else "incremental", checkpoint.mode]
    shared = [file for file in checkpoint.files if file.shared]
    return {
        "checkpoint": f"{checkpoint.id} of {checkpoint.job_name} ({checkpoint.job_id})",
        "path": path,
        "kind": f"{checkpoint.kind}, {', '.join(how)}",
        "completed": f"{clock(checkpoint.completed)}, in {duration(taken)}",
        "attempt": str(checkpoint.attempt),
        "written by": f"Holdfast {checkpoint.holdfast} on Spark {checkpoint.spark}",
        "files": f"{counted(len(checkpoint.files), 'file')}, {in_bytes(checkpoint.size)}; "
        f"{counted(len(shared), 'file')} may be shared with other checkpoints",
        "user": json.dumps(checkpoint.user) if checkpoint.user else "",
        "statistics": ", ".join(f"{k} {_brief(v)}" for k, v in checkpoint.statistics.items()),
    }


def _brief(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _region(region: RegionSnapshot) -> dict[str, str]:
    inputs = "\n".join(_input(each) for each in region.inputs)
    fields = region.schema.get("fields", ())
    return {
        "cut": _cut(region.cut),
        "inputs": inputs,
        "output": f"{region.output_mode}: " + ", ".join(_field(field) for field in fields),
        "query id": region.query_id or "",
        "state": _state(region),
        "watermark": clock(region.watermark_ms / 1000) if region.watermark_ms else "",
        "files": f"{counted(len(region.files), 'file')}, {in_bytes(region.size)}",
    }


def _state(region: RegionSnapshot) -> str:
    if not region.operators:
        return "none"
    return f"{region.backend or 'unknown'}, {counted(region.partitions or 1, 'partition')}"


def _input(each: InputSnapshot) -> str:
    if each.kind == "channel":
        return f"channel {each.uid}: next segment {each.position}, barrier at {each.barrier}"
    return f"source {each.uid}: {each.offset if each.offset is not None else 'nothing read'}"


def _field(field: Document) -> str:
    return f"{field['name']} {type_name(field['type'])}"


def type_name(kind: Any) -> str:
    """Spark's JSON of a type, in a few letters."""
    if isinstance(kind, str):
        return kind
    match kind.get("type"):
        case "struct":
            inside = ", ".join(f"{f['name']} {type_name(f['type'])}" for f in kind["fields"])
            return f"({inside})"
        case "array":
            return f"array<{type_name(kind['elementType'])}>"
        case "map":
            return f"map<{type_name(kind['keyType'])}, {type_name(kind['valueType'])}>"
        case "udt":
            return type_name(kind.get("sqlType", "udt"))
    return str(kind.get("type"))


def _operators(operators: Sequence[Document]) -> Table:
    made = columns("operator", "store", "key", "value", left=4)
    for operator in operators:
        for store, families in operator["stores"].items():
            for family in families:
                label = f"{operator['id']} {operator['kind']}"
                made.add_row(
                    Text(label),
                    Text(store if family["family"] == "default" else f"{store}/{family['family']}"),
                    Text(type_name(family["key"]), overflow="fold"),
                    Text(type_name(family["value"]), overflow="fold"),
                )
    return made


def _segments(checkpoint: CheckpointMetadata) -> Table:
    made = columns("channel", "segment", "files", "size")
    for each in checkpoint.in_flight:
        made.add_row(each.channel, str(each.segment), str(len(each.files)), in_bytes(each.size))
    return made


def _transactions(checkpoint: CheckpointMetadata) -> Table:
    made = columns("sink", "checkpoint", "handle", left=3)
    for each in checkpoint.transactions:
        made.add_row(
            Text(each.sink),
            str(each.checkpoint),
            Text(json.dumps(each.handle), overflow="fold"),
        )
    return made
