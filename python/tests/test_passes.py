# SPDX-License-Identifier: MIT
"""How many steps a script will make where batches come from iterators, queues and threads, and where some are passed over by their size."""
import textwrap

import pytest

torch = pytest.importorskip("torch")
from test_length import BEGIN  # noqa: E402

BEGIN = textwrap.dedent(BEGIN) + textwrap.dedent("""
    import queue, threading
    torch.set_num_threads(torch.get_num_threads())  # its pool is made anew after the fork of a test; by two threads at once, that fails
    from itertools import chain, count, cycle, islice, repeat, starmap
    loader = DataLoader(torch.randn(93, 4), batch_size=5, shuffle=True)  # 18 batches of 5, and one of 3
    other = DataLoader(torch.randn(42, 4), batch_size=5)
    pairs = DataLoader(torch.utils.data.TensorDataset(torch.randn(93, 4), torch.randn(93)), batch_size=5)
    def full(items, size):
        for x in items:
            if x.shape[0] != size: continue
            yield x
    def fill(q, items):
        for x in items: q.put(x)
        q.put(None)
    def begin(target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        return thread
""")
SIZES = {
    "a smaller one is passed over": ("""
        for epoch in range(6):
            for x in loader:
                if len(x) < 5: continue
                update(x)
        """, 108),
    "and ends the epoch": ("""
        for epoch in range(6):
            for i, (x, y) in enumerate(pairs):
                x = x.cuda()
                if x.size(0) != 5: break
                update(x)
        """, 108),
    "it is the arm that has the step": ("""
        for epoch in range(6):
            for x in loader:
                if x.shape[0] == loader.batch_size: update(x)
        """, 108),
    "its size has a name": ("""
        for epoch in range(6):
            for x in loader:
                B, C = x.shape
                if epoch > 90 or B < loader.batch_size: continue
                update(x)
        """, 108),
    "of a dictionary": ("""
        class Rows(torch.utils.data.Dataset):
            def __len__(self): return 93
            def __getitem__(self, i): return {"x": torch.randn(4), "y": i}
        for epoch in range(6):
            for batch in DataLoader(Rows(), 5):
                if len(batch["y"]) < 5: continue
                update(batch["x"])
        """, 108),
    "where it is called": ("""
        def train(x):
            if x.size(0) < 5: return
            update(x)
        for epoch in range(6):
            for x in loader: train(x)
        """, 108),
    "it is asked twice, of two loaders": ("""
        for epoch in range(6):
            for x in chain(loader, loader):
                if len(x) < 5: continue
                if x.shape[0] != loader.batch_size: continue
                update(x)
        """, 216),
    "its size is asked twice by name": ("""
        for epoch in range(6):
            for x in loader:
                B = len(x)
                if B < 5 or B > 64: continue
                update(x)
        """, 108),
    "it is as large as there is room for": ("""
        for epoch in range(6):
            seen = 0
            for x in loader:
                if seen + len(x) > 50: break
                seen += len(x)
                update(x)
        """, 0),
    "and that has a name": ("""
        class Room: seen = 0
        for epoch in range(6):
            Room.seen = 0
            for x in loader:
                more = Room.seen + len(x)
                if more > 50: break
                Room.seen += len(x)
                update(x)
        """, 0),
    "or enough were made": ("""
        step = 0
        for epoch in range(6):
            for x in loader:
                if step >= 60 or len(x) < 5: break
                update(x)
                step += 1
        """, 60),
    "or enough in this epoch": ("""
        for epoch in range(6):
            for i, x in enumerate(loader):
                if i >= 10 or len(x) < 5: break
                update(x)
        """, 60),
    "or enough, behind the step": ("""
        step = 0
        for epoch in range(6):
            for x in loader:
                update(x)
                step += 1
                if step >= 60 or len(x) < 5: break
        """, 60),
    "or others are passed over by their number": ("""
        for epoch in range(6):
            for i, x in enumerate(loader):
                if len(x) < 5 or i >= 10: continue
                update(x)
        """, 0),
    "nobody knows which rounds take it": ("""
        for epoch in range(6):
            it = iter(loader)
            for _ in range(len(loader)):
                x = next(it)
                if len(x) < 5: continue
                update(x)
        """, 0),
    "it is large enough": ("""
        for epoch in range(6):
            for x in loader:
                if len(x) < 2: continue
                update(x)
        """, 114),
    "there is no smaller one": ("""
        own = DataLoader(torch.randn(93, 4), batch_size=5, drop_last=True)
        for epoch in range(6):
            for x in own:
                if len(x) < 5: continue
                update(x)
        """, 108),
    "within something": ("""
        for epoch in range(6):
            for x in loader:
                with torch.autocast("cuda", enabled=False):
                    x = x.cuda()
                    if x.shape[0] < 5: continue
                    learn(x)
                optimizer.step()
        """, 108),
    "behind the step": ("""
        for epoch in range(6):
            for x in loader:
                update(x)
                if len(x) < 5: break
        """, 114),
    "two loaders have one each": ("""
        for epoch in range(6):
            for x in chain(loader, other):
                if len(x) < 5: continue
                update(x)
        """, 156),
    "the first one ends both": ("""
        for epoch in range(6):
            for x in chain(loader, other):
                if len(x) < 5: break
                update(x)
        """, 108),
    "behind the end": ("""
        for epoch in range(6):
            for x in islice(loader, 10):
                if len(x) < 5: continue
                update(x)
        """, 60),
    "gradients summed up, and the rest is passed over": ("""
        for epoch in range(6):
            for i, x in enumerate(loader):
                if len(x) < 5: continue
                learn(x)
                if (i + 1) % 3 == 0: optimizer.step(); optimizer.zero_grad()
        """, 36),
    "the last would have been one that steps": ("""
        own = DataLoader(torch.randn(88, 4), batch_size=5)
        for epoch in range(6):
            for i, x in enumerate(own):
                if len(x) < 5: continue
                learn(x)
                if (i + 1) % 3 == 0: optimizer.step(); optimizer.zero_grad()
        """, 30),
    "several steps each": ("""
        for epoch in range(6):
            for x in loader:
                if len(x) < 5: continue
                for critic in range(2): update(x)
        """, 216),
    "in a generator": ("""
        for epoch in range(6):
            for x in full(loader, 5): update(x)
        """, 108),
    "of pieces of a tensor": ("""
        rows = torch.randn(93, 4)
        for epoch in range(6):
            for x in rows.split(5):
                if len(x) < 5: continue
                update(x)
        """, 108),
    "of lists": ("""
        texts = [[1] * n for n in (4, 9, 4, 4, 12, 1, 4)]
        for epoch in range(6):
            for text in texts:
                if len(text) < 4: continue
                update()
        """, 36),
    "of taken ones": ("""
        for epoch in range(6):
            batches = iter(loader)
            while True:
                try: x = next(batches)
                except StopIteration: break
                if len(x) < 5: continue
                update(x)
        """, 108),
    "nobody knows how long a text is": ("""
        for epoch in range(6):
            for x in loader:
                if x.size(1) > 40: continue
                update(x)
        """, 0),
    "nor what a class gives": ("""
        class Batches:
            def __len__(self): return 19
            def __iter__(self): yield from loader
        for epoch in range(6):
            for x in Batches():
                if len(x) < 5: continue
                update(x)
        """, 0),
    "nor what comes of a generator": ("""
        def shaken(items):
            for x in items: yield x[torch.randperm(len(x))]
        for epoch in range(6):
            for x in cycle(shaken(loader)):
                if len(x) < 5: break
                update(x)
        """, 0),
    "what is no batch's size": ("""
        kept = []
        for epoch in range(6):
            for x in loader:
                if len(kept) > 1000: continue
                update(x)
        """, 114),
}
ITERATORS = {
    "loaders of which one is shorter, in turns": ("""
        loaders = {"a": loader, "b": other}
        for epoch in range(6):
            for name, items in loaders.items():
                for x in items: update(x)
        """, 168),
    "and one that is as long": ("""
        for epoch in range(6):
            for items in [loader, loader]:
                for x in items: update(x)
        """, 228),
    "of which not all have their turn": ("""
        for epoch in range(6):
            for i, items in enumerate([loader, other]):
                if i >= 1: break
                for x in items: update(x)
        """, 114),
    "and steps in some rounds alone": ("""
        for epoch in range(6):
            for items in [loader, other]:
                for i, x in enumerate(items):
                    learn(x)
                    if i % 3 == 2: optimizer.step()
        """, 0),
    "an islice() of a cycle() with a name": ("""
        batches = islice(cycle(loader), 50)
        for x in batches: update(x)
        """, 50),
    "a zip() with a name": ("""
        for epoch in range(6):
            both = zip(loader, cycle(other))
            for x, y in both: update(x)
        """, 114),
    "a chain() of all epochs": ("""
        batches = chain.from_iterable([loader] * 6)
        for x in batches: update(x)
        """, 114),
    "map()": ("""
        def moved(x): return x.cuda()
        for epoch in range(6):
            for i, x in enumerate(map(moved, loader)): update(x)
        """, 114),
    "from another place on": ("""
        for epoch in range(6):
            batches = iter(loader)
            for n in range(4): next(batches)
            for x in batches: update(x)
        """, 90),
    "an iterator of a list": ("""
        left = iter(list(range(40)))
        next(left)
        for n in left: update()
        """, 39),
    "every third": ("""
        for epoch in range(6):
            for x in islice(loader, 2, None, 3): update(x)
        """, 36),
    "a generator without end": ("""
        def ever():
            while True:
                for x in loader: yield x
        for x in islice(ever(), 70): update(x)
        """, 70),
    "beside one": ("""
        def ever():
            while True:
                for x in loader: yield x
        for epoch in range(6):
            both = zip(ever(), other)
            for x, y in both: update(x)
        """, 54),
    "one that somebody else may end": ("""
        def some():
            while True:
                try: yield next(left)
                except StopIteration: return
        for epoch in range(6):
            left = iter(range(9))
            both = zip(some(), loader)
            for n, x in both: update(x)
        """, 0),
    "generators of generators": ("""
        def doubled(items):
            for x in items: yield x
        class Folds:
            def split(self):
                for n in self.numbers(): yield n
            def numbers(self):
                for n in range(7): yield n
        for n in doubled(Folds().split()):
            for x in loader: update(x)
        """, 133),
    "a generator that another loop began": ("""
        batches = over(loader)
        for x in batches: break
        for x in batches: update(x)
        """, 0),
    "how often filter() gives something": ("""
        for epoch in range(6):
            for x in filter(lambda x: x.sum() > 0, loader): update(x)
        """, 0),
    "a generator that stops": ("""
        def some(items):
            for n, x in enumerate(items):
                if x.sum() > 100: return
                yield x
        for epoch in range(6):
            for x in some(loader): update(x)
        """, 0),
    "a sum of all": ("""
        for epoch in range(6): total = sum(map(lambda x: update(x) or 1, loader))
        """, 114),
    "several batches for a step, which the loop around takes": ("""
        batches = cycle(loader)
        for step in range(60):
            for part in range(4): learn(next(batches))
            optimizer.step()
        """, 60),
    "and in a loop with a number of its own": ("""
        batches, step = cycle(loader), 0
        while step < 60:
            for part in range(4): learn(next(batches))
            optimizer.step()
            step += 1
        """, 60),
    "of one phase": ("""
        for epoch in range(6):
            for phase in ["test", "train"]:
                for x in loader:
                    if phase == "train": update(x)
        """, 114),
    "of the first phase": ("""
        for epoch in range(6):
            for phase, own in [("train", loader), ("test", other)]:
                for x in own:
                    with torch.set_grad_enabled(phase == "train"):
                        if phase == "train": update(x)
        """, 114),
    "in some epochs": ("""
        for epoch in range(10):
            if epoch % 3 == 2: continue
            for x in loader: update(x)
        """, 0),
    "of two that both learn": ("""
        for epoch in range(6):
            for kind in ["one", "two"]:
                for x in loader:
                    if kind == "one": update(x)
                    else: update(2 * x)
        """, 228),
    "all, while it is true": ("""
        for epoch in range(6): all(map(lambda x: update(x) is None, loader))
        """, 0),
}
QUEUES = {
    "a thread for each epoch": ("""
        for epoch in range(4):
            q = queue.Queue(maxsize=3)
            thread = begin(fill, q, loader)
            while True:
                item = q.get()
                if item is None: break
                update(item)
            thread.join()
        """, 76),
    "of stretches, and one that has all its room": ("""
        rows = torch.randn(93, 4)
        def produce(q):
            for i in range(0, len(rows), 5): q.put((i, rows[i:i + 5]))
            q.put(None)
        for epoch in range(4):
            q = queue.Queue()
            begin(produce, q).join()
            while (item := q.get()) is not None:
                i, x = item
                update(x)
        """, 76),
    "one thread for all epochs": ("""
        def produce(q):
            for epoch in range(4):
                for x in loader: q.put(x)
            q.put("end")
        q = queue.Queue(2)
        begin(produce, q)
        while True:
            x = q.get()
            if isinstance(x, str) or x is None: break
            update(x)
        """, 0),
    "one thread, which tells of each epoch's end": ("""
        END = object()
        def produce(q):
            for epoch in range(4):
                for x in loader: q.put(x)
                q.put(END)
        q = queue.Queue(2)
        begin(produce, q)
        for epoch in range(4):
            while True:
                x = q.get()
                if x is END: break
                update(x)
        """, 76),
    "until there is no other": ("""
        for epoch in range(4):
            q = queue.Queue(2)
            begin(fill, q, loader)
            for x in iter(q.get, None): update(x)
        """, 76),
    "an object that has a thread": ("""
        class Ahead:
            def __init__(self, items):
                self.items, self.q = items, queue.Queue(2)
                begin(self.run)
            def run(self):
                for x in self.items: self.q.put(x)
                self.q.put(None)
            def __iter__(self): return self
            def __next__(self):
                x = self.q.get()
                if x is None: raise StopIteration
                return x
        for epoch in range(4):
            for x in Ahead(loader): update(x)
        """, 76),
    "a generator that has one": ("""
        def ahead(items):
            q = queue.Queue(2)
            begin(fill, q, items)
            while True:
                x = q.get()
                if x is None: return
                yield x
        for epoch in range(4):
            for x in ahead(loader): update(x)
        """, 76),
    "nobody knows what a thread leaves out": ("""
        def produce(q):
            for x in loader:
                if x.sum() > 0: q.put(x)
            q.put(None)
        for epoch in range(4):
            q = queue.Queue(2)
            begin(produce, q)
            while True:
                x = q.get()
                if x is None: break
                update(x)
        """, 0),
    "nor which of two threads fills it": ("""
        q = queue.Queue(2)
        for n in range(2): begin(fill, q, loader)
        while True:
            x = q.get()
            if x is None: break
            update(x)
        """, 0),
    "nor which of two takes from it": ("""
        q = queue.Queue(1)
        def take():
            while True: q.get()
        begin(take)
        def produce():
            while True:
                for x in loader: q.put(x)
                q.put(None)
        begin(produce)
        while True:
            x = q.get()
            if x is None: break
            update(x)
        """, 0),
    "it is left earlier": ("""
        for epoch in range(4):
            q = queue.Queue()
            begin(fill, q, loader)
            step = 0
            while True:
                x = q.get()
                if x is None: break
                update(x)
                step += 1
                if step >= 11: break
        """, 44),
}
ALL = {**SIZES, **ITERATORS, **QUEUES}


