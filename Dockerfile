# One file, two images. `light` is last, so that a docker action builds it: it selects, reads source
# and comments. `full` runs the recipes' tests, as the job container of a GPU job:
#   docker build --target full -t fsdp2-prefetch:full .
#   docker run --gpus all --ipc=host … fsdp2-prefetch:full
# The layers that hold torch are in `full` alone, since a docker action is rebuilt at every job.
ARG PYTHON_IMAGE=docker.io/library/python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS base
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 LANG=C.UTF-8
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/fsdp2-prefetch
COPY requirements/action.txt requirements/
RUN python -m pip install --no-cache-dir --requirement requirements/action.txt

FROM base AS full
# A GPU is visible only if the image asks for it; `compute` for CUDA, `utility` for nvidia-smi.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY requirements/train.txt requirements/
RUN python -m pip install --no-cache-dir --requirement requirements/train.txt pytest==9.2.0
COPY pyproject.toml README.md ./
COPY action action
RUN python -m pip install --no-cache-dir --no-deps .
# -I: the working folder is the pull request's, and an `action/` in it must not be imported as ours.
# The runner sets HOME and mounts the workspace; GitHub forbids USER in a docker action's image.
ENTRYPOINT ["/usr/local/bin/python", "-I", "-u", "-m", "action"]

FROM base AS light
COPY pyproject.toml README.md ./
COPY action action
RUN python -m pip install --no-cache-dir --no-deps .
ENTRYPOINT ["/usr/local/bin/python", "-I", "-u", "-m", "action"]
