/* SPDX-License-Identifier: MIT
 * Speeds of tasks that share a GPU: weighted max-min fairness over GPU time (streams) or SM activity (MPS). The speeds
 * themselves are the working memory, so nothing is allocated: simulators call this in their inner loops.
 *
 * The laws are the same water filling (doc/share.md derives those of MPS), so there is one routine and three rows of
 * parameters. Only +, -, *, /, sqrt and comparisons are used, which IEEE 754 defines to the last bit: a simulation gives the
 * same figures on every machine.
 */
#include "share/share.h"

#include "models/share.h"

#include <math.h>

/* Nobody is free and nobody takes more than all: both would make a speed of somebody else's 0 or infinite. By comparisons:
 * fmin and fmax heed NaN, so they stay calls, and inference asks this ten thousand times for one reading. */
static double clamp_load(double load)
{
	return load < SHARE_LEAST_LOAD ? SHARE_LEAST_LOAD : load > 1 ? 1 : load;
}

static double gpu_time(const struct share_task *t)
{
	return clamp_load(share_filled(*t, SHARE_UNKNOWN_LOAD).gract);
}

static double sm_activity(const struct share_task *t)
{
	double smact = clamp_load(share_filled(*t, SHARE_UNKNOWN_LOAD).smact), gract = gpu_time(t);
	return smact < gract ? smact : gract;
}

static bool kernels_known(const struct share_task *t)
{
	return t->kernels > 0;
}

/* How long a kernel of it is on average, in seconds. */
static double kernel_s(const struct share_task *t)
{
	return kernels_known(t) ? fmin(fmax(gpu_time(t) / t->kernels, SHARE_SHORTEST_KERNEL_US * 1e-6), SHARE_LONGEST_KERNEL_US * 1e-6)
				: 0;
}

struct law {
	double (*demand)(const struct share_task *t);
	/* `others_s`: the kernels of all others, one of each after the other. */
	double (*weight)(const struct share_task *t, double others_s);
	double capacity;
	double idle_weight;	/* a consumer that is never satisfied: what stays idle */
};

static double equal(const struct share_task *t, double others_s)
{
	(void)t, (void)others_s;
	return 1;
}

/* GRACT^(13/16). Square roots round exactly, so the result is the same on every machine. */
static double host_waits(double gract)
{
	double half = sqrt(gract), quarter = sqrt(half), sixteenth = sqrt(sqrt(quarter));
	return half * quarter * sixteenth;
}

/* GRACT^(7/8) */
static double host_waits_less(double gract)
{
	double half = sqrt(gract), quarter = sqrt(half), eighth = sqrt(quarter);
	return half * quarter * eighth;
}

/* With what stays idle as the level L, speed = L / (GRACT^a - SMACT / C): see doc/share.md. Never negative, since
 * SMACT <= GRACT <= GRACT^a and C > 1. */
static double by_grid(const struct share_task *t, double others_s)
{
	(void)others_s;
	double smact = sm_activity(t);
	return smact / (host_waits(gpu_time(t)) - smact / SHARE_MPS_CAPACITY);
}

/* The same, and each launch waits. As many as fit into the task's GPU time, whatever was said. */
static double by_launch(const struct share_task *t, double others_s)
{
	double smact = sm_activity(t), launches = gpu_time(t) / kernel_s(t);
	double waits = SHARE_KERNELS_WAIT * launches * others_s;
	return smact / (host_waits_less(gpu_time(t)) + waits - smact / SHARE_KERNELS_CAPACITY);
}

static const struct law streams = { gpu_time, equal, SHARE_STREAMS_CAPACITY, 0 };
static const struct law mps = { sm_activity, by_grid, SHARE_MPS_CAPACITY, SHARE_MPS_CAPACITY };
static const struct law mps_launches = { sm_activity, by_launch, SHARE_KERNELS_CAPACITY, SHARE_KERNELS_CAPACITY };

/* One task of which they are not known leaves nothing to reckon with for the others. */
static const struct law *law_of(const struct share_task *tasks, size_t n, enum share_mode mode)
{
	if (mode != SHARE_MPS)
		return &streams;
	for (size_t i = 0; i < n; i++)
		if (!kernels_known(&tasks[i]))
			return &mps;
	return &mps_launches;
}

