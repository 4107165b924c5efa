# SPDX-License-Identifier: MIT
"""Writes the weights file (doc/gpumemnet-format.md), which src/estimate/net_read.c reads."""
import struct
import zlib

import numpy

VERSION = 1
LANES = 4
FAMILIES = {"mlp": 0, "cnn": 1, "transformer": 2}


def _floats(values):
    return numpy.ascontiguousarray(values.detach().numpy() if hasattr(values, "detach") else values, "<f4").tobytes()


def _matrix(weights, bias):
    """Input by input, rows padded with zeros; then the biases, padded as well."""
    out, inputs = weights.shape
    rows = numpy.zeros((inputs + 1, -(-out // LANES) * LANES), "<f4")
    rows[:-1, :out], rows[-1, :out] = weights.detach().numpy().T, bias.detach().numpy()
    return rows.tobytes()


def _linear(module):
    return _matrix(module.weight, module.bias)


def _norm(module):
    return _floats(module.weight) + _floats(module.bias)


def _member(perceptron):
    layers = perceptron.folded()
    return struct.pack(f"<{1 + len(layers)}I", len(layers), *(len(bias) for _, bias in layers)) + b"".join(
        _matrix(w, b) for w, b in layers)


def _encoder(net):
    blocks = (b"".join((_norm(b.norm1), _linear(b.qkv), _linear(b.out), _norm(b.norm2), _linear(b.up), _linear(b.down)))
              for b in net.blocks)
    return b"".join((_floats(net.mean), _floats(net.scale), _linear(net.embed), *blocks, _norm(net.norm), _linear(net.hidden),
                     _linear(net.head)))


def _section(family, of):
    """`of`: ensemble and encoder as jobs.ours() returns them (either may be None), share (of the encoder)."""
    about = of["ensemble"] or of["encoder"]
    members = of["ensemble"]["net"].members if of["ensemble"] else ()
    encoder = of["encoder"]["net"] if of["encoder"] else None
    body = b"".join(_floats(about[k]) for k in ("low", "high", "mean", "scale", "edges")) + b"".join(_member(m) for m in members)
    sizes = (0,) * 5
    if encoder:
        body += _encoder(encoder)
        first = encoder.blocks[0]
        sizes = (len(encoder.blocks), encoder.embed.out_features, first.heads, first.up.out_features, encoder.hidden.out_features)
    head = struct.pack("<9If", FAMILIES[family], 40 + len(body), len(about["edges"]) - 1, len(members), *sizes, of["share"])
    return head + body


def file_of(nets, card, stack, tokens, token):
    """The bytes; `nets`: family -> what _section() takes."""
    body = b"".join(_section(family, of) for family, of in nets.items())
    inputs = len(next(iter(nets.values()))["ensemble"]["low"])
    head = struct.pack("<8sIIIIII32s64s", b"RADNET\r\n", VERSION, 128 + len(body) + 4, inputs, tokens, token, len(nets),
                       card.encode()[:31], stack.encode()[:63])
    whole = head + body
    return whole + struct.pack("<I", zlib.crc32(whole))
