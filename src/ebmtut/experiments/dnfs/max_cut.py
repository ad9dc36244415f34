"""Row dnfs/max-cut: one flow over random graphs, beside annealing."""

from ebmtut.experiments.dnfs.graph_problems import graph_row

EXPERIMENT = graph_row("max-cut", "Maximum cut", prefix="BA", table="cut size")
