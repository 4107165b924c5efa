# SPDX-License-Identifier: MIT
"""The table of faults. Each row is done to a busy radd at random moments; after it radd runs again (or still), and in the end
check.py looks. `lossy`: the row kills shims, so tasks may be LOST; nothing may, ever, run twice."""
import os
import re
import resource
import struct
import subprocess
import time

import disk
import nvml
from world import Gone, Refused, until


class Fault:
    """One row. The defaults are those of a kill: tasks on simulated GPUs, one user."""
    needs_root = False
    lossy = False
    tolerated = ()          # verdicts by which tasks may be FAILED through no fault of theirs
    moments = 10            # in one episode
    load = (4, 25)          # requests between two moments
    weight = 1              # episodes in the short form

    def __init__(self, rng):
        self.rng = rng
        self.notes = {}

    def users(self):
        return [0] if os.geteuid() == 0 else [os.geteuid()]

    def prepare(self, world):
        """Before radd starts."""

    def inflict(self, world, load):
        """The moment. Raises nothing; texts of what is wrong are added to load.troubles."""
        raise NotImplementedError

    def finish(self, world, load):
        """Before all is looked at: the fault is over."""


def restart(world, load):
    why = world.start()
    if why:
        world.kill_radd()
        load.troubles.append(f"radd does not start: {why}")
    return not why


def under_fire(world, load, rng, act):
    """Requests are under way while `act` happens; the answers that came count."""
    load.run(rng.randint(1, 12), patient=False)
    answers = getattr(load, "under_way", [])
    time.sleep(rng.choice([0, rng.uniform(0, 0.03), rng.uniform(0, 0.4)]))
    act()
    load.settle(answers)


# Kills ------------------------------------------------------------------------------------------------------------------

class KillRadd(Fault):
    """kill -9 of radd"""

    def inflict(self, world, load):
        under_fire(world, load, self.rng, world.kill_radd)
        restart(world, load)


class KillStarting(Fault):
    """kill -9 of radd while it starts, several times over"""

    def inflict(self, world, load):
        under_fire(world, load, self.rng, world.kill_radd)
        for _ in range(self.rng.randint(1, 3)):
            world.start(self.rng.uniform(0.005, 0.15))
            world.kill_radd()
        restart(world, load)


class KillShim(Fault):
    """kill -9 of shims while radd runs"""
    lossy = True

    def inflict(self, world, load):
        shims = world.shims()
        world.kill(self.rng.sample(shims, min(len(shims), self.rng.randint(1, 3))))


class KillBoth(Fault):
    """kill -9 of radd and of shims, in any order"""
    lossy = True

    def inflict(self, world, load):
        def act():
            shims = world.shims()
            some = self.rng.sample(shims, self.rng.randint(0, len(shims)))
            for f in self.rng.sample([world.kill_radd, lambda: world.kill(some)], 2):
                f()
        under_fire(world, load, self.rng, act)
        restart(world, load)


class Machine(Fault):
    """the machine: all processes gone and another boot"""
    lossy = True

    def inflict(self, world, load):
        under_fire(world, load, self.rng, world.switch_off)
        restart(world, load)


class PowerCut(Machine):
    """the machine, and of the store's writes since the last sync some lost, some torn"""

    def prepare(self, world):
        world.preload.append(f"{world.build}/tests/fake-disk/libfake-disk.so")
        world.environ["FAKE_DISK_JOURNAL"] = world.journal

    def inflict(self, world, load):
        under_fire(world, load, self.rng, world.switch_off)
        self.notes["unsynced_writes"] = self.notes.get("unsynced_writes", 0) + disk.cut(world.state, world.journal, self.rng)
        restart(world, load)


class KillMps(Fault):
    """kill -9 of the MPS control daemon and its server, sometimes with radd"""
    tolerated = ("launch",)     # no server came up three times over

    def prepare(self, world):
        nvml.prepare(world, nvml.machine(4))
        nvml.fake_mps(world)

    def look(self, world):
        return nvml.mps_servers(world)

    def inflict(self, world, load):
        def act():
            killed = world.kill_whole(lambda: self.look(world))
            self.notes["servers"] = self.notes.get("servers", 0) + killed
            if self.rng.random() < 0.3:
                world.kill_radd()
        under_fire(world, load, self.rng, act)
        if not world.radd:
            restart(world, load)


class KillControl(KillMps):
    """kill -9 of the MPS control daemon alone, so that its server is left, sometimes with radd"""

    def look(self, world):
        return nvml.mps_controls(world)


# Disks ------------------------------------------------------------------------------------------------------------------

