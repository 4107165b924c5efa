# SPDX-License-Identifier: MIT
# A page in a headless Chromium:  browser.py CHROMIUM PROFILE URL WIDTH STEP...
# Each step is an expression, which is asked again until it is true (60 s at most), and whose value is printed as JSON; "shot:FILE" takes
# a picture, "width:N" makes the window so wide, "go:URL" goes elsewhere, "dark" is as it says, "grey" takes the colours away.
# At the end what the page complained about (console, errors, requests that left its origin) is printed as "complaint: ...".
# Speaks the DevTools protocol over a pipe, so it needs no package.
import base64, json, os, subprocess, sys, time
from urllib.parse import urlsplit


class Browser:
    def __init__(self, program, profile):
        to_browser, from_us = os.pipe()
        to_us, from_browser = os.pipe()

        def pipes():
            # To numbers that are free first: what the pipes have may be 3 and 4 already, the wrong way round.
            a, b = os.dup2(to_browser, 63), os.dup2(from_browser, 62)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             "--user-data-dir=" + profile, "--no-first-run", "--disable-background-networking", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": os.path.dirname(profile)})     # it leaves a folder there when it is killed
        os.close(to_browser)
        os.close(from_browser)
        self.out, self.into, self.rest, self.n, self.events = from_us, to_us, b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.n:
                if "error" in answer:
                    sys.exit(f"browser: {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def read(self):
        while b"\0" not in self.rest:
            got = os.read(self.into, 1 << 20)
            if not got:
                sys.exit("browser: it ended")
            self.rest += got
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return None if "exceptionDetails" in result else result["result"].get("value")

    def wait(self, expression):
        until = time.monotonic() + 60
        while not (value := self.value(expression)):
            if time.monotonic() > until:
                sys.exit(f"browser: never true: {expression}\n{self.value('document.body.innerText')}")
            time.sleep(0.05)
        return value

    def resize(self, width):
        self.width = width
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)

    def complaints(self, origin):
        for e in self.events:
            p = e.get("params", {})
            if e.get("method") == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                yield p["entry"]["text"] + " " + p["entry"].get("url", "")
            elif e.get("method") == "Runtime.exceptionThrown":
                yield p["exceptionDetails"].get("exception", {}).get("description", "exception")
            elif e.get("method") == "Runtime.consoleAPICalled":
                yield "console: " + json.dumps(p["args"])
            elif e.get("method") == "Network.requestWillBeSent":
                url = p["request"]["url"]
                if not url.startswith((origin, "data:", "about:")):
                    yield "asked elsewhere: " + url


def main(program, profile, url, width, *steps):
    browser = Browser(program, profile)
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.call(domain + ".enable")
    browser.resize(int(width))
    browser.call("Page.navigate", url=url)
    for step in steps:
        if step.startswith("shot:"):
            size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
            picture = browser.call("Page.captureScreenshot", captureBeyondViewport=True,
                                   clip={"x": 0, "y": 0, "width": browser.width, "height": min(size["height"], 3000), "scale": 1})
            with open(step[5:], "wb") as f:
                f.write(base64.b64decode(picture["data"]))
        elif step.startswith("width:"):
            browser.resize(int(step[6:]))
        elif step.startswith("go:"):
            browser.call("Page.navigate", url=step[3:])
        elif step == "grey":
            browser.call("Emulation.setEmulatedVisionDeficiency", type="achromatopsia")
        elif step == "dark":
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        else:
            print(json.dumps(browser.wait(step)), flush=True)
    parts = urlsplit(url)
    for text in browser.complaints(f"{parts.scheme}://{parts.netloc}"):
        print("complaint:", text)
    browser.process.kill()
    browser.process.wait()


main(*sys.argv[1:])
