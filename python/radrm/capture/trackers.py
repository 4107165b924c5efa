# SPDX-License-Identifier: MIT
"""What a script tells others of its run: services that keep track of runs, and the hub of models. A capture tells nobody: its losses are
made up, and the run itself will tell."""
import concurrent.futures
import functools
import os
import types

# By these they are silent, or keep to themselves what they are told.
VARIABLES = {"WANDB_MODE": "disabled", "SWANLAB_MODE": "disabled", "NEPTUNE_MODE": "debug", "CLEARML_OFFLINE_MODE": "1",
             "MLFLOW_ALLOW_FILE_STORE": "true"}
HUB = ("create_branch", "create_commit", "create_repo", "create_tag", "delete_file", "delete_folder", "delete_repo", "super_squash_history",
       "update_repo_settings", "upload_file", "upload_folder", "upload_large_folder")  # what changes something there


def after(folder):
    """What is done to modules once they are imported. `folder`: for what MLflow is told; None: there is none."""
    found = {"wandb": in_no_mode, "swanlab": in_no_mode, "huggingface_hub.hf_api": push_nothing}
    return {**found, "mlflow": functools.partial(keep_here, folder), "mlflow.tracking.client": keep_clients} if folder else found


def in_no_mode(module):
    """A script may name another one."""
    real = module.init

    @functools.wraps(real)
    def init(*args, **kwargs):
        return real(*args, **{**kwargs, **({"mode": "disabled"} if "mode" in kwargs else {})})
    module.init = init


def keep_here(folder, mlflow):
    """In a folder, whatever server the script names."""
    mlflow.set_tracking_uri("file://" + os.path.join(folder, "mlruns"))
    mlflow.set_tracking_uri = lambda _uri: None


def keep_clients(client):
    real = client.MlflowClient.__init__

    @functools.wraps(real)
    def init(self, tracking_uri=None, *args, **kwargs):
        real(self, None, *args, **kwargs)
    client.MlflowClient.__init__ = init


def push_nothing(hub):
    def pushed(name):
        def push(self, *args, run_as_future=False, **kwargs):
            repository = kwargs.get("repo_id") or (args[0] if args and isinstance(args[0], str) else "")
            url = hub.RepoUrl(f"{hub.constants.ENDPOINT}/{repository}") if repository and name == "create_repo" else repository
            result = url if name == "create_repo" else types.SimpleNamespace(commit_url="", oid="", pr_url=None, repo_url=url)
            if not run_as_future:
                return result
            done = concurrent.futures.Future()
            done.set_result(result)
            return done
        return push
    for name in HUB:
        if hasattr(hub.HfApi, name):
            setattr(hub.HfApi, name, pushed(name))
            if hasattr(hub, name):
                setattr(hub, name, getattr(hub.api, name))
