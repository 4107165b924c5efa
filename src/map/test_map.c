/* SPDX-License-Identifier: MIT
 * Who may go where: memory, load, modes, several GPUs, MIG, whoever is there, and how much slower that makes whom.
 */
#include "map/test_rows.h"

static void memory(void **state)
{
	static const struct row rows[] = {
		{ "plain", "", "claim=12578", { "empty" }, "0 mps 12578" },
		{ "exact fit with slack", "", "claim=10000", { "mps=1 free=12048" }, "0 mps 10000" },
		{ "1 MiB short", "", "claim=10000", { "mps=1 free=12047" }, "Memory" },
		{ "2 GiB of slack, section 6.3.3", "slack=2048", "claim=15120", { "mps=1 free=17168" }, "0 mps 15120" },
		{ "slack off", "slack=0", "claim=10000", { "mps=1 free=10000" }, "0 mps 10000" },
		{ "slack is not asked of an idle GPU", "", "claim=39424 declared", { "empty" }, "0 mps 39424" },
		{ "all of an idle GPU", "", "claim=40448 declared", { "empty" }, "0 mps 40448" },
		{ "1 MiB above it, declared", "", "claim=40449 declared", { "empty" }, "Memory" },
		{ "1 MiB above it, estimated: cut, and alone", "", "claim=40449", { "empty" }, "0 never 40448" },
		{ "an estimate above, where something runs", "", "claim=50000", { "mps=1 free=30000" }, "Memory" },
		{ "an estimate above, a little foreign memory", "", "claim=50000", { "free=39448 other=1000" }, "0 never 39448" },
		{ "an estimate just below, a little foreign memory", "", "claim=40000", { "free=39448 other=1000" },
		  "0 never 39448" },
		{ "... goes where it fits first", "rank=ff", "claim=40000", { "free=39448 other=1000", "empty" }, "1 mps 40000" },
		{ "a large estimate waits for a large GPU", "", "claim=60000", { "empty", "total=81408 mps=1 free=50000" },
		  "Memory Memory" },
		{ "... and takes it", "", "claim=60000", { "empty", "total=81408" }, "1 mps 60000" },
		{ "... unless that one is gone", "", "claim=60000", { "empty", "total=81408 stale" }, "0 never 40448" },
		{ "... but not if it is drained", "", "claim=60000", { "empty", "total=81408 drained" }, "Memory Drained" },
		{ "above all: the largest only", "rank=mug", "claim=90000", { "empty", "total=81408" }, "1 never 81408" },
		{ "GPUs of one model differ a little", "rank=ff", "claim=90000", { "total=81000", "total=81408" },
		  "0 never 81000" },
		{ "... and other models more", "rank=ff", "claim=90000", { "total=77000", "total=81408" }, "1 never 81408" },
		{ "no estimate asks for 5 GiB", "", "", { "mps=1 free=5120" }, "0 mps 5120" },
		{ "1 MiB less", "", "", { "mps=1 free=5119" }, "Memory" },
		{ "no estimate on a small idle GPU", "", "", { "total=4864" }, "0 never 4864" },
		{ "min_free off", "min=0", "", { "mps=1 free=10" }, "0 mps 0" },
		{ "without an estimate beside another, not yet warm: two thirds", "", "", { "mps=1 free=26966 cold=1" }, "0 mps 5120" },
		{ "... of the whole GPU", "", "", { "mps=1 free=26965 cold=1" }, "Cold" },
		{ "... for three there is no room that could be left", "", "", { "mps=2 free=40447 cold=2" }, "Cold" },
		{ "or as much as tasks usually take, of which min_free is held for each", "", "",
		  { "mps=3 free=12640 cold=3 usual=7000" }, "0 mps 5120" },
		{ "... 1 MiB less", "", "", { "mps=3 free=12639 cold=3 usual=7000" }, "Cold" },
		{ "what different ones take beyond the mean adds up as squares: 4 * 3000 + 2 * 5000", "", "",
		  { "mps=3 free=6640 cold=3 usual=8000 mean=3000" }, "0 mps 5120" },
		{ "... 1 MiB less", "", "", { "mps=3 free=6639 cold=3 usual=8000 mean=3000" }, "Cold" },
		{ "... two of one signature and two others: 4 * 3000 + sqrt(6) * 5000", "", "",
		  { "mps=3 free=8888 cold=2 alike=1 usual=8000 mean=3000" }, "0 mps 5120" },
		{ "... 1 MiB less", "", "", { "mps=3 free=8887 cold=2 alike=1 usual=8000 mean=3000" }, "Cold" },
		{ "... of one signature: as much for each", "", "", { "mps=3 free=16640 alike=3 usual=8000 mean=3000" }, "0 mps 5120" },
		{ "... 1 MiB less", "", "", { "mps=3 free=16639 alike=3 usual=8000 mean=3000" }, "Cold" },
		{ "... of more than it is told of", "", "", { "mps=17 free=30000 cold=17 usual=8000 mean=3000" }, "Cold" },
		{ "... usually more than a third: a third will do", "", "", { "mps=1 free=26966 cold=1 usual=30000" }, "0 mps 5120" },
		{ "... usually less than min_free, which is asked for all the same", "", "", { "mps=2 free=5119 cold=2 usual=900" },
		  "Memory" },
		{ "nobody joins one whose capture is to come", "", "claim=8000", { "mps=1 captured", "mps=1 free=12000" }, "1 mps 8000" },
		{ "... with an estimate or without", "", "", { "mps=1 captured" }, "Capture" },
		{ "one with an estimate may join them", "", "claim=8000", { "mps=1 free=12000 cold=1" }, "0 mps 8000" },
		{ "a claim that would wrap", "", "claim=18446744073709551615 declared", { "mps=1 free=5000" }, "Memory" },
		{ "its memory is not free yet", "", "claim=39000", { "free=20000 settling" }, "Settling" },
		{ "... which is no obstacle where there is room", "", "claim=10000", { "free=20000 settling" }, "0 mps 10000" },
		{ "... and no promise where there never is", "", "claim=50000 declared", { "free=20000 settling" }, "Memory" },
		{ "nothing left beside what settles", "", "claim=50000", { "free=0 settling" }, "Settling" },
	};
	CHECK(rows);
}

