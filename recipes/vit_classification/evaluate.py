"""Accuracy of a checkpoint on the digits that were held out.

`python -m recipes.vit_classification.evaluate --config <yaml> [a.b=c ...]`, alone or under
torchrun, on as many ranks as you like: a checkpoint loads on any mesh.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from mvp_engine.config import ConfigError
from mvp_engine.distributed.mesh import make_mesh
from mvp_engine.distributed.process_group import process_group, rank
from mvp_engine.engine import checkpoint
from mvp_engine.launch import resolve
from recipes.vit_classification.data import digits_split
from recipes.vit_classification.engine import ViTEngine


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the accuracy of the newest checkpoint in `train.output_dir`, or of `train.resume`.

    Returns 0, or 2 for a configuration that cannot be used.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True, type=Path)
    parser.add_argument("overrides", nargs="*", metavar="a.b=value")
    options = parser.parse_args(arguments)
    try:
        with process_group() as device:
            step, accuracy, count = evaluate(options.config, options.overrides, device)
    except ConfigError as error:
        if rank() == 0:
            print(f"error: {error}", file=sys.stderr)
        return 2
    if rank() == 0:
        print(f"step {step}: accuracy {accuracy:.4f} on {count} held-out digits")
    return 0


@torch.no_grad()
def evaluate(
    config_path: Path, overrides: Sequence[str], device: torch.device
) -> tuple[int, float, int]:
    """The checkpoint's step, its accuracy on the held-out digits (0 to 1), and their number.

    Needs the default process group. Every rank sees every digit, so that all ranks gather alike.
    Raises ConfigError when there is no checkpoint.
    """
    _, config = resolve(config_path, overrides)
    mesh = make_mesh(config.parallel.mesh, dist.get_world_size(), device.type)
    engine = ViTEngine(config, mesh, device)
    resume = config.train.resume or True  # the newest, unless one is named
    path = checkpoint.find(config.train.model_copy(update={"resume": resume}))
    if path is None:
        raise ConfigError(f"train.output_dir: {config.train.output_dir} holds no checkpoint")
    engine.setup()
    progress = checkpoint.load(engine, path)
    _, held_out = digits_split(config.data.held_out, config.data.split_seed)
    images, labels = held_out.tensors
    engine.model.eval()
    predicted = engine.model(images.to(device)).argmax(dim=1).cpu()
    return progress.step, (predicted == labels).float().mean().item(), len(labels)


if __name__ == "__main__":
    sys.exit(main())
