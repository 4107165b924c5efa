#!/bin/sh
# SPDX-License-Identifier: MIT
# Everything about convolutions that needs a GPU, in five minutes:  bench/memory/on_gpu.sh OUT [PYTHON]
#   OUT/scratch	what cuDNN takes beside convolutions drawn at random (150 s)
#   OUT/worst	allocator histories of the jobs that replay is most wrong about, and of some others (60 s at most)
#   OUT/fresh	truth and captures of jobs of architectures that nothing was made on (2 minutes at most)
# Each part is of use without the next ones. Needs PyTorch, torchvision, transformers; downloads nothing.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?on_gpu.sh OUT [PYTHON]}
python=${2:-python3}
mkdir -p "$out"
worst='vgg16-b576-s224-momentum-foreach-amp-fp16 alexnet-b3584-s224-adamw-foreach-tf32 convnext_ inception_v3-b
resnet18-b576-s256 resnet34-b640-s224 resnet50-b576-s256 vgg19-b448-s224 unet_bilinear-b7 vgg16-b768-s176 alexnet-b80 mobilenet_v2-b
regnet_y_1_6gf-b efficientnet_b0-b'
timeout 190 "$python" "$here/scratch.py" --out "$out/scratch" --seconds 150 >"$out/scratch.log" 2>&1
timeout 90 "$python" "$here/captures.py" --out "$out/fresh" --workers 14 --deadline 60 --fresh >"$out/captures.log" 2>&1
# shellcheck disable=SC2086	# words
timeout 90 "$python" "$here/truth.py" --out "$out/worst" --workers 12 --deadline 50 $worst >"$out/worst.log" 2>&1
timeout 140 "$python" "$here/truth.py" --out "$out/fresh" --workers 14 --deadline 100 --fresh >"$out/fresh.log" 2>&1
tail -n 2 "$out"/*.log
