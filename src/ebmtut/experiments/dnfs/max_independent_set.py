"""Row dnfs/max-independent-set: one flow over random graphs, beside annealing."""

from ebmtut.experiments.dnfs.graph_problems import graph_row

EXPERIMENT = graph_row(
    "max-independent-set", "Maximum independent set", prefix="ER", table="set size"
)
