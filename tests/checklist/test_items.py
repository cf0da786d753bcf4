"""Every static item: recipes with the fault, and their nearest healthy neighbours."""

from __future__ import annotations

import pytest

from action.records import Location

from .conftest import CONFIG, ENGINE, MODEL, Recipe, edited

BINDING = "    APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\n"
BUILD = "model = Toy(self.config.model.dim)"
MODEL_PY = "recipes/toy/model.py"
ENGINE_PY = "recipes/toy/engine.py"
WITHOUT_HOOK = (
    MODEL[: MODEL.index("def apply_prefetching")] + MODEL[MODEL.index("class Toy") :]
).replace(BINDING, "")


def with_model(*pairs: tuple[str, str], **files: str) -> Recipe:
    return Recipe({MODEL_PY: edited(MODEL, *pairs), **files})


def with_engine(*pairs: tuple[str, str], **files: str) -> Recipe:
    return Recipe({ENGINE_PY: edited(ENGINE, *pairs), **files})


def test_the_healthy_recipe():
    verdicts = {
        item: Recipe({}).check(item).verdict
        for item in ("hook-bound", "wrap-targets", "forward-edges", "backward-edges", "idempotent",
                     "attributes-merged", "stays-local", "honest-claims")
    }  # fmt: skip
    assert verdicts == {
        "hook-bound": "pass",
        "wrap-targets": "pass",
        "forward-edges": "unknown",
        "backward-edges": "unknown",
        "idempotent": "pass",
        "attributes-merged": "pass",
        "stays-local": "not applicable",
        "honest-claims": "pass",
    }


