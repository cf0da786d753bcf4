"""The environment that a recipe's code runs in: an allow-list, so that no token is in it.

This keeps a secret from being read by accident or by a simple `os.environ`. A process of the same
user can read this one's own environment in /proc; only another user or container prevents that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_NAMES = {
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TMPDIR", "TZ"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"),
    *("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE"),
    *("TRANSFORMERS_CACHE", "TRANSFORMERS_OFFLINE"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
}
_PREFIXES = (
    *("LC_", "CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "OMP_", "MKL_", "KMP_", "OPENBLAS_"),
    *("TORCH", "PYTORCH_", "TRITON_"),
)
_NEVER = ("INPUT_", "GITHUB_", "ACTIONS_")
_NEVER_NAMES = {"GH_TOKEN", "GH_ENTERPRISE_TOKEN"}
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|_(KEY|PAT|AUTH)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"\b(gh[a-z]_|github_pat_|glpat-|hf_|sk-|xox[a-z]-)\w{8}"
    r"|\bAKIA[0-9A-Z]{12}|\beyJ[\w-]{8,}\.|-----BEGIN |://[^/@\s]+:[^/@\s]+@"
)
_SHORTEST_SECRET = 8


def child_environment(
    environ: Mapping[str, str], pass_env: Iterable[str] = (), first_on_path: Path | None = None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment for a child, and the names in `pass_env` that are never passed.

    From `environ` come the names on the allow-list; those that only a prefix allows (`NCCL_*`) not
    when name or value look like a secret or hold one; and those in `pass_env`, on purpose and
    whatever they hold. Variables of the GitHub job itself (`INPUT_*`, `GITHUB_*`, `ACTIONS_*`,
    `GH_TOKEN`) are never passed.
    """
    asked = tuple(dict.fromkeys(pass_env))
    refused = tuple(n for n in asked if n.startswith(_NEVER) or n in _NEVER_NAMES)
    held = _secrets(environ)
    child = {
        name: value
        for name, value in environ.items()
        if name in _NAMES or (name.startswith(_PREFIXES) and not _tells(name, value, held))
    }
    child |= {name: environ[name] for name in asked if name in environ and name not in refused}
    if first_on_path is not None:
        path = (str(first_on_path), child.get("PYTHONPATH"))
        child["PYTHONPATH"] = ":".join(filter(None, path))
    # No bytecode: a checkout that belongs to the user shall look the same afterwards.
    child |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    return child, refused


def passed_secrets(environ: Mapping[str, str], pass_env: Iterable[str]) -> tuple[str, ...]:
    """Return the values passed on purpose that look like secrets, to be blacked out of texts."""
    values = ((name, environ.get(name, "")) for name in pass_env)
    found = {v for n, v in values if len(v) >= _SHORTEST_SECRET and _is_secret(n, v)}
    return tuple(sorted(found, key=len, reverse=True))


def _tells(name: str, value: str, held: Iterable[str]) -> bool:
    return _is_secret(name, value) or any(secret in value for secret in held)


def _is_secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


def _secrets(environ: Mapping[str, str]) -> set[str]:
    return {
        value
        for name, value in environ.items()
        if len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name)
    }
