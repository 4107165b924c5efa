/* SPDX-License-Identifier: MIT
 * The table of settings. Where a value is an enum, its words come from the list of the module that has it, so that a new
 * policy or order is a setting's word at once. The defaults of what the core decides by stand in core_config_default as well,
 * for those who use the core alone; a test compares them.
 */
#include "settings/settings.h"


#define SECONDS_A_WEEK (7 * 86400)
#define DECADE (3650 * 86400)

static const struct setting_word on_off[] = {
	{ "on", true }, { "off", false }, { "yes", true }, { "true", true }, { "no", false }, { "false", false }, { 0 },
};

static const struct setting_word placements[] = {
#define X(name, word, help) { word, name },
	MAP_RANKS(X)
#undef X
	{ 0 },
};

static const struct setting_word orders[] = {
#define X(name, word, help) { word, name },
	CORE_ORDERS(X)
#undef X
	{ 0 },
};

static const struct setting_word shares[] = {
	{ "mps", SHARE_MPS }, { "streams", SHARE_STREAMS }, { "never", SHARE_NEVER }, { "auto", SHARE_MPS },
	{ "mig", 0, "is not a default: instances are used wherever they are there" }, { 0 },
};

static const struct setting_word mps_users[] = { { "together", true }, { "apart", false }, { 0 } };
static const struct setting_word foreigns[] = { { "avoid", false }, { "share", true }, { 0 } };
static const struct setting_word captures[] = { { "off", false }, { "auto", true }, { 0 } };
static const struct setting_word positionals[] = { { "ignore", false }, { "honour", true }, { 0 } };

static const struct setting_word recoveries[] = {
#define X(name, word, help) { word, name },
	RECOVER_MODES(X)
#undef X
	{ "no", RECOVER_OFF }, { "false", RECOVER_OFF }, { 0 },
};

#define OFFSET(member) offsetof(struct settings, member)
#define SIZE(member) sizeof(((struct settings *)0)->member)
#define ROW(key, type, member, standard) key, type, OFFSET(member), SIZE(member), standard
#define WORD(key, member, standard, list, what) ROW(key, SETTING_WORD, member, standard), .words = list, .noun = what
#define SWITCH(key, member, standard) WORD(key, member, standard, on_off, "switch")
#define NUMBER(key, member, standard, least, most) ROW(key, SETTING_NUMBER, member, standard), .min = least, .max = most
#define COUNT(key, member, standard, least, most) ROW(key, SETTING_COUNT, member, standard), .min = least, .max = most
#define GIB(key, member, standard) ROW(key, SETTING_GIB, member, standard), .min = 0, .max = 4096, .off = SETTING_OFF_IS_ZERO
#define SECONDS(key, member, standard, least, most) ROW(key, SETTING_SECONDS, member, standard), .min = least, .max = most
#define TEXT(key, member, standard) ROW(key, SETTING_TEXT, member, standard)