static void planned(void **state)
{
	static const struct row rows[] = {
		{ "where the plan says, whatever the load", "", "claim=5000 planned=10", { "mps=1 smact=1" }, "0 mps 5000" },
		{ "nowhere else", "", "claim=5000 planned=11", { "empty", "mps=1 smact=1" }, "1 mps 5000" },
		{ "not yet", "", "claim=5000 planned=10 later", { "empty" }, "PlannedLater" },
		{ "as one of three", "", "claim=5000 planned=10 among=3", { "mps=2" }, "0 mps 5000" },
		{ "not as the fourth", "", "claim=5000 planned=10 among=3", { "mps=3" }, "PlannedLater" },
		{ "what is wrong beside is said first", "", "claim=40000 planned=10 among=3", { "mps=3" }, "Memory" },
		{ "its feed's GPU is none of the plan's", "rank=gain", "claim=5000 planned=11 among=1 company=10 self=0.1:0.1",
		  { "mps=0 has=0.1:0.1", "mps=0 has=0.1:0.1" }, "0 mps 5000" },
		{ "among is of plans", "", "claim=5000 among=1", { "mps=1 smact=0.1" }, "0 mps 5000" },
	};
	CHECK(rows);
}

static void load(void **state)
{
	static const struct row rows[] = {
		{ "SMACT at 80 %", "", "claim=5000", { "mps=1 smact=0.8 gract=1" }, "0 mps 5000" },
		{ "SMACT above", "", "claim=5000", { "mps=1 smact=0.801 gract=0.1" }, "Load" },
		{ "GRACT at 90 %", "", "claim=5000", { "streams=1 smact=1 gract=0.9" }, "0 streams 5000" },
		{ "GRACT above", "", "claim=5000", { "streams=1 smact=0.1 gract=0.91" }, "Load" },
		{ "idle: what its last task left does not count", "", "claim=5000", { "smact=1 gract=1" }, "0 mps 5000" },
		{ "SMACT off", "smact=off", "claim=5000", { "mps=1 smact=1" }, "0 mps 5000" },
		{ "GRACT off", "gract=off", "claim=5000", { "streams=1 gract=1" }, "0 streams 5000" },
		{ "off for one mode is not off for the other", "smact=off", "claim=5000", { "streams=1 gract=1" }, "Load" },
		{ "unknown: one more", "", "claim=5000", { "mps=1 smact=off" }, "0 mps 5000" },
		{ "unknown: as many as allowed", "", "claim=5000", { "mps=2 smact=off" }, "MaxTasks" },
		{ "GRACT known does not help under MPS", "", "claim=5000", { "mps=2 smact=off gract=0.1" }, "MaxTasks" },
		{ "known: any number", "", "claim=5000", { "mps=9 smact=0.1" }, "0 mps 5000" },
		{ "max_tasks off", "tasks=0", "claim=5000", { "mps=9 smact=off" }, "0 mps 5000" },
		{ "limits off leave max_tasks", "smact=off gract=off", "claim=5000", { "mps=2 smact=off" }, "MaxTasks" },
		{ "all off", "smact=off gract=off tasks=0 min=0 slack=0", "", { "streams=7 free=1 smact=off gract=off" },
		  "0 streams 0" },
	};
	CHECK(rows);
}

