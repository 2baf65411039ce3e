"""Making Spark's descriptions of file pieces, however many, with a few calls into the JVM.

One by one they cost nearly a millisecond each, a second for a thousand files. So the pieces go
over as one pickle, and inside the JVM a method handle turns each into a Java object.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from holdfast.spark.file_tasks import Piece
from holdfast.spark.jvm_names import java_class, scala_object

_FILE = "org.apache.spark.sql.execution.datasources.PartitionedFile"
_PATH = "org.apache.spark.paths.SparkPath"
_LONGEST = 2**63 - 1


class PartitionedFiles:
    """Makes arrays of Spark's ``PartitionedFile``."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self._arrays: Any = gateway.jvm.java.util.Arrays
        self._array_class = self._java_class(f"[L{_FILE};")
        self._unpickler: Any = gateway.jvm.net.razorvine.pickle.Unpickler
        self._from_row = self._converter()

    def make(self, tasks: Sequence[Sequence[Piece]]) -> list[Any]:
        """One Java array for each task."""
        rows = [_row(piece) for pieces in tasks for piece in pieces]
        made = self._unpickler().loads(pickle.dumps(rows, protocol=4))
        made.replaceAll(self._from_row)
        files = made.toArray()
        return [
            self._arrays.copyOfRange(files, start, end, self._array_class)
            for start, end in pairwise(accumulate(map(len, tasks), initial=0))
        ]

    def _converter(self) -> Any:
        """A Java ``UnaryOperator`` from a row to a ``PartitionedFile``."""
        invoke = self._gateway.jvm.java.lang.invoke
        handles, lookup = invoke.MethodHandles, invoke.MethodHandles.publicLookup()
        (constructor,) = self._java_class(_FILE).getConstructors()
        make = lookup.unreflectConstructor(constructor)
        # The constructor takes: partition values, path, start, length, hosts, modified, file size,
        # metadata. What is the same for all is bound from the right, so that positions stay.
        make = handles.insertArguments(make, 7, self._objects([self._no_metadata()]))
        make = handles.insertArguments(make, 4, self._objects([self._no_hosts(), 0]))
        make = handles.insertArguments(make, 0, self._objects([self._no_values()]))
        make = handles.filterArguments(make, 0, self._path_maker(lookup))
        make = make.asSpreader(self._java_class("[Ljava.lang.Object;"), 4)
        operator = self._java_class("java.util.function.UnaryOperator")
        return invoke.MethodHandleProxies.asInterfaceInstance(operator, make)

    def _path_maker(self, lookup: Any) -> Any:
        lang = self._gateway.jvm.java.lang
        text = self._array(lang.Class, [self._java_class("java.lang.String")])
        method = self._java_class(_PATH).getMethod("fromPathString", text)
        return self._array(lang.invoke.MethodHandle, [lookup.unreflect(method)])

    def _no_metadata(self) -> Any:
        return scala_object(self._gateway.jvm.scala.collection.immutable, "Map").empty()

    def _no_values(self) -> Any:
        catalyst = self._gateway.jvm.org.apache.spark.sql.catalyst
        return scala_object(catalyst, "InternalRow").empty()

    def _no_hosts(self) -> Any:
        return self._array(self._gateway.jvm.java.lang.String, [])

    def _objects(self, values: Sequence[Any]) -> Any:
        return self._array(self._gateway.jvm.java.lang.Object, values)

    def _array(self, java_class: Any, values: Sequence[Any]) -> Any:
        array = self._gateway.new_array(java_class, len(values))
        for number, value in enumerate(values):
            array[number] = value
        return array

    def _java_class(self, name: str) -> Any:
        return java_class(self._gateway.jvm, name)


def _row(piece: Piece) -> tuple[str, int, int, int]:
    """Path, start, length, file size."""
    # A row group belongs to the piece that has its middle. The last piece reads whatever follows,
    # so that a size that is not right makes tasks uneven but never loses a row.
    reaches_end = piece.start + piece.length >= piece.file.size
    length = _LONGEST - piece.start if reaches_end else piece.length
    return piece.file.location, piece.start, length, piece.file.size
