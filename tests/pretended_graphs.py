"""CUDA graphs on a GPU that is not there, with what CUDA asks of them.

Inside ``with pretended_graphs() as (device, waits)``, which is a `pretended_gpu`, a
graph records the operations on its tensors and does them again, into the same memory,
at each replay. As on a GPU

- recording changes nothing: weights and generators are afterwards as they were;
- only what a thread does on the stream that records is recorded, and on streams that
  wait for it;
- what waits for the GPU, or copies to it from the processor, is refused;
- draws come from generators that the graph knows, or are refused.
"""

import threading
from contextlib import contextmanager, nullcontext
from functools import cache
from unittest import mock

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from tests import pretended_gpu as gpu

__all__ = ["pretended_graphs"]

here = threading.local()  # the stream of a thread


def current_stream(device=None):
    return getattr(here, "stream", None) or default_stream()


class Stream(torch.cuda.Stream):
    """One that is in order with all others.

    A torch that is built for GPUs makes it only where there is one.
    """

    def __new__(cls, device=None):
        built = torch.backends.cuda.is_built()
        return super().__new__(cls) if built else object.__new__(cls)

    def __init__(self, device=None):
        pass

    def __eq__(self, other):
        return self is other

    def wait_stream(self, stream):
        graph = getattr(gpu.watch, "graph", None)
        if graph is not None and stream in graph.streams:
            graph.streams.append(self)


@cache
def default_stream():
    return Stream()


@contextmanager
def on_stream(stream):
    """Operations of this thread go there; None is the stream that it has."""
    before = current_stream()
    here.stream = before if stream is None else stream
    # The rules, too, are of one thread.
    main = threading.current_thread() is threading.main_thread()
    try:
        with nullcontext() if main else gpu.Rules(gpu.watch.waited):
            yield
    finally:
        here.stream = before


class World:
    """What is recorded, and whether waiting is refused."""

    def __init__(self, waited):
        self.waited, self.mode, self.graph, self.graphs = waited, "default", None, []

    def begins(self, function, args, kwargs):
        """Be told of an operation on the GPU's numbers before it is done."""
        name = function._schema.name
        if self.graph is None or current_stream() not in self.graph.streams:
            return
        for x in tree_leaves((args, kwargs)):
            if isinstance(x, torch.Generator.__mro__[1]):
                known = [g._cdata for g in self.graph.generators]
                assert x._cdata in known, f"{name}: a generator that the graph lacks"
        if function._schema.is_mutable:
            for x in tree_leaves((args, kwargs)):
                if isinstance(x, torch.Tensor):
                    self.graph.keep(x)

    def ended(self, function, args, kwargs, found):
        if self.graph is not None and current_stream() in self.graph.streams:
            self.graph.tape.append((function, args, kwargs, found))

    def waits(self, name):
        if self.graph is not None:
            raise RuntimeError(f"{name}: operation not permitted when stream captures")
        if self.mode == "error":
            raise RuntimeError("called a synchronizing CUDA operation")


class CUDAGraph:
    """Operations with the memory that they read and write."""

    def __init__(self):
        self.tape, self.generators, self.before, self.n_replays = [], [], {}, 0
        gpu.watch.graphs.append(self)

    def register_generator_state(self, generator):
        self.generators.append(generator)

    def capture_begin(self, **how):
        self.open = recording(self, current_stream())
        self.open.__enter__()

    def capture_end(self):
        self.open.__exit__(None, None, None)

    def keep(self, x):
        storage = x.untyped_storage()
        self.before.setdefault(storage.data_ptr(), (storage, storage.clone()))

    @torch.no_grad()
    @_disable_current_modes()
    def replay(self):
        self.n_replays += 1
        for function, args, kwargs, found in self.tape:
            again = function(*args, **kwargs)
            is_view = any(r.alias_info for r in function._schema.returns)
            if not (function._schema.is_mutable or is_view):
                pairs = zip(tree_leaves(found), tree_leaves(again), strict=True)
                for old, new in pairs:
                    if isinstance(old, torch.Tensor):
                        old.copy_(new)


@contextmanager
def recording(graph, stream):
    assert current_stream() is stream is not default_stream()
    states = [g.get_state() for g in graph.generators]
    world, graph.streams = gpu.watch, [stream]
    world.graph = graph
    try:
        yield
    finally:
        world.graph = None
        for storage, before in graph.before.values():
            storage.copy_(before)
        for generator, state in zip(graph.generators, states, strict=True):
            generator.set_state(state)


@contextmanager
def pretended_graphs():
    """Let torch have them; yields the device and the graphs that were made."""
    with gpu.pretended_gpu() as (device, waits):
        world = World(waits)
        with (
            mock.patch.object(gpu, "watch", world),
            mock.patch.multiple(
                "torch.cuda",
                Stream=Stream,
                current_stream=current_stream,
                stream=on_stream,
                CUDAGraph=CUDAGraph,
                is_current_stream_capturing=lambda: world.graph is not None,
                graph=recording,
                get_sync_debug_mode=lambda: world.mode,
                set_sync_debug_mode=lambda mode: setattr(world, "mode", mode),
            ),
            mock.patch("ebmtut.training.ensemble.check_capturable"),
            mock.patch("ebmtut.training.loop.check_capturable"),
        ):
            yield device, world.graphs
