# SPDX-License-Identifier: MIT
"""A capture tells no service of a run. The services are stand-ins, which note what they are told."""
import textwrap

import pytest

torch = pytest.importorskip("torch")

TRAIN = """
import os, torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    model(torch.randn(4, 8).cuda()).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def service(tmp_path, monkeypatch):
    """service(module, text): a module of that name."""
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, text):
        path = tmp_path.joinpath(*name.split("."), "__init__.py")
        path.parent.mkdir(parents=True)
        path.write_text("import os\ndef tell(what): print(what, file=open(os.environ['TOLD'], 'a'))\n" + textwrap.dedent(text))
    return write


def test_trackio(capture, service, tmp_path, monkeypatch):
    """Which keeps its runs in a cache, of which nothing is laid aside, or in a Space."""
    monkeypatch.setenv("TRACKIO_SPACE_ID", "mine/also")
    service("trackio.utils", "import pathlib\nTRACKIO_DIR = pathlib.Path('cache')")
    (tmp_path / "trackio" / "__init__.py").write_text(textwrap.dedent("""
        import os
        from . import utils
        def init(project, name=None, space_id=None, webhook_url=None, config=None):
            space_id = space_id or os.environ.get("TRACKIO_SPACE_ID")
            if space_id or webhook_url or str(utils.TRACKIO_DIR) == "cache" or (project, config) != ("mine", 3):
                print(space_id, webhook_url, utils.TRACKIO_DIR, project, config, file=open(os.environ["TOLD"], "a"))
    """))
    code, said, _ = capture("import trackio\ntrackio.init('mine', space_id='mine/space', webhook_url='https://hook', config=3)\n" + TRAIN,
                            options=["--in-place"])
    assert code == 0 and not (tmp_path / "told").exists(), (tmp_path / "told").read_text() if (tmp_path / "told").exists() else said


def test_optuna(capture, service, tmp_path):
    """Trials of a capture are in nobody's study; it is a study of the same kind."""
    service("optuna.study", """
        class Study:
            def __init__(self, study_name, storage, directions):
                self.study_name, self.storage, self.directions = study_name, storage, directions
        def create_study(*, storage=None, study_name=None, direction=None, directions=None, load_if_exists=False, sampler=None,
                         pruner=None):
            return Study(study_name, storage, directions or [direction])
        def load_study(*, study_name, storage, sampler=None, pruner=None): return Study(study_name, storage, ["maximize"])
    """)
    (tmp_path / "optuna" / "__init__.py").write_text("from . import study\nfrom .study import create_study, load_study\n")
    code, said, _ = capture("""
import os, optuna
from optuna.study import load_study
for study in (optuna.create_study(storage="postgresql://all", study_name="all", direction="maximize", load_if_exists=True),
              optuna.load_study(study_name="all", storage="postgresql://all"), load_study(study_name="all", storage="postgresql://all")):
    if study.storage or study.study_name != "all" or study.directions != ["maximize"]:
        print(vars(study), file=open(os.environ["TOLD"], "a"))
""" + TRAIN, options=["--in-place"])
    assert code == 0 and not (tmp_path / "told").exists(), said


@pytest.mark.parametrize("mode", ["", "mode='online'", "mode=None"])
def test_weights_and_biases(capture, service, tmp_path, mode):
    """A run of its own in somebody's project, with each capture, whatever the script says."""
    service("wandb", """
        def init(project=None, mode=None):
            if (mode or os.environ.get("WANDB_MODE")) != "disabled":
                tell(project)
    """)
    code, said, _ = capture(f"import wandb\nwandb.init(project='mine'{', ' * bool(mode)}{mode})\n{TRAIN}", options=["--in-place"])
    assert code == 0 and not (tmp_path / "told").exists(), said


def test_mlflow(capture, service, tmp_path):
    service("mlflow", """
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        def set_tracking_uri(new): global uri; uri = new
        def start_run(): uri.startswith("file:///tmp/") or tell(uri)
    """)
    service("mlflow.tracking", "")
    service("mlflow.tracking.client", """
        class MlflowClient:
            def __init__(self, tracking_uri=None): tracking_uri and tell(tracking_uri)
    """)
    code, said, _ = capture("import mlflow\nfrom mlflow.tracking.client import MlflowClient\nmlflow.set_tracking_uri('http://server')\n"
                            "mlflow.start_run()\nMlflowClient('http://server')\nMlflowClient(tracking_uri='http://server')\n" + TRAIN,
                            options=["--in-place"])
    assert code == 0 and not (tmp_path / "told").exists(), said


def test_the_hub(capture, monkeypatch):
    """Of which a script reads as ever."""
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # where nobody is
    code, said, _ = capture("from huggingface_hub import HfApi, create_repo, upload_folder\n"
                            "assert create_repo('me/mine', exist_ok=True).repo_id == 'me/mine'\n"
                            "assert HfApi().create_repo(repo_id='me/mine').repo_id == 'me/mine'\n"
                            "upload_folder(folder_path='.', repo_id='me/mine')\n"
                            "job = HfApi().upload_folder(folder_path='.', repo_id='me/mine', run_as_future=True)\n"
                            "assert job.done() and job.result().commit_url == ''\n" + TRAIN)
    assert code == 0, said