static void modes(void **state)
{
	static const struct row rows[] = {
		{ "auto under an MPS policy", "", "claim=5000", { "empty" }, "0 mps 5000" },
		{ "... where there is no MPS", "", "claim=5000", { "nomps" }, "0 streams 5000" },
		{ "auto under a streams policy", "share=streams", "claim=5000", { "empty" }, "0 streams 5000" },
		{ "auto takes the mode it finds", "", "claim=5000", { "streams=1" }, "0 streams 5000" },
		{ "but not MPS against the policy", "share=streams", "claim=5000", { "mps=1" }, "Mode" },
		{ "mps insists", "share=streams", "claim=5000 share=mps", { "streams=1", "mps=1 free=9000" }, "1 mps 5000" },
		{ "mps waits", "", "claim=5000 share=mps", { "streams=1", "nomps", "never=1" }, "Mode Mode Mode" },
		{ "streams insists", "", "claim=5000 share=streams", { "mps=1", "streams=1 free=9000" }, "1 streams 5000" },
		{ "streams on an idle GPU", "", "claim=5000 share=streams", { "empty" }, "0 streams 5000" },
		{ "nobody joins an exclusive task", "", "claim=5000", { "never=1" }, "Mode" },
		{ "of one process: under MPS as ever", "", "claim=5000", { "oneprocess" }, "0 mps 5000" },
		{ "... in slices first", "", "claim=5000 share=streams", { "oneprocess" }, "0 streams 5000" },
		{ "... and no more", "", "claim=5000 share=streams", { "streams=1 oneprocess", "streams=1 free=9000" }, "1 streams 5000" },
		{ "exclusive needs idle GPUs", "", "claim=5000 exclusive", { "mps=1", "streams=1", "never=1" },
		  "Busy Busy Busy" },
		{ "exclusive", "", "claim=5000 exclusive", { "mps=1", "empty" }, "1 never 5000" },
		{ "share never is exclusive", "", "claim=5000 share=never", { "mps=1", "empty" }, "1 never 5000" },
		{ "exclusive is not yet idle", "", "claim=5000 exclusive", { "settling" }, "Settling" },
		{ "recovery starts alone, and shares later", "", "claim=5000 start", { "mps=1", "empty" }, "1 mps 5000" },
		{ "recovery waits", "", "claim=5000 start", { "mps=1", "never=1" }, "Busy Busy" },
		{ "policy never", "share=never", "claim=5000", { "mps=1", "empty" }, "1 never 5000" },
		{ "policy never outweighs a wish for MPS", "share=never", "claim=5000 share=mps", { "nomps" }, "0 never 5000" },
		{ "rank exclusive", "rank=exclusive", "claim=5000", { "streams=1", "empty" }, "1 never 5000" },
		{ "another user's MPS server", "", "claim=5000", { "mps=1 uid=1001" }, "MpsUser" },
		{ "... elsewhere", "", "claim=5000 uid=1001", { "mps=1", "streams=1 free=9000" }, "1 streams 5000" },
		{ "... idle, it is in nobody's way", "", "claim=5000", { "uid=1001" }, "0 mps 5000" },
	};
	CHECK(rows);
}