class DiskFails(Fault):
    """writes (or syncs, or reads too) of the store fail for a while, with EIO or ENOSPC"""
    moments = 5

    def prepare(self, world):
        world.preload.append(f"{world.build}/tests/fake-disk/libfake-disk.so")
        world.environ["FAKE_DISK"] = f"{world.folder}/broken"

    def inflict(self, world, load):
        def act():
            with open(f"{world.folder}/broken.new", "w") as f:
                f.write(self.rng.choice(["5", "28", "5 sync", "5 all"]))
            os.rename(f"{world.folder}/broken.new", f"{world.folder}/broken")
            time.sleep(self.rng.uniform(0.02, 0.5))
        under_fire(world, load, self.rng, act)
        os.unlink(f"{world.folder}/broken")
        time.sleep(0.05)
        if world.radd and not until(1, lambda: world.radd.poll() is not None):
            world.kill_radd()
        world.radd = None
        restart(world, load)


class SmallDisk(Fault):
    """the state's disk is full for a while"""
    needs_root = True
    moments = 4
    options = "size=24m"

    def prepare(self, world):
        os.mkdir(f"{world.folder}/disk")
        subprocess.run(["mount", "-t", "tmpfs", "-o", self.options, "none", f"{world.folder}/disk"], check=True)
        world.state = f"{world.folder}/disk/state"

    def fill(self, world):
        try:
            with open(f"{world.folder}/disk/full", "wb") as f:
                while True:
                    f.write(bytes(65536))
        except OSError:
            pass

    def relieve(self, world):
        os.unlink(f"{world.folder}/disk/full")

    def inflict(self, world, load):
        def act():
            self.fill(world)
            time.sleep(self.rng.uniform(0.1, 0.8))
        under_fire(world, load, self.rng, act)
        try:
            load.run(5)
        except Gone:
            pass
        load.hang_up()
        self.relieve(world)
        if not world.radd or world.radd.poll() is not None:
            restart(world, load)


class NoInodes(SmallDisk):
    """the state's disk has no inodes for a while"""
    options = "size=64m,nr_inodes=2000"

    def fill(self, world):
        os.makedirs(f"{world.folder}/disk/many", exist_ok=True)
        try:
            for i in range(4000):
                os.close(os.open(f"{world.folder}/disk/many/{i}", os.O_CREAT | os.O_WRONLY))
        except OSError:
            pass

    def relieve(self, world):
        for name in os.listdir(f"{world.folder}/disk/many"):
            os.unlink(f"{world.folder}/disk/many/{name}")


class ReadOnly(SmallDisk):
    """the state's disk is read-only for a while"""
    options = "size=64m"

    def fill(self, world):
        """Files that are open for writing keep a file system from it, and the kernel's way by force is not for tests. So the
        folder becomes a read-only mount between two radds, and one is started there meanwhile."""
        world.kill_radd()
        subprocess.run(["mount", "--bind", world.state, world.state], check=True)
        readonly = ["mount", "-o", "remount,bind,ro", world.state]
        if not until(10, lambda: not subprocess.run(readonly, check=False, capture_output=True).returncode):    # shims write there
            return
        why = world.start(5)
        self.notes["refused"] = self.notes.get("refused", 0) + bool(why)
        world.kill_radd()

    def relieve(self, world):
        subprocess.run(["umount", "-l", world.state], check=True)


# What there is too little of ---------------------------------------------------------------------------------------------

class NoDescriptors(Fault):
    """few descriptors: radd has 48"""
    moments = 2

    def prepare(self, world):
        world.limits[resource.RLIMIT_NOFILE] = 48

    def inflict(self, world, load):
        crowd = []
        try:
            for _ in range(60):
                crowd.append(world.connect(timeout=1))
        except Gone:
            pass
        load.run(self.rng.randint(5, 20), patient=False)
        time.sleep(self.rng.uniform(0, 0.5))
        for c in crowd:
            c.close()
        load.settle(getattr(load, "under_way", []))


class NoProcesses(Fault):
    """few processes: those of radd's user are limited, and taken by others for a while"""
    needs_root = True
    moments = 3
    uid = 64917         # of no account: it has no other processes
    room = 60

    def users(self):
        return [self.uid]

    def prepare(self, world):
        world.limits[resource.RLIMIT_NPROC] = self.room
        world.as_uid = self.uid
        os.chown(world.folder, self.uid, -1)
        self.crowd = []

    def inflict(self, world, load):
        def crowd():
            os.setuid(self.uid)
        crowd = [subprocess.Popen(["sleep", "60"], preexec_fn=crowd) for _ in range(self.room)]
        load.run(self.rng.randint(3, 10))
        time.sleep(self.rng.uniform(0, 0.7))
        world.reap()
        for p in crowd:
            p.kill()
            p.wait()


