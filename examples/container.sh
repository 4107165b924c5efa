#!/bin/bash
# A command in a Docker container, on the GPUs that the task was given, as the user who submits it:
#   rad submit --gpu-mem 12G container.sh IMAGE python train.py
# The container sees this folder, by its path. Where the task shares by MPS, it reaches the server by the folder of its pipe.
gpus=(-e NVIDIA_VISIBLE_DEVICES=void)		# of a task without GPUs, whatever the image says
if [ -n "$RAD_GPU_UUIDS" ]; then
	gpus=(--gpus "\"device=$RAD_GPU_UUIDS\"")
fi
mps=()
if [ -n "$CUDA_MPS_PIPE_DIRECTORY" ]; then
	mps=(--ipc=host -e CUDA_MPS_PIPE_DIRECTORY -e CUDA_MPS_PINNED_DEVICE_MEM_LIMIT -v "$CUDA_MPS_PIPE_DIRECTORY:$CUDA_MPS_PIPE_DIRECTORY")
fi
exec docker run --rm --init "${gpus[@]}" -e RAD_TASK_ID -e RAD_TASK_TOKEN "${mps[@]}" \
	--user "$(id -u):$(id -g)" -v "$PWD:$PWD" -w "$PWD" "$@"
