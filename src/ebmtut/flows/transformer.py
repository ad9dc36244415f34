"""leTF: the locally equivariant transformer, over a hollow one.

Two streams read the sites from left to right and from right to left, with inputs that
are shifted by one, so that causal attention does not see the site's own state; a last
attention reads both streams, masked likewise.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from ebmtut._layers import embedding, linear, normal_weights, source_of_weights
from ebmtut.checks import Count, checked
from ebmtut.flows.networks import HollowNetwork, TimeFeatures, check_heads

__all__ = ["HollowTransformer"]


def _attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
    """Attention to the keys that are ``seen``; None: to a query's own and earlier.

    Numbers for ``seen`` are added to the scores, -inf where a key is not to be seen.
    """
    if q.device.type == "cpu" and q.dtype == torch.bfloat16:
        if seen is None:
            seen = torch.ones(
                q.shape[-2], k.shape[-2], dtype=torch.bool, device="cpu"
            ).tril()
        if seen.dtype == torch.bool:
            seen = torch.zeros(
                seen.shape, dtype=torch.float32, device="cpu"
            ).masked_fill(~seen, -math.inf)
        scores = q / math.sqrt(q.shape[-1]) @ k.transpose(-1, -2) + seen.to(q.dtype)
        return scores.softmax(-1).to(v.dtype) @ v
    return scaled_dot_product_attention(q, k, v, seen, is_causal=seen is None)


class CausalBlock(nn.Module):
    """Causal self-attention and a feed-forward layer, each after a norm."""

    def __init__(self, width: int, n_heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm_attention = nn.LayerNorm(width, dtype=torch.float32, device="cpu")
        self.norm_feed = nn.LayerNorm(width, dtype=torch.float32, device="cpu")
        self.queries_keys_values = linear(width, 3 * width, generator)
        self.merge = linear(width, width, generator)
        self.widen = linear(width, 4 * width, generator)
        self.narrow = linear(4 * width, width, generator)

    def forward(
        self,
        h: Float[Tensor, "... n_sites width"],
        bias: Float[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "... n_sites width"]:
        """Mix sites; ``bias`` is added to the scores, None is the causal mask."""
        parts = self.queries_keys_values(self.norm_attention(h))
        q, k, v = split_heads(parts, 3, self.n_heads)
        mixed = _attend(q, k, v, bias)
        h = h + self.merge(mixed.transpose(-3, -2).flatten(-2))
        fed: Tensor = self.narrow(gelu(self.widen(self.norm_feed(h))))
        return h + fed


def split_heads(
    parts: Float[Tensor, "... n_sites n_features"], n_parts: int, n_heads: int
) -> Float[Tensor, "..."]:
    """Split into (n_parts, ..., n_heads, n_sites, features of a head)."""
    apart = parts.unflatten(-1, (n_parts, n_heads, -1))
    return apart.movedim(-3, 0).transpose(-3, -2)


class HollowTransformer(HollowNetwork):
    """leTF of Ou, Zhang and Li (2025, Appendix B.3).

    Both streams share their weights and run as one batch, with embeddings of their own.

    Parameters
    ----------
    n_sites, n_states, width, generator
        As in `HollowNetwork`.
    n_layers, n_heads
        Causal layers, and heads of every attention.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.flows import HollowTransformer
    >>> from ebmtut.random import make_generator
    >>> network = HollowTransformer(6, width=8, n_heads=2, generator=make_generator(0))
    >>> network(torch.zeros(5, 6), torch.full((5,), 0.5)).shape
    torch.Size([5, 6])
    """

    @checked
    def __init__(
        self,
        n_sites: int,
        *,
        n_states: int = 2,
        width: int = 64,
        n_layers: Count = 3,
        n_heads: int = 4,
        generator: torch.Generator | None = None,
    ) -> None:
        generator = source_of_weights(generator)
        super().__init__(n_sites, n_states=n_states, width=width, generator=generator)
        check_heads(n_heads, width)
        self.n_heads = n_heads
        # The last token is the start.
        self.token = embedding(n_states + 1, width, generator)
        self.place = normal_weights(n_sites, width, scale=0.5, generator=generator)
        self.direction = normal_weights(2, 1, 1, width, scale=0.5, generator=generator)
        self.time = TimeFeatures(width, generator=generator)
        self.blocks = nn.ModuleList(
            CausalBlock(width, n_heads, generator) for _ in range(n_layers)
        )
        self.norm = nn.LayerNorm(width, dtype=torch.float32, device="cpu")
        self.queries_keys_values = linear(width, 3 * width, generator)
        self.merge = linear(width, width, generator)
        earlier = torch.ones(n_sites, n_sites, dtype=torch.bool, device="cpu").tril()
        self.seen: Tensor
        self.register_buffer(
            "seen", torch.cat([earlier, earlier.T], dim=1), persistent=False
        )

    def hollow(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites width"]:
        """Features of every site that do not depend on its own state."""
        tokens = x.long()
        start = torch.full_like(tokens[:, :1], self.n_states)
        rightward = self.token(torch.cat([start, tokens[:, :-1]], 1)) + self.place
        leftward = self.token(torch.cat([tokens[:, 1:], start], 1)) + self.place
        both = torch.stack([rightward, leftward.flip(1)]) + self.direction
        h = (both + self.time(t)[:, None]).flatten(0, 1)
        for block in self.blocks:
            h = block(h)
        parts = self.queries_keys_values(self.norm(h)).unflatten(0, (2, -1))
        # Both streams in the order of the sites again, one after the other.
        right, left = parts[0], parts[1].flip(1)
        q_right, k_right, v_right = split_heads(right, 3, self.n_heads)
        q_left, k_left, v_left = split_heads(left, 3, self.n_heads)
        read = _attend(
            (q_right + q_left) / math.sqrt(2),
            torch.cat([k_right, k_left], dim=2),
            torch.cat([v_right, v_left], dim=2),
            self.seen,
        )
        merged: Tensor = self.merge(read.transpose(1, 2).flatten(2))
        return merged