class NoMemory(Fault):
    """little address space: radd has 500 MiB of it, and is sent large submissions"""
    moments = 2

    def prepare(self, world):
        world.limits[resource.RLIMIT_AS] = 500 << 20

    def inflict(self, world, load):
        def large():
            c = world.connect()
            try:
                for _ in range(self.rng.randint(1, 8)):
                    c.send("submit", environ=[], spec={"argv": ["true"], "script": "#" * (10 << 20), "hold": True, "cwd": "/tmp"})
            except Gone:
                pass
            c.close()
        under_fire(world, load, self.rng, large)
        if not world.radd or world.radd.poll() is not None:
            self.notes["ended"] = self.notes.get("ended", 0) + 1
            world.radd = None
            world.limits[resource.RLIMIT_AS] = resource.RLIM_INFINITY
            restart(world, load)


# The driver -------------------------------------------------------------------------------------------------------------

class Nvml(Fault):
    """every NVML call that is used (read from nvml_api.c) hangs, fails, or lies, one after the other"""
    way = "fail"
    load = (3, 10)
    patience_s = 40         # a call that hangs in the sampler keeps nobody from an answer

    def prepare(self, world):
        nvml.prepare(world, nvml.machine(4))
        self.calls = nvml.calls_in_use()
        self.moments = len(self.calls)
        self.rng.shuffle(self.calls)

    def inflict(self, world, load):
        call = self.calls.pop()
        nvml.write(world, nvml.machine(4, **{self.way: nvml.script_of(self.way, call, self.rng)}))
        self.notes["calls"] = self.notes.get("calls", 0) + 1
        load.run(5)
        time.sleep(self.rng.uniform(0.2, 0.6))
        before = time.monotonic()
        try:
            world.connect(timeout=self.patience_s).call("status")
        except (Gone, Refused) as e:
            took = time.monotonic() - before
            load.troubles.append(f"{call}, which {self.way}s, keeps radd from answering for {took:.1f} s: {e}")
        if self.way == "hang" and self.rng.random() < 0.7:
            world.kill([p for p in nvml.samplers(world) if self.rng.random() < 0.5])
        nvml.write(world, nvml.machine(4))


class NvmlHangs(Nvml):
    """every NVML call that is used hangs for a while"""
    way = "hang"


class NvmlFails(Nvml):
    """every NVML call that is used fails for a while"""
    way = "fail"


class NvmlLies(Nvml):
    """every NVML call that is used answers nonsense for a while"""
    way = "lie"


class GpuLost(Fault):
    """a GPU falls off the bus, and is back under another number"""
    moments = 6

    def prepare(self, world):
        nvml.prepare(world, nvml.machine(4))

    def inflict(self, world, load):
        order = self.rng.sample(range(4), 4)
        lost = self.rng.sample(range(4), self.rng.randint(1, 3))
        nvml.write(world, nvml.machine(4, lost=lost))
        load.run(8)
        time.sleep(self.rng.uniform(0.1, 0.7))
        nvml.write(world, nvml.machine(4, order=[i for i in order if i not in lost]))
        time.sleep(self.rng.uniform(0.1, 0.7))
        if self.rng.random() < 0.4:
            world.kill_radd()
            restart(world, load)
            load.hang_up()
        nvml.write(world, nvml.machine(4, order=order))

    def finish(self, world, load):
        nvml.write(world, nvml.machine(4))


class NewDriver(Fault):
    """the driver is updated under a running radd: its calls fail with a version mismatch, then a new version is there"""
    moments = 4

    def prepare(self, world):
        nvml.prepare(world, nvml.machine(4))

    def inflict(self, world, load):
        nvml.write(world, nvml.machine(4, fail={"*": 18}))
        load.run(8)
        time.sleep(self.rng.uniform(0.1, 0.7))
        nvml.write(world, nvml.machine(4, driver=f"{self.rng.randint(500, 700)}.1.2"))
        if self.rng.random() < 0.5:
            world.kill(nvml.samplers(world))


# Clocks, peers, users ---------------------------------------------------------------------------------------------------

class Clock(Fault):
    """the wall clock jumps, a day forward or back, or a year"""
    moments = 5

    def inflict(self, world, load):
        off = self.rng.choice([86400, -86400, 3600, -3600, 0, 366 * 86400])
        under_fire(world, load, self.rng, lambda: world.set_clock(off))
        if self.rng.random() < 0.3:
            world.kill_radd()
            restart(world, load)


