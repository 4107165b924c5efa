# SPDX-License-Identifier: MIT
"""The architectures of the memory evaluation: real ones from torchvision and transformers, made from their configurations
(nothing is downloaded), and a few common ones written out here. What jobs.py trains."""

import contextlib
import importlib

import torch
import torch.nn.functional as F
from torch import nn

WORDS = 32000  # vocabulary of the models written here


class Mlp(nn.Module):
    def __init__(self, width, depth, inputs=3072, classes=100):
        super().__init__()
        layers = [nn.Linear(inputs, width), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1)]
        self.body = nn.Sequential(*layers, nn.Linear(width, classes))

    def forward(self, x):
        return self.body(x.flatten(1))


class Dlrm(nn.Module):
    """A recommendation model: one embedding bag a category, pairwise products, two MLPs."""

    def __init__(self, rows, width, bags=26, dense=13):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(bags))
        self.bottom = nn.Sequential(
            nn.Linear(dense, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU()
        )
        pairs = (bags + 1) * bags // 2
        self.top = nn.Sequential(
            nn.Linear(width + pairs, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)
        )
        self.register_buffer("upper", torch.triu_indices(bags + 1, bags + 1, 1), persistent=False)

    def forward(self, dense, ids):
        x = self.bottom(dense)
        every = torch.stack([x] + [bag(ids[:, i]) for i, bag in enumerate(self.bags)], 1)
        products = torch.bmm(every, every.transpose(1, 2))[:, self.upper[0], self.upper[1]]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


class Recurrent(nn.Module):
    """A language model of LSTM or GRU layers."""

    def __init__(self, kind, width, layers, tied=False):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.body = kind(width, width, layers, batch_first=True, dropout=0.2)
        self.head = nn.Linear(width, WORDS)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.body(self.embed(ids))[0])


class Translator(nn.Module):
    """torch.nn.Transformer as tutorials use it."""

    def __init__(self, width=512, heads=8, layers=6):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        self.body = nn.Transformer(width, heads, layers, layers, 4 * width, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=ids.device)
        return self.head(self.body(self.source(ids), self.target(ids), tgt_mask=mask, tgt_is_causal=True))


def double(before, after):
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
        nn.Conv2d(after, after, 3, padding=1),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    )


