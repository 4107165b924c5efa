# SPDX-License-Identifier: MIT
"""Experiments on one MPS control daemon for several GPUs, without rad: may tasks of several GPUs be clients, and what does a
fault on one GPU do to clients on the others? They need two GPUs."""
import json
import signal
import time

import nvml
from common import Client, last_json, train
from faults_mps import HERE, medium, middle, small
from mps import Mps, without_mps


def two(step):
    gpus = [nvml.Gpu(0), nvml.Gpu(1)]
    return gpus, ",".join(g.uuid for g in gpus)


def probe(step, name, env, **more):
    return Client(step.ws, f"probe-{name}", [step.args.python, str(HERE / "probe.py")],
                  {**env, **{k: str(v) for k, v in more.items()}})


def answer_of(client, deadline_s=60):
    code = client.wait(deadline_s)
    if code is None:
        client.end(signal.SIGKILL)
        return {"works": False, "error": "hangs"}
    return last_json(client.text()) or {"works": False, "error": client.text()[-500:]}


def memory_by_gpu(gpus):
    return [{"used_mib": g.memory().used >> 20, "processes": g.processes()} for g in gpus]


def across(step):
    """One control daemon for both GPUs: which names work for its clients, and what does a client of one GPU take on the
    other?"""
    gpus, both = two(step)
    forms = {"index 0": "0", "index 1": "1", "uuid 0": gpus[0].uuid, "uuid 1": gpus[1].uuid, "indices": "0,1", "uuids": both,
             "indices turned": "1,0"}
    right = {"index 0": [0], "index 1": [1], "uuid 0": [0], "uuid 1": [1], "indices": [0, 1], "uuids": [0, 1],
             "indices turned": [1, 0]}
    for server, visible in {"all": None, "by uuids": both}.items():
        with Mps(step.ws, "across-" + server.replace(" ", "-"), visible) as mps:
            step.keep(before=memory_by_gpu(gpus))
            running = {name: probe(step, f"{server}-{name}".replace(" ", "-"), mps.client_env(form), PROBE_STAY_S=6)
                       for name, form in forms.items()}
            for client in running.values():
                client.wait_output("{", 60)
            time.sleep(1)
            clients, memory = mps.clients(), memory_by_gpu(gpus)
            step.keep(**{f"memory {server}": memory, f"servers {server}": mps.servers()})
            for name, client in running.items():
                answer = last_json(client.text())
                expected = [gpus[n].uuid.removeprefix("GPU-") for n in right[name]]
                where = [[p["mem_mib"] for p in m["processes"] if p["pid"] == client.process.pid] for m in memory]
                step.check(answer.get("works") and answer.get("uuids") == expected and client.process.pid in clients,
                           f"server {server}, client by {name}: right GPUs, MPS client; its memory by GPU {where}"
                           f" {answer.get('error', '')}")
                client.end(signal.SIGKILL)
            used = [[p["mem_mib"] for p in m["processes"] if "mps" in (p["name"] or "")] for m in memory]
            step.note(f"server {server}: the server's own memory by GPU {used}")


def several(step, seconds):
    return train("--model", "resnet50", "--batch-size", 32, "--optimizer", "momentum", "--steps", 0, "--seconds", seconds,
                 "--print-every", 10, "--gpus", 2, python=step.args.python)


def training(step):
    """A task of two GPUs as an MPS client: as fast as without, and beside neighbours?"""
    gpus, both = two(step)
    plain = {**without_mps(step.ws), "CUDA_VISIBLE_DEVICES": "0,1"}
    alone = Client(step.ws, "plain", several(step, 6), plain)
    step.check(alone.wait(90) == 0, "two GPUs without MPS: it runs")
    speeds = {"two GPUs alone, no MPS": middle(alone.rates(1))}
    with Mps(step.ws, "training", None) as mps:
        c = Client(step.ws, "mps-alone", several(step, 6), mps.client_env("0,1"))
        step.check(c.wait(90) == 0, "two GPUs under MPS: it runs")
        speeds["two GPUs alone, MPS"] = middle(c.rates(1))
        step.keep(first=c.text()[-2000:])
        near = [Client(step.ws, f"near-{n}", medium(step, 90), mps.client_env(str(n))) for n in (0, 1)]
        for n in near:
            n.wait_rates(6, 60)
        speeds["one GPU each, MPS, alone there"] = [middle(n.rates(2)) for n in near]
        wide = Client(step.ws, "wide", several(step, 10), mps.client_env("0,1"))
        wide.wait_rates(2, 90)
        marks = [len(n.rates()) + 1 for n in near]
        code = wide.wait(60)
        speeds["two GPUs beside them"] = middle(wide.rates(1))
        speeds["they beside it"] = [middle(n.rates(m)) for n, m in zip(near, marks)]
        step.check(code == 0 and all(n.alive() for n in near), "two GPUs beside one neighbour on each: all run")
        step.keep(clients=mps.clients(), log=mps.logged(), wide=wide.text()[-2000:])
        for n in near:
            n.end(signal.SIGTERM)
    step.keep(speeds=speeds)
    for what, speed in speeds.items():
        step.note(f"{what}: {speed} steps/s")