class Hostile(Fault):
    """fuzzed frames, frames sent byte by byte, 1000 connections; others are answered meanwhile"""
    moments = 4
    load = (3, 10)

    def frame(self):
        rng = self.rng
        body = bytearray(rng.choice([b'{"v":1,"op":"submit","spec":{"argv":["true"]},"environ":[]}', b'{"v":1,"op":"list"}',
                                     b'{"v":1,"op":"wait","ids":["1"]}', b'{"v":1,"op":"events","id":"1"}', b"[" * 5000,
                                     b'{"v":1,"op":"cancel","id":"99999999999999999999"}', bytes(100)]))
        for _ in range(rng.randint(0, 6)):
            if body:
                body[rng.randrange(len(body))] = rng.randrange(256)
        length = rng.choice([len(body), len(body), rng.randrange(1 << 32), 0, len(body) + 9])
        return struct.pack(">I", length) + bytes(body)

    def take(self, load):
        """How long five requests take, with their connections."""
        before = time.monotonic()
        try:
            load.hang_up()
            load.run(5)
        except Gone as e:
            load.troubles.append(f"hostile peers keep others out: {e}")
        return time.monotonic() - before

    def inflict(self, world, load):
        crowd = []
        usual = self.take(load)
        uid = 64918 if os.geteuid() == 0 else 0
        try:
            for i in range(1000):
                c = world.connect(uid, timeout=0.5)
                crowd.append(c)
                data = self.frame()
                c.socket.setblocking(False)
                try:
                    c.socket.send(data if i % 3 else data[:self.rng.randrange(len(data))])
                except OSError:
                    pass
        except Gone:
            pass
        self.notes["connections"] = self.notes.get("connections", 0) + len(crowd)
        took = self.take(load)
        self.notes["slowest_s"] = round(max(took, self.notes.get("slowest_s", 0)), 3)
        if took > 10 + 10 * usual:
            load.troubles.append(f"hostile peers delay others for {took:.1f} s; without, it takes {usual:.2f} s")
        for c in crowd:
            c.close()
        if world.radd.poll() is not None:
            load.troubles.append(f"hostile peers ended radd ({world.radd.returncode})")
            world.radd = None
            restart(world, load)


class TwoUsers(Fault):
    """two users act on each other's tasks; nothing of it has an effect"""
    needs_root = True
    moments = 4
    uids = (64917, 64918)

    def users(self):
        return [0, *account_uids()]

    def inflict(self, world, load):
        victims = [j for j in load.acknowledged() if j.uid]
        for job in victims[-10:]:
            other = next(u for u in world.users if u and u != job.uid)
            c = world.connect(other)
            for op, more in (("cancel", {}), ("hold", {}), ("release", {}), ("requeue", {}), ("update", {"priority": -1}),
                             ("captured", {"why": "x"})):
                try:
                    c.call(op, id=job.elements()[0], **more)
                    load.troubles.append(f"uid {other} may {op} {job.id} of uid {job.uid}")
                except Refused as e:
                    if "environ" in str(e):
                        load.troubles.append(str(e))
                except Gone as e:
                    load.troubles.append(f"{op} of another's: {e}")
            shown = c.call("show", id=job.id)
            if "environ" in repr(shown):
                load.troubles.append("an environment is shown to another user")
            c.close()
        if self.rng.random() < 0.3:
            world.kill_radd()
            restart(world, load)
            load.hang_up()


def account_uids():
    """Two accounts of this machine that nothing runs as; uids without one may not submit."""
    import pwd
    names = ("daemon", "games", "lp", "man", "news", "nobody", "uucp")
    return sorted(p.pw_uid for p in pwd.getpwall() if p.pw_uid and p.pw_name in names)[:2]


class Upgrade(Fault):
    """an older release's radd starts tasks, this one takes over (--older BUILD)"""
    older = None
    moments = 3

    def prepare(self, world):
        world.program = f"{self.older}/radd"

    def inflict(self, world, load):
        def act():
            world.kill_radd() if self.rng.random() < 0.5 else world.stop()
        under_fire(world, load, self.rng, act)
        world.radd = None
        world.program = f"{world.build}/radd"
        restart(world, load)


FAULTS = {re.sub("(?<!^)([A-Z])", r"-\1", c.__name__).lower(): c for c in (
    KillRadd, KillStarting, KillShim, KillBoth, Machine, PowerCut, KillMps, KillControl, DiskFails, SmallDisk, NoInodes, ReadOnly,
    NoDescriptors, NoProcesses, NoMemory, NvmlHangs, NvmlFails, NvmlLies, GpuLost, NewDriver, Clock, Hostile, TwoUsers,
    Upgrade)}
