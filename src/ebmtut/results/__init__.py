"""Results and their provenance, stored atomically and read without torch.

Checkpoints hold tensors; they are in `ebmtut.results.checkpoints`.
"""

from ebmtut.results.atomic import check_writable
from ebmtut.results.provenance import Provenance, collect_provenance, git_commit
from ebmtut.results.records import record
from ebmtut.results.serialize import to_json
from ebmtut.results.store import (
    SCALES,
    Result,
    ResultNotFound,
    benchmarks_root,
    default_root,
    load_result,
    result_folder,
    save_result,
)
from ebmtut.results.tables import Cell, Table

__all__ = [
    "SCALES",
    "Cell",
    "Provenance",
    "Result",
    "ResultNotFound",
    "Table",
    "benchmarks_root",
    "check_writable",
    "collect_provenance",
    "default_root",
    "git_commit",
    "load_result",
    "record",
    "result_folder",
    "save_result",
    "to_json",
]
