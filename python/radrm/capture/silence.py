# SPDX-License-Identifier: MIT
"""Once enough was seen of a script's steps it tells nobody anything: what comes behind them (the evaluation, the message that it is done,
the copy in a bucket) is run for its memory alone, and its results are made up. Downloads go on: HTTP's GET and HEAD. Anything
else is refused as by a network that is down, which is an error that scripts know: other requests, mails, and whatever programs that are
started then want of other machines. Connections that are open by then stay."""
import errno
import functools
import os
import threading
from urllib.parse import urlsplit

from .ports import is_here, preload

ASKING = {"GET", "HEAD", "OPTIONS", "CONNECT"}
HUBS = {"huggingface.co", "hf.co"}  # are asked by POST which files there are; trackers.py has nothing pushed there
SILENT = "RADRM_CAPTURE_SILENT"  # src/cli/capture_hook.c


def is_hub(host):
    return bool({host, host.partition(".")[2]} & {*HUBS, urlsplit(os.environ.get("HF_ENDPOINT", "")).hostname})


class Silence:
    """`begun`: nobody is told anything any more. `note`: told of each other machine that would have been."""

    def __init__(self, note):
        self.begun, self.note, self.hosts = False, note, set()
        self.library = None  # libradcapture.so
        self.own = threading.local()  # `refused`: the thread was just told that there is no network

    def begin(self):
        """Programs that are started from now on reach no other machine; those that make system calls by themselves do (Go's)."""
        if not self.begun and preload(self.library):
            os.environ[SILENT] = "1"
        self.begun = True

    def refuses(self, what, host):
        """Whether the script is to be told that there is no network."""
        host = (host or "").lower()
        if not self.begun or what in ASKING or is_here(host) or is_hub(host):
            return False
        if host not in self.hosts:
            self.hosts.add(host)
            self.note(f"{host} was not told anything ({what}): what a capture would tell is made up")
        return True

    def refuse(self, what, host, error=functools.partial(OSError, errno.ENETDOWN)):
        if self.refuses(what, host):
            self.own.refused = True
            raise error("a capture tells nobody anything")

    def waits(self, real_sleep):
        """time.sleep: whoever was refused tries again after a while (urllib3, botocore, loops of a script), which would be in vain."""
        @functools.wraps(real_sleep)
        def sleep(seconds):
            refused, self.own.refused = getattr(self.own, "refused", False), False
            real_sleep(0 if refused and seconds > 0 else seconds)
        return sleep

    def after(self):
        """{module: what is done once it is imported}, as imports.Imports takes it."""
        def http(module):
            def put(real):
                @functools.wraps(real)
                def putrequest(connection, method, url, *args, **kwargs):
                    self.refuse(method, urlsplit(url).hostname or getattr(connection, "_tunnel_host", None) or connection.host)
                    return real(connection, method, url, *args, **kwargs)
                return putrequest
            module.HTTPConnection.putrequest = put(module.HTTPConnection.putrequest)

        def mail(module):
            def connecting(real):
                @functools.wraps(real)
                def connect(server, host="localhost", *args, **kwargs):
                    self.refuse("mail", host)
                    return real(server, host, *args, **kwargs)
                return connect
            module.SMTP.connect = connecting(module.SMTP.connect)

        def httpx(module):
            def sending(real):
                @functools.wraps(real)
                def send(client, request, *args, **kwargs):
                    self.refuse(request.method, request.url.host, module.ConnectError)
                    return real(client, request, *args, **kwargs)
                return send
            for kind in (module.Client, module.AsyncClient):
                kind.send = sending(kind.send)

        def aiohttp(module):
            def requesting(real):
                @functools.wraps(real)
                async def request(session, method, url, *args, **kwargs):
                    self.refuse(method.upper(), session._build_url(url).host, module.ClientConnectionError)
                    return await real(session, method, url, *args, **kwargs)
                return request
            module.ClientSession._request = requesting(module.ClientSession._request)
        return {"http.client": http, "smtplib": mail, "httpx": httpx, "aiohttp.client": aiohttp}
