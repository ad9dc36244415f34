"""What makes an operation fast: compiled code for the CPU, Triton for a GPU.

A reader needs nothing of it: the algorithm stands in its own module, which asks one
dispatcher for the fastest kernel on a tensor's device and runs the plain reference
where there is none. Tests hold every kernel to its reference.

==================  ============================================  =====================
operation           dispatcher, below ``ebmtut.kernels``          plain reference
==================  ============================================  =====================
Gibbs sweeps        ``gibbs.gibbs_by_kernel``                     ising_gibbs_reference
                                                                  color_gibbs
Gibbs-with-grad.    ``gwg.gwg_by_kernel``                         gwg
max-product         ``max_product.sweeps_for``                    max_product_reference
MPLP                ``mplp.mplp_sweeps``                          mplp_reference
LP relaxation       ``minimum_cut.relax_by_cut``                  the linear program
deconvolution       ``deconvolution_messages``                    deconvolve_reference
its Gibbs sampler   ``deconvolution_gibbs``                       (in the tests)
Gibbs-OT            ``gibbs_ot.chain_by_kernel``                  gibbs_ot_reference
min-plus on grids   ``grid_min_plus.grid_least_sums``             min_plus_reference
exponentials        ``exponentials.exponentials``                 standard_exponential
negatives apart     ``moved.has_moved``                           in the function
flipped couplings   ``coupling_flips.find_flips``                 _differences, _moments
==================  ============================================  =====================

This package imports the energies, so the compiled code that energies call themselves
stays with them. ``energies/_silu_tower.py`` has layers with SiLU in bfloat16, with the
plain reference ``plain_tower``. ``energies/pairwise.py`` packs the weights of all
pairs, with the plain reference ``symmetric_weight``, and colours a graph greedily,
which has no plain form but the same loop in Python.
"""