class TestHookBound:
    def test_it_says_where(self):
        result = Recipe({}).check("hook-bound")
        assert result.summary == (
            "`apply_prefetching` is bound on `Toy`, the class that `prepare_model()` instantiates, "
            "and takes the model alone"
        )
        assert [e.location for e in result.evidence] == [
            Location(path=MODEL_PY, line=24),
            Location(path=MODEL_PY, line=21),
        ]
        assert result.established_by == "static"

    HEALTHY = {
        "a method": (
            BINDING, "    def APPLY_FSDP2_CUSTOM_PREFETCHING(self):\n        self.done = True\n"
        ),
        "a static method": (BINDING, BINDING.replace("= apply_prefetching",
                                                     "= staticmethod(apply_prefetching)")),
        "a lambda": (BINDING, BINDING.replace("= apply_prefetching",
                                              "= lambda model: apply_prefetching(model)")),
        "a second parameter with a default": ("model: nn.Module)", "model: nn.Module, depth=1)"),
        "a class method that takes the model": (
            BINDING, "    @classmethod\n    def APPLY_FSDP2_CUSTOM_PREFETCHING(cls, model): ...\n"
        ),
        "a partial": (BINDING, BINDING.replace(
            "= apply_prefetching", "= functools.partial(apply_prefetching)")),
    }  # fmt: skip

    @pytest.mark.parametrize("case", HEALTHY)
    def test_healthy(self, case):
        assert with_model(self.HEALTHY[case]).check("hook-bound").verdict == "pass"

    FAULTY = {
        "two required parameters": (
            ("model: nn.Module)", "model: nn.Module, depth)"),
            "the runtime calls `apply_prefetching` with the model alone, but it takes "
            "(model, depth)",
        ),
        "no parameter": (
            ("(model: nn.Module)", "()"),
            "the runtime calls `apply_prefetching` with the model alone, but it takes ()",
        ),
        "a class method of one parameter": (
            (BINDING, BINDING.replace("= apply_prefetching", "= classmethod(apply_prefetching)")),
            "the runtime calls `classmethod(apply_prefetching)` with the model alone, but it takes "
            "(model)",
        ),
        "a name in quotes": (
            (BINDING, BINDING.replace("= apply_prefetching", '= "apply_prefetching"')),
            "`APPLY_FSDP2_CUSTOM_PREFETCHING` holds `'apply_prefetching'`, which cannot be called",
        ),
        "None": (
            (BINDING, BINDING.replace("= apply_prefetching", "= None")),
            "`APPLY_FSDP2_CUSTOM_PREFETCHING` holds `None`, which cannot be called",
        ),
        "a coroutine": (
            ("def apply_prefetching", "async def apply_prefetching"),
            "`apply_prefetching` is a coroutine function: the runtime's call does not run it",
        ),
        "a generator": (
            ("    model._fsdp2", "    yield model\n    model._fsdp2"),
            "`apply_prefetching` is a generator: the runtime's call does not run it",
        ),
        "the flag set in the constructor": (
            ("super().__init__()", "super().__init__()\n"
             "        self._fsdp2_prefetching_configured = True"),
            "`_fsdp2_prefetching_configured` is set before the model is wrapped, so that the hook "
            "returns at once",
        ),
    }  # fmt: skip

    @pytest.mark.parametrize("case", FAULTY)
    def test_faulty(self, case):
        change, summary = self.FAULTY[case]
        result = with_model(change).check("hook-bound")
        assert (result.verdict, result.summary) == ("fail", summary)
        assert result.evidence[0].location is not None

    def test_the_flag_set_to_false_in_the_constructor_is_healthy(self):
        recipe = with_model(("super().__init__()", "super().__init__()\n"
                             "        self._fsdp2_prefetching_configured = False"))  # fmt: skip
        assert recipe.check("hook-bound").verdict == "pass"

    def test_on_another_class_than_training_instantiates(self):
        head = "class Block(nn.Module):\n"
        recipe = with_model((BINDING, ""), (head, head + BINDING.replace("apply_", "None  # ")))
        result = recipe.check("hook-bound")
        assert result.verdict == "fail"
        assert result.summary == (
            "the hook is bound on `Block`, but training instantiates `Toy`, which neither has nor "
            "inherits it: the runtime skips it without a word"
        )

    def test_on_a_subclass_that_training_does_not_instantiate(self):
        sub = MODEL.replace(BINDING, "") + f"\n\nclass Sub(Toy):\n{BINDING}"
        assert Recipe({MODEL_PY: sub}).check("hook-bound").verdict == "fail"
        engine = edited(ENGINE, ("import Toy", "import Sub"), ("Toy(self.", "Sub(self."))
        assert Recipe({MODEL_PY: sub, ENGINE_PY: engine}).check("hook-bound").verdict == "pass"

    def test_inherited_and_bound_afterwards(self):
        sub = MODEL + "\n\nclass Sub(Toy):\n    pass\n"
        engine = edited(ENGINE, ("import Toy", "import Sub"), ("Toy(self.", "Sub(self."))
        result = Recipe({MODEL_PY: sub, ENGINE_PY: engine}).check("hook-bound")
        assert (result.verdict, "inherited from `Toy`" in result.summary) == ("pass", True)
        late = MODEL.replace(BINDING, "") + (
            "\n\nToy.APPLY_FSDP2_CUSTOM_PREFETCHING = apply_prefetching\n"
        )
        assert Recipe({MODEL_PY: late}).check("hook-bound").verdict == "pass"

    @pytest.mark.parametrize(
        ("imported", "wrapped", "why"),
        [
            ("import torch", "torch.compile(Toy(1))", "`torch.compile` returns an"),
            ("from peft import get_peft_model", "get_peft_model(Toy(1), lora)",
             "`get_peft_model` returns a `PeftModel`"),
        ],
    )  # fmt: skip
    def test_hidden_by_a_wrapper(self, imported, wrapped, why):
        line = "\nfrom .model"
        hidden = with_engine((BUILD, f"model = {wrapped}"), (line, f"\n{imported}{line}"))
        result = hidden.check("hook-bound")
        assert result.verdict == "fail"
        assert result.summary.startswith(why)
        assert result.evidence[0].location == Location(path=ENGINE_PY, line=11)

    def test_a_wrapper_after_sharding_hides_nothing(self):
        recipe = with_engine(
            ("from .model", "import torch\nfrom .model"),
            ("return parallelize_model(", "return torch.compile(parallelize_model("),
            ("backend_kwargs)", "backend_kwargs))"),
        )  # fmt: skip
        assert recipe.check("hook-bound").verdict == "pass"

    def test_no_hook_at_all(self):
        result = Recipe({MODEL_PY: WITHOUT_HOOK}).check("hook-bound")
        assert (result.verdict, result.summary) == (
            "not applicable",
            "no class of the recipe binds `APPLY_FSDP2_CUSTOM_PREFETCHING`: FSDP2's default "
            "prefetching is in charge",
        )

    def test_a_function_that_sets_edges_and_is_bound_nowhere(self):
        result = with_model((BINDING, "")).check("hook-bound")
        assert (result.verdict, result.summary) == (
            "fail",
            "`apply_prefetching` sets prefetch edges, but no class binds it as "
            "`APPLY_FSDP2_CUSTOM_PREFETCHING`: the runtime does not call it",
        )
        assert result.evidence[0].location == Location(path=MODEL_PY, line=10)

    def test_a_trail_that_ends_is_unknown_and_says_where(self):
        recipe = with_engine((BUILD, "model = MODELS[self.config.name](1)"))
        result = recipe.check("hook-bound")
        assert result.verdict == "unknown"
        assert result.evidence[-1].location == Location(path=ENGINE_PY, line=10)

    def test_a_file_that_cannot_be_read_is_unknown(self):
        result = Recipe({MODEL_PY: "class Toy(:\n"}).check("hook-bound")
        assert result.verdict == "unknown"

    @pytest.mark.parametrize("value", ["make_hook()", "HOOKS['toy']", "somewhere.hook"])
    def test_a_value_that_is_computed_is_unknown(self, value):
        recipe = with_model((BINDING, BINDING.replace("= apply_prefetching", f"= {value}")))
        assert recipe.check("hook-bound").verdict == "unknown"


