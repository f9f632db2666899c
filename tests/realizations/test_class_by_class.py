"""Widening class by class is for every pair: one of one's own, and every envelope of the ladder."""

from __future__ import annotations

import torch

import suffice as sf
from suffice.realizations.analytic import realize_contrastive
from tests.support.ordinary import ordinary_states

NEEDS = sf.Needs.DISTANCES | sf.Needs.MATCHED_GAPS


def test_it_serves_where_no_row_is_ordinary() -> None:
    states = ordinary_states(3)
    for envelope in (sf.Uniform("quarter"), sf.StateEnvelope()):
        realized = realize_contrastive(states, sf.DebyePair(envelope=envelope))
        assert realized._ordinary is None
        each = realized._each
        for ours, theirs in ((realized.own(NEEDS), each.own_matched(realized.top)), (realized.own(), each.own)):
            assert torch.equal(ours.d, theirs.d)
            assert torch.equal(ours.a, theirs.a)
        assert torch.equal(realized.unit(NEEDS).to_top, each.unit_matched(realized.top).to_top)
        assert torch.equal(realized.head(NEEDS).distances, each.distances)
        assert torch.equal(realized.head().log_probabilities, each.head.log_probabilities)


def test_matched_gaps_are_no_more_than_sums() -> None:
    realized = realize_contrastive(ordinary_states(4), sf.DebyePair(order=4))
    top = realized.top
    for made in (realized._each.own_matched(top), realized._each.unit_matched(top)):
        for matched, index in ((made.to_target, realized.states.labels), (made.to_top, top)):
            assert matched is not None
            assert (matched <= made.d + made.d.gather(1, index[:, None])).all()
            assert (matched.gather(1, index[:, None]) == 0).all()
