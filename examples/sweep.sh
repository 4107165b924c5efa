#!/bin/bash
# An ordinary script with settings in "#RAD" lines, as sbatch scripts have them. Six learning rates, three at a time:
#   rad submit sweep.sh
#RAD --name=sweep
#RAD --array=0-5%3
#RAD --gpu-mem=1536M
#RAD --output=sweep-%A_%a.log
rates=(0.1 0.05 0.02 0.01 0.005 0.002)
python3 ../workloads/train.py --model resnet18 --image-size 32 --batch-size 128 --optimizer momentum \
	--lr "${rates[$RAD_ARRAY_TASK_ID]}" --steps 1000 --print-every 100