def fault_apart(step):
    """A client on GPU 1 stores to an address that is not mapped. Who on GPU 0 notices?"""
    for case in ("apart", "bridged"):
        with Mps(step.ws, f"fault-{case}", None) as mps:
            near = {f"GPU {n}": Client(step.ws, f"{case}-near-{n}", small(step, 120), mps.client_env(str(n))) for n in (0, 1)}
            if case == "bridged":
                near["both GPUs"] = Client(step.ws, f"{case}-wide", several(step, 120), mps.client_env("0,1"))
            for c in near.values():
                c.wait_rates(2, 90)
            servers = mps.servers()
            marks = {n: len(c.rates()) for n, c in near.items()}
            culprit = Client(step.ws, f"{case}-culprit", [step.args.python, str(HERE / "culprit.py"), "address"],
                             mps.client_env("1"))
            culprit.wait(40)
            time.sleep(4)  # what happens to the others happens in this time
            begin, first = time.monotonic(), {}
            tries = {n: probe(step, f"{case}-next-{n}", mps.client_env(str(n))) for n in (0, 1)}
            for n, client in tries.items():
                first[n] = {**answer_of(client, 40), "took_s": round(time.monotonic() - begin, 1)}
            lived = {n: c.alive() for n, c in near.items()}
            step.note(f"{case}: lived {json.dumps(lived)}; progress after {[len(c.rates()) - marks[n] for n, c in near.items()]}"
                      f"; server {'the same' if mps.servers() == servers else 'a new one'}, status {mps.status()}; next client "
                      f"on GPU 0 {first[0].get('works')} in {first[0]['took_s']} s, on GPU 1 {first[1].get('works')} "
                      f"in {first[1]['took_s']} s")
            step.keep(**{case: {"lived": lived, "next": first, "log": mps.logged(),
                                "outputs": {n: c.text()[-1500:] for n, c in near.items()}, "culprit": culprit.text()[-1500:]}})
            for c in near.values():
                c.end(signal.SIGKILL)


def fences(step):
    """How the memory limit names GPUs when the server has two."""
    gpus, _ = two(step)
    cases = {  # name: (CUDA_VISIBLE_DEVICES, limit, expected to bind on each visible GPU)
        "GPU 1, 0=4G": ("1", "0=4G", [True]), "GPU 1, 1=4G": ("1", "1=4G", [True]),
        "GPU 1, its uuid": ("1", f"{gpus[1].uuid}=4G", [True]),
        "both, 0=4G,1=6G": ("0,1", "0=4G,1=6G", [True, True]),
        "both, uuids": ("0,1", f"{gpus[0].uuid}=4G,{gpus[1].uuid}=6G", [True, True]),
        "both, only uuid 1": ("0,1", f"{gpus[1].uuid}=6G", [False, True]),
        "by uuid 1, its uuid": (gpus[1].uuid, f"{gpus[1].uuid}=4G", [True]),
    }
    with Mps(step.ws, "fences", None) as mps:
        running = {name: probe(step, f"fence-{n}", mps.client_env(visible, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=limit),
                               PROBE_TAKE_MIB=8192) for n, (name, (visible, limit, _)) in enumerate(cases.items())}
        for name, client in running.items():
            answer = answer_of(client)
            step.note(f"{name}: could take {answer.get('taken_mib')} MiB of 8192 {answer.get('error', '')}")
            step.keep(**{name: answer})
        step.keep(log=mps.logged())


def two_servers(step):
    """Two control daemons over both GPUs, as two users would have: each with one client on a GPU of its own, then both on one."""
    both = None
    with Mps(step.ws, "user-a", both) as a, Mps(step.ws, "user-b", both) as b:
        first = Client(step.ws, "a-0", medium(step, 60), a.client_env("0"))
        first.wait_rates(8, 60)
        speeds = {"A on GPU 0, no second server": middle(first.rates(3))}
        second = Client(step.ws, "b-1", medium(step, 60), b.client_env("1"))
        second.wait_rates(8, 60)
        mark = len(first.rates())
        first.wait_rates(mark + 8, 60)
        speeds["A on GPU 0, B on GPU 1"] = [middle(first.rates(mark)), middle(second.rates(3))]
        third = Client(step.ws, "b-0", medium(step, 8), b.client_env("0"))
        third.wait_rates(3, 60)
        mark = len(first.rates())
        third.wait(60)
        speeds["A and B on GPU 0"] = [middle(first.rates(mark)), middle(third.rates(1))]
        step.check(first.alive() and second.alive(), "two servers over the same GPUs run beside each other")
        for c in (first, second):
            c.end(signal.SIGKILL)
    step.keep(speeds=speeds)
    for what, speed in speeds.items():
        step.note(f"{what}: {speed} steps/s")
