# SPDX-License-Identifier: MIT
"""What a capture says of data loaders: their workers, what a batch costs them, and how many a step takes."""
import textwrap

import pytest

torch = pytest.importorskip("torch")

MS = 4  # of processor time that a sample takes
TRAIN = f"""
    import sys, time, torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset, IterableDataset

    def work(ms):
        end = time.thread_time() + ms / 1000
        while time.thread_time() < end:
            pass

    class Data(Dataset):
        def __init__(self, ms={MS}): self.ms, self.asked = ms, 0
        def __len__(self): return 4000
        def __getitem__(self, i):
            self.asked += 1
            work(self.ms)
            return torch.ones(10)

    class Stream(IterableDataset):
        def __iter__(self):
            work(500)  # a buffer is filled
            for i in range(4000):
                yield Data()[i]

    model = nn.Linear(10, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def learn(x):
        model(x.cuda()).sum().backward()
    def update(x):
        learn(x)
        optimizer.step()
        optimizer.zero_grad()
"""
# script -> [(workers, milliseconds of a batch, batches, steps)]
LOOPS = {
    "a loop over a loader": ("""
        for x in DataLoader(Data(), 5, num_workers=3, pin_memory=True, persistent_workers=True):
            update(x)
        """, [(3, 5 * MS, 2, 2)]),
    "workers by place, in epochs of one batch": ("""
        loader = DataLoader(torch.utils.data.Subset(Data(), range(5)), 5, True, None, None, 2)
        for epoch in range(50):
            for x in loader: update(x)
        """, [(2, 5 * MS, 2, 2)]),
    "workers by a context of their own": ("""
        for x in DataLoader(Data(), 5, num_workers=2, multiprocessing_context="spawn", timeout=60, prefetch_factor=4): update(x)
        """, [(2, 5 * MS, 2, 2)]),
    "a context by place": ("""
        loader = DataLoader(Data(), 5, False, None, None, 2, None, True, False, 60, None, "fork")
        for x in loader: update(x)
        """, [(2, 5 * MS, 2, 2)]),
    "without workers": ("""
        for x in DataLoader(Data(), 5): update(x)
        """, [(0, 5 * MS, 2, 2)]),
    "the first batch is not like the others": ("""
        class First(Data):
            def __getitem__(self, i):
                if not self.asked: work(500)
                return super().__getitem__(i)
        for x in DataLoader(First(), 5, num_workers=2): update(x)
        """, [(2, 5 * MS, 2, 2)]),
    "a stream": ("""
        for x in DataLoader(Stream(), 5, num_workers=2): update(x)
        """, [(2, 5 * MS, 2, 2)]),
    "samples that are batches": ("""
        for x in DataLoader(Stream(), batch_size=None, num_workers=2): update(x[None])
        """, [(2, MS, 2, 2)]),
    "gradients summed up": ("""
        for i, x in enumerate(DataLoader(Data(), 5, num_workers=2)):
            learn(x)
            if i % 4 == 3: optimizer.step()
        """, [(2, 5 * MS, 8, 2)]),
    "two beside each other": ("""
        for x, y in zip(DataLoader(Data(), 5, num_workers=2), DataLoader(Data(2 * MS), 5, num_workers=4)): update(x + y)
        """.replace("MS", str(MS)), [(2, 5 * MS, 2, 2), (4, 10 * MS, 2, 2)]),
    "an evaluation has one of its own": ("""
        test = DataLoader(torch.utils.data.Subset(Data(), range(10)), 5, num_workers=8)
        for x in DataLoader(Data(), 5, num_workers=2):
            update(x)
            with torch.no_grad():
                for y in test: model(y.cuda())
        """, [(2, 5 * MS, 2, 2)]),
    "one batch ahead": ("""
        batches = iter(DataLoader(Data(), 5, num_workers=2))
        x = next(batches)
        for _ in range(100):
            ahead = next(batches)
            update(x)
            x = ahead
        """, [(2, 5 * MS, 2, 2)]),
    "another optimizer begins the count anew": ("""
        other = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, x in enumerate(DataLoader(Data(), 5, num_workers=2)):
            learn(x)
            if i % 2: optimizer.step()
            if i % 4 == 3: other.step()
        """, [(2, 5 * MS, 8, 2)]),
    "a library makes it anew": ("""
        import types
        accelerate = types.ModuleType("accelerate")
        exec("from torch.utils.data import DataLoader\\n"
             "def prepare(loader): return DataLoader(loader.dataset, 5, num_workers=loader.num_workers)", vars(accelerate))
        for x in accelerate.prepare(DataLoader(Data(), 5, num_workers=6)): update(x)
        """, [(6, 5 * MS, 2, 2)]),
    "a data set with a loader of its own": ("""
        class Outer(Data):
            def __init__(self): self.inner = iter(DataLoader(Data(), 5, num_workers=1))
            def __getitem__(self, i): return next(self.inner)[0]
        for x in DataLoader(Outer(), 2, num_workers=2): update(x)
        """, [(2, 2 * 5 * MS, 2, 2)]),
    "no loader": ("for _ in range(100): update(torch.ones(5, 10))", []),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_seen_of_loaders(capture, name):
    loop, expected = LOOPS[name]
    code, said, f = capture(textwrap.dedent(TRAIN) + textwrap.dedent(loop))
    assert code == 0, said
    assert [(workers, batches, steps) for workers, _, _, batches, steps in f.loaders] == [(w, b, s) for w, _, b, s in expected]
    for (_, us, measured, _, _), (_, ms, _, _) in zip(f.loaders, expected):
        assert measured >= 2
        assert ms * 1000 <= us < ms * 2000 + 5000, us


# Each batch from the second on is fetched as a worker fetches it: no mode of the capture looks at its operators.
def test_the_captures_own_look_does_not_count(capture):
    code, said, f = capture(TRAIN + """
    class Looked(Data):
        def __getitem__(self, i):
            print("modes", torch._C._len_torch_dispatch_stack())
            return super().__getitem__(i)
    for x in DataLoader(Looked(), 2, num_workers=2): update(x)
    """)
    assert code == 0, said
    assert [int(line.split()[1]) > 0 for line in said.splitlines() if line.startswith("modes")] == [True, True, False, False, False, False]


BESIDE = {
    "samples from the GPU": "self.there = torch.ones(4000, 10).cuda()",
    "what came from the GPU": "self.there = torch.ones(4000, 10).cuda().mul(2).cpu()",
    "numbers that are not drawn": "self.there = torch.ones(4000, 10)",
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_a_capture_must_look_at_is_not_measured(capture, name):
    drawn = "torch.empty(1 << 21).normal_()" if "drawn" in name else "None"
    code, said, f = capture(TRAIN + f"""
    class Own(Data):
        def __init__(self):
            super().__init__()
            {BESIDE[name]}
        def __getitem__(self, i):
            {drawn}
            return self.there[i] * 2
    for x in DataLoader(Own(), 5): update(x)
    """)
    assert code == 0, said
    assert [(workers, us, measured) for workers, us, measured, _, _ in f.loaders] == [(0, 0, 0)]


def test_a_batch_that_is_on_the_gpu_after_all(capture):
    code, said, f = capture(TRAIN + """
    class Late(Data):
        def __getitem__(self, i):
            x = super().__getitem__(i)
            return x if self.asked <= 5 else x.cuda()
    for x in DataLoader(Late(), 5): update(x)
    """)
    assert code == 0, said
    assert [measured for _, _, measured, _, _ in f.loaders] == [0]