static void several_gpus(void **state)
{
	static const struct row rows[] = {
		{ "two at once", "", "claim=9718 gpus=2", { "empty", "empty", "empty" }, "0,1 mps 9718" },
		{ "they join MPS", "", "claim=9718 gpus=2", { "mps=1", "mps=1 multi" }, "0,1 mps 9718" },
		{ "and are joined", "", "claim=5000", { "mps=1 multi" }, "0 mps 5000" },
		{ "one of the two has another user's server", "", "claim=9718 gpus=2", { "mps=1 uid=1001", "mps=1" },
		  "MpsUser Gpus" },
		{ "one of the two cannot do MPS", "", "claim=9718 gpus=2 share=mps", { "nomps", "empty" }, "Mode Gpus" },
		{ "the best two, in one mode", "", "claim=9718 gpus=2", { "streams=1 free=20000", "empty", "streams=1 free=30000" },
		  "1,2 streams 9718" },
		{ "the mode of the policy first", "", "claim=9718 gpus=2",
		  { "streams=1 free=30000", "empty", "mps=1 free=20000", "streams=1 free=39000" }, "1,2 mps 9718" },
		{ "no mode has enough of them", "", "claim=9718 gpus=2", { "streams=1", "mps=1" }, "Gpus Gpus" },
		{ "a wish for MPS is not time-sliced", "", "claim=9718 gpus=2 share=mps", { "streams=1", "empty" }, "Mode Gpus" },
		{ "an idle GPU that cannot do MPS", "", "claim=9718 gpus=2", { "nomps", "empty" }, "0,1 streams 9718" },
		{ "one is of one process", "", "claim=9718 gpus=2 share=streams", { "oneprocess", "empty" }, "0,1 streams 9718" },
		{ "one is too few", "", "claim=9718 gpus=2", { "empty", "streams=1 free=9000" }, "Gpus Memory" },
		{ "a server for each GPU: not under MPS", "narrow", "claim=9718 gpus=2", { "empty", "empty" }, "0,1 streams 9718" },
		{ "... not onto MPS", "narrow", "claim=9718 gpus=2", { "empty", "mps=1" }, "Gpus Mode" },
		{ "... MPS not onto it", "narrow", "claim=5000 share=mps", { "streams=1 multi" }, "Mode" },
		{ "... nor were it to run under MPS", "narrow", "claim=5000", { "mps=1 multi" }, "Mode" },
		{ "auto joins it by time slicing", "", "claim=5000", { "streams=1 multi" }, "0 streams 5000" },
		{ "exclusive", "", "claim=9718 gpus=2 exclusive", { "empty", "streams=1", "empty" }, "0,2 never 9718" },
		{ "... MPS never", "narrow", "claim=9718 gpus=2 share=mps", { "empty", "empty" }, "Mode Mode" },
		{ "cut on both", "", "claim=50000 gpus=2", { "empty", "total=40440" }, "0,1 never 40440" },
		{ "cut on one: alone on both", "", "claim=40000 gpus=2", { "empty", "free=39448 other=1000" },
		  "0,1 never 39448" },
		{ "... in any order", "", "claim=40000 gpus=2", { "free=39448 other=1000", "empty" }, "0,1 never 39448" },
		{ "cut on one, and the other is shared", "", "claim=30000 gpus=2",
		  { "streams=1 free=35000", "total=30900 free=29900 other=1000" }, "Gpus Gpus" },
		{ "cut to the second largest of two", "", "claim=90000 gpus=2", { "empty", "total=81408" }, "0,1 never 40448" },
		{ "more than there are", "", "claim=100 gpus=3", { "empty", "empty" }, "Gpus Gpus" },
		{ "none at all", "", "claim=100 gpus=0", { "empty" }, "Gpus" },
		{ "too many to count", "", "claim=100 gpus=65", { "empty" }, "Gpus" },
	};
	CHECK(rows);
}

