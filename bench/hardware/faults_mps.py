# SPDX-License-Identifier: MIT
"""Experiments on MPS itself, without rad: what rad may rely on. They need a GPU."""
import pathlib
import signal
import statistics
import subprocess
import time

from common import Client, last_json, train
from mps import Mps, without_mps

HERE = pathlib.Path(__file__).resolve().parent


def small(step, seconds):
    return train("--model", "resnet18", "--image-size", 32, "--batch-size", 128, "--optimizer", "momentum", "--steps", 0,
                 "--seconds", seconds, "--print-every", 50, python=step.args.python)


def medium(step, seconds):
    return train("--model", "resnet50", "--batch-size", 32, "--optimizer", "momentum", "--steps", 0, "--seconds", seconds,
                 "--print-every", 10, python=step.args.python)


def probe(step, env, mps=None):
    """Runs probe.py; while it stays, notes whether the MPS daemon counts it among its clients."""
    client = Client(step.ws, f"probe-{time.monotonic_ns()}", [step.args.python, str(HERE / "probe.py")],
                    {**env, "PROBE_STAY_S": "1.5"})
    try:
        client.wait_output("{", 40)
        clients = mps.clients() if mps else []
        answer = last_json(client.text())
        answer["mps_client"] = client.process.pid in clients
    except (RuntimeError, TimeoutError) as e:
        answer = {"works": False, "error": str(e)}
    client.end(signal.SIGKILL)
    return answer


def middle(rates):
    return round(statistics.median(rates), 2) if rates else None


def naming(step):
    """CUDA_VISIBLE_DEVICES of a one-GPU MPS daemon and of its clients: by index or by UUID, which pairs work?"""
    gpu, index, table = step.gpu(), str(step.args.gpu), {}
    forms = {"index": index, "uuid": gpu.uuid}
    for server, server_visible in forms.items():
        with Mps(step.ws, f"by-{server}", server_visible) as mps:
            clients = {**forms, "unset": None, **({} if index == "0" else {"zero": "0"})}
            for client, visible in clients.items():
                answer = probe(step, mps.client_env(visible), mps)
                table[f"{server}/{client}"] = answer
                right = answer.get("uuid") in gpu.uuid if answer.get("uuid") else None
                step.note(f"server by {server}, client by {client}: " + (
                    f"works, {answer['count']} GPU, right one: {right}, MPS client: {answer['mps_client']}"
                    if answer["works"] else f"fails: {answer.get('error')}"))
                step.keep(pairs=table)
            step.keep(**{f"log_{server}": mps.logged()})
    step.check(any(a["works"] and a["mps_client"] for a in table.values()), "at least one pair works as an MPS client")


def joining(step):
    """A process that is no MPS client comes to a GPU on which MPS clients run: does it run, and how fast is everybody?"""
    gpu = step.gpu()
    plain_env = {**without_mps(step.ws), "CUDA_VISIBLE_DEVICES": str(step.args.gpu)}
    alone = Client(step.ws, "alone", medium(step, 6), plain_env)
    step.check(alone.wait(60) == 0, "alone, without MPS, it runs")
    speeds = {"plain alone": middle(alone.rates(1))}
    with Mps(step.ws, "joined", gpu.uuid) as mps:
        pair = [Client(step.ws, f"mps-{n}", medium(step, 80), mps.client_env(gpu.uuid)) for n in (1, 2)]
        for c in pair:
            c.wait_rates(8, 60)
        speeds["MPS pair before"] = [middle(c.rates(3)) for c in pair]
        plain = Client(step.ws, "plain", medium(step, 10), plain_env)
        plain.wait_output("step 1 ", 60)
        marks = [len(c.rates()) + 1 for c in pair]
        code = plain.wait(60)
        speeds["plain beside the MPS pair"] = middle(plain.rates(1))
        speeds["MPS pair beside it"] = [middle(c.rates(m)) for c, m in zip(pair, marks)]
        step.keep(speeds=speeds, clients=mps.clients(), outputs={"plain": plain.text(), "mps-1": pair[0].text()},
                  processes=gpu.processes(), log=mps.logged())
        step.check(code == 0, "it runs beside MPS clients")
        step.check(plain.process.pid not in mps.clients() and all(c.alive() for c in pair), "the MPS clients go on")
        for c in pair:
            c.end()
    for what, speed in speeds.items():
        step.note(f"{what}: {speed} steps/s")


def containment(step):
    """A client goes wrong in four ways. Do its neighbour and the server live, and what do all of them say?"""
    for kind in ("assert", "address", "trap", "killed"):
        with Mps(step.ws, kind, step.gpu().uuid) as mps:
            try:
                step.keep(**{kind: one_fault(step, mps, kind)})
            except (RuntimeError, TimeoutError) as e:
                step.note(f"{kind}: could not be tried: {e}")
                step.keep(**{kind: {"error": str(e), "log": mps.logged()}})
                step.data["outcome"] = "failed"


