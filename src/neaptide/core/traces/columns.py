"""Columns of a table: arrays, strings and lists of integers, and what makes a table of them sound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint8]  # of an enumeration

_Scalar = TypeVar("_Scalar", bound=np.generic)
_DTYPE_OF = {"Integers": np.int64, "Floats": np.float64, "Flags": np.bool_, "Codes": np.uint8}


class Table(Protocol):
    """A dataclass whose fields are columns of equal length."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A column of strings, each distinct one stored once."""

    words: tuple[str, ...]
    codes: Integers

    @classmethod
    def of(cls, texts: Iterable[str]) -> Labels:
        index: dict[str, int] = {}
        codes = [index.setdefault(text, len(index)) for text in texts]
        return cls(tuple(index), np.array(codes, dtype=np.int64))

    def __len__(self) -> int:
        return self.codes.size

    def __getitem__(self, position: int) -> str:
        return self.words[int(self.codes[position])]

    def which(self, text: str) -> Integers:
        """The positions of `text`."""
        return np.flatnonzero(self.codes == self.words.index(text)) if text in self.words else np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A column of lists of integers, in one array with offsets."""

    offsets: Integers
    items: Integers

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Lists:
        offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64)))
        return cls(offsets.astype(np.int64), np.array([item for row in rows for item in row], dtype=np.int64))

    def __len__(self) -> int:
        return max(self.offsets.size - 1, 0)

    def __getitem__(self, position: int) -> Integers:
        row = range(len(self))[position]  # counts from the end, or raises IndexError, as a list does
        return self.items[self.offsets[row] : self.offsets[row + 1]]

    def owners(self) -> Integers:
        """For each item, the position of the list it is in."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))


def bytes_per_row(first: Integers, last: Integers, sizes: Integers, rows: int) -> Integers:
    """The bytes held in each of `rows` rows by what is there from row `first` to row `last`, both included."""
    change = np.zeros(rows + 1, dtype=np.int64)
    np.add.at(change, np.clip(first, 0, rows), sizes)
    np.subtract.at(change, np.clip(last + 1, 0, rows), sizes)
    return np.cumsum(change)[:rows]


def arrays_of(column: object) -> list[npt.NDArray[np.generic]]:
    """The arrays that a column is made of."""
    match column:
        case Labels():
            return [column.codes]
        case Lists():
            return [column.offsets, column.items]
        case np.ndarray():
            return [column]
    raise TypeError(f"not a column: {column!r}")


def _holds(column: object, annotation: str) -> bool:
    """Whether a column is what its field's annotation says."""
    if annotation in _DTYPE_OF:
        return isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype == _DTYPE_OF[annotation]
    return type(column).__name__ == annotation and all(_holds(array, "Integers") for array in arrays_of(column))


def table_problem(table: Table) -> str:
    """What is wrong with the types and the sizes of a table's columns; empty when nothing is."""
    columns = {field.name: getattr(table, field.name) for field in fields(table)}
    for field in fields(table):
        if not _holds(columns[field.name], str(field.type)):
            return f"column {field.name} does not hold {str(field.type).lower()}"
    size = len(table)
    for name, column in columns.items():
        if len(column) != size:
            return f"column {name} has {len(column)} rows, not {size}"
        if isinstance(column, Labels):
            if len(set(column.words)) != len(column.words):
                return f"column {name} has a word twice"
            if size and not 0 <= column.codes.min() <= column.codes.max() < len(column.words):
                return f"column {name} names an unknown word"
        if isinstance(column, Lists) and (
            column.offsets[0] != 0
            or column.offsets[-1] != column.items.size
            or (column.offsets[1:] < column.offsets[:-1]).any()
        ):
            return f"column {name} has bad offsets"
    return ""


def frozen(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """The array itself, no longer writable."""
    array.flags.writeable = False
    return array
