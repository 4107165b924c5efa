# SPDX-License-Identifier: MIT
"""What a command line runs: which script, with which arguments, and what its launcher would tell it. Knows nothing of PyTorch."""
import os

from .distributed import launcher, surroundings
from .sandbox import CaptureError

VALUED = ("-X", "-W", "--check-hash-based-pycs")  # options of the interpreter that take a value
ACCELERATE = (["-m", "accelerate.commands.launch"], ["-m", "accelerate.commands.accelerate_cli", "launch"])
# Options of `accelerate launch` without a value; all others have one.
ACCELERATE_SWITCHES = ("-h", "--help", "-q", "--quiet", "-m", "--module", "--no_python", "--debug", "--cpu", "--multi_gpu", "--tpu",
                       "--ipex", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--use_xpu", "--use_parallelism_config",
                       "--same_network", "--downcast_bf16", "--tpu_cluster", "--no_tpu_cluster", "--dynamo_use_fullgraph",
                       "--dynamo_use_dynamic",
                       "--dynamo_use_regional_compilation",
                       "--enable_cpu_affinity", "--fp8_use_autocast_during_eval", "--tpu_use_cluster", "--tpu_use_sudo")
SHARDED = ("{}: training is sharded over several GPUs, which cannot be captured: capture a run of one process without it, or say "
           "what the task needs (rad submit --gpu-mem)")


def parse(words):
    """("-m" or "", module or path, arguments) of the words that would follow `python`. CaptureError for what is no script."""
    words = list(words)
    while words and words[0].startswith("-") and words[0] != "-m":
        option = words.pop(0)
        if option == "-c" or option == "-":
            raise CaptureError(f"{option}: code from the command line or a pipe cannot be captured: put it into a file")
        if option in VALUED and words:
            words.pop(0)
    if words and words[0] == "-m":
        if len(words) < 2:
            raise CaptureError("-m: the module's name is missing")
        return "-m", words[1], words[2:]
    if not words:
        raise CaptureError("no script: rad capture -o FILE -- python train.py ...")
    if not os.path.isfile(words[0]):
        raise CaptureError(f"{words[0]}: no such file: the script comes right after the interpreter and its options")
    return "", words[0], words[1:]


def resolve(words, gpus):
    """(processes, words as for python, variables that the launcher sets). `gpus`: those that the task sees."""
    words = list(words)
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        del words[:2 if words[0] in VALUED else 1]
    base = os.path.basename(words[0]) if words else ""
    if base == "deepspeed":
        raise CaptureError(SHARDED.format("deepspeed"))
    if base == "accelerate" and words[1:2] == ["launch"]:
        return accelerate(words[2:])
    for module in ACCELERATE:
        if words[:len(module)] == module:
            return accelerate(words[len(module):])
    processes, rest = launcher(words, gpus)
    return processes, rest, surroundings(processes) if processes else {}


def accelerate(words):
    """The command line of `accelerate launch`."""
    given, module = {}, []
    while words and words[0].startswith("-"):
        option, equals, value = words.pop(0).partition("=")
        name = option.lstrip("-").replace("-", "_")
        if option in ("-m", "--module"):
            module = ["-m"]
        elif option in ACCELERATE_SWITCHES or option.replace("-", "_").replace("__", "--", 1) in ACCELERATE_SWITCHES:
            given[name] = "true"
        else:
            given[name] = value if equals else words.pop(0) if words else ""
    said = {**accelerate_file(given.get("config_file")), **given}
    for what in ("use_deepspeed", "use_fsdp", "use_megatron_lm"):
        if said.get(what) == "true":
            raise CaptureError(SHARDED.format("accelerate launch --" + what))
    if said.get("distributed_type", "").upper() in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
        raise CaptureError(SHARDED.format("accelerate launch, distributed_type " + said["distributed_type"]))
    number = said.get("num_processes", "")
    processes = int(number) if number.isdecimal() and int(number) > 1 else 0
    variables = surroundings(processes) if processes else {}
    for name, variable in (("mixed_precision", "ACCELERATE_MIXED_PRECISION"),
                           ("gradient_accumulation_steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS")):
        if name in said:
            variables[variable] = said[name].lower()
    if said.get("cpu") == "true" or said.get("use_cpu") == "true":
        variables["ACCELERATE_USE_CPU"] = "true"
    return processes, module + words, variables


def accelerate_file(path):
    """What `accelerate config` wrote, as far as it is `name: value` at the left margin."""
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface")
    try:
        with open(path or os.path.join(home, "accelerate", "default_config.yaml"), encoding="utf-8", errors="replace") as f:
            pairs = [line.partition(":") for line in f if line[:1].isalpha()]
    except OSError as e:
        if path:
            raise CaptureError(f"accelerate launch --config_file: {path}: {e.strerror}") from None
        return {}
    return {name.strip(): value.strip().strip("'\"").lower() for name, _, value in pairs}
