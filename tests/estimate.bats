#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad parse and rad estimate: from files to features and figures, without a daemon.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file() { new_world; }

teardown_file() { rm -rf "$WORLD"; }

setup()
{
	cd "$WORLD/work"
	export RAD_SOCKET=$WORLD/nobody.sock
	summaries=$BATS_TEST_DIRNAME/summaries
}

@test "parse: parameters and activations of a summary" {
	run -0 rad parse "$summaries/vgg-torchsummary.txt" --json
	[ "$(jq -c '[.schema, .format, .family, .params, .activations]' <<<"$output")" = \
	  "[1,\"torchsummary\",\"cnn\",$(jq -j '.params, ",", .activations' "$summaries/vgg-torchsummary.json")]" ]
	[ "$(jq '.kinds.conv.layers' <<<"$output")" = 3 ]
	[ "$(jq '.types.ReLU.layers' <<<"$output")" = 4 ]
	[ "$(jq '.batch_size' <<<"$output")" = null ]
}

@test "parse: options say what the summary does not" {
	run -0 rad parse "$summaries/residual-printed.txt" --input-size 3x64x64 --batch-size 8 --optimizer adamw --json
	[ "$(jq .activations <<<"$output")" = "$(jq .activations "$summaries/residual-printed.json")" ]
	[ "$(jq -c '[.batch_size, .input, .optimizer, .notes]' <<<"$output")" = '[8,[3,64,64],"adamw",[]]' ]
}

@test "parse: for people, with what was assumed" {
	run -0 rad parse "$summaries/residual-printed.txt"
	[[ "$output" == *Conv2d*conv* ]]
	[[ "$output" == *"note: input taken as 3x224x224"* ]]
}

@test "parse: what is no summary is refused with the line, exit 2" {
	printf '\nimport torch\n' >train.py
	run -2 rad parse train.py
	[ "$output" = "rad: train.py:2: 'import torch': begins no model summary: expected a table of torchsummary, torchinfo or Keras, or a printed module" ]
	run -1 rad parse nowhere.txt
	[[ "$output" == "rad: "*nowhere.txt*"No such file"* ]]
	printf '\0\1' >binary
	run -2 rad parse binary
	run -2 rad parse "$summaries/vgg-printed.txt" --input-size 224
	[[ "$output" == *"--input-size: '224': expected channels, height and width: 3x224x224"* ]]
	run -2 rad parse
}

@test "estimate: the formula on a summary, in MiB" {
	cat >one.model <<-'END'
	----------------------------------------------------------------
	        Layer (type)               Output Shape         Param #
	================================================================
	            Linear-1              [-1, 1000000]       3,000,000
	================================================================
	Total params: 3,000,000
	END
	run -0 rad estimate --summary one.model --batch-size 64 --estimator horus --json
	# 4 x (64 x 1000000 + 3000000 + 64 x 3000000) bytes + 800 MiB
	[ "$(jq -c '.schema, (.estimates | length), (.estimates[0] | .estimator, .need_mib, .comfort_mib, .claim_mib, .low_mib)' \
	     <<<"$output" | tr '\n' ' ')" = '1 1 "horus" 1789 1789 1789 null ' ]
	[ "$(jq '.estimates[0].took_us > 0' <<<"$output")" = true ]
	[[ "$(jq -r '.estimates[0].notes[0]' <<<"$output")" == "3000000 parameters, 1000000 activations, batch 64"* ]]
}

@test "estimate: a task file, which options beat" {
	cp "$summaries/vgg-torchsummary.txt" net.txt
	printf 'model: net.txt\nbatch_size: 1\npython train.py\n' >train.rad
	small=$(rad estimate train.rad --estimator horus --json | jq '.estimates[0].claim_mib')
	large=$(rad estimate train.rad --estimator horus --batch-size 512 --json | jq '.estimates[0].claim_mib')
	[ "$small" -gt 800 ]
	[ "$large" -gt $((small + 100)) ]
	run -0 rad estimate train.rad --json
	[ "$(jq -c '[.estimates[].estimator]' <<<"$output")" != '["horus"]' ]
}

