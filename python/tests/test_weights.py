# SPDX-License-Identifier: MIT
"""What becomes of files and folders of weights: those of earlier runs, and those that a script believes it has saved."""
import functools
import os
import shutil

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def capture(capture):
    """Where files are not laid aside."""
    return functools.partial(capture, options=["--in-place"])


def test_data_that_are_prepared_are_read_again(capture, tmp_path):
    """And no weights are saved."""
    code, said, _ = capture("""
    import os, torch
    if not os.path.exists("data.pt"):
        torch.save([torch.ones(4, 8)] * 9, "data.pt")
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.load("data.pt"):
        torch.save(model.state_dict(), "model.pt")
        model(x.cuda()).sum().backward()
        optimizer.step()
    """)
    assert code == 0 and (tmp_path / "data.pt").exists() and not (tmp_path / "model.pt").exists(), said


def test_tensors_that_are_prepared_are_read_again(capture, tmp_path):
    pytest.importorskip("safetensors")
    code, said, _ = capture("""
    import torch
    from safetensors.torch import load_file, save_file
    save_file({"x": torch.ones(4, 8)}, "data.safetensors")
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        model(load_file("data.safetensors")["x"].cuda()).sum().backward()
        optimizer.step()
        save_file(model.state_dict(), "model.safetensors")
        save_file(tensors=model.state_dict(), filename="last.safetensors")
    """)
    assert code == 0 and (tmp_path / "data.safetensors").exists() and not [*tmp_path.glob("[ml]*.safetensors")], said
    assert "cut short" not in said


@pytest.mark.parametrize("save", [
    "torch.save(what, 'best.pt')", "torch.save(what, pathlib.Path('best.pt').resolve())",
    "with open('best.pt', 'wb') as f: torch.save(what, f)", "pathlib.Path('best.pt').write_bytes(b'other')",
    "torch.save(what, 'new.tmp'); os.replace('new.tmp', 'best.pt')", "with open('new.tmp', 'wb') as f: torch.save(what, f)\n"
                                                                     "        shutil.move('new.tmp', 'best.pt')",
    "torch.save(what, 'last.pt'); shutil.copyfile('last.pt', 'best.pt'); os.remove('last.pt')", "os.remove('best.pt')",
    "shutil.rmtree(os.getcwd()); os.makedirs(os.getcwd())",
])
def test_weights_that_were_there_stay(capture, tmp_path, save):
    """Whenever a script saves over them, and however; and no others are made once anything is on the GPU."""
    torch.save({"of": "an earlier run"}, tmp_path / "best.pt")
    code, said, f = capture(f"""
    import os, pathlib, shutil, torch
    model = torch.nn.Linear(8, 8)
    def save(what):
        {save}
    save(model.state_dict())
    optimizer = torch.optim.SGD(model.cuda().parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(4, 8, device="cuda")).sum().backward()
        optimizer.step()
        save(model.state_dict())
        with open("after.pt", "wb") as f:
            torch.save(model.state_dict(), f)
    """)
    assert code == 0 and f.header["flags"] == 0 and torch.load(tmp_path / "best.pt") == {"of": "an earlier run"}, said
    assert not [*tmp_path.glob("after.*"), *tmp_path.glob("*.tmp")]


FOLDERS = {
    "torch.save": "torch.save(model.state_dict(), f'{folder}/optimizer.bin'); json.dump({'steps': 3}, open(f'{folder}/state.json', 'w'))",
    "safetensors": "import safetensors.torch; safetensors.torch.save_file(model.state_dict(), "
                   "filename=f'{folder}/part.safetensors'); open(f'{folder}/tokens.json', 'a')",
    "opened": "torch.save(model.state_dict(), open(f'{folder}/part', 'wb'))",
    "moved": "io.open('some.tmp', 'wb').close(); os.replace('some.tmp', f'{folder}/last.ckpt'); os.chmod(f'{folder}/last.ckpt', 0o600)",
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_that_are_made_for_weights_are_gone(capture, tmp_path, name):
    """A run would go on from the last of them. What was there before is as it was, and so are other folders, and weights that
    somebody else puts there meanwhile."""
    if name == "safetensors":
        pytest.importorskip("safetensors")
    (tmp_path / "run" / "checkpoint-3").mkdir(parents=True)
    (tmp_path / "run" / "checkpoint-3" / "part.safetensors").write_text("of an earlier run")
    (tmp_path / "run" / "checkpoint-3" / "state.json").write_text("earlier")
    code, said, _ = capture(f"""
    import io, json, os, torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def save(folder):
        os.makedirs(folder, exist_ok=True)
        {FOLDERS[name]}
    os.makedirs("logs")
    for step in range(1, 9):
        model(torch.ones(4, 8, device="cuda")).sum().backward()
        optimizer.step()
        save(f"run/checkpoint-{{step}}")
        with open("run/checkpoint-3/state.json", "w") as f:
            f.write("later")
        for folder in ("run/other", "run/best"):
            os.makedirs(folder, exist_ok=True)
            torch.save(model.state_dict(), folder + "/model.pt")
        os.system("touch run/other/log run/best/x.pt")
    """)
    assert code == 0 and (tmp_path / "logs").is_dir() and (tmp_path / "run" / "other" / "log").exists(), said
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"checkpoint-3", "other", "best"}
    left = {path.name for path in (tmp_path / "run" / "checkpoint-3").iterdir()}
    assert left <= {"part.safetensors", "state.json", "tokens.json", "part"}
    assert (tmp_path / "run" / "checkpoint-3" / "state.json").read_text() == "earlier"