const struct setting settings_table[] = {
	{ TEXT("devices", devices, "nvml"), .restart = true, .environment = "RAD_DEVICES",
	  .help = "where GPUs come from: nvml, or simulated ones such as sim:4xa100-40g" },
	{ WORD("placement", core.map.rank, "gain", placements, "placement policy"),
	  .help = "which of the GPUs that fit is taken" },
	{ WORD("share", core.map.share, "mps", shares, "default way of sharing"),
	  .help = "how tasks share a GPU when they do not say" },
	{ SWITCH("mps", mps, "on"),
	  .help = "start MPS control daemons where share asks for them" },
	{ WORD("mps_users", core.mps_together, "together", mps_users, "way of serving users"), .server_only = true,
	  .help = "together: one MPS server for all users; apart: one each, and turns on a GPU" },
	{ SECONDS("mps_idle", mps_idle_ms, "60", 0, SECONDS_A_WEEK), .server_only = true,
	  .help = "how long an MPS server stays that nobody uses, for the next task" },
	{ NUMBER("max_smact", core.map.max_smact, "0.8", 0, 1), .off = SETTING_OFF_IS_NAN,
	  .help = "no task joins a GPU whose SMs are busier than this under mps" },
	{ NUMBER("max_gract", core.map.max_gract, "0.9", 0, 1), .off = SETTING_OFF_IS_NAN,
	  .help = "no task joins a GPU that is busier than this under streams, by GRACT" },
	{ NUMBER("max_slowdown", core.map.max_slowdown, "off", 1, SPEC_MAX_SLOWDOWN), .off = SETTING_OFF_IS_ZERO,
	  .help = "how many times slower than alone a task may be made, where it says nothing itself" },
	{ NUMBER("min_gain", core.map.min_gain, "0.05", 0, 1),
	  .help = "under gain: part of its work that a task must add to what a GPU does, to join others" },
	{ WORD("order", core.order, "plan", orders, "order of the queue"),
	  .help = "who goes first in the queue" },
	{ SECONDS("pass_max", core.pass_max_ms, "3600", 0, SECONDS_A_WEEK),
	  .help = "how long the first in line may be passed before GPUs are kept for it" },
	{ GIB("min_free", core.map.min_free_mib, "5"),
	  .help = "asked of a GPU, and held, for a task without an estimate" },
	{ GIB("slack", core.map.slack_mib, "2"),
	  .help = "must be free on top of a claim at admission" },
	{ ROW("host_mem", SETTING_GIB, core.host_mem_mib, "auto"), .min = 0, .max = 1 << 20, .off = SETTING_OFF_IS_ZERO,
	  .automatic = true, .server_only = true, .help = "host memory that tasks get in all, of what they ask for with --mem" },
	{ COUNT("host_cpus", core.host_cpus, "auto", 0, 65536), .off = SETTING_OFF_IS_ZERO, .automatic = true,
	  .help = "CPUs that tasks get in all, of what they ask for with --cpus-per-task" },
	{ NUMBER("max_cpu", core.max_cpu, "1.5", 0, 64), .off = SETTING_OFF_IS_ZERO, .server_only = true,
	  .help = "part of those CPUs that tasks may need together before no more of them share a GPU" },
	{ COUNT("max_tasks", core.map.max_tasks, "2", 1, 48), .off = SETTING_OFF_IS_ZERO,
	  .help = "tasks per GPU where no load can be read" },
	{ COUNT("user_tasks", user_tasks, "10000", 1, 10000000), .off = SETTING_OFF_IS_ZERO, .server_only = true,
	  .help = "unfinished tasks one user may have at a time, administrators apart" },
	{ GIB("user_size", user_size_mib, "512M"), .server_only = true,
	  .help = "size of what a user submitted for unfinished tasks (captures, scripts, environments), administrators apart" },
	{ GIB("user_store", user_store_mib, "4"), .server_only = true,
	  .help = "what a user may add to the store within a day, administrators apart" },
	{ SECONDS("fold_after", fold_after_ms, "180d", 3600, DECADE), .off = SETTING_OFF_IS_ZERO, .server_only = true,
	  .help = "after a task's end its script, environment and captures are dropped; its accounts stay" },
	{ SECONDS("forget_after", forget_after_ms, "off", 86400, DECADE), .off = SETTING_OFF_IS_ZERO, .server_only = true,
	  .help = "after a task's end it is left out of the accounts too" },
	{ COUNT("keep_tasks", keep_tasks, "1000000", 1000, 1000000000), .off = SETTING_OFF_IS_ZERO, .server_only = true,
	  .help = "ended tasks that are kept at all; those that ended first go" },
	{ WORD("foreign", core.map.foreign_share, "avoid", foreigns, "way with them"), .server_only = true,
	  .help = "what to do with GPUs that processes of others use with more than 1 GiB" },
	{ SECONDS("reserve_lead", core.map.reserve_lead_ms, "14400", 0, SECONDS_A_WEEK), .server_only = true,
	  .help = "so long before GPUs are reserved for others, no task of unknown length starts there" },
	{ SWITCH("ledger", core.map.ledger, "on"),
	  .help = "hold what tasks are expected to take, not the driver's free memory alone" },
	{ SWITCH("fence", core.fence, "on"),
	  .help = "give MPS tasks whose claim is declared or known a memory limit of that size" },
	{ SWITCH("stay_on_gpus", stay_on_gpus, "on"), .server_only = true,
	  .help = "tasks that set CUDA_VISIBLE_DEVICES themselves stay on the GPUs that they were given" },
	{ WORD("positional_policy", positional_policy, "ignore", positionals, "way with it"), .server_only = true,
	  .help = "what line 7 of positional task files (exclusive, collocation) is to be" },
	{ WORD("capture", capture_auto, "off", captures, "way with it"), .server_only = true,
	  .help = "auto: a task that runs Python is captured while it waits, as with rad submit --capture=auto" },
	{ SECONDS("capture_wait", capture_wait_ms, "120", 1, 3600), .server_only = true,
	  .help = "how long a task waits for its capture" },
	{ SECONDS("interval", interval_ms, "1", 0.1, 60), .restart = true, .server_only = true,
	  .help = "time between samples" },
	{ SECONDS("window", core.window.span_ms, "90", 1, 3600), .restart = true,
	  .help = "time over which load is averaged" },
	{ SECONDS("settle", core.window.settle_ms, "10", 0, 3600), .restart = true,
	  .help = "time of samples needed after the set of tasks on a GPU changed" },
	{ SECONDS("warm", core.warm_ms, "30", 0, 3600),
	  .help = "time of activity after which what a task is seen to use is believed" },
	{ SECONDS("stale", core.stale_ms, "10", 1, 3600), .server_only = true,
	  .help = "age from which a reading no longer counts" },
	{ WORD("recovery", core.recover.mode, "exclusive", recoveries, "way of recovering"),
	  .help = "what a task that ran out of GPU memory gets" },
	{ SECONDS("keep_max", core.recover.keep_max_ms, "1800", 0, SECONDS_A_WEEK),
	  .help = "how long GPUs are kept free for such a task before it grows instead" },
	{ GIB("grow_step", core.recover.grow_step_mib, "5"),
	  .help = "by how much a claim grows (section 7.2 of the dissertation)" },
	{ SECONDS("slot", core.slot_ms, "off", SPEC_MIN_SLOT_S, DECADE), .off = SETTING_OFF_IS_ZERO,
	  .help = "time slot of tasks that name none: after it, when others wait, a task is asked to save and make place" },
	{ SECONDS("slot_grace", core.slot_grace_ms, "300", 0, 86400),
	  .help = "in which a task that was asked to make place is expected to have gone" },
	{ COUNT("max_attempts", core.recover.max_attempts, "4", 1, 100),
	  .help = "attempts of one task before out-of-memory is final" },
	{ SWITCH("kill_invalid_depend", core.kill_invalid_dep, "off"),
	  .help = "cancel tasks that wait for what can no longer happen, where they do not say (--kill-on-invalid-dep)" },
	{ SECONDS("lease_idle", core.lease_idle_ms, "1800", 0, SECONDS_A_WEEK), .server_only = true,
	  .help = "time after which a lease or session that computes nothing is told; 0: never" },
	{ SECONDS("kill_wait", kill_wait_ms, "30", 0, 3600), .server_only = true,
	  .help = "time between SIGTERM and SIGKILL" },
	{ SWITCH("fair", core.fair.on, "on"),
	  .help = "within a priority, who had least GPU time lately goes next; off: who came first" },
	{ SECONDS("fair_half_life", core.fair.half_life_ms, "604800", 60, DECADE), .also = "share_half_life",
	  .help = "after this time GPU time that was used counts half" },
	{ COUNT("max_running", core.allowance.most[ALLOWANCE_RUNNING], "off", 1, 10000000), .off = SETTING_OFF_IS_ZERO,
	  .help = "tasks of one user that run at a time" },
	{ COUNT("max_gpus", core.allowance.most[ALLOWANCE_GPUS], "off", 1, 10000000), .off = SETTING_OFF_IS_ZERO,
	  .help = "GPUs that the running tasks of one user have, in sum" },
	{ COUNT("max_queued", core.allowance.most[ALLOWANCE_QUEUED], "off", 1, 10000000), .off = SETTING_OFF_IS_ZERO,
	  .help = "unfinished tasks of one user beyond which he may submit none, administrators apart" },
	{ ROW("max_mem", SETTING_GIB, core.allowance.most[ALLOWANCE_MEM], "off"), .min = 1.0 / 1024, .max = 4194304,
	  .off = SETTING_OFF_IS_ZERO,
	  .help = "GPU memory that is held for the running tasks of one user, over all GPUs" },
	{ TEXT("prolog", prolog, "off"), .server_only = true,
	  .help = "a program of the administrator's, run before each attempt; while it fails, the task waits" },
	{ TEXT("epilog", epilog, "off"), .server_only = true,
	  .help = "a program of the administrator's, run after each attempt" },
	{ TEXT("dcgm_job_mapping", dcgm_job_mapping, "off"), .restart = true, .server_only = true,
	  .help = "a folder that tells dcgm-exporter which tasks run on which GPU" },
	{ SECONDS("hook_wait", hook_wait_ms, "60", 1, 3600), .server_only = true,
	  .help = "time after which a prolog or an epilog is killed" },
	{ 0 },
};