/* Rounds ask for demand and weight of each task again and again: of up to this many they are put down. */
#define FEW 32

struct share_asked { double demand, weight; };

static struct share_asked ask(const struct law *law, const struct share_task *t, double all_s)
{
	return (struct share_asked){ law->demand(t), law->weight(t, all_s - kernel_s(t)) };
}

/* Water filling: each task is granted level * weight, at most its demand; what the satisfied leave raises the level for the
 * others. A speed of 0 marks a task that is not satisfied yet. Every round but the last satisfies at least one. */
static void fill(const struct law *law, const struct share_task *tasks, size_t n, double *speed)
{
	struct share_asked few[FEW];
	double all_s = 0;
#define ASKED(i) (n <= FEW ? few[i] : ask(law, &tasks[i], all_s))
	for (size_t i = 0; i < n; i++)
		all_s += kernel_s(&tasks[i]);
	for (size_t i = 0; i < n; i++) {
		speed[i] = 0;
		if (n <= FEW)
			few[i] = ask(law, &tasks[i], all_s);
	}
	double level;
	bool more;
	do {
		double left = law->capacity, weights = law->idle_weight;
		for (size_t i = 0; i < n; i++) {
			if (speed[i] > 0)
				left -= ASKED(i).demand;
			else
				weights += ASKED(i).weight;
		}
		level = left / weights;
		more = false;
		for (size_t i = 0; i < n && weights > 0; i++) {
			if (speed[i] > 0 || level * ASKED(i).weight < ASKED(i).demand)
				continue;
			speed[i] = 1;
			more = true;
		}
	} while (more);
	for (size_t i = 0; i < n; i++)
		if (speed[i] <= 0)
			speed[i] = level * ASKED(i).weight / ASKED(i).demand;
#undef ASKED
}

/* How many times as long kernels take on a GPU as full of MPS clients as that, beside all that they wait for. */
static double crowding(const struct share_task *tasks, size_t n, enum share_mode mode)
{
	double sum = 0;
	for (size_t i = 0; i < n && mode == SHARE_MPS; i++)
		sum += sm_activity(&tasks[i]);
	return sum > SHARE_CROWDED ? 1 + SHARE_CROWDING * (sum - SHARE_CROWDED) : 1;
}

/* Alone, or on an instance of its own, nobody is in the way. */
void share_speeds(const struct share_task *tasks, size_t n, enum share_mode mode, double *speed)
{
	if (n > 1 && mode != SHARE_NEVER && mode != SHARE_MIG) {
		double longer = crowding(tasks, n, mode);
		fill(law_of(tasks, n, mode), tasks, n, speed);
		for (size_t i = 0; i < n && longer > 1; i++)
			speed[i] /= longer;
		return;
	}
	for (size_t i = 0; i < n; i++)
		speed[i] = 1;
}

struct share_activity share_activity(const struct share_task *tasks, size_t n, const double *speed)
{
	struct share_activity sum = { 0 };
	for (size_t i = 0; i < n; i++) {
		sum.gract += speed[i] * gpu_time(&tasks[i]);
		sum.smact += speed[i] * sm_activity(&tasks[i]);
	}
	return (struct share_activity){ fmin(sum.gract, 1), fmin(sum.smact, 1) };
}

struct share_activity share_shown(const struct share_task *tasks, size_t n, enum share_mode mode, const double *speed)
{
	struct share_activity work = share_activity(tasks, n, speed);
	return (struct share_activity){ work.gract, fmin(work.smact * crowding(tasks, n, mode), 1) };
}

double share_part_speed(const struct share_task *t, double sm_part)
{
	return fmin(1, sm_part / sm_activity(t));
}

/* What a task shows on an instance with that part of the SMs, as fractions of the instance. */
struct share_task share_part_load(const struct share_task *t, double sm_part)
{
	double speed = share_part_speed(t, sm_part), smact = fmin(1, speed * sm_activity(t) / sm_part);
	return (struct share_task){ fmax(speed * gpu_time(t), smact), smact };
}