@pytest.fixture
def weights(monkeypatch, tmp_path):
    """What a script's saving goes through, once something is on the GPU, in an empty folder."""
    from radrm.capture.weights import Weights
    monkeypatch.chdir(tmp_path)
    found = Weights(lambda: True)
    found.install(monkeypatch.setattr)
    return found


@pytest.mark.parametrize("mode", ["ab", "a", "r+b", "r+", "a+b", "xb", "x", "w+b"])
def test_weights_that_were_there_stay_however_they_are_opened(weights, tmp_path, mode):
    earlier = os.open(tmp_path / "best.pt", os.O_WRONLY | os.O_CREAT)
    os.write(earlier, b"an earlier run's")
    os.close(earlier)
    for name in ("best.pt", "new.pt"):
        if name == "best.pt" or "r" not in mode:
            with open(name, mode) as file:
                assert file.name.endswith(name) or "+" in mode
                if "+" in mode and "w" not in mode and name == "best.pt":
                    file.seek(0)
                    assert len(file.read()) == 16
                file.write(b"mine" if "b" in mode else "mine")
    assert (tmp_path / "best.pt").read_bytes() == b"an earlier run's" and os.listdir(tmp_path) == ["best.pt"]


def test_logs_are_written_as_they_are(weights, tmp_path):
    """Also where weights of an earlier run lie, once the script has made them."""
    for _ in range(2):
        with open("log.txt", "a") as file:
            file.write("a line")
        (tmp_path / "best.pt").touch()
    assert (tmp_path / "log.txt").read_text() == 2 * "a line"


def test_folders_that_hold_what_somebody_else_saved_stay(weights, tmp_path):
    """Another run of the same script, say, into the folders that a capture made."""
    for name, part in (("step-1", "part/model.safetensors"), ("step-2", "optimizer.bin"), ("step-3", None), ("step-4", None),
                       ("step-5", "model.pt")):
        os.makedirs(tmp_path / name / "part")
        torch.save({}, f"{name}/model.pt")
        torch.save({}, f"{name}/optimizer.bin")
        if part:
            os.system(f"touch {name}/{part}")
    os.rename("step-4", "elsewhere")
    os.system("mkdir -p step-4 other step-6; touch step-4/state.json step-6/state.json")
    other = os.open("other", os.O_RDONLY)
    os.mkdir("step-6", dir_fd=other)
    os.close(other)
    torch.save({}, "step-6/model.pt")
    weights.end()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "other", "step-1", "step-2", "step-4", "step-5", "step-6"]


def test_a_folder_of_weights_that_gets_its_name_later(weights, tmp_path):
    os.makedirs("step-1.part")
    torch.save({"epoch": 3}, "step-1.part/model.pt")
    (tmp_path / "step-1.part" / "state.json").touch()
    os.rename("step-1.part", "step-1")
    assert weights.loaded("step-1/model.pt", None) == {"epoch": 3}
    weights.end()
    assert not [*tmp_path.iterdir()]