class TestWrapTargets:
    def test_it_says_where(self):
        result = Recipe({}).check("wrap-targets")
        assert result.summary == "`Block`: by name, a class that the model's source uses"
        assert Location(path="recipes/toy/configs/tiny.yaml", line=7) in [
            e.location for e in result.evidence
        ]

    def test_a_misspelt_name(self):
        config = edited(CONFIG, ("[Block]", "[Blok]"))
        result = Recipe({"recipes/toy/configs/tiny.yaml": config}).check("wrap-targets")
        assert (result.verdict, result.summary) == (
            "fail",
            "`Blok` is to be wrapped, but no class that the model uses has that name",
        )
        assert result.evidence[0].location == Location(path="recipes/toy/configs/tiny.yaml", line=7)

    def test_a_class_of_torch_nn(self):
        recipe = with_model(
            ('["Block"]', '["Block", "TransformerEncoderLayer"]'),
            ("Block() for", "nn.TransformerEncoderLayer(8, 2) or Block() for"),
        )  # fmt: skip
        assert recipe.check("wrap-targets").verdict == "pass"

    def test_a_class_that_is_defined_but_not_used(self):
        recipe = with_model(
            ('["Block"]', '["Block", "Unused"]'),
            ("class Toy", "class Unused(nn.Module): ...\n\n\nclass Toy"),
        )
        assert recipe.check("wrap-targets").verdict == "fail"

    def test_a_name_from_outside_is_unknown(self):
        recipe = with_model(
            ('["Block"]', '["Qwen3DecoderLayer"]'),
            ("from torch import nn", "from torch import nn\nfrom transformers import Qwen3Model"),
            ("class Toy(nn.Module)", "class Toy(Qwen3Model)"),
        )  # fmt: skip
        result = recipe.check("wrap-targets")
        assert (result.verdict, "`Qwen3DecoderLayer`" in result.summary) == ("unknown", True)

    def test_an_imported_name_from_outside_passes(self):
        recipe = with_model(
            ('["Block"]', '["Qwen3DecoderLayer"]'),
            ("from torch import nn", "from torch import nn\nfrom q import Qwen3DecoderLayer"),
            ("Block() for", "Qwen3DecoderLayer(1) for"),
        )  # fmt: skip
        config = edited(CONFIG, ("[Block]", "[]"))
        files = {MODEL_PY: "", "recipes/toy/configs/tiny.yaml": config}
        files[MODEL_PY] = recipe.tree.read(MODEL_PY).decode()
        assert Recipe(files).check("wrap-targets").verdict == "pass"

    def test_no_target_at_all(self):
        config = edited(CONFIG, ("[Block]", "[]"))
        files = {"recipes/toy/configs/tiny.yaml": config}
        hooked = Recipe(
            {**files, MODEL_PY: edited(MODEL, ('    _no_split_modules = ["Block"]\n', ""))}
        )
        assert hooked.check("wrap-targets").verdict == "fail"
        plain = edited(MODEL, ('    _no_split_modules = ["Block"]\n', ""), (BINDING, ""))
        assert Recipe({**files, MODEL_PY: plain}).check("wrap-targets").verdict == "not applicable"

    def test_a_computed_list_is_noted(self):
        recipe = with_model(('["Block"]', "make_targets()"))
        result = recipe.check("wrap-targets")
        assert result.verdict == "pass"
        assert "further ones are not known (`_no_split_modules` is computed)" in result.summary


