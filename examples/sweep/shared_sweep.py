#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A sweep of eight over learning rates, whose tasks share one loader: the images are decoded once, not eight times.

    PYTHONPATH=/usr/local/share/rad/python python3 shared_sweep.py

What differs from a sweep without is the line with `shared`. Whichever task asks first runs the loader; when it ends, another goes on.
"""
import radrm.feed
from radrm.futures import RadExecutor

RATES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.01, 0.003)


def train(lr, epochs=3):
    import torch

    class Images(torch.utils.data.Dataset):     # where decoding would be
        def __len__(self):
            return 2048

        def __getitem__(self, i):
            image = torch.randn(32, generator=torch.Generator().manual_seed(i))
            return image, image.sum().tanh()

    device = "cuda" if torch.cuda.is_available() else None
    loader = torch.utils.data.DataLoader(Images(), batch_size=64, shuffle=True, num_workers=1)
    loader = radrm.feed.shared(loader, "sweep", device=device)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for epoch in range(epochs):
        total = 0.0
        for images, wanted in loader:
            loss = torch.nn.functional.mse_loss(net(images)[:, 0], wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{epochs} loss {total / len(loader):.4g}")
    return total / len(loader)


if __name__ == "__main__":
    with RadExecutor(gpu_mem="1536M", time="1h", name="shared-sweep") as executor:
        futures = executor.resume() or executor.map_futures(train, RATES, at_once=8)
        for lr, future in zip(RATES, futures):
            print(f"task {future.task}: lr {lr}: loss {future.result():.4g}")
