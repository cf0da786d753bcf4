"""The training runtime that recipes use: configuration, parallelism, engine, launch.

It is small, and exists so that recipes train for real, on GPUs and on a laptop's CPU::

    torchrun --nproc-per-node=2 -m mvp_engine.launch --config recipes/<r>/configs/<c>.yaml \\
        parallel.mesh.shard=2 train.steps=50

Without torchrun it runs in one process. Settings that cannot be used end with exit code 2 and one
sentence that names the file and line, or the override, what was found and what is allowed.

**A recipe** is an `Engine` subclass in `recipes/<r>/engine.py`::

    @register_engine("walk")
    class WalkEngine(Engine):
        config_schema = WalkConfig                       # a RunConfig with its own sections

        def prepare_model(self):
            model = Walk(self.config.model)
            return parallelize_model(model, self.mesh, self.config.parallel.backend_kwargs)

        def prepare_dataloader(self):
            return self.data_loader(WalkDataset())       # sharded over ranks, resumable

        def forward_step(self, batch):
            return loss_of(self.model(batch["x"]), batch["y"])

        def example_batches(self):                       # one for each training path
            return {"walk": small_batch()}

**Parallelism** comes from `parallel.mesh` (`replicate`, `shard`, `tensor`; one may be -1): tensor
parallelism by the model class's `TP_MODULE_CONFIG` and `TP_MODULE_POSTPROCESSORS`, then FSDP2 (HSDP
with replicas), or DDP with replicas alone. FSDP2 makes a unit of each module whose class is named
in `_no_split_modules` or `parallel.backend_kwargs.fsdp2.target_classes`, children first and the
root last; `high_precision_modules` are units that compute in float32, `ignore_modules` stay whole.
A name that matches nothing is an error, never a silently unsharded model.

**The prefetch hook**: after wrapping, `model.__class__.APPLY_FSDP2_CUSTOM_PREFETCHING(model)` is
called if the class has it. It is called only when FSDP2 is active.

**Training** accumulates gradients over `train.accumulation` micro-batches and reduces them once,
clips by the whole model's norm on any mesh, and writes `metrics.jsonl` (loss averaged over ranks,
learning rate, gradient norm, samples per second), `config.json` and, every
`train.checkpoint_every` steps, a checkpoint under `train.output_dir`. With `train.resume=true` a
run goes on exactly where its newest checkpoint was, also on another mesh or number of ranks.
Random numbers of a step depend on the seed, the step and the data rank alone.

**Tests** of recipes find in `mvp_engine.testing`: `run_ranks` and `train_smoke` (spawned ranks with
a time limit, each rank's traceback or stack, no process left behind), `single_rank_wrapped` (the
real wrapped model in one process), `prefetch_edges` (installed edges as live modules),
`probe_target` and `load_skill_assertions`.

What it does not do: pipeline, context or expert parallelism, activation checkpointing, compilation,
offloading. A recipe may do these in its own `prepare_model()`.
"""
