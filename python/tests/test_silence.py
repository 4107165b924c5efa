# SPDX-License-Identifier: MIT
"""Once enough was seen a capture tells nobody anything. Asked are a server of this machine and names that nobody has, of which it is
seen whether they were asked for at all."""
import http.server
import json
import os
import threading

import pytest

torch = pytest.importorskip("torch")

LIBRARY = os.path.join(os.environ.get("RAD_BUILD_ROOT", "/"), "libradcapture.so")
SCRIPT = """
import http.client, json, smtplib, socket, subprocess, sys, time, urllib.request
import torch
model = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
HERE = sys.argv[1]
CHILD = ("import errno, socket; s = socket.socket(); s.settimeout(5)\\ntry: s.connect(('192.0.2.1', 9))\\n"
         "except OSError as e: print(errno.errorcode[e.errno])")

def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()

def post(url, method="POST"):
    return urllib.request.urlopen(urllib.request.Request(url, data=b"x" if method == "POST" else None, method=method), timeout=5).read()

def asks(host, method):
    "What comes of a request as far as that needs no network."
    connection = http.client.HTTPConnection(host)
    connection.putrequest(method, "/")
    return "sent"

ASKED = {
    "post": lambda: asks("hooks.example", "POST"), "put": lambda: asks("bucket.example", "PUT"), "get": lambda: asks("data.example", "GET"),
    "hub": lambda: asks("huggingface.co", "POST"), "here": lambda: post(HERE).decode(),
    "mail": lambda: smtplib.SMTP("mail.example", timeout=5), "mail here": lambda: smtplib.SMTP("127.0.0.1", 1, timeout=5),
    "program": lambda: run(CHILD), "all": lambda: run(CHILD.replace("socket.socket()", "socket.socket(type=socket.SOCK_DGRAM)")
                                                      .replace("192.0.2.1", "255.255.255.255")),
    "group": lambda: run(CHILD.replace("socket.socket()", "socket.socket(type=socket.SOCK_DGRAM)").replace("192.0.2.1", "224.0.0.1")),
    "post to all": lambda: asks("255.255.255.255", "POST"),
    "program here": lambda: run(f"import urllib.request as u; print(u.urlopen('{HERE}').read().decode())"),
}

def again():
    "How long one tries who has patience."
    began = time.monotonic()
    for _ in range(3):
        try:
            asks("log.example", "POST")
            break
        except OSError:
            time.sleep(1000)
    return time.monotonic() - began

def slept():
    began = time.monotonic()
    time.sleep(0.1)
    return time.monotonic() - began >= 0.1

def tell():
    found = {"again": again() < 100, "slept": slept()}
    for name, ask in ASKED.items():
        try:
            found[name] = ask()
        except OSError as e:
            found[name] = getattr(e, "reason", e).strerror
    print(json.dumps(found), file=open("told", "a"))

WHEN
for step in range(600):
    model(torch.randn(8, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
BEHIND
with torch.no_grad(): model(torch.randn(4000, 512, device="cuda"))
"""


@pytest.fixture(params=["127.0.0.1", "own"])
def here(request):
    """The address of a server, as this machine's own."""
    host = request.getfixturevalue("own_address") if request.param == "own" else request.param

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"heard")
        do_POST = do_GET

        def log_message(self, *_):
            pass
    with http.server.ThreadingHTTPServer((host, 0), Answers) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://{host}:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("behind", [False, True])
def test_what_is_told_behind_the_training(capture, tmp_path, monkeypatch, here, behind):
    monkeypatch.setenv("RADRM_CAPTURE_LIBRARY", LIBRARY)
    body = SCRIPT.replace("WHEN", "" if behind else "tell()").replace("BEHIND", "tell()" if behind else "")
    code, said, _ = capture(body, here, options=["--in-place"])
    assert code == 0, said
    found, refused = json.loads((tmp_path / "told").read_text()), "a capture tells nobody anything"
    assert found.pop("get") == found.pop("hub") == "sent" and found.pop("here") == found.pop("program here") == "heard"
    assert refused not in found.pop("mail here") and found.pop("again") and found.pop("slept")
    assert (refused in found.pop("mail")) == behind and (found.pop("program") == "ENETDOWN") == behind
    assert (found.pop("all") == "ENETDOWN") == (found.pop("group") == "ENETDOWN") == behind
    assert set(found) == {"post", "put", "post to all"} and set(found.values()) == {refused if behind else "sent"}
    assert ("hooks.example was not told anything (POST)" in said) == behind, said
