import re
from typing import Literal

import pytest

from mvp_engine.config import ConfigError, ConfigSection, RunConfig, load_config

TRAIN = "train: {steps: 2, batch_size: 1, output_dir: out}\n"


class DepthConfig(ConfigSection):
    depth: int = 2
    norm: Literal["pre", "post"] = "pre"


class DeepConfig(RunConfig):
    model: DepthConfig = DepthConfig()


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
        return "c.yaml"

    return write


def test_a_config_and_its_overrides_become_typed_sections(write):
    path = write(
        "engine: toy\n"
        "parallel:\n"
        "  mesh: {shard: -1}\n"
        "  backend_kwargs:\n"
        "    fsdp2:\n"
        "      target_classes: [Block]\n"
        "      mp_policy: {param_dtype: bfloat16}\n"
        "model: {depth: 12}\n" + TRAIN
    )
    config = load_config(
        path,
        [
            "parallel.mesh.tensor=2",
            "parallel.backend_kwargs.fsdp2.target_classes=[Block, Head]",
            "parallel.backend_kwargs.fsdp2.reshard_after_forward=4",
            "optim.lr=3e-4",
            "optim.grad_clip=null",
            "train.resume=runs/a=b",
        ],
        DeepConfig,
    )
    assert config.parallel.mesh.model_dump() == {"replicate": 1, "shard": -1, "tensor": 2}
    fsdp2 = config.parallel.backend_kwargs.fsdp2
    assert fsdp2.target_classes == ("Block", "Head")
    assert fsdp2.reshard_after_forward == 4
    assert fsdp2.reshard_after_forward is not True
    assert fsdp2.mp_policy.param_dtype == "bfloat16"
    assert fsdp2.mp_policy.reduce_dtype is None
    assert config.model == DepthConfig(depth=12)
    assert (config.optim.lr, config.optim.grad_clip) == (3e-4, None)
    assert config.train.resume == "runs/a=b"


def test_merge_keys_and_anchors_work_and_later_keys_win(write):
    path = write(
        "data: &a {depth: 3, norm: post}\nmodel:\n  <<: *a\n  depth: 4\nengine: toy\n" + TRAIN
    )
    assert load_config(path, (), DeepConfig).model == DepthConfig(depth=4, norm="post")


def test_a_later_override_wins_and_may_replace_a_section(write):
    path = write("engine: toy\nmodel: {depth: 3, norm: post}\n" + TRAIN)
    config = load_config(path, ["model={depth: 5}", "model.depth=6"], DeepConfig)
    assert config.model == DepthConfig(depth=6, norm="pre")