class TestEdges:
    @pytest.mark.parametrize("direction", ["forward", "backward"])
    def test_not_observed(self, direction):
        result = Recipe({}).check(f"{direction}-edges")
        assert (result.verdict, result.established_by) == ("unknown", "nothing")
        assert result.summary == f"the order in which the units run {direction} was not observed"

    def test_without_a_hook_there_is_nothing_to_observe(self):
        assert Recipe({MODEL_PY: WITHOUT_HOOK}).check("forward-edges").verdict == "not applicable"

    def test_a_direction_that_the_hook_leaves_alone(self):
        line = "        following.set_modules_to_backward_prefetch([block])\n"
        recipe = with_model((line, ""))
        assert recipe.check("backward-edges").verdict == "not applicable"
        assert recipe.check("forward-edges").verdict == "unknown"

    def test_a_hook_that_hands_on_is_not_taken_for_one_that_sets_nothing(self):
        line = "        following.set_modules_to_backward_prefetch([block])\n"
        recipe = with_model((line, "        wire(following, block)\n"))
        assert recipe.check("backward-edges").verdict == "unknown"

    @pytest.mark.parametrize(
        ("edge", "summary"),
        [
            (
                "block.set_modules_to_forward_prefetch([block])",
                "`block` is told to prefetch itself",
            ),
            (
                "block.set_modules_to_forward_prefetch([model])",
                "an edge points to the root, `model`",
            ),
            (
                "block.set_modules_to_forward_prefetch([following, following])",
                "`following` stands twice in one list of edges",
            ),
        ],
    )
    def test_certainly_wrong(self, edge, summary):
        recipe = with_model(("block.set_modules_to_forward_prefetch([following])", edge))
        result = recipe.check("forward-edges")
        assert (result.verdict, result.summary) == ("fail", summary)
        assert result.evidence[0].location == Location(path=MODEL_PY, line=15)


FLAG_TEST = '    if getattr(model, "_fsdp2_prefetching_configured", False):\n        return\n\n'
FLAG_SET = "\n    model._fsdp2_prefetching_configured = True\n"


def after_flag(lines: str) -> str:
    """The model with lines after the test of the hook's flag."""
    return edited(MODEL, (FLAG_TEST, FLAG_TEST + lines))


class TestIdempotent:
    CASES = {
        "tested and set": ((), "pass"),
        "hasattr": ((('getattr(model, "_fsdp2_prefetching_configured", False)',
                      'hasattr(model, "_fsdp2_prefetching_configured")'),), "pass"),
        "setattr": (((FLAG_SET, '\n    setattr(model, "_fsdp2_prefetching_configured", True)\n'),),
                    "pass"),
        "set before the edges": (((FLAG_SET, ""), (FLAG_TEST, FLAG_TEST + FLAG_SET[1:])), "pass"),
        "never set": (((FLAG_SET, ""),), "fail"),
        "never tested": (((FLAG_TEST, ""),), "fail"),
        "another flag set": ((("model._fsdp2_prefetching_configured = True",
                               "model._fsdp2_prefetch_configured = True"),), "fail"),
        "edges before the test": (((FLAG_TEST, "    model.blocks[0].set_modules_to_forward_prefetch"
                                    "([model.blocks[1]])\n" + FLAG_TEST),), "fail"),
        "no flag": (((FLAG_SET, ""), (FLAG_TEST, "")), "unknown"),
        "set in a branch": (((FLAG_SET, "\n    if model.training:\n"
                              "        model._fsdp2_prefetching_configured = True\n"),), "unknown"),
        "set on another object": ((("    model._fsdp2", "    model.blocks._fsdp2"),), "fail"),
        "set on what may be another object": (
            (("    model._fsdp2", "    root = unwrap(model)\n    root._fsdp2"),), "unknown"
        ),
        "set under a second name": (
            (("    model._fsdp2", "    root = model\n    root._fsdp2"),), "pass"
        ),
        "a return on the way": (((FLAG_SET, "\n    if not model.training:\n        return\n"
                                  + FLAG_SET),), "unknown"),
    }  # fmt: skip

    @pytest.mark.parametrize("case", CASES)
    def test_verdict(self, case):
        changes, verdict = self.CASES[case]
        result = with_model(*changes).check("idempotent")
        assert (result.verdict, bool(result.evidence)) == (verdict, True), result.summary

    def test_without_a_hook(self):
        assert Recipe({MODEL_PY: WITHOUT_HOOK}).check("idempotent").verdict == "not applicable"