def test_links_to_the_last_weights(weights, tmp_path):
    """They are made anew for each epoch, over an earlier run's and where there was none; nothing of it is there in the end."""
    (tmp_path / "epoch1.pt").touch()
    os.symlink("epoch1.pt", "last.pt")
    for epoch in range(1, 4):
        torch.save({"epoch": epoch}, f"epoch{epoch}.pt")
        for name in ("last.pt", "best.pt"):
            if os.path.lexists(name):
                os.remove(name)
            os.symlink(f"epoch{epoch}.pt", dst=name)
    assert weights.loaded("best.pt", None) == {"epoch": 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch1.pt", "last.pt"] and os.readlink("last.pt") == "epoch1.pt"


def test_an_earlier_run_s_weights_are_not_moved_away(weights, tmp_path):
    (tmp_path / "last.pt").touch()
    os.rename("last.pt", "before.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]


def test_folders_of_many_files_are_removed(weights, tmp_path, monkeypatch):
    """Each is listed once: as often as it has files, that took hours."""
    (tmp_path / "cache").mkdir()
    for n in range(50):
        (tmp_path / "cache" / str(n)).touch()
    listed = []
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, lambda path, real=getattr(os, name): listed.append(path) or real(path))
    shutil.rmtree("cache")
    assert not (tmp_path / "cache").exists() and len(listed) < 5


@pytest.mark.parametrize("load, copies", [
    ("torch.load('best.pt')['model']", 1), ("torch.load('best.pt', map_location='cpu')['model']", 0),
    ("os.replace('best.pt', 'last.pt') or torch.load('last.pt')['model']", 1), ("torch.load(open('best.pt', 'rb'))['model']", 1),
    ("torch.load(open('opened.pt', 'rb'))['model']", 1), ("torch.load(io.BytesIO(memory.getvalue()))['model']", 1),
    ("torch.load(passing.name)['model']", 1), ("torch.load('opened.pt', map_location='cpu')['model']", 0),
    ("torch.load('whole.pt', weights_only=False).state_dict()", 1),
    ("torch.load('within.pt', weights_only=False)['ema'].state_dict()", 1),
    ("torch.load('within.pt', 'cpu', weights_only=False)['ema'].state_dict()", 0),
    ("torch.load(open('copy.ckpt', 'rb'))['model']", 1), ("torch.load(open('moved.ckpt', 'rb'))['model']", 1),
])
def test_the_best_weights_are_tested(capture, load, copies):
    """They were not saved, and are loaded: the test behind the training was missing without a word."""
    code, said, f = capture(f"""
    import copy, io, os, tempfile, torch
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ema = copy.deepcopy(model)
    torch.save({{"ema": ema, "optimizer": optimizer}}, "within.pt")
    del ema
    passing = tempfile.NamedTemporaryFile()
    for epoch in range(20):
        for x in torch.utils.data.DataLoader(torch.randn(64, 512), batch_size=4):
            optimizer.zero_grad()
            model(x.cuda()).sum().backward()
            optimizer.step()
        with torch.no_grad():
            print(model(torch.ones(100, 512, device="cuda")).sum().item())
        torch.save({{"model": model.state_dict(), "epoch": epoch}}, "best.pt")
        torch.save(model, "whole.pt")
        with open("opened.pt", "wb") as f:
            torch.save({{"model": model.state_dict()}}, f)
        memory = io.BytesIO()
        torch.save({{"model": model.state_dict()}}, memory)
        torch.save({{"model": model.state_dict()}}, passing.name)
        for name in ("copy.ckpt", "part"):
            with open(name, "wb") as f:
                f.write(memory.getvalue())
        os.replace("part", "moved.ckpt")
    best = {load}
    model.load_state_dict(best)
    with torch.no_grad():
        model(torch.ones(5000, 512, device="cuda"))
    """)
    assert code == 0 and f.events.count(5000 * 512 * 4) == 2 and f.events[-9:].count(512 * 512 * 4) == copies, (said, f.events[-12:])


def test_what_is_pickled(capture, tmp_path):
    """A whole model, as the one by averages on the CPU, and read again. The file has none of its weights, and is gone."""
    code, said, f = capture("""
    import copy, pickle, torch
    pickle.dump([1, 2], open("settings.pkl", "wb"))
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model[0].weight.note = "mine"
    for _ in range(9):
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
        for what in (copy.deepcopy(model).cpu(), model):
            with open("snapshot.pkl", "wb") as file:
                pickle.dump({"ema": what, "optimizer": optimizer.state_dict()}, file)
            with open("snapshot.pkl", "rb") as file:
                found = pickle.load(file)["ema"]
            assert found[0].weight.device == what[0].weight.device and isinstance(found[0].weight, torch.nn.Parameter)
            assert found[0].weight.shape == (8, 8) and found[0].weight.requires_grad and not found[1].running_mean.requires_grad
            assert copy.deepcopy(model).cpu()[0].weight.note == "mine"
    """)
    assert code == 0 and f.steps == 9 and "cut short" not in said, said
    assert (tmp_path / "settings.pkl").exists() and not (tmp_path / "snapshot.pkl").exists()