class Unet(nn.Module):
    def __init__(self, width=64, depth=4, bilinear=False, classes=21):
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        self.first = double(3, width)
        self.down = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), double(a, b)) for a, b in zip(widths, widths[1:]))
        self.grow = nn.ModuleList(
            (
                nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(b, a, 1))
                if bilinear
                else nn.ConvTranspose2d(b, a, 2, 2)
            )
            for a, b in reversed(list(zip(widths, widths[1:])))
        )
        self.up = nn.ModuleList(double(2 * a, a) for a in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for grow, up in zip(self.grow, self.up):
            x = up(torch.cat([kept.pop(), grow(x)], 1))
        return self.head(x)


# --- where models come from ---


def vision(name, **options):
    return lambda size: getattr(importlib.import_module("torchvision.models"), name)(weights=None, **options)


def sized(name, **options):
    """torchvision's vision transformers are made for one size of image."""
    return lambda size: getattr(importlib.import_module("torchvision.models"), name)(weights=None, image_size=size, **options)


def deit(size):
    from torchvision.models import VisionTransformer

    return VisionTransformer(image_size=size, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536)


def maxvit(size):
    from torchvision.models import maxvit_t

    return maxvit_t(weights=None, input_size=(size, size))


def segmentation(name, auxiliary=True):
    options = {"aux_loss": True} if auxiliary else {}
    return lambda size: getattr(importlib.import_module("torchvision.models.segmentation"), name)(
        weights=None, weights_backbone=None, num_classes=21, **options
    )


def hugging(model, config, **options):
    def make(size):
        transformers = importlib.import_module("transformers")
        return getattr(transformers, model)(getattr(transformers, config)(**options))

    return make


HUGGING = "bert roberta distilbert albert electra gpt2 gpt_neo opt xlnet t5 bart llama qwen2 mistral gpt_neox bloom phi".split()


def preload():
    """Imports all that models come from; no model is made, and CUDA is not started, not even to count devices: a process that
    did cannot be copied."""
    real = getattr(torch._C, "_cuda_getDeviceCount", None)
    if real:  # a build for the CPU has nothing to start
        torch._C._cuda_getDeviceCount = lambda: 1
    try:
        _preload()
    finally:
        if real:
            torch._C._cuda_getDeviceCount = real
    if torch.cuda.is_initialized():
        print("an import has started CUDA", flush=True)


def _preload():
    for name in (
        "torchvision.models",
        "torchvision.models.segmentation",
        "torch.utils.checkpoint",
        "transformers",
        *(f"transformers.models.{n}.modeling_{n}" for n in HUGGING),
    ):
        try:
            importlib.import_module(name)
        except Exception as e:
            print(f"{name}: {type(e).__name__}: {e}", flush=True)


RANDOM = (
    "uniform_",
    "normal_",
    "trunc_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
)


@contextlib.contextmanager
def unfilled():
    """Random initialisation on the CPU takes longer than all the rest: fill() does it on the GPU, in place."""
    tables = [torch.nn.init.__dict__]
    try:
        tables.append(importlib.import_module("transformers.initialization").TORCH_INIT_FUNCTIONS)
    except Exception:
        pass
    kept = [dict(table) for table in tables]
    for table in tables:
        for name in RANDOM:
            if name in table:
                table[name] = lambda tensor, *args, **options: tensor
    try:
        yield
    finally:
        for table, old in zip(tables, kept):
            table.update({name: old[name] for name in RANDOM if name in old})


def fill(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.normal_(0, 0.02)
            elif name.endswith("bias"):
                p.zero_()


# --- batches and losses, by kind of model ---


def images(batch, size, where):
    return torch.rand(batch, 3, size, size, device=where), torch.randint(100, (batch,), device=where)


def pixels(batch, size, where):
    return torch.rand(batch, 3, size, size, device=where), torch.randint(21, (batch, size, size), device=where)


def tokens(batch, size, where):
    return (torch.randint(1000, (batch, size), device=where),)


def masked_tokens(batch, size, where):
    return torch.randint(1000, (batch, size), device=where), torch.ones(batch, size, dtype=torch.long, device=where)


def clicks(batch, size, where):
    return (
        torch.rand(batch, 13, device=where),
        torch.randint(10000, (batch, 26, size), device=where),
        torch.rand(batch, device=where).round(),
    )


def classify(model, x, y):
    out = model(x)
    if not isinstance(out, torch.Tensor):  # with auxiliary classifiers
        return F.cross_entropy(out[0], y) + 0.3 * sum(F.cross_entropy(o, y) for o in out[1:])
    return F.cross_entropy(out, y)


def segment(model, x, y):
    out = model(x)
    if isinstance(out, dict):
        return F.cross_entropy(out["out"], y) + (0.5 * F.cross_entropy(out["aux"], y) if "aux" in out else 0)
    return F.cross_entropy(out, y)


def language(model, ids):
    return model(input_ids=ids, labels=ids).loss


def masked_language(model, ids, mask):
    return model(input_ids=ids, attention_mask=mask, labels=ids).loss


def labelled(model, ids):
    return model(input_ids=ids, labels=ids[:, 0].remainder(2)).loss


def next_word(model, ids):
    logits = model(ids)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids.reshape(-1))


def click(model, dense, ids, y):
    return F.binary_cross_entropy_with_logits(model(dense, ids), y.to(dense.dtype))


class Arch:
    """One architecture. `size`: side of the image, or length of the sequence; `mib`: about what one sample takes in fp32,
    `fixed`: about what parameters, gradients and state take with Adam, MiB; both for choosing batches, never for an estimate.
    `blocks`: classes whose calls are checkpointed; "" where the model has a switch of its own; None: never."""

    def __init__(self, family, make, batch, loss, size, mib, fixed=0, blocks=None, conv=False, count=6):
        self.family, self.make, self.batch, self.loss, self.size = family, make, batch, loss, size
        self.mib, self.fixed, self.blocks, self.conv, self.count = mib, fixed, blocks, conv, count


def cnn(family, name, mib, fixed, size=224, blocks=None, make=None, count=6, **options):
    return Arch(family, make or vision(name, **options), images, classify, size, mib, fixed, blocks, True, count)


def hf(family, make, size, mib, fixed, loss=language, batch=tokens, blocks="", count=6):
    return Arch(family, make, batch, loss, size, mib, fixed, blocks, count=count)


ARCHS = {
    "resnet18": cnn("resnet", "resnet18", 40, 180, blocks=("BasicBlock",)),
    "resnet34": cnn("resnet", "resnet34", 60, 340, blocks=("BasicBlock",)),
    "resnet50": cnn("resnet", "resnet50", 95, 400, blocks=("Bottleneck",)),
    "resnet101": cnn("resnet", "resnet101", 145, 700, blocks=("Bottleneck",)),
    "wide_resnet50_2": cnn("resnet", "wide_resnet50_2", 135, 1050, blocks=("Bottleneck",)),
    "resnext50_32x4d": cnn("resnet", "resnext50_32x4d", 115, 400, blocks=("Bottleneck",)),
    "alexnet": cnn("vgg", "alexnet", 6, 930),
    "vgg11": cnn("vgg", "vgg11", 75, 2030),
    "vgg16": cnn("vgg", "vgg16", 130, 2110),
    "vgg16_bn": cnn("vgg", "vgg16_bn", 215, 2110),
    "vgg19": cnn("vgg", "vgg19", 140, 2190),
    "densenet121": cnn("densenet", "densenet121", 140, 130),
    "densenet169": cnn("densenet", "densenet169", 170, 220),
    "mobilenet_v2": cnn("mobile", "mobilenet_v2", 80, 55, blocks=("InvertedResidual",)),
    "mobilenet_v3_large": cnn("mobile", "mobilenet_v3_large", 60, 85),
    "mobilenet_v3_small": cnn("mobile", "mobilenet_v3_small", 20, 40),
    "mnasnet1_0": cnn("mobile", "mnasnet1_0", 80, 70),
    "shufflenet_v2_x1_0": cnn("mobile", "shufflenet_v2_x1_0", 30, 36),
    "squeezenet1_1": cnn("squeezenet", "squeezenet1_1", 35, 20),
    "efficientnet_b0": cnn("efficientnet", "efficientnet_b0", 95, 80, blocks=("MBConv",)),
    "efficientnet_b3": cnn("efficientnet", "efficientnet_b3", 320, 190, size=300),
    "efficientnet_v2_s": cnn("efficientnet", "efficientnet_v2_s", 150, 330),
    "inception_v3": cnn("inception", "inception_v3", 160, 420, size=299, init_weights=False),
    "googlenet": cnn("inception", "googlenet", 55, 200, init_weights=False),
    "regnet_y_1_6gf": cnn("regnet", "regnet_y_1_6gf", 80, 170),
    "regnet_x_3_2gf": cnn("regnet", "regnet_x_3_2gf", 95, 240),
    "convnext_tiny": cnn("convnext", "convnext_tiny", 150, 440, blocks=("CNBlock",)),
    "convnext_base": cnn("convnext", "convnext_base", 300, 1350, blocks=("CNBlock",)),
    "vit_b_16": cnn("vit", "", 110, 1320, blocks=("EncoderBlock",), make=sized("vit_b_16")),
    "vit_l_16": cnn("vit", "", 290, 4650, blocks=("EncoderBlock",), make=sized("vit_l_16")),
    "deit_s_16": cnn("vit", "", 55, 340, blocks=("EncoderBlock",), make=deit),
    "swin_t": cnn("swin", "swin_t", 130, 430, blocks=("SwinTransformerBlock",)),
    "swin_v2_t": cnn("swin", "swin_v2_t", 170, 430, size=256),
    "maxvit_t": cnn("maxvit", "", 330, 470, make=maxvit),
    "fcn_resnet50": Arch("segmentation", segmentation("fcn_resnet50"), pixels, segment, 256, 260, 540, None, True),
    "deeplabv3_resnet50": Arch(
        "segmentation", segmentation("deeplabv3_resnet50"), pixels, segment, 256, 280, 650, None, True
    ),
    "unet": Arch("unet", lambda size: Unet(), pixels, segment, 256, 560, 480, None, True),
    "unet_bilinear": Arch("unet", lambda size: Unet(32, 4, True), pixels, segment, 256, 330, 120, None, True),
    "bert_base": hf("bert", hugging("BertForMaskedLM", "BertConfig"), 128, 150, 1680),
    "bert_large": hf(
        "bert",
        hugging(
            "BertForMaskedLM",
            "BertConfig",
            hidden_size=1024,
            num_hidden_layers=24,
            num_attention_heads=16,
            intermediate_size=4096,
        ),
        256,
        720,
        5150,
    ),
    "roberta_base": hf(
        "bert",
        hugging("RobertaForMaskedLM", "RobertaConfig", vocab_size=50265, max_position_embeddings=514),
        256,
        400,
        1910,
        masked_language,
        masked_tokens,
    ),
    "distilbert": hf("bert", hugging("DistilBertForSequenceClassification", "DistilBertConfig"), 256, 140, 1020, labelled),
    "albert_base": hf(
        "albert",
        hugging("AlbertForMaskedLM", "AlbertConfig", hidden_size=768, num_attention_heads=12, intermediate_size=3072),
        256,
        300,
        190,
        blocks=None,
    ),
    "electra_base": hf(
        "bert",
        hugging(
            "ElectraForPreTraining",
            "ElectraConfig",
            embedding_size=768,
            hidden_size=768,
            num_attention_heads=12,
            intermediate_size=3072,
        ),
        128,
        120,
        1660,
    ),
    "gpt2": hf("gpt", hugging("GPT2LMHeadModel", "GPT2Config"), 512, 1000, 1900),
    "gpt2_medium": hf("gpt", hugging("GPT2LMHeadModel", "GPT2Config", n_embd=1024, n_layer=24, n_head=16), 512, 1900, 5420),
    "gpt2_large": hf(
        "gpt", hugging("GPT2LMHeadModel", "GPT2Config", n_embd=1280, n_layer=36, n_head=20), 512, 3200, 11800, count=4
    ),
    "gpt_neo_125m": hf(
        "gpt",
        hugging(
            "GPTNeoForCausalLM",
            "GPTNeoConfig",
            hidden_size=768,
            num_layers=12,
            num_heads=12,
            attention_types=[[["global", "local"], 6]],
        ),
        256,
        700,
        1900,
    ),
    "opt_125m": hf("opt", hugging("OPTForCausalLM", "OPTConfig"), 512, 1000, 1910, masked_language, masked_tokens),
    "xlnet_base": hf(
        "xlnet",
        hugging("XLNetLMHeadModel", "XLNetConfig", d_model=768, n_layer=12, n_head=12, d_inner=3072),
        128,
        260,
        1780,
        blocks=None,
    ),
    "xlnet_large": hf("xlnet", hugging("XLNetLMHeadModel", "XLNetConfig"), 128, 620, 5500, blocks=None, count=5),
    "t5_small": hf("t5", hugging("T5ForConditionalGeneration", "T5Config", decoder_start_token_id=0), 256, 420, 920),
    "t5_base": hf(
        "t5",
        hugging(
            "T5ForConditionalGeneration",
            "T5Config",
            decoder_start_token_id=0,
            d_model=768,
            d_ff=3072,
            num_layers=12,
            num_heads=12,
        ),
        256,
        1000,
        3400,
    ),
    "bart_base": hf(
        "bart",
        hugging(
            "BartForConditionalGeneration",
            "BartConfig",
            d_model=768,
            encoder_layers=6,
            decoder_layers=6,
            encoder_ffn_dim=3072,
            decoder_ffn_dim=3072,
            encoder_attention_heads=12,
            decoder_attention_heads=12,
        ),
        256,
        480,
        2130,
    ),
    "llama_160m": hf(
        "llama",
        hugging(
            "LlamaForCausalLM",
            "LlamaConfig",
            hidden_size=768,
            intermediate_size=3072,
            num_hidden_layers=12,
            num_attention_heads=12,
            max_position_embeddings=2048,
        ),
        512,
        950,
        2480,
    ),
    "tinyllama_1b": hf(
        "llama",
        hugging(
            "LlamaForCausalLM",
            "LlamaConfig",
            hidden_size=2048,
            intermediate_size=5632,
            num_hidden_layers=22,
            num_attention_heads=32,
            num_key_value_heads=4,
            max_position_embeddings=2048,
        ),
        512,
        3800,
        16800,
        count=4,
    ),
    "qwen2_0_5b": hf(
        "llama",
        hugging(
            "Qwen2ForCausalLM",
            "Qwen2Config",
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            tie_word_embeddings=True,
        ),
        512,
        3300,
        7540,
    ),
    "mistral_300m": hf(
        "llama",
        hugging(
            "MistralForCausalLM",
            "MistralConfig",
            hidden_size=1024,
            intermediate_size=3584,
            num_hidden_layers=16,
            num_attention_heads=16,
            num_key_value_heads=4,
        ),
        512,
        1600,
        4600,
        masked_language,
        masked_tokens,
        count=6,
    ),
    "translator": Arch("transformer", lambda size: Translator(), tokens, next_word, 128, 150, 1450),
    "mlp_wide": Arch("mlp", lambda size: Mlp(8192, 3), images, classify, 32, 0.8, 3800),
    "mlp_deep": Arch("mlp", lambda size: Mlp(2048, 24), images, classify, 32, 1.2, 1650),
    "dlrm_small": Arch("dlrm", lambda size: Dlrm(100000, 64), clicks, click, 1, 0.15, 2550),
    "dlrm_large": Arch("dlrm", lambda size: Dlrm(500000, 64), clicks, click, 4, 0.15, 12700, count=6),
    "lstm_lm": Arch("rnn", lambda size: Recurrent(nn.LSTM, 1024, 2), tokens, next_word, 128, 65, 1250),
    "gru_lm": Arch("rnn", lambda size: Recurrent(nn.GRU, 768, 3, True), tokens, next_word, 128, 65, 600),
}