@test "estimate: a summary is estimated by what was learnt" {
	run -0 rad estimate --summary "$summaries/vgg-torchsummary.txt" --batch-size 64 --optimizer sgd --precision fp32 --json
	[ "$(jq -r '.estimates[0].estimator' <<<"$output")" = gpumemnet ]
	jq -e '.estimates[0] | .need_mib > 500 and .need_mib <= .comfort_mib and .comfort_mib <= .claim_mib and
		.low_mib <= .comfort_mib and .high_mib >= .comfort_mib and (.notes[0] | startswith("cnn, batch 64"))' <<<"$output"
	small=$(jq '.estimates[0].claim_mib' <<<"$output")
	large=$(rad estimate --summary "$summaries/vgg-torchsummary.txt" --batch-size 2048 --json | jq '.estimates[0].claim_mib')
	[ "$large" -gt "$small" ]
	run -0 rad estimate --summary "$summaries/vgg-torchsummary.txt" --json
	[ "$(jq -r '.estimates[0].estimator' <<<"$output")" = none ]
}

@test "estimate: printed modules show no sizes; how large an image is may be said" {
	memory_and_load() {
		rad estimate "$@" --gpu-model h200 --json | jq -c '[.estimates[0].comfort_mib, .load.smact, .load.busy_s]'
	}
	taken=$(memory_and_load --summary "$summaries/dense-printed.txt" --batch-size 32)
	small=$(memory_and_load --summary "$summaries/dense-printed.txt" --batch-size 32 --input-size 3x32x32)
	jq -e -n --argjson taken "$taken" --argjson small "$small" '[range(3)] | all($small[.] < $taken[.])'
	cp "$summaries/dense-printed.txt" net.txt
	printf 'model: net.txt\nbatch_size: 32\ninput_size: 3x32x32\npython train.py\n' >train.rad
	[ "$(memory_and_load train.rad)" = "$small" ]
	[ "$(memory_and_load train.rad --input-size 3x224x224)" = "$taken" ]
	run -2 rad estimate train.rad --input-size 3x32
	[[ "$output" == *"expected channels, height and width: 3x224x224"* ]]
}

@test "estimate: all, and what the task declares" {
	printf 'gpu_mem: 12G\npython train.py\n' >declared.rad
	run -0 rad estimate declared.rad --json
	[ "$(jq -c '[.estimates[] | .estimator, .claim_mib]' <<<"$output")" = '["declared",12288]' ]
	run -0 rad estimate declared.rad --estimator all --json
	[ "$(jq '.estimates | length' <<<"$output")" -ge 4 ]
	[ "$(jq -c '.estimates[] | select(.estimator == "horus") | .claim_mib' <<<"$output")" = null ]
	[[ "$(jq -r '.estimates[] | select(.estimator == "horus") | .notes[0]' <<<"$output")" == "no model summary"* ]]
	run -0 rad estimate declared.rad
	[[ "$output" == *declared*12.0G* || "$output" == *declared*12G* ]]
}

@test "estimate: a capture tells how long a step takes, and what load it is, on a GPU that is known" {
	local capture=$BATS_TEST_DIRNAME/fuzz/corpus-capture/load
	run -0 rad estimate --capture "$capture" --gpu-model "NVIDIA H200" --json
	jq -e '.load_note == null and (.load | .step_s > 0.001 and .step_s < 0.02 and .host_s > .busy_s and .gract < 0.9 and
		.smact <= .gract and .smact_sd > 0 and .watts > 70 and .watts < 400 and .kernels > 50)' <<<"$output"
	run -0 rad estimate --capture "$capture" --gpu-model "NVIDIA H200"
	[[ "$output" == *"A step on NVIDIA H200: "*" ms, give or take "*"Load: GRACT "*" SMACT "*" W (from the capture)" ]]
	run -0 rad estimate --capture "$capture" --gpu-model "Voodoo 2" --json
	jq -e '.load == null and (.load_note | test("no figures of the GPU .Voodoo 2."))' <<<"$output"
	run -0 rad estimate --capture "$capture"
	[[ "$output" == *"Load: not known: on which GPU is not known (--gpu-model NAME)"* ]]
}