class TestAttributesMerged:
    TP = '    TP_MODULE_CONFIG = {"blocks.*": "colwise"}\n'

    def test_on_one_class(self):
        result = Recipe({}).check("attributes-merged")
        assert result.summary == "`TP_MODULE_CONFIG` and the hook are found on `Toy`"

    def test_apart(self):
        model = MODEL.replace(self.TP, "") + f"\n\nclass Tensor(Toy):\n{self.TP}"
        result = Recipe({MODEL_PY: model}).check("attributes-merged")
        assert (result.verdict, result.summary) == (
            "fail",
            "`Toy` has the hook, but `TP_MODULE_CONFIG` is on `Tensor`",
        )

    def test_a_wrapper_class_for_no_other_purpose(self):
        model = MODEL.replace(BINDING, "") + f"\n\nclass Prefetching(Toy):\n{BINDING}"
        engine = edited(
            ENGINE, ("import Toy", "import Prefetching"), ("Toy(self.", "Prefetching(self.")
        )
        result = Recipe({MODEL_PY: model, ENGINE_PY: engine}).check("attributes-merged")
        assert result.verdict == "fail"
        assert result.summary.startswith(
            "`Prefetching` does nothing but carry the hook beside `Toy`"
        )

    def test_a_subclass_that_does_something_is_healthy(self):
        body = f"{BINDING}\n    def forward(self, x):\n        return x\n"
        model = MODEL.replace(BINDING, "") + f"\n\nclass Better(Toy):\n{body}"
        engine = edited(ENGINE, ("import Toy", "import Better"), ("Toy(self.", "Better(self."))
        result = Recipe({MODEL_PY: model, ENGINE_PY: engine}).check("attributes-merged")
        assert result.verdict == "pass"

    def test_nothing_to_merge(self):
        assert with_model((self.TP, "")).check("attributes-merged").verdict == "not applicable"
        assert with_model((BINDING, "")).check("attributes-merged").verdict == "not applicable"