def one_fault(step, mps, kind):
    env = mps.client_env(step.gpu().uuid)
    neighbour = Client(step.ws, f"{kind}-neighbour", small(step, 120), env)
    neighbour.wait_rates(3, 60)
    before, servers = neighbour.rates(1), mps.servers()
    culprit = Client(step.ws, f"{kind}-culprit", [step.args.python, str(HERE / "culprit.py"),
                                                  "busy" if kind == "killed" else kind], env)
    if kind == "killed":
        culprit.wait_output("work in flight", 40)
        time.sleep(1)
        culprit.end(signal.SIGKILL)
    code = culprit.wait(40)
    mark = len(neighbour.rates())
    time.sleep(3)  # what happens to the neighbour happens in this time
    alive, after = neighbour.alive(), neighbour.rates(mark)
    status = mps.status()
    tries = []
    for _ in range(3):  # a server that recovers may refuse clients for a while
        begin = time.monotonic()
        tries.append({**probe(step, env, mps), "took_s": round(time.monotonic() - begin, 2)})
        if tries[-1]["works"]:
            break
        time.sleep(2)
    neighbour_code = neighbour.end()
    step.note(f"{kind}: culprit exit {code}; neighbour {'lived' if alive else f'died (exit {neighbour_code})'}, "
              f"{middle(before)} -> {middle(after)} steps/s; server {'the same' if mps.servers() == servers else 'a new one'}, "
              f"{'/'.join(str(s) for s in status.values())}; next client "
              f"{'works' if tries[-1]['works'] else 'fails'} at try {len(tries)}")
    return {"culprit_exit": code, "culprit_output": culprit.text()[-6000:], "neighbour_alive": alive,
            "neighbour_exit": neighbour_code, "neighbour_output": neighbour.text()[-6000:], "rates_before": before,
            "rates_after": after, "servers_before": servers, "servers_after": mps.servers(), "status": status, "next": tries,
            "log": mps.logged()}


def process_memory(step):
    """Is the memory of each process known under MPS, and does it agree with what PyTorch reserved?"""
    gpu = step.gpu()
    with Mps(step.ws, "memory", gpu.uuid) as mps:
        clients = {"small": Client(step.ws, "small", small(step, 15), mps.client_env(gpu.uuid)),
                   "medium": Client(step.ws, "medium", medium(step, 15), mps.client_env(gpu.uuid))}
        clients["plain"] = Client(step.ws, "plain", small(step, 15),
                                  {**without_mps(step.ws), "CUDA_VISIBLE_DEVICES": str(step.args.gpu)})
        for c in clients.values():
            c.wait_rates(4, 60)
        lists, memory = {"compute": gpu.processes(), "mps": gpu.processes(mps=True)}, gpu.memory()
        smi = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=30).stdout
        for c in clients.values():
            c.wait(60)
        step.keep(lists=lists, used_mib=memory.used >> 20, reserved_mib=memory.reserved >> 20, nvidia_smi=smi,
                  servers=mps.servers())
    for name, c in clients.items():
        reserved = (last_json(c.text()) or {}).get("peak_reserved_mib")
        seen = {which: [p["mem_mib"] for p in rows or [] if p["pid"] == c.process.pid] for which, rows in lists.items()}
        step.note(f"{name}: PyTorch reserved {reserved} MiB; NVML's compute list {seen['compute']}, "
                  f"its MPS list {seen['mps']} MiB")
    known = [p for p in lists["compute"] or [] if p["pid"] in {c.process.pid for c in clients.values()} and p["mem_mib"]]
    step.check(len(known) == len(clients), "NVML's compute list has every client with its memory")
    server = [p for p in lists["compute"] or [] if "mps" in (p["name"] or "")]
    step.note(f"the MPS server itself: {[(p['name'], p['mem_mib']) for p in server]}")


WAYS = {  # of taking memory: what makes probe.py take it so
    "cudaMalloc": {},
    "cuMemCreate (expandable_segments)": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "cudaMallocAsync": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "cuMemAllocManaged": {"PROBE_TAKE": "managed"},
}


def ways(step):
    """Which ways of taking memory does a client's limit of 4 GiB count?"""
    gpu = step.gpu()
    with Mps(step.ws, "ways", gpu.uuid) as mps:
        for way, how in WAYS.items():
            env = mps.client_env(gpu.uuid, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=4G", PROBE_TAKE_MIB="8192", PROBE_STAY_S="2", **how)
            client = Client(step.ws, way.split()[0], [step.args.python, str(HERE / "probe.py")], env)
            client.wait_output("{", 40)
            answer, memory = last_json(client.text()), gpu.memory()
            seen = [p["mem_mib"] for p in gpu.processes() or [] if p["pid"] == client.process.pid]
            used = memory.used >> 20 if memory else None
            client.end(signal.SIGKILL)
            step.keep(**{way: {**answer, "nvml_mib": seen, "used_mib": used}})
            step.note(f"{way}: took {answer.get('taken_mib')} MiB of 8192; NVML shows {seen} MiB for it, the GPU {used} in use"
                      f" {answer.get('error', '')}")
