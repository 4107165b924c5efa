# SPDX-License-Identifier: MIT
"""A capture listens at no port that the script itself, or another capture, wants at the same time."""
import json
import socket

import pytest

torch = pytest.importorskip("torch")

SCRIPT = """
import http.server, json, os, socket, sys, threading, urllib.request
import torch
port = int(sys.argv[1])

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"mine")

    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("HOST", port), Answers)
threading.Thread(target=server.serve_forever, daemon=True).start()
told = {"asked": urllib.request.urlopen(f"http://localhost:{port}/", timeout=9).read().decode(), "port": server.server_port,
        "free": socket.create_server(("", 0)).getsockname()[1] > 0, "udp": socket.socket(type=socket.SOCK_DGRAM).bind(("127.0.0.1", port)),
        "in use": socket.socket().connect_ex(("127.0.0.1", port)) == 0}
if not os.fork():
    try:
        socket.socket().bind(("127.0.0.1", port))
    except OSError:
        os._exit(7)  # the port is what it wanted, and had by somebody else
    os._exit(0)
told["child"] = os.waitstatus_to_exitcode(os.wait()[1])
with open("told", "w") as f:
    json.dump(told, f)
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    model(torch.randn(4, 8).cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("host", ["", "127.0.0.1", "localhost"])
def test_a_port_that_the_run_has(capture, tmp_path, host):
    with socket.create_server(("127.0.0.1", 0)) as runs:  # its answers would never come
        port = runs.getsockname()[1]
        code, said, _ = capture(SCRIPT.replace("HOST", host), str(port), options=["--in-place"])
    assert code == 0, said
    told = json.loads((tmp_path / "told").read_text())
    assert told.pop("port") != port and told == {"asked": "mine", "free": True, "udp": None, "in use": True, "child": 7}