class TestStaysLocal:
    def check(self, **files: str) -> tuple[str, str]:
        paths = {
            "model": MODEL_PY,
            "engine": ENGINE_PY,
            "config": "recipes/toy/configs/tiny.yaml",
            "runtime": "mvp_engine/distributed/fsdp2.py",
            "shared": "shared/wiring.py",
            "test": "recipes/toy/tests/test_smoke.py",
            "loop": "mvp_engine/engine/loop.py",
        }
        result = Recipe({paths[k]: text for k, text in files.items()}, before={}).check(
            "stays-local"
        )
        return result.verdict, result.summary

    FAULTY = {
        "a toggle in the config": (
            {"config": CONFIG + "model: {use_prefetching: true}\n"},
            "the config gains a toggle for prefetching, `model.use_prefetching`",
        ),
        "edges in the config": (
            {"config": CONFIG + "prefetch: [{from: a, to: b}]\n"},
            "the config gains a list of edges for prefetching, `prefetch[0].from` (and 1 more)",
        ),
        "an environment variable by name": (
            {"engine": "import os\nX = os.environ.get('FSDP2_PREFETCH')\n" + ENGINE},
            "an environment variable gates prefetching: `FSDP2_PREFETCH`",
        ),
        "an environment variable in the hook": (
            {"model": after_flag("    if os.getenv('FAST'):\n        return\n")},
            "an environment variable gates prefetching: `FAST`",
        ),
        "a flag of the config": (
            {"model": after_flag("    if not model.config.prefetch:\n        return\n")},
            "a setting gates prefetching: `model.config.prefetch`",
        ),
        "a table of edges": (
            {"model": MODEL + "\n\nPREFETCH_EDGES = {'blocks.0': ['blocks.1']}\n"},
            "edges are kept as data in `PREFETCH_EDGES`",
        ),
        "a description of edges": (
            {"model": MODEL + "\n\nclass PrefetchGraph:\n    pass\n"},
            "`PrefetchGraph` is a description of edges of its own",
        ),
        "a registry": (
            {"model": edited(MODEL, ("def apply_pre", "@register_prefetch('toy')\ndef apply_pre"))},
            "the hook is put into a registry by `register_prefetch`",
        ),
        "a tracer": (
            {"model": "from torch.fx import symbolic_trace\n" + MODEL},
            "the module that sets the edges imports a tracer, `torch.fx.symbolic_trace`",
        ),
        "edges set outside the recipe": (
            {"shared": "def wire(a, b):\n    a.set_modules_to_forward_prefetch([b])\n"},
            "edges are set outside the recipe, in `shared/wiring.py`",
        ),
        "the runtime beside the recipe": (
            {"runtime": "X = 1\n", "model": MODEL + "\n\nY = 1\n"},
            "the change edits the runtime, `mvp_engine/distributed/fsdp2.py`, beside the recipe; "
            "right only if a change of the runtime was asked for",
        ),
    }  # fmt: skip

    @pytest.mark.parametrize("case", FAULTY)
    def test_faulty(self, case):
        files, summary = self.FAULTY[case]
        assert self.check(**files) == ("fail", summary)

    HEALTHY = {
        "a loader's prefetch factor": {
            "config": CONFIG + "data: {prefetch_factor: 2, prefetch: 4}\n",
            "engine": ENGINE + "\n\nloader = dict(prefetch_factor=2)\n",
        },
        "an unrelated environment variable": {
            "engine": "import os\nX = os.environ.get('WANDB_MODE')\n" + ENGINE
        },
        "words in a comment or a docstring": {
            "model": after_flag("    # no torch.fx, no PREFETCH_EDGES here\n")
        },
        "a tracer in a module without edges": {"engine": "import torch.fx\n" + ENGINE},
        "a new hook in plain code": {
            "model": edited(MODEL, ("[following]", "[following, block.inner]"))
        },
        "the flag of the hook": {"model": edited(MODEL, ("False):", "None):"))},
        "tests may look at everything": {"test": "import os\nX = os.environ['PREFETCH']\n"},
        "a runtime change that has nothing to do with sharding": {
            "loop": "STEPS = 1\n", "model": MODEL + "\n\nY = 1\n"
        },
    }  # fmt: skip

    @pytest.mark.parametrize("case", HEALTHY)
    def test_healthy(self, case):
        assert self.check(**self.HEALTHY[case]) == (
            "pass",
            "the diff adds no toggle, edge list, registry, tracer or runtime edit for prefetching",
        )

    def test_what_was_there_before_is_not_the_changes_fault(self):
        config = CONFIG + "model: {use_prefetching: true}\n"
        files = {"recipes/toy/configs/tiny.yaml": config}
        recipe = Recipe({**files, MODEL_PY: MODEL + "\n\nY = 1\n"}, before=files)
        assert recipe.check("stays-local").verdict == "pass"

    def test_a_change_of_the_runtime_alone_is_for_a_person_to_judge(self):
        verdict, summary = self.check(runtime="X = 1\n")
        assert verdict == "unknown"
        assert summary.endswith("whether that was asked for is not in the source")


