# SPDX-License-Identifier: MIT
"""What a script tells others of its run: services that keep track of runs, and the hub of models. A capture tells nobody: its losses are
made up, and the run itself will tell."""
import concurrent.futures
import functools
import inspect
import os
import pathlib
import types

# By these they are silent, or keep to themselves what they are told.
VARIABLES = {"WANDB_MODE": "disabled", "SWANLAB_MODE": "disabled", "NEPTUNE_MODE": "debug", "CLEARML_OFFLINE_MODE": "1",
             "COMET_AUTO_LOG_DISABLE": "1", "MLFLOW_ALLOW_FILE_STORE": "true"}
ELSEWHERE = ("space_id", "server_url", "dataset_id", "bucket_id", "webhook_url")  # Trackio's words for who else is told; as variables, too
HUB = ("create_branch", "create_commit", "create_repo", "create_tag", "delete_file", "delete_folder", "delete_repo", "super_squash_history",
       "update_repo_settings", "upload_file", "upload_folder", "upload_large_folder")  # what changes something there


def after(folder):
    """What is done to modules once they are imported. `folder`: for what MLflow and Trackio are told; None: there is none."""
    found = {"wandb": in_no_mode, "swanlab": in_no_mode, "huggingface_hub.hf_api": push_nothing, "optuna": share_no_study,
             "trackio.utils": functools.partial(keep_runs, folder), "trackio": tell_nobody_else}
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


def keep_runs(folder, utils):
    """In a folder of the capture's, before anybody asks where they are kept."""
    if folder:
        utils.TRACKIO_DIR = pathlib.Path(folder, "trackio")
        utils.MEDIA_DIR, utils.ARTIFACTS_DIR = utils.TRACKIO_DIR / "media", utils.TRACKIO_DIR / "artifacts"


def tell_nobody_else(trackio):
    real = trackio.init
    for name in ELSEWHERE:
        os.environ.pop("TRACKIO_" + name.upper(), None)

    @functools.wraps(real)
    def init(*args, **kwargs):
        bound = inspect.signature(real).bind(*args, **kwargs)
        return real(**{name: value for name, value in bound.arguments.items() if name not in ELSEWHERE})
    trackio.init = init


def share_no_study(optuna):
    """Those who search together go by each other's trials: a capture's are in a study of its own, which is of the same kind."""
    create, load = optuna.create_study, optuna.load_study

    @functools.wraps(create)
    def own(**kwargs):
        return create(**{**kwargs, "storage": None, "load_if_exists": False})

    @functools.wraps(load)
    def alike(**kwargs):
        found = load(**kwargs)
        return create(study_name=found.study_name, directions=found.directions, sampler=kwargs.get("sampler"), pruner=kwargs.get("pruner"))
    for module in (optuna, optuna.study):
        module.create_study, module.load_study = own, alike


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