@pytest.mark.parametrize("name", ALL)
def test_steps(capture, name):
    body, steps = ALL[name]
    code, said, f = capture(BEGIN + textwrap.dedent(body))
    assert code == 0, said
    assert f.steps == steps


def test_a_bar_around_them(capture):
    pytest.importorskip("tqdm")
    code, said, f = capture(BEGIN + textwrap.dedent("""
        from tqdm import tqdm
        for epoch in range(6):
            for i, x in enumerate(tqdm(loader, disable=True)):
                if len(x) < 5: continue
                update(x)
        """))
    assert code == 0 and f.steps == 108, said


# As Accelerate's: what is left at the end of a pass is a step of its own.
ACCELERATE = '''
import types
accelerate = types.ModuleType("accelerate.optimizer")
exec("""
class Optimizer:
    def __init__(self, own, state):
        self.own, self.gradient_state, self.gone = own, state, 0
    def step(self, last):
        self.gone += 1
        if last or self.gone % self.gradient_state.num_steps == 0:
            self.own.step()
            self.own.zero_grad()
            self.gone = 0 if last else self.gone
""", vars(accelerate))
state = types.SimpleNamespace(sync_with_dataloader=True, active_dataloader=LOADER, num_steps=2)
own = accelerate.Optimizer(optimizer, state)
for epoch in range(3):
    for n, x in enumerate(LOADER):
        learn(x)
        own.step(n == len(LOADER) - 1)
'''


@pytest.mark.parametrize("loader, steps", [("loader", 30), ("DataLoader(torch.randn(25, 4), batch_size=5)", 9)])
def test_what_a_library_sums_up_is_a_step_at_the_end_of_a_pass(capture, loader, steps):
    """19 batches are ten steps, five are three; of the latter all of an epoch is seen."""
    code, said, f = capture(BEGIN + f"batches = {loader}\n" + ACCELERATE.replace("LOADER", "batches"))
    assert code == 0 and f.steps == steps, said