DISHONEST = [
    "The smoke test validates the prefetch edges.",
    "Smoke tests prove that prefetching edges are right.",
    "The structure test verifies the prefetch order of all layers.",
    "Prefetch edges are validated by the smoke test.",
    "Structure and smoke tests confirm the prefetch edges.",
    "The prefetch edges are correct, as the smoke test shows.",
    "All tests pass, which proves the prefetch edges.",
    "The loss falls, so the prefetch edges are verified.",
    "A green CI demonstrates that the prefetch order is correct.",
    "The training run confirms the prefetching edges.",
    "Edge validation: covered by the smoke test.",
    "`test_smoke.py` ensures the prefetch edges are installed as intended.",
    "The smoke run guarantees correct prefetching.",
    "Structural tests establish the correctness of the prefetch hook.",
    "The impact of the prefetch edges is verified by a smoke run.",
    "Smoke covers the prefetch wiring.",
    "Prefetch-edge impact is proved by the training step.",
    "The smoke test checks the prefetch targets.",
    "With the smoke test green, the prefetch order is confirmed.",
    "Edge identity is verified in the structure tests.",
]
HONEST = [
    "A falling loss shows that training runs; it would fall with wrong prefetch edges too.",
    "Whether the prefetch edges are right, the smoke test cannot tell.",
    "The loss falls even if the prefetch edges are all wrong, as a smoke test shows.",
    "The smoke test covers training steps; the prefetch edges have a test of their own.",
    "The smoke test does not validate the prefetch edges.",
    "A green smoke test proves nothing about prefetch edges.",
    "Structure checks are not edge validation.",
    "The edge-identity test validates the prefetch edges; smoke only trains.",
    "The smoke test trains two ranks and the loss falls.",
    "The structure test checks that the hook is bound and that blocks are wrapped.",
    "Prefetch edges are validated by the identity tests, after structure and smoke.",
    "Structure, smoke and edge-identity tests cover the prefetch edges.",
    "Smoke cannot show a wrong prefetch edge.",
    "The prefetch edges remain unproved by the smoke test.",
    "No smoke run validates prefetch edges.",
    "Never take smoke results for validation of prefetch edges.",
    "Run the smoke test before you validate prefetch edges.",
    "The data loader's prefetch factor is tested by the smoke test.",
    "Backward edges follow the reverse order.",
    "Each block prefetches the next one.",
    "The loss falls from 5.6 to 2.1 in 100 steps.",
    "The smoke test isn't proof of the prefetch order.",
    "Impact tests compare prefetch edges by identity; see test_prefetch_edges_impact.py.",
    "Tests pass on two ranks.",
    "The structure of the model shows that block 1 runs after block 0.",
]


class TestHonestClaims:
    def verdict(self, **files: str) -> str:
        paths = {"readme": "recipes/toy/README.md", "smoke": "recipes/toy/tests/test_smoke.py",
                 "structure": "recipes/toy/tests/test_structure.py"}  # fmt: skip
        return Recipe({paths[k]: text for k, text in files.items()}).check("honest-claims").verdict

    @pytest.mark.parametrize("sentence", DISHONEST)
    def test_dishonest(self, sentence):
        assert self.verdict(readme=f"# Toy\n\nFirst. {sentence} Last.\n") == "fail"
        recipe = Recipe({})
        recipe.text = f"Adds a hook\n\n{sentence}\n"
        result = recipe.check("honest-claims")
        assert result.verdict == "fail"
        assert "the pull request says “" in result.summary

    @pytest.mark.parametrize("sentence", HONEST)
    def test_honest(self, sentence):
        assert self.verdict(readme=f"# Toy\n\nFirst. {sentence} Last.\n") == "pass"

    def test_it_quotes_and_points(self):
        readme = f"# Toy\n\n- one\n- {DISHONEST[0]}\n"
        result = Recipe({"recipes/toy/README.md": readme}).check("honest-claims")
        assert [(e.text, e.location) for e in result.evidence] == [
            (f"“{DISHONEST[0]}”", Location(path="recipes/toy/README.md", line=4))
        ]

    @pytest.mark.parametrize(
        ("code", "verdict"),
        [
            ('"""Validates the prefetch edges."""\n', "fail"),
            ('def test_it():\n    """Proves the prefetch edges correct."""\n', "fail"),
            ("def test_prefetch_edges_validated():\n    pass\n", "fail"),
            ("def test_validates_prefetch_edges():\n    train()\n", "fail"),
            ('"""Says nothing about prefetch edges, which it does not validate."""\n', "pass"),
            ("def test_hook_is_bound():\n    pass\n", "pass"),
            ("def test_loss_falls():\n    pass\n", "pass"),
            ('def test_edges():\n    """Checks the prefetch edges."""\n    prefetch_edges(m)\n',
             "pass"),
        ],
    )  # fmt: skip
    def test_in_the_tests_themselves(self, code, verdict):
        assert self.verdict(smoke=code) == verdict
        assert self.verdict(structure=code) == verdict
