# SPDX-License-Identifier: MIT
"""Architectures that no rule and no margin was made on: relatives of those of models.py, and a few unlike them. What is chosen on
models.py is scored once on these."""

from models import Arch, Mlp, Unet, classify, cnn, hf, hugging, images, pixels, segment, segmentation, sized

SEGMENT = (pixels, segment)


def text(family, model, config, width, layers, size, mib, fixed, heads=8, **options):
    """A language model of transformers with that hidden size, three jobs."""
    names = {"GPT2Config": ("n_embd", "n_layer", "n_head"), "BloomConfig": ("hidden_size", "n_layer", "n_head")}
    keys = names.get(config, ("hidden_size", "num_hidden_layers", "num_attention_heads"))
    if config in ("ElectraConfig",):
        options["embedding_size"] = width
    if config == "OPTConfig":
        options["word_embed_proj_dim"] = width
    if config == "Qwen2Config":
        options["num_key_value_heads"] = 2
    return hf(family, hugging(model, config, **dict(zip(keys, (width, layers, heads))), **options), size, mib, fixed, count=3)


ARCHS = {
    "resnet152": cnn("resnet", "resnet152", 200, 1000, blocks=("Bottleneck",), count=2),
    "resnext101_32x8d": cnn("resnet", "resnext101_32x8d", 280, 1400, count=2),
    "wide_resnet101_2": cnn("resnet", "wide_resnet101_2", 205, 2050, count=2),
    "vgg13": cnn("vgg", "vgg13", 115, 2050, count=3),
    "vgg11_bn": cnn("vgg", "vgg11_bn", 115, 2050, count=2),
    "vgg19_bn": cnn("vgg", "vgg19_bn", 235, 2200, count=3),
    "densenet161": cnn("densenet", "densenet161", 250, 460, count=3),
    "densenet201": cnn("densenet", "densenet201", 210, 330, count=2),
    "mnasnet0_5": cnn("mobile", "mnasnet0_5", 45, 40, count=2),
    "mnasnet1_3": cnn("mobile", "mnasnet1_3", 105, 105, count=3),
    "shufflenet_v2_x1_5": cnn("mobile", "shufflenet_v2_x1_5", 42, 60, count=2),
    "shufflenet_v2_x2_0": cnn("mobile", "shufflenet_v2_x2_0", 58, 120, count=3),
    "squeezenet1_0": cnn("squeezenet", "squeezenet1_0", 60, 20, count=3),
    "efficientnet_b1": cnn("efficientnet", "efficientnet_b1", 130, 130, size=240, blocks=("MBConv",), count=2),
    "efficientnet_b2": cnn("efficientnet", "efficientnet_b2", 170, 150, size=288, count=2),
    "efficientnet_v2_m": cnn("efficientnet", "efficientnet_v2_m", 260, 870, count=2),
    "regnet_y_400mf": cnn("regnet", "regnet_y_400mf", 40, 70, count=2),
    "regnet_y_3_2gf": cnn("regnet", "regnet_y_3_2gf", 110, 310, count=3),
    "regnet_x_1_6gf": cnn("regnet", "regnet_x_1_6gf", 65, 150, count=2),
    "convnext_small": cnn("convnext", "convnext_small", 230, 800, blocks=("CNBlock",), count=4),
    "convnext_large": cnn("convnext", "convnext_large", 420, 3160, count=2),
    "fcn_resnet101": Arch("segmentation", segmentation("fcn_resnet101"), *SEGMENT, 256, 380, 850, None, True, 2),
    "deeplabv3_mobilenet": Arch(
        "segmentation", segmentation("deeplabv3_mobilenet_v3_large"), *SEGMENT, 256, 70, 180, None, True, 3
    ),
    "lraspp_mobilenet": Arch("segmentation", segmentation("lraspp_mobilenet_v3_large", False), *SEGMENT, 256, 60, 60, None, True, 2),
    "unet_narrow": Arch("unet", lambda size: Unet(48, 3), *SEGMENT, 256, 400, 70, None, True, 3),
    "unet_deep": Arch("unet", lambda size: Unet(32, 5, True), *SEGMENT, 256, 330, 480, None, True, 3),
    "vit_b_32": cnn("vit", "", 35, 1340, blocks=("EncoderBlock",), make=sized("vit_b_32"), count=2),
    "swin_s": cnn("swin", "swin_s", 220, 760, blocks=("SwinTransformerBlock",), count=2),
    "bert_small": text("bert", "BertForMaskedLM", "BertConfig", 512, 8, 256, 170, 700, intermediate_size=2048),
    "bert_wide": text("bert", "BertForMaskedLM", "BertConfig", 1280, 12, 128, 240, 5200, heads=20, intermediate_size=5120),
    "roberta_small": text("bert", "RobertaForMaskedLM", "RobertaConfig", 512, 6, 256, 190, 800, intermediate_size=2048),
    "electra_large": text("bert", "ElectraForPreTraining", "ElectraConfig", 1024, 24, 128, 290, 5100, intermediate_size=4096),
    "gpt_small": text("gpt", "GPT2LMHeadModel", "GPT2Config", 512, 8, 512, 800, 820),
    "gpt_neox_160m": text("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", 768, 12, 512, 1000, 2600, intermediate_size=3072),
    "bloom_small": text("bloom", "BloomForCausalLM", "BloomConfig", 768, 8, 256, 800, 4000),
    "opt_350m": text("opt", "OPTForCausalLM", "OPTConfig", 1024, 16, 512, 1300, 4200, ffn_dim=4096),
    "llama_60m": text("llama", "LlamaForCausalLM", "LlamaConfig", 512, 8, 512, 700, 930, intermediate_size=1376),
    "qwen2_small": text("llama", "Qwen2ForCausalLM", "Qwen2Config", 512, 8, 512, 2200, 2700, intermediate_size=1536),
    "phi_small": text("phi", "PhiForCausalLM", "PhiConfig", 768, 8, 512, 1000, 1700, intermediate_size=3072),
    "mlp_medium": Arch("mlp", lambda size: Mlp(4096, 8), images, classify, 32, 0.9, 2600, count=3),
}