HEAD = "engine: toy\n" + TRAIN


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        (
            HEAD + "parallel:\n  mesh:\n    shrad: 2\n",
            [],
            "c.yaml:5: parallel.mesh.shrad: unknown key, did you mean shard? "
            "allowed: replicate, shard, tensor",
        ),
        (
            HEAD + "zzz: 1\n",
            [],
            "c.yaml:3: zzz: unknown key, "
            "allowed: engine, parallel, model, optim, scheduler, data, train",
        ),
        (
            HEAD + "parallel: {mesh: {shard: two}}\n",
            [],
            "c.yaml:3: parallel.mesh.shard: found 'two', allowed: a valid integer",
        ),
        (
            HEAD + "parallel: {mesh: {shard: true}}\n",
            [],
            "c.yaml:3: parallel.mesh.shard: found True, allowed: a valid integer",
        ),
        (
            HEAD + "parallel:\n  mesh: {shard: -2}\n",
            [],
            "c.yaml:4: parallel.mesh.shard: found -2, allowed: greater than or equal to -1",
        ),
        (
            HEAD + "parallel:\n  mesh: {shard: 0}\n",
            [],
            "c.yaml:4: parallel.mesh: shard may be -1 or at least 1",
        ),
        (
            HEAD + "parallel:\n  mesh: {shard: -1, tensor: -1}\n",
            [],
            "c.yaml:4: parallel.mesh: only one axis may be -1, not shard and tensor",
        ),
        (
            HEAD + "parallel: {backend_kwargs: {fsdp2: {reshard_after_forward: maybe}}}\n",
            [],
            "c.yaml:3: parallel.backend_kwargs.fsdp2.reshard_after_forward: found 'maybe', "
            "allowed: a valid boolean or a valid integer",
        ),
        (
            HEAD + "parallel: {backend_kwargs: {fsdp2: {target_classes: [A, 3]}}}\n",
            [],
            "c.yaml:3: parallel.backend_kwargs.fsdp2.target_classes.1: found 3, "
            "allowed: a valid string",
        ),
        (
            HEAD + "parallel: {backend_kwargs: {fsdp2: {mp_policy: {param_dtype: bf16}}}}\n",
            [],
            "c.yaml:3: parallel.backend_kwargs.fsdp2.mp_policy.param_dtype: found 'bf16', "
            "allowed: 'float32', 'bfloat16' or 'float16'",
        ),
        (
            HEAD + "model: {norm: none}\n",
            [],
            "c.yaml:3: model.norm: found 'none', allowed: 'pre' or 'post'",
        ),
        (
            HEAD + "optim: {lr: 0}\nmodel: {depth: x}\n",
            [],
            "c.yaml:4: model.depth: found 'x', allowed: a valid integer (and 1 more)",
        ),
        (
            HEAD + "parallel: 3\n",
            [],
            "c.yaml:3: parallel: found 3, allowed: a mapping",
        ),
        (
            TRAIN,
            [],
            "c.yaml: engine: missing, set it in the file or by an override",
        ),
        (
            "engine: toy\ntrain:\n  batch_size: 1\n  output_dir: out\n",
            [],
            "c.yaml:2: train.steps: missing, set it in the file or by an override",
        ),
        (
            HEAD,
            ["parallel.mesh.shrad=2"],
            "override 'parallel.mesh.shrad=2': parallel.mesh.shrad: unknown key, "
            "did you mean shard? allowed: replicate, shard, tensor",
        ),
        (
            HEAD + "parallel: {mesh: {shard: 2}}\n",
            ["parallel.mesh.shard=lots"],
            "override 'parallel.mesh.shard=lots': parallel.mesh.shard: found 'lots', "
            "allowed: a valid integer",
        ),
        (
            HEAD,
            ["parallel.mesh.shard"],
            "override 'parallel.mesh.shard': allowed: dotted.path=value",
        ),
        (HEAD, ["=2"], "override '=2': allowed: dotted.path=value"),
        (HEAD, ["a..b=2"], "override 'a..b=2': allowed: dotted.path=value"),
        (
            HEAD,
            ["engine.name=2"],
            "override 'engine.name=2': engine is 'toy', not a mapping, and has no key 'name'",
        ),
        (
            HEAD,
            ["model=[1"],
            "override 'model=[1': is not valid YAML: expected ',' or ']', but got '<stream end>'",
        ),
        (
            HEAD + "model:\n  depth: 1\n  depth: 2\n",
            [],
            "c.yaml:5: model.depth: is set twice, first on line 4",
        ),
        (
            HEAD,
            ["model={depth: 1, depth: 2}"],
            "override 'model={depth: 1, depth: 2}': model.depth: is set twice",
        ),
        (
            "engine: toy\n\tmodel: 1\n",
            [],
            "c.yaml:2: is not valid YAML: found character '\\t' that cannot start any token",
        ),
        ("engine: *nowhere\n", [], "c.yaml:1: is not valid YAML: found undefined alias 'nowhere'"),
        (
            "engine: !!python/name:os.system\n",
            [],
            "c.yaml:1: is not valid YAML: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/name:os.system'",
        ),
        ("1: 2\n", [], "c.yaml:1: found the key 1, allowed: a name"),
        ("", [], "c.yaml: found nothing at the top level, allowed: a mapping of settings"),
        ("- a\n", [], "c.yaml: found a list at the top level, allowed: a mapping of settings"),
        ("a: &a [*a]\n", [], "c.yaml: is nested too deeply or refers to itself"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(write, text, overrides, message):
    path = write(text)
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        load_config(path, overrides, DeepConfig)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(
        ConfigError, match=r"none\.yaml: cannot be read: No such file or directory$"
    ):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"engine: \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml: is not UTF-8 text$"):
        load_config(tmp_path / "latin.yaml")