static void mig(void **state)
{
	static const struct row rows[] = {
		{ "one task", "", "claim=9000", { "mig total=9728" }, "0 mig 9000" },
		{ "one task each", "", "claim=4000", { "mig total=9728 free=5000 streams=1" }, "Busy" },
		{ "smallest instance, no estimate", "", "", { "mig total=4864" }, "0 mig 4864" },
		{ "an estimate goes where it fits", "rank=mug", "claim=15000", { "mig total=9728", "mig total=19968" },
		  "1 mig 15000" },
		{ "an estimate above all instances", "", "claim=25000", { "mig total=9728", "mig total=19968" }, "1 mig 19968" },
		{ "exclusive", "", "claim=4000 exclusive", { "mig total=9728" }, "0 mig 4000" },
		{ "share mig", "", "claim=4000 share=mig", { "empty", "mig total=9728" }, "1 mig 4000" },
		{ "share mps or streams does not take it", "", "claim=4000 share=mps", { "mig total=9728" }, "Mode" },
		{ "... streams", "", "claim=4000 share=streams", { "mig total=9728" }, "Mode" },
		{ "several at once are no use", "", "claim=4000 gpus=2", { "mig total=9728", "mig total=9728" }, "Mode Mode" },
	};
	CHECK(rows);
}

static void who_may_not(void **state)
{
	static const struct row rows[] = {
		{ "drained", "", "claim=5000", { "drained" }, "Drained" },
		{ "the first reason is told", "", "claim=99999 declared", { "drained stale mps=1 free=0" }, "Drained" },
		{ "stale reading, or a GPU that fell off the bus", "", "claim=5000", { "stale", "free=9000" }, "1 mps 5000" },
		{ "all gone", "", "claim=5000", { "stale", "stale" }, "NoReading NoReading" },
		{ "kept for another", "", "claim=5000", { "kept=7" }, "Kept" },
		{ "kept for this one", "", "claim=5000 start task=7", { "kept=7" }, "0 mps 5000" },
		{ "kept for this one, not idle yet", "", "claim=5000 start task=7", { "kept=7 mps=1" }, "Busy" },
		{ "foreign", "", "claim=5000", { "free=20000 other=1025" }, "Foreign" },
		{ "1 GiB foreign is a desktop", "", "claim=5000 exclusive", { "free=20000 other=1024" }, "0 never 5000" },
		{ "foreign beside ours", "", "claim=5000", { "mps=1 free=20000 other=7000" }, "Foreign" },
		{ "foreign: share", "foreign", "claim=5000", { "free=20000 other=7000" }, "0 mps 5000" },
		{ "... asks for slack", "foreign", "claim=19000", { "free=20000 other=7000" }, "Memory" },
		{ "... cuts a guess whose need is there", "foreign", "claim=50000 need=17952", { "free=20000 other=20000" },
		  "0 never 20000" },
		{ "... and leaves slack beyond the need", "foreign", "claim=50000 need=17953", { "free=20000 other=20000" }, "Memory" },
		{ "... cuts none of which the need is not known", "foreign", "claim=50000", { "free=20000 other=20000" }, "Memory" },
		{ "... nor a declaration", "foreign", "claim=30000 need=9000 declared", { "free=20000 other=20000" }, "Memory" },
		{ "... nor where ours run", "foreign", "claim=50000 need=9000", { "mps=1 free=20000 other=9000" }, "Memory" },
		{ "... nor what nothing is known of", "foreign min=5000", "", { "free=4000 other=20000" }, "Memory" },
		{ "... and only on one as large as any", "foreign", "claim=50000 need=9000",
		  { "free=20000 other=20000", "total=81408 mps=1 free=30000" }, "Memory Memory" },
		{ "... rather whole, on another", "foreign rank=ff", "claim=50000 need=9000",
		  { "total=81408 free=40000 other=41408", "total=81408 free=60000 other=21408" }, "1 mps 50000" },
		{ "... and several at once", "foreign", "gpus=2 claim=30000 need=9000",
		  { "free=33000 other=7000", "free=20000 other=20000" }, "0,1 never 20000" },
		{ "... asks for load", "foreign", "claim=5000", { "free=20000 other=7000 smact=0.95" }, "Load" },
		{ "... does not become idle", "foreign", "claim=30000", { "free=20000 other=7000 settling" }, "Memory" },
		{ "... is never idle", "foreign", "claim=5000 exclusive", { "free=20000 other=7000" }, "Foreign" },
		{ "no GPUs", "", "claim=5000", { NULL }, "" },
	};
	CHECK(rows);
}