@test "estimate: a capture tells which cores data loaders keep busy, and that they hold a step up" {
	local capture=$BATS_TEST_DIRNAME/fuzz/corpus-capture	# of one training, without and with what four workers take for 13 ms each
	run -0 rad estimate --capture "$capture/loaders" --gpu-model "NVIDIA H200" --json
	jq -e '.load | .step_s == 0.013 and .loader_s == 0.013 and .cores == 5 and .gract < 0.05' <<<"$output"
	run -0 rad estimate --capture "$capture/steps" --gpu-model "NVIDIA H200" --json
	jq -e '.load | .step_s < 0.003 and .loader_s == null and .cores == null and .gract > 0.1' <<<"$output"
	run -0 rad estimate --capture "$capture/loaders" --gpu-model "NVIDIA H200"
	[[ "$output" != *"when no data loader holds it up"* ]]
	[[ "$output" == *"Data loaders: 52.6 ms of processor time a step, in the main thread and 4 workers: they hold it up"* ]]
	[[ "$output" == *"Cores: about 5.0, with what launches"* ]]
}

@test "estimate: a capture may stand where a task file does" {
	cp "$BATS_TEST_DIRNAME/fuzz/corpus-capture/load" job.radcap
	run -0 rad estimate job.radcap --gpu-model "NVIDIA H200"
	[ "$output" = "$(rad estimate --capture job.radcap --gpu-model "NVIDIA H200")" ]
}

@test "estimate: a capture of an older rad tells no load" {
	run -0 rad estimate --capture "$BATS_TEST_DIRNAME/fuzz/corpus-capture/max-split" --gpu-model "NVIDIA H200"
	[[ "$output" == *"Load: not known: "*"capture again"* ]]
}

@test "estimate: a summary tells a step and its load too, more coarsely, and what it took for granted" {
	local of=(rad estimate --summary "$summaries/vgg-torchsummary.txt" --gpu-model "NVIDIA H200")
	run -0 "${of[@]}" --batch-size 8 --optimizer sgd --precision fp32 --json
	jq -e '.load_note == null and (.load | .source == "summary" and .assumed == null and .step_s > 0.002 and .step_s < 0.05 and
		.smact <= .gract and .smact_sd > 0.08)' <<<"$output"
	run -0 "${of[@]}" --batch-size 8
	[[ "$output" == *"A step on NVIDIA H200: "*"Load: GRACT "*" W (from the summary: taken as Adam, fp32)" ]]
	run -0 "${of[@]}" --json
	jq -e '.load == null and (.load_note | test("no batch size .*--batch-size N"))' <<<"$output"
	run -0 rad estimate --summary "$summaries/vgg-torchsummary.txt" --batch-size 8 --gpu-model "Voodoo 2"
	[[ "$output" == *"Load: not known: no figures of the GPU 'Voodoo 2'"* ]]
	run -0 rad estimate declared.rad --json
	jq -e '.load == null and (.load_note | test("no capture .* and no model summary"))' <<<"$output"
}

@test "estimate: a capture is replayed as the caller's environment configures PyTorch" {
	in_use()
	{
		env "$@" rad estimate --capture "$BATS_TEST_DIRNAME/fuzz/corpus-capture/expandable" --estimator replay --json |
			jq -r '.estimates[0].notes[0] | capture("reserved for (?<mib>[0-9]+) in use").mib'
	}
	usual=$(in_use -u CUBLAS_WORKSPACE_CONFIG)
	[ "$(in_use CUBLAS_WORKSPACE_CONFIG=:4096:64)" = $((usual + 2 * (256 - 32))) ]	# two threads, of 32 MiB each as a rule
	[ "$(in_use CUBLAS_WORKSPACE_CONFIG=:4096:16)" = $((usual + 2 * (64 - 32))) ]
	run -0 env PYTORCH_CUDA_ALLOC_CONF=nonsense rad estimate \
		--capture "$BATS_TEST_DIRNAME/fuzz/corpus-capture/max-split" --estimator replay --json
	[ "$(jq '.estimates[0].comfort_mib' <<<"$output")" = null ]
}

@test "estimate: bad usage" {
	run -2 rad estimate
	[[ "$output" == *"nothing to estimate"* ]]
	run -2 rad estimate --summary "$summaries/vgg-printed.txt" --estimator oracle
	[[ "$output" == *"'oracle' is no estimator: auto, declared"* ]]
	run -2 rad estimate --summary "$summaries/vgg-printed.txt" --batch-size -3
	[[ "$output" == *--batch-size* ]]
	printf 'hello\n' >hello
	run -2 rad estimate --summary hello --batch-size 3
	[[ "$output" == *"hello:1: 'hello': begins no model summary"* ]]
}
