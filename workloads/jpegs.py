# SPDX-License-Identifier: MIT
"""Images as files: makes a folder of them, and reads one in training as loaders do: decode, crop, flip. In threads of this
process, which is enough: decoding holds no lock of Python's.
"""
import concurrent.futures
import os
import pathlib
import queue
import random
import threading

SIDE = 256   # of the files
AHEAD = 2    # batches that lie ready

open_loaders = []


def make(folder, count=256):
    """Fills a folder, unless it is there: smooth noise, whose files are about as large as those of photographs."""
    folder = pathlib.Path(folder)
    if folder.exists():
        return
    import torch
    from torchvision.io import encode_jpeg
    new = folder.with_name(f"{folder.name}.{os.getpid()}")
    new.mkdir(parents=True)
    for n in range(count):
        coarse = torch.rand(1, 3, SIDE // 8, SIDE // 8, device="cpu")
        image = torch.nn.functional.interpolate(coarse, SIDE, mode="bilinear")[0] + 0.05 * torch.randn(3, SIDE, SIDE, device="cpu")
        (new / f"{n}.jpg").write_bytes(encode_jpeg((image.clamp(0, 1) * 255).to(torch.uint8)).numpy().tobytes())
    new.rename(folder)


class Loader:
    """Batches of random files of a folder, made ahead by `threads` threads until AHEAD of them wait to be taken."""

    def __init__(self, folder, batch, size, threads, pin=False):
        self.paths = sorted(map(str, pathlib.Path(folder).glob("*.jpg")))
        if not self.paths:
            raise FileNotFoundError(f"{folder}: no JPEG files")
        self.batch, self.size, self.pin = batch, size, pin
        self.ready, self.pool = queue.Queue(AHEAD), concurrent.futures.ThreadPoolExecutor(threads)
        self.over = threading.Event()
        open_loaders.append(self)
        threading.Thread(target=self._fill, daemon=True).start()

    def _one(self, path):
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg, read_file
        image = decode_jpeg(read_file(path), mode=ImageReadMode.RGB)
        y, x = (random.randrange(max(1, n - self.size + 1)) for n in image.shape[1:])
        image = image[:, y:y + self.size, x:x + self.size]
        if image.shape[1:] != (self.size, self.size):
            image = torch.nn.functional.interpolate(image[None].float(), self.size)[0]
        image = image.flip(2) if random.random() < 0.5 else image
        return image.float().div_(127.5).sub_(1)

    def _fill(self):
        import torch
        while not self.over.is_set():
            made = torch.stack(list(self.pool.map(self._one, random.choices(self.paths, k=self.batch))))
            self._offer(made.pin_memory() if self.pin else made)

    def _offer(self, made):
        while not self.over.is_set():
            try:
                return self.ready.put(made, timeout=0.5)
            except queue.Full:
                pass

    def next(self):
        return self.ready.get()


def close_all():
    """Ends the threads of all loaders of this process."""
    while open_loaders:
        loader = open_loaders.pop()
        loader.over.set()
        loader.pool.shutdown(wait=False, cancel_futures=True)
