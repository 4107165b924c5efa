#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A sweep over learning rates, each a task of radd with a place on a GPU:

    PYTHONPATH=/usr/local/share/rad/python python3 sweep.py

Killed or interrupted, it goes on with what is there when it is called again: tasks belong to radd, their results lie in ./rad-futures.
With PyTorch it trains a small net; without, it takes the same steps on a parabola, so that it runs everywhere.
"""
from radrm.futures import RadExecutor


def train(lr, steps=200):
    try:
        import torch
    except ImportError:
        x = 1.0
        for _ in range(steps):
            x -= lr * 2 * x
        return x * x
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    data = torch.randn(512, 32, device=device)
    wanted = data.sum(1, keepdim=True).tanh()
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for step in range(steps):
        loss = torch.nn.functional.mse_loss(net(data), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step + 1}/{steps}")   # read by radd: `rad queue` shows how far it is
    return loss.item()


if __name__ == "__main__":
    with RadExecutor(gpu_mem="1536M", time="1h", name="sweep") as executor:
        futures = executor.resume() or executor.map_futures(train, (0.3, 0.1, 0.03, 0.01, 0.003, 0.001), at_once=3)
        for future in futures:
            lr = future.call()[1][0]
            print(f"task {future.task}: lr {lr}: loss {future.result():.4g}")
