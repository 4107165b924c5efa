/* SPDX-License-Identifier: MIT
 *
 * The verbs of `rad`, a row each:
 *
 *	X(name, function, what it does in one line, what follows "rad NAME", whose exit code it hands on)
 *
 * The build reads these rows too: where verb_NAME.c lies beside them it is compiled, and where man/rad-NAME.1.scd is there it
 * is made. So a new verb is its file, its row and its page.
 */
#ifndef RAD_CLI_VERBS_H
#define RAD_CLI_VERBS_H

#define OWN_CODE false
#define TASKS_CODE true		/* failures of its own are CLI_OWN then */

#define CLI_VERBS(X) \
	X(submit, verb_submit, "queue a task file or a command", "[options] FILE.rad | COMMAND", OWN_CODE) \
	X(run, verb_run, "submit, follow the output, exit with the task's code", "[options] FILE.rad | COMMAND", TASKS_CODE) \
	X(sbatch, verb_sbatch, "submit to Slurm, asking for the part of a GPU that the task takes", \
	  "FILE [options of sbatch] [-- ARGUMENT...]", OWN_CODE) \
	X(adopt, verb_adopt, "make tasks of processes of yours that hold GPU memory", "[options] PID...", OWN_CODE) \
	X(lease, verb_lease, "a place on a GPU for the shell or program that calls this", "[options]", OWN_CODE) \
	X(queue, verb_queue, "list pending and running tasks", "[options] [ID...]", OWN_CODE) \
	X(show, verb_show, "all that is known of a task", "[options] ID...", OWN_CODE) \
	X(why, verb_why, "why a task is where it is, in numbers", "[options] ID...", OWN_CODE) \
	X(logs, verb_logs, "a task's output", "[options] ID...", OWN_CODE) \
	X(wait, verb_wait, "wait for tasks to end, exit with their code", "[options] ID...", TASKS_CODE) \
	X(cancel, verb_cancel, "end tasks, or take them out of the queue", \
	  "[options] ID... | --all | --pending | --user --name --state", OWN_CODE) \
	X(hold, verb_change, "keep pending tasks back", "[options] ID... | --user --name --state", OWN_CODE) \
	X(release, verb_change, "let held tasks go", "[options] ID... | --user --name --state", OWN_CODE) \
	X(suspend, verb_change, "stop running tasks where they are; they keep what they hold", \
	  "[options] ID... | --user --name --state", OWN_CODE) \
	X(resume, verb_change, "let suspended tasks go on", "[options] ID... | --user --name --state", OWN_CODE) \
	X(requeue, verb_change, "put running or ended tasks back into the queue", \
	  "[options] ID... | --user --name --state", OWN_CODE) \
	X(update, verb_update, "change what a task asks for, its limits or name", "[options] ID... [KEY=VALUE...]", OWN_CODE) \
	X(purge, verb_purge, "remove ended tasks from the accounts", "--older TIME [options]", OWN_CODE) \
	X(gpus, verb_gpus, "GPUs: load, memory, tasks, processes", "[options]", OWN_CODE) \
	X(top, verb_top, "GPUs and tasks on the whole screen, renewed every second", "[options]", OWN_CODE) \
	X(monitor, verb_monitor, "what GPUs and processes do, at an interval, to a file or the screen", \
	  "[options] [-- COMMAND...]", TASKS_CODE) \
	X(acct, verb_acct, "what ended tasks, users and GPUs took", "[options]", OWN_CODE) \
	X(report, verb_report, "a page of what ran where and when, and what it took", "[options] -o F.html [RUN.json...]", OWN_CODE) \
	X(track, verb_track, "tasks and what their GPUs showed as runs of an MLflow server", "[options] --mlflow URI", OWN_CODE) \
	X(exporter, verb_http, "what radd knows as metrics for Prometheus", "[options]", OWN_CODE) \
	X(web, verb_http, "the live page: GPUs, queue, why, history", "[options]", OWN_CODE) \
	X(feed, verb_feed, "who shares which data loader, and who waits for whom", "[options] [NAME...]", OWN_CODE) \
	X(drain, verb_drain, "take GPUs out of use; what runs there goes on", "[options] GPU... | all", OWN_CODE) \
	X(undrain, verb_drain, "put drained GPUs back", "[options] GPU... | all", OWN_CODE) \
	X(reserve, verb_reserve, "GPUs for one user's tasks in a span of time", \
	  "[options] [HOW-MANY | --gpus LIST] [--user NAME] [--begin TIME] --for TIME", OWN_CODE) \
	X(limit, verb_limit, "what users had and have, whose turn it is, what each may have", \
	  "[options] [max_running|max_gpus|max_queued|max_mem=VALUE|off|default...]", OWN_CODE) \
	X(estimate, verb_estimate, "estimate a task's GPU memory", "[options] [FILE.rad | FILE.radcap]", OWN_CODE) \
	X(parse, verb_parse, "what a model summary says to the estimators", "[options] SUMMARY | FILE.rad", OWN_CODE) \
	X(capture, verb_capture, "what a training script asks of the GPU's memory, found without a GPU", \
	  "[options] -o FILE -- python train.py...", OWN_CODE) \
	X(start, verb_start, "start a radd of your own, now or at every boot, so that its queue goes on", "[options]", OWN_CODE) \
	X(stop, verb_stop, "end a radd of your own; its tasks run on, and its queue waits for the next start", "[options]", OWN_CODE) \
	X(doctor, verb_doctor, "check that RAD-RM can work here", "[options]", OWN_CODE) \
	X(version, verb_version, "releases of rad and radd", "[options]", OWN_CODE) \
	X(help, verb_help, "help on rad, or on one command", "[COMMAND]", OWN_CODE) \
	X(completion, verb_completion, "completion script for bash, zsh or fish", "bash | zsh | fish", OWN_CODE) \
	X(pilot, verb_pilot, "inside a batch allocation: run tasks of a queue that outlives it", \
	  "[options] [--submit [-- SBATCH OPTIONS]]", OWN_CODE) \
	X(simulate, verb_simulate, "what a trace of tasks would take on simulated GPUs", \
	  "--devices LIST (--trace T.csv --workloads W.csv | --mix W.csv WORKLOAD...) [options]", OWN_CODE) \
	X(trace, verb_trace, "make traces, import job logs, run a trace on simulated GPUs", \
	  "make --workloads W.csv | import LOG --workloads W.csv | run T.csv --workloads W.csv [options]", OWN_CODE) \
	X(bench, verb_bench, "how fast commands run side by side on a GPU, or one alone", \
	  "collocate [options] -- COMMAND [+ COMMAND...] | solo [options] COMMAND", OWN_CODE) \
	X(simtask, simtask_main, "a stand-in for a training program, for simulated GPUs", "--mem SIZE --seconds S [options]", OWN_CODE)

#endif
