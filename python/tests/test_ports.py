# SPDX-License-Identifier: MIT
"""A capture listens at no port that the script itself, or another capture, wants at the same time."""
import errno
import json
import os
import socket

import pytest

torch = pytest.importorskip("torch")

SCRIPT = """
import http.server, json, os, socket, subprocess, sys, threading, urllib.request
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
try:
    told["twice"] = socket.socket().bind(("HOST", port))
except OSError as e:
    told["twice"] = e.errno

def spoken(kind, family):
    "By one that listens there, to it, by its own name."
    host, other = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}[family], socket.socket(family, kind)
    if kind == socket.SOCK_STREAM:
        return other.connect_ex((host, both))
    other.sendto(b"x", (host, both))
    return 0 if udp[family].recv(1) == b"x" else 1
both, streams, udp = port + 1 if port < 65535 else port - 1, {}, {}
for family in (socket.AF_INET, socket.AF_INET6):  # as asyncio and Tornado do, where they are told no host
    for kind, listening in ((socket.SOCK_STREAM, streams), (socket.SOCK_DGRAM, udp)):
        listening[family] = own = socket.socket(family, kind)
        if family == socket.AF_INET6:
            own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        own.bind(("", both))
        own.settimeout(5)
    streams[family].listen()
told["both"] = [spoken(kind, family) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM) for family in streams]
for one in streams.values():
    one.close()
program = subprocess.Popen([sys.executable, "-c", f"import socket; s = socket.create_server(('127.0.0.1', {both})); print(flush=True)\\n"
                            "s.accept()"], stdout=subprocess.PIPE)
program.stdout.readline()
told["program"] = spoken(socket.SOCK_STREAM, socket.AF_INET) or program.wait()  # at a port that the script only asked for
ASKS = f"import urllib.request as u; print(u.urlopen('http://localhost:{port}/', timeout=9).read().decode(), end='')"
told["asked by a program"] = subprocess.run([sys.executable, "-c", ASKS], stdout=subprocess.PIPE, text=True).stdout
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


@pytest.mark.parametrize("host", ["", "127.0.0.1", "localhost", None])
def test_a_port_that_the_run_has(capture, tmp_path, monkeypatch, request, host):
    host = request.getfixturevalue("own_address") if host is None else host
    monkeypatch.setenv("RADRM_CAPTURE_LIBRARY", os.path.join(os.environ.get("RAD_BUILD_ROOT", "/"), "libradcapture.so"))
    script = SCRIPT.replace("HOST", host).replace("//localhost", f"//{host or 'localhost'}")
    with socket.create_server(("", 0)) as runs:  # its answers would never come
        port = runs.getsockname()[1]
        code, said, _ = capture(script, str(port), options=["--in-place"])
    assert code == 0, said
    told = json.loads((tmp_path / "told").read_text())
    assert told.pop("port") != port and told.pop("twice") == errno.EADDRINUSE
    assert told == {"asked": "mine", "free": True, "udp": None, "in use": True, "both": [0, 0, 0, 0], "program": 0,
                    "asked by a program": "mine", "child": 7}
