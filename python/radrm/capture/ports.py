# SPDX-License-Identifier: MIT
"""A capture may be made while the script itself runs (decision 246), or another capture is made: each would listen at the same port, and
whoever comes second ends in an error. So a capture's sockets listen at ports that are free, and its own clients find them there, and those
of programs that it starts. In a process that the script starts a port is the one that was wanted."""
import functools
import ipaddress
import os
import socket

FAMILIES = (socket.AF_INET, socket.AF_INET6)
PORTS = "RADRM_CAPTURE_PORTS"  # src/cli/capture_hook.c
given = {}  # (kind of socket, port that it wanted) -> the one that it has


def preload(library):
    """Has programs that are started from now on load libradcapture.so. Whether they will."""
    if not library or set(library) & set(" :"):  # which LD_PRELOAD cannot have
        return False
    others = [one for one in os.environ.get("LD_PRELOAD", "").split(os.pathsep) if one not in ("", library)]
    os.environ["LD_PRELOAD"] = os.pathsep.join([library, *others])
    return True


def is_here(host, bind=socket.socket.bind, connect=socket.socket.connect):
    """Whether that is this machine: by its name, or since one can speak to oneself from that address, which sends nothing. To bind alone
    may be done to those of a whole network, too, and to anybody's where the machine is set up so (ip_nonlocal_bind)."""
    try:
        at = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host in ("", "localhost", socket.gethostname())
    if at.is_multicast:
        return False
    try:
        with socket.socket(socket.AF_INET6 if at.version == 6 else socket.AF_INET, socket.SOCK_DGRAM) as one:
            bind(one, (str(at), 0))
            connect(one, (str(at), 0))
    except OSError:
        return at.is_loopback or at.is_unspecified
    return True


def names_port(own, address):
    return own.family in FAMILIES and isinstance(address, tuple) and len(address) >= 2 and isinstance(address[1], int) and address[1] > 0


def with_port(address, port):
    return (address[0], port, *address[2:])


def binding(real, library):
    process = os.getpid()

    @functools.wraps(real)
    def bind(self, address):
        if not names_port(self, address) or os.getpid() != process:
            return real(self, address)
        wanted = self.type, address[1]  # of the other family, too: asyncio and Tornado listen at both
        real(self, with_port(address, given.get(wanted, 0)))
        given[wanted] = self.getsockname()[1]
        if self.type == socket.SOCK_STREAM and preload(library):
            os.environ[PORTS] = " ".join(f"{port}>{own}" for (kind, port), own in given.items() if kind == self.type)
    return bind


def is_free(own, address, bind=socket.socket.bind):
    """Whether nobody listens there any more: who only asked whether the port is free has a program listen at it."""
    with socket.socket(own.family, own.type) as one:
        if own.type == socket.SOCK_STREAM:  # or it is not, as long as the last connections are remembered
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bind(one, address)
        except OSError:
            return False
    return True


def found(own, address):
    """That address, as the capture's own clients are to see it."""
    if names_port(own, address) and isinstance(address[0], str) and is_here(address[0]):
        port = given.get((own.type, address[1]))
        there = with_port(address, port)
        return there if port and not is_free(own, there) else address
    return address


def connecting(real):
    @functools.wraps(real)
    def connect(self, address):
        return real(self, found(self, address))
    return connect


def sending(real):
    @functools.wraps(real)
    def sendto(self, data, *flags_and_address):
        return real(self, data, *flags_and_address[:-1], *(found(self, address) for address in flags_and_address[-1:]))
    return sendto


def install(library=None):
    """In the process that is the capture, for good. `library`: libradcapture.so."""
    socket.socket.bind = binding(socket.socket.bind, library)
    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, connecting(getattr(socket.socket, name)))
    socket.socket.sendto = sending(socket.socket.sendto)
