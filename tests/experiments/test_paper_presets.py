"""The paper's own setting is a preset of every row, or it is said why it is not."""

from dataclasses import replace

import pytest

from ebmtut.experiments.registry import available, get_experiment

NOTHING_RUN = "the paper runs nothing here"
UNREAD = "still to be read off the paper"
# The paper's code is for images only, and there for six levels only.
PLANE = "the appendix and the code say nothing of the plane: no network, levels, steps"
WIDE = (
    "the code's million steps of a Wide-ResNet on photographs, with its own noise, "
    "scale and flips: ImageRecipe cannot say these (there are the parts alone: "
    "PAPER_NETWORKS, ddpm_noise, paper_step_sizes)"
)
T1K = (
    "the Wide-ResNet at a thousand levels, which ImageRecipe cannot say; no code is out"
)
BITS = "the paper has 32 bits; this row's laws are sums over all states, of at most 12"
RECIPE = "the paper's networks learn by its recipe beside a field of 0.2, ours by ours"
LATTICE = "the paper's flow is a leTF; this row's network knows that sites make a torus"
ANNEALED = "the paper prints neither its training steps nor how its temperature falls"
UNSAID = "the paper prints gamma = 2 without its unit, no epochs and no temperatures"
WITHOUT = {
    "drl/marginal-vs-recovery": PLANE,
    "drl/checkerboard": PLANE,
    "drl/samples": WIDE,
    "drl/fid": WIDE,
    "drl/ablation": WIDE,
    "drl/interpolation": WIDE,
    "drl/inpainting": WIDE,
    "drl/long-run": T1K,
    "drl/likelihood": T1K,
    "drl/langevin-steps": WIDE,
    "pmp/structured": UNREAD,
    "pmp/zeros-samples": UNREAD,
    "pmp/persistent": NOTHING_RUN,
    "got/temperature-bound": NOTHING_RUN,
    "got/wnmf-digits": UNSAID,
    "got/wnmf-faces": UNSAID,
    "got/timing": UNSAID,
    "dnfs/networks": RECIPE,
    "dnfs/pretrained-ebm": BITS,
    "dnfs/taylor-ratio": BITS,
    "dnfs/leaps-networks": BITS,
    "dnfs/ebm-training": BITS,
    "dnfs/ebm-table": BITS,
    "dnfs/ising-learning": LATTICE,
    "dnfs/max-independent-set": ANNEALED,
    "dnfs/max-cut": ANNEALED,
    "dnfs/trajectory": BITS,
}


@pytest.mark.parametrize("id", available())
def test_a_row_has_the_papers_setting_or_says_why_not(id):
    experiment = get_experiment(id)
    assert ("paper" in experiment.presets) != (id in WITHOUT)
    for config in experiment.presets.values():
        assert experiment.cells(config)


FULL_IS_THE_PAPERS = {
    "got/gibbs-bands",
    "got/coupling-1d",
    "got/coulomb",
    "pmp/wrong-model",
    "pmp/log-partition",
    "pmp/deconvolution",
}


def test_which_full_runs_have_the_papers_setting():
    found = {id for id in available() if get_experiment(id).has_papers_setting("full")}
    assert found == FULL_IS_THE_PAPERS


def test_fewer_seeds_or_another_value_are_not_the_papers_setting():
    row = get_experiment("got/coupling-1d")
    full = row.presets["full"]

    def papers(config):
        changed = replace(row, presets={**row.presets, "full": config})
        return changed.has_papers_setting("full")

    assert papers(full) and papers(replace(full, n_seeds=1))
    assert not papers(replace(full, n_points=64))
    many = {**row.presets, "paper": replace(full, n_seeds=21)}
    assert not replace(row, presets=many).has_papers_setting("full")
