"""What a test can see of the job's environment."""

import json

from action.processes.environment import child_environment, passed_secrets
from action.stages.run import INSIDE

JOB = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/runner",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TMPDIR": "/scratch",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "NCCL_DEBUG": "INFO",
    "OMP_NUM_THREADS": "4",
    "TORCHINDUCTOR_CACHE_DIR": "/cache",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "HF_HOME": "/models",
    "REQUESTS_CA_BUNDLE": "/etc/ca.pem",
}
SECRETS = {
    "INPUT_TOKEN": "of the input",
    "INPUT_PYTHON": "python3",
    "GITHUB_TOKEN": "ghs_16C7e42F292c6912E7710c838347Ae178B4a",
    "GITHUB_OUTPUT": "/runner/output",
    "GITHUB_ENV": "/runner/env",
    "ACTIONS_RUNTIME_TOKEN": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x",
    "ACTIONS_ID_TOKEN_REQUEST_URL": "https://pipelines.invalid/x",
    "GH_TOKEN": "an older name",
    "HF_TOKEN": "hf_abcdefghijklmnop",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "PYTEST_ADDOPTS": "-k nothing",
    "PYTHONPATH": "/elsewhere",
    "RUNNER_TEMP": "/runner/temp",
    "SSH_AUTH_SOCK": "/agent",
    "NCCL_AUTH_TOKEN": "under an allowed prefix",
    "TORCH_API_KEY": "under an allowed prefix",
    "NVIDIA_SPARE": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "NCCL_SPARE": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "TORCH_INDEX": "https://user:password@index.invalid/simple",
}
ADDED = {
    "PYTHONPATH": str(INSIDE),
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
}


def test_only_the_allow_list_passes():
    assert child_environment(JOB | SECRETS, first_on_path=INSIDE) == (JOB | ADDED, ())


def test_a_secret_cannot_take_the_path_away():
    child, _ = child_environment(
        {"PATH": "/usr/bin:/opt/sk-learning_env/bin", "A_TOKEN": "/usr/bin"}
    )
    assert child["PATH"] == "/usr/bin:/opt/sk-learning_env/bin"


def test_what_is_passed_on_purpose_passes_but_never_the_job_s_own():
    asked = ("HF_TOKEN", "PYTHONPATH", "ABSENT", "GITHUB_TOKEN", "INPUT_TOKEN", "GH_TOKEN")
    child, refused = child_environment(JOB | SECRETS, asked, INSIDE)
    assert child == JOB | ADDED | {
        "HF_TOKEN": "hf_abcdefghijklmnop",
        "PYTHONPATH": f"{INSIDE}:/elsewhere",
    }
    assert refused == ("GITHUB_TOKEN", "INPUT_TOKEN", "GH_TOKEN")


def test_a_real_child_sees_none_of_it(toy, smoke, tmp_path):
    seen = tmp_path / "seen.json"
    smoke(
        f"""
        import json, os
        def test_a():
            with open({str(seen)!r}, "w") as file:
                json.dump(dict(os.environ), file)
        """,
        environ=SECRETS,
        pass_env=("GITHUB_TOKEN",),
    )
    found = json.loads(seen.read_text())
    # pytest adds the test's name; the marker is what escaped processes are found by.
    assert {"PATH", *ADDED, "PYTEST_CURRENT_TEST", "FSDP2_PREFETCH_STAGE"} >= found.keys() - {
        "PYTEST_VERSION",
        "LC_CTYPE",
    }
    values = " ".join(found.values())
    assert [name for name, value in SECRETS.items() if value in values] == []
    assert toy.announced[0] == "  never passed to tests, whatever pass_env says: GITHUB_TOKEN"


def test_a_secret_passed_on_purpose_is_blacked_out_of_the_result(smoke):
    secret = "hf_abcdefghijklmnop"
    result = smoke(
        """
        import os, pytest
        @pytest.mark.parametrize("it", [os.environ["HF_TOKEN"]])
        def test_a(it):
            raise ValueError(it)
        """,
        environ={"HF_TOKEN": secret, "MODE": "training"},
        pass_env=("HF_TOKEN", "MODE"),
    )
    assert result.failures[0].message == "ValueError: ***"
    assert result.summary == "`test_smoke.py::test_a[***]` failed: ValueError: ***"
    assert secret not in result.model_dump_json()
    assert passed_secrets({"HF_TOKEN": secret, "MODE": "training"}, ("HF_TOKEN", "MODE")) == (
        secret,
    )
