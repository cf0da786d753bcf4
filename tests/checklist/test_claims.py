"""Sentences that people write about their tests: which of them claim more than was shown."""

import time

import pytest

from action.checklist.honest_claims import claims_in

DISHONEST = [
    "The smoke test passing shows that the prefetch edges are in the right order.",
    "Prefetch edges validated via smoke test on 2 ranks.",
    "Smoke training on 8 GPUs confirms that forward prefetch edges work as intended.",
    "The structure test proves that every prefetch edge points to the right block.",
    "Validation: prefetch edges verified (structure + smoke green).",
    "Since smoke passes, the backward prefetch edges are correct.",
    "We validated the prefetching edges with `pytest recipes/toy/tests/test_smoke.py`.",
    "Edge-impact validation: done, smoke test passes.",
    "Hard validation of prefetch edges: structure and smoke tests pass.",
    "Smoke run on 4 ranks validates edge identity.",
    "Prefetch wiring is verified by test_structure.py.",
    "test_smoke.py is the edge-impact validation of this recipe.",
    "The loss goes down, which proves that prefetching is wired correctly.",
    "Training converges, so prefetch edges are right.",
    "The hook's edges are covered by the smoke test.",
    "FSDP2 prefetch edges: ✅ validated by smoke.",
    "Impact of prefetch edges validated: the smoke test ran without errors.",
    "The smoke test ran cleanly, so the prefetch order is proven.",
    "Structure checks ensure that forward and backward prefetch targets are right.",
    "The smoke test exercises and thereby validates every prefetch edge.",
    "Both smoke and structure pass, which confirms prefetch impact.",
    "| prefetch edges | validated by smoke |",
    "Smoke tests not only train but also validate the prefetch edges.",
    "No further validation of prefetch edges is needed, since smoke passes.",
    "The edges are proven correct by a green smoke run of the prefetch hook.",
    "Until now untested, the prefetch edges are validated by the smoke test.",
]
HONEST = [
    "The smoke test does not prove that the prefetch edges are right.",
    "Structure and smoke are not edge-impact validation.",
    "Passing smoke tests are no proof of prefetch edges.",
    "Smoke: passed. Edge identity: not run.",
    "Prefetch edges are not validated by the smoke test; the impact test does that.",
    "The smoke test only shows that training runs with the prefetch hook installed.",
    "The structure test checks that the hook is bound on the top-level class.",
    "Smoke shows that two ranks train; prefetch edges are left to the impact test.",
    "`test_prefetch_edges_impact.py` compares prefetch targets by object identity.",
    "A falling loss says nothing about prefetch order.",
    "Remaining gap: no edge-identity impact validation was run.",
    "Don't read a green smoke test as edge validation.",
    "The smoke test runs with prefetching on.",
    "The impact test builds the real wrapped model and checks every prefetch edge.",
    "Structure and smoke tests run first; then the impact test verifies the prefetch edges.",
    "Smoke runs with FSDP2 active; whether prefetch edges are right is checked elsewhere.",
    "This recipe sets forward prefetch edges from each block to the next.",
    "The tests check the shapes of the logits, the loss and the gradient.",
    "Structure: checks that each block is an FSDP2 unit.",
    "Prefetch edges follow the order of forward(), as read from the source.",
    "To validate the prefetch edges, run the identity stage; smoke alone is insufficient.",
    "Smoke validates that training works on two ranks.",
    "The smoke test verifies that the loss falls with prefetching enabled.",
    "Smoke tests verify checkpoint and resume.",
    "We ran structure and smoke; edge impact validation is still to do.",
    "The structure of the hook shows which prefetch edges exist.",
    "The prefetch hook sets edges and the smoke test trains ten steps.",
    "The smoke test confirms that the prefetch hook runs without error.",
    "Structure test: confirms that the prefetch hook is bound and idempotent.",
    "It would be wrong to say that smoke proves the prefetch edges.",
    "If smoke fails, prefetch edges cannot be verified.",
    "The edges of the graph data set are covered by the smoke test.",
    "Edge cases are covered by the smoke tests.",
    "The prefetch edges are verified by tests/skills/fsdp2-prefetching/, not by smoke.",
    "Neither structure nor smoke tests are reported as prefetch-edge validation.",
    "Structure and smoke results are no substitute for validating prefetch edges.",
    "smoke, structure and prefetch edge tests pass",
]


@pytest.mark.parametrize("sentence", DISHONEST)
def test_a_claim_is_found_and_quoted_whole(sentence):
    text = f"# Title\n\nIt trains.\n\n{sentence}\n\nIt stops.\n"
    assert list(claims_in(text)) == [(5, sentence)]


@pytest.mark.parametrize("sentence", HONEST)
def test_an_honest_sentence_is_left_alone(sentence):
    assert list(claims_in(f"It trains. {sentence}\n\nIt stops.\n")) == []


def test_a_sentence_over_several_lines():
    text = "First.\n\nThe smoke test\nvalidates the\nprefetch edges. Last.\n"
    assert list(claims_in(text)) == [(3, "The smoke test validates the prefetch edges.")]


@pytest.mark.parametrize("unit", ["prefetch", "edges ", "prefetch is ", "loss falls. ", "- \n"])
def test_hostile_text_is_read_in_no_time(unit):
    begin = time.monotonic()
    assert list(claims_in(unit * (500_000 // len(unit)))) == []
    assert time.monotonic() - begin < 5