/* Beside a task of 0.1, one of 0.9 has 0.82 of the GPU: it takes 1.098 times as long. */
static void slow_downs(void **state)
{
	static const struct row rows[] = {
		{ "no limit", "", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "0 streams 9" },
		{ "a limit that is kept to", "slower=1.1", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "0 streams 9" },
		{ "... and one that is not", "slower=1.09", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "Slowdown" },
		{ "of the one that is there", "", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9:1.09" }, "Slowdown" },
		{ "... which beats the general one", "slower=1.09", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9:1.1" }, "0 streams 9" },
		{ "... if stricter, too", "slower=1.1", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9:1.09" }, "Slowdown" },
		{ "of the newcomer", "", "claim=9 self=0.9:0.9:1.09", { "streams=0 has=0.1:0.1" }, "Slowdown" },
		{ "... that it keeps to", "", "claim=9 self=0.9:0.9:1.1", { "streams=0 has=0.1:0.1" }, "0 streams 9" },
		{ "any of them", "", "claim=9 self=0.6:0.6", { "streams=0 has=0.1:0.1 has=0.5:0.5:1.1" }, "Slowdown" },
		{ "another GPU", "", "claim=9 self=0.9:0.9:1.1", { "streams=0 has=0.5:0.5 free=39000", "streams=0 has=0.02:0.02 free=9000" },
		  "1 streams 9" },
		{ "an idle one in any case", "slower=1", "claim=9 self=0.99:0.99:1", { "empty" }, "0 mps 9" },
		{ "two heavy ones", "", "claim=9 self=0.9:0.2:1.95", { "streams=0 has=0.9:0.2" }, "Slowdown" },
		{ "... 0.46 each", "", "claim=9 self=0.9:0.2:1.96", { "streams=0 has=0.9:0.2" }, "0 streams 9" },
		{ "MPS", "", "claim=9 self=0.9:0.9:1.5", { "mps=0 has=0.9:0.9" }, "Slowdown" },
		{ "a limit where nothing is known", "", "claim=9 self=0.5:0.5:1.08", { "streams=1" }, "Slowdown" },
		{ "before gain", "rank=gain", "claim=9 self=0.9:0.9:1.1", { "mps=0 has=0.9:0.9" }, "Slowdown" },
		{ "more tasks than can be predicted", "slower=9", "claim=9 self=0.1:0.1", { "mps=65" }, "MaxTasks" },
	};
	CHECK(rows);
}

/* Once what runs there is gone. */
static void suits(void **state)
{
	(void)state;
	static const struct { const char *request, *gpu; bool yes; } rows[] = {
		{ "claim=40000 declared", "mps=3 free=100 smact=0.99 kept=7 cold=1", true }, { "claim=41000 declared", "empty", false },
		{ "claim=41000", "mps=1", true }, { "exclusive", "never=1 settling", true }, { "claim=9", "drained", false },
		{ "claim=9", "stale", false }, { "gpus=2", "mig", false }, { "share=mig", "empty", false },
		{ "share=mig", "mig mps=1", true }, { "claim=9", "other=4000", false },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct row row = { .request = rows[i].request, .gpu = { rows[i].gpu } };
		struct situation s;
		read_row(&row, &s);
		if (map_suits(&s.scene, &s.r, s.g) != rows[i].yes)
			fail_msg("%s, %s", rows[i].request, rows[i].gpu);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory),
		cmocka_unit_test(planned),
		cmocka_unit_test(load),
		cmocka_unit_test(modes),
		cmocka_unit_test(several_gpus),
		cmocka_unit_test(mig),
		cmocka_unit_test(who_may_not),
		cmocka_unit_test(slow_downs),
		cmocka_unit_test(suits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
