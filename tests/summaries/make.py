#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the summaries in this folder, and beside each a JSON with what is true of its model.

    make.py           needs torch, torchinfo and torchsummary; transformers for the language models
    make.py keras     needs keras (any backend)

Parameters are summed over the model's own list. Activations are the elements that forward hooks see leave the layers: modules
without children, or with parameters of their own that no module inside them holds too; what only hands its input on
(Identity, Flatten) is left out. `tolerance`: how far the activations of a printed module, which shows no shapes, may be off.
"""
import contextlib
import io
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def save(name, text, **truth):
    with open(os.path.join(HERE, name + ".txt"), "w") as f:
        f.write(text.rstrip("\n") + "\n")
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        json.dump(truth, f)
        f.write("\n")


def torch_models():
    import torch
    from torch import nn

    class Basic(nn.Module):
        def __init__(self, cin, cout, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(cout)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(cout)
            self.downsample = None
            if stride != 1 or cin != cout:
                self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(y + (self.downsample(x) if self.downsample else x))

    class Residual(nn.Module):
        """As ResNets: one ReLU called twice in each block."""
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 16, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(16)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            self.layer1 = nn.Sequential(Basic(16, 16, 1), Basic(16, 16, 1))
            self.layer2 = nn.Sequential(Basic(16, 32, 2), Basic(32, 32, 1))
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(32, 10)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            return self.fc(torch.flatten(self.avgpool(self.layer2(self.layer1(x))), 1))

    class Vgg(nn.Module):
        def __init__(self):
            super().__init__()
            layers, cin = [], 3
            for cout in (16, "M", 32, 32, "M"):
                layers += [nn.MaxPool2d(2, 2)] if cout == "M" else [nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(True)]
                cin = cin if cout == "M" else cout
            self.features = nn.Sequential(*layers)
            self.classifier = nn.Sequential(nn.Linear(32 * 16 * 16, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 10))

        def forward(self, x):
            return self.classifier(torch.flatten(self.features(x), 1))

    class DenseLayer(nn.Module):
        def __init__(self, cin):
            super().__init__()
            self.norm1, self.relu1, self.conv1 = nn.BatchNorm2d(cin), nn.ReLU(), nn.Conv2d(cin, 32, 1, bias=False)
            self.norm2, self.relu2, self.conv2 = nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 8, 3, padding=1, bias=False)

        def forward(self, x):
            return torch.cat((x, self.conv2(self.relu2(self.norm2(self.conv1(self.relu1(self.norm1(x))))))), 1)

    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 16, 3, 2, 1)
            self.block1 = nn.Sequential(DenseLayer(16), DenseLayer(24), DenseLayer(32))
            self.transition = nn.Sequential(nn.BatchNorm2d(40), nn.ReLU(), nn.Conv2d(40, 20, 1), nn.AvgPool2d(2, 2))
            self.block2 = nn.Sequential(DenseLayer(20), DenseLayer(28))
            self.norm = nn.BatchNorm2d(36)
            self.classifier = nn.Linear(36, 10)

        def forward(self, x):
            x = self.norm(self.block2(self.transition(self.block1(self.stem(x)))))
            return self.classifier(x.relu().mean((2, 3)))

    class BasicConv2d(nn.Module):
        def __init__(self, cin, cout, **more):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(cin, cout, bias=False, **more), nn.BatchNorm2d(cout)

        def forward(self, x):
            return self.bn(self.conv(x)).relu()

    class Mixed(nn.Module):
        def __init__(self, cin, stride=1):
            super().__init__()
            self.branch1x1 = BasicConv2d(cin, 8, kernel_size=1, stride=stride)
            self.branch5x5_1 = BasicConv2d(cin, 6, kernel_size=1)
            self.branch5x5_2 = BasicConv2d(6, 8, kernel_size=5, padding=2, stride=stride)
            self.branch_pool = BasicConv2d(cin, 4, kernel_size=1, stride=stride)

        def forward(self, x):
            return torch.cat((self.branch1x1(x), self.branch5x5_2(self.branch5x5_1(x)), self.branch_pool(x)), 1)

    class Inception(nn.Module):
        def __init__(self):
            super().__init__()
            self.Conv2d_1a = BasicConv2d(3, 12, kernel_size=3, stride=2)
            self.maxpool = nn.MaxPool2d(3, 2)
            self.Mixed_5b, self.Mixed_5c, self.Mixed_6a = Mixed(12), Mixed(20), Mixed(20, 2)
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(20, 10)

        def forward(self, x):
            x = self.Mixed_6a(self.Mixed_5c(self.Mixed_5b(self.maxpool(self.Conv2d_1a(x)))))
            return self.fc(self.avgpool(x).flatten(1))

    class SqueezeExcite(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.pool, self.down, self.act = nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, 4, 1), nn.ReLU()
            self.up, self.gate = nn.Conv2d(4, c, 1), nn.Sigmoid()

        def forward(self, x):
            return x * self.gate(self.up(self.act(self.down(self.pool(x)))))

    class Mobile(nn.Module):
        """Depthwise convolutions and gates."""
        def __init__(self):
            super().__init__()
            def block(c, stride):
                return nn.Sequential(nn.Conv2d(c, 2 * c, 1, bias=False), nn.BatchNorm2d(2 * c), nn.SiLU(),
                                     nn.Conv2d(2 * c, 2 * c, 3, stride, 1, groups=2 * c, bias=False), nn.BatchNorm2d(2 * c),
                                     nn.SiLU(), SqueezeExcite(2 * c), nn.Conv2d(2 * c, c, 1, bias=False), nn.BatchNorm2d(c))
            self.stem = nn.Conv2d(3, 8, 3, 2, 1)
            self.blocks = nn.ModuleList([block(8, 1), block(8, 2), block(8, 1)])
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.head = nn.Linear(8, 10)

        def forward(self, x):
            x = self.stem(x)
            for b in self.blocks:
                x = b(x)
            return self.head(self.pool(x).flatten(1))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            def double(cin, cout):
                return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(), nn.Conv2d(cout, cout, 3, padding=1), nn.ReLU())
            self.down1 = double(3, 8)
            self.down2 = nn.Sequential(nn.MaxPool2d(2), double(8, 16))
            self.middle = nn.Sequential(nn.MaxPool2d(2), double(16, 32))
            self.up2, self.conv2 = nn.ConvTranspose2d(32, 16, 2, 2), double(32, 16)
            self.up1, self.conv1 = nn.ConvTranspose2d(16, 8, 2, 2), double(16, 8)
            self.out = nn.Conv2d(8, 2, 1)

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(a)
            x = self.middle(b)
            x = self.conv2(torch.cat((self.up2(x), b), 1))
            return self.out(self.conv1(torch.cat((self.up1(x), a), 1)))

    class Mlp(nn.Module):
        """One activation function, called after every layer but the last."""
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2, self.fc3, self.relu = nn.Linear(784, 256), nn.Linear(256, 64), nn.Linear(64, 10), nn.ReLU()

        def forward(self, x):
            return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x)))))

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(5000, 64)
            self.lstm = nn.LSTM(64, 96, num_layers=2, batch_first=True, bidirectional=True)
            self.decoder = nn.Linear(192, 5000)

        def forward(self, x):
            return self.decoder(self.lstm(self.embedding(x))[0])

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(1000, 64)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 3)
            self.output = nn.Linear(64, 7)

        def forward(self, x):
            return self.output(self.encoder(self.embed(x)))

    image, digits, words = torch.zeros(2, 3, 64, 64), torch.zeros(2, 784), torch.zeros(2, 48, dtype=torch.long)
    yield "residual", Residual(), image, 0
    yield "vgg", Vgg(), image, 0
    yield "dense", Dense(), image, 0
    yield "inception", Inception(), image, 0
    yield "mobile", Mobile(), image, 0
    yield "unet", UNet(), image, 0
    yield "mlp", Mlp(), digits, 0
    yield "mlp-plain", nn.Sequential(nn.Linear(784, 128), nn.Tanh(), nn.Dropout(0.5), nn.Linear(128, 10)), digits, 0
    yield "lstm", Lstm(), words, 0
    yield "encoder", Encoder(), words, 0.02


def language_models():
    import torch
    import transformers as t
    small = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256, vocab_size=3000)
    words = torch.zeros(2, 48, dtype=torch.long)
    yield "bert", t.BertForMaskedLM(t.BertConfig(**small)), words, 0.02
    yield "bert-classifier", t.BertForSequenceClassification(t.BertConfig(**small)), words, 0.02
    yield "gpt2", t.GPT2LMHeadModel(t.GPT2Config(n_embd=64, n_layer=3, n_head=4, vocab_size=3000)), words, 0.02
    yield "llama", t.LlamaForCausalLM(t.LlamaConfig(num_key_value_heads=2, **small)), words, 0.06
    yield "t5", t.T5ForConditionalGeneration(t.T5Config(d_model=64, d_kv=16, d_ff=256, num_layers=2, num_heads=4,
                                                        vocab_size=3000)), words, 0.15


def truth_of(model, x, two=False):
    import torch
    from torch import nn
    inside = {}
    for m in model.modules():
        inside[m] = {id(p) for c in m.children() for p in c.parameters()}
    seen = []

    def hook(m, _, out):
        while isinstance(out, (tuple, list)):
            out = out[0]
        if hasattr(out, "numel"):
            seen.append(out.numel() / x.shape[0])

    hooks = [m.register_forward_hook(hook) for m in model.modules()
             if not isinstance(m, (nn.Identity, nn.Flatten)) and
             (not list(m.children()) or any(id(p) not in inside[m] for p in m.parameters(recurse=False)))]
    model.train()
    with torch.no_grad():
        model(x, None, x) if two else model(x)
    for h in hooks:
        h.remove()
    return dict(params=sum(p.numel() for p in model.parameters()), activations=round(sum(seen)))


def counted(module, name=None, depth=0):
    """The usual way to print a model with its parameters: a parent's figure includes its children's."""
    n = sum(p.numel() for p in module.parameters())
    head = "  " * depth + (f"({name}): " if name is not None else "") + type(module).__name__ + "("
    children = list(module.named_children())
    if not children:
        return f"{head}{module.extra_repr()}), {n:,} params\n"
    return head + "\n" + "".join(counted(c, k, depth + 1) for k, c in children) + "  " * depth + f"), {n:,} params\n"


def write_torch():
    import torch
    import torchinfo
    import torchsummary
    torch.manual_seed(0)
    for name, model, x, tolerance in torch_models():
        about = dict(truth_of(model, x), tolerance=tolerance)
        if x.dtype == torch.long:
            about["seq_len"] = x.shape[1]
        elif x.dim() == 4:
            about["input"] = list(x.shape[1:])
        save(name + "-printed", str(model), format="modules", **about)
        table = dict(params=about["params"], activations=about["activations"], tolerance=0)
        quiet = dict(input_data=x, verbose=0)
        save(name + "-torchinfo", str(torchinfo.summary(model, depth=9, **quiet)), format="torchinfo", batch=2, **table)
        if name == "residual":
            save("residual-counted", counted(model), format="modules", **about)
            columns = ("input_size", "output_size", "num_params", "params_percent", "kernel_size", "mult_adds", "trainable")
            save("residual-torchinfo-columns", str(torchinfo.summary(model, depth=9, col_names=columns, **quiet)),
                 format="torchinfo", batch=2, **table)
            save("residual-torchinfo-names", str(torchinfo.summary(model, depth=9, row_settings=("var_names",), **quiet)),
                 format="torchinfo", batch=2, **table)
            save("residual-torchinfo-ascii", str(torchinfo.summary(model, depth=9, row_settings=("ascii_only", "depth"), **quiet)),
                 format="torchinfo", batch=2, **table)
            save("residual-torchinfo-shallow", str(torchinfo.summary(model, depth=1, **quiet)), format="torchinfo", batch=2,
                 **dict(table, tolerance=0.4))
            save("residual-torchinfo-noinput", str(torchinfo.summary(model, verbose=0, depth=9)), format="torchinfo",
                 params=about["params"])
        if x.dtype != torch.long and name != "dense":
            for batch in (-1, 16) if name == "residual" else (-1,):
                text = io.StringIO()
                with contextlib.redirect_stdout(text):
                    torchsummary.summary(model, tuple(x.shape[1:]), batch_size=batch, device="cpu")
                save(name + "-torchsummary" + ("" if batch < 0 else "-batch"), text.getvalue(), format="torchsummary",
                     **dict(table, batch=max(batch, 0)))


def write_language():
    for name, model, x, tolerance in language_models():
        about = dict(truth_of(model, x, two=name == "t5"), tolerance=tolerance, seq_len=x.shape[1])
        save(name + "-printed", str(model), format="modules", **about)
        if name in ("bert", "gpt2"):
            save(name + "-counted", counted(model), format="modules", **about)


def write_keras():
    import keras
    from keras import layers as L

    def outputs(model):
        n = 0
        for layer in model.layers:
            if isinstance(layer, keras.Model):
                n += outputs(layer)
            elif not isinstance(layer, (L.InputLayer, L.Flatten)):
                size = 1
                for d in layer.output.shape[1:]:
                    size *= d
                n += size
        return n

    def write(name, model, **options):
        text = io.StringIO()
        model.summary(print_fn=lambda line, **_: text.write(line + "\n"), **options)
        save(name, text.getvalue(), format="keras", params=model.count_params(), activations=outputs(model), tolerance=0)

    write("keras3-sequential", keras.Sequential([
        L.Input((28, 28, 1)), L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Conv2D(64, 3), L.BatchNormalization(),
        L.Activation("relu"), L.GlobalAveragePooling2D(), L.Dropout(0.5), L.Dense(10)]))
    i = L.Input((64, 64, 3))
    x = L.Conv2D(32, 3, padding="same", name="a_rather_long_name_of_a_layer")(i)
    for _ in range(2):
        x = L.Add()([x, L.LeakyReLU()(L.SeparableConv2D(32, 3, padding="same")(x))])
    write("keras3-functional", keras.Model(i, L.Dense(10)(L.Flatten()(L.Concatenate()([x, i])))))
    base = keras.Sequential([L.Input((32, 32, 3)), L.Conv2D(8, 3), L.ReLU()], name="base")
    write("keras3-nested", keras.Sequential([L.Input((32, 32, 3)), base, L.GlobalMaxPooling2D(), L.Dense(2)]), expand_nested=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["keras"]:
        write_keras()
    else:
        write_torch()
        with contextlib.suppress(ImportError):
            write_language()
