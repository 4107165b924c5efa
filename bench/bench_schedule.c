/* SPDX-License-Identifier: MIT
 * How short can a trace become for somebody who knows everything beforehand? Simulated annealing over orders and GPUs, under
 * the simulator's law of sharing, with MPS for all tasks. It proves nothing, but what it finds is attainable, which the lower
 * bound need not be. Prints one JSON object.
 *	bench-schedule TRACE.csv WORKLOADS.csv DEVICES STEPS [MAP]
 *
 * A schedule is an order of all tasks, and the GPUs of each. Whenever a task comes or ends, those that wait are gone through in
 * that order, and each starts whose memory is free on its GPUs. One that `holds` keeps its GPUs from those behind it meanwhile.
 */
#include "base/alloc.h"
#include "base/scope.h"
#include "device/simdev.h"
#include "share/share.h"
#include "sim/bound.h"
#include "sim/dice.h"
#include "sim/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_GPUS 16
#define MOST_TASKS 512
#define RESTARTS 4

struct schedule {
	uint32_t order[MOST_TASKS], gpus[MOST_TASKS];	/* gpus: a bit each */
	bool holds[MOST_TASKS];
};

struct search {
	const struct sim_workload *of[MOST_TASKS];
	double submit_ms[MOST_TASKS];
	uint32_t n, n_gpus;
	uint64_t mib[MOST_GPUS];
	struct dice dice;
};

/* A schedule while it is played. */
struct play {
	double now_ms, rate[MOST_TASKS], left_ms[MOST_TASKS];
	uint64_t used[MOST_GPUS];
	uint32_t running[MOST_TASKS], n_running;
	uint32_t waiting[MOST_TASKS], n_waiting;	/* in order */
};

static void share_out(const struct search *s, const struct schedule *c, struct play *p, uint32_t gpu)
{
	struct share_task loads[MOST_TASKS];
	double speed[MOST_TASKS];
	uint32_t who[MOST_TASKS], n = 0;
	for (uint32_t i = 0; i < p->n_running; i++) {
		uint32_t t = p->running[i];
		if (!(c->gpus[t] >> gpu & 1))
			continue;
		loads[n] = (struct share_task){ s->of[t]->gract, s->of[t]->smact };
		who[n++] = t;
	}
	if (!n)
		return;
	share_speeds(loads, n, SHARE_MPS, speed);
	for (uint32_t i = 0; i < n; i++)
		p->rate[who[i]] = fmin(p->rate[who[i]], speed[i]);
}

static bool fits(const struct search *s, const struct play *p, uint32_t gpus, uint64_t mib)
{
	for (uint32_t g = 0; g < s->n_gpus; g++)
		if (gpus >> g & 1 && p->used[g] + mib > s->mib[g])
			return false;
	return true;
}

static void use(const struct search *s, struct play *p, uint32_t gpus, uint64_t mib)
{
	for (uint32_t g = 0; g < s->n_gpus; g++)
		p->used[g] += gpus >> g & 1 ? mib : 0;
}

static void start_those_that_fit(const struct search *s, const struct schedule *c, struct play *p)
{
	uint32_t held = 0, stay = 0;
	for (uint32_t i = 0; i < p->n_waiting; i++) {
		uint32_t t = p->waiting[i];
		if (s->submit_ms[t] > p->now_ms) {
			p->waiting[stay++] = t;
		} else if (!(c->gpus[t] & held) && fits(s, p, c->gpus[t], s->of[t]->mem_mib)) {
			use(s, p, c->gpus[t], s->of[t]->mem_mib);
			p->left_ms[t] = (double)s->of[t]->solo_ms;
			p->running[p->n_running++] = t;
		} else {
			held |= c->holds[t] ? c->gpus[t] : 0;
			p->waiting[stay++] = t;
		}
	}
	p->n_waiting = stay;
}

/* Goes on to the next arrival or end. */
static void go_on(const struct search *s, const struct schedule *c, struct play *p)
{
	double next = INFINITY;
	uint32_t stay = 0;
	for (uint32_t i = 0; i < p->n_running; i++)
		p->rate[p->running[i]] = 1;
	for (uint32_t g = 0; g < s->n_gpus; g++)
		share_out(s, c, p, g);
	for (uint32_t i = 0; i < p->n_running; i++)
		next = fmin(next, p->left_ms[p->running[i]] / p->rate[p->running[i]]);
	for (uint32_t i = 0; i < p->n_waiting; i++)
		if (s->submit_ms[p->waiting[i]] > p->now_ms)
			next = fmin(next, s->submit_ms[p->waiting[i]] - p->now_ms);
	p->now_ms += next;
	for (uint32_t i = 0; i < p->n_running; i++) {
		uint32_t t = p->running[i];
		p->left_ms[t] -= next * p->rate[t];
		if (p->left_ms[t] > 1e-6)
			p->running[stay++] = t;
		else
			use(s, p, c->gpus[t], -s->of[t]->mem_mib);
	}
	p->n_running = stay;
}

static double length_ms(const struct search *s, const struct schedule *c)
{
	static struct play p;
	memset(p.used, 0, sizeof p.used);
	p.now_ms = p.n_running = 0;
	p.n_waiting = s->n;
	memcpy(p.waiting, c->order, s->n * sizeof *p.waiting);
	while (p.n_waiting || p.n_running) {
		start_those_that_fit(s, c, &p);
		go_on(s, c, &p);
	}
	return p.now_ms;
}

/* The search --------------------------------------------------------------------------------------------------------------- */

static uint32_t any_gpus(struct search *s, unsigned n)
{
	uint32_t set = 0;
	while ((unsigned)__builtin_popcount(set) < n)
		set |= 1u << dice_below(&s->dice, s->n_gpus);
	return set;
}

static double chance(struct search *s)
{
	return (double)dice_below(&s->dice, 1u << 30) / (1u << 30);
}

static void move_in_order(struct search *s, struct schedule *c)
{
	uint32_t from = (uint32_t)dice_below(&s->dice, s->n), to = (uint32_t)dice_below(&s->dice, s->n), t = c->order[from];
	if (from < to)
		memmove(&c->order[from], &c->order[from + 1], (to - from) * sizeof t);
	else
		memmove(&c->order[to + 1], &c->order[to], (from - to) * sizeof t);
	c->order[to] = t;
}

static void change(struct search *s, struct schedule *c)
{
	uint32_t t = (uint32_t)dice_below(&s->dice, s->n), other = (uint32_t)dice_below(&s->dice, s->n), gpus = c->gpus[t];
	switch (dice_below(&s->dice, 4)) {
	case 0:
		move_in_order(s, c);
		break;
	case 1:
		c->gpus[t] = any_gpus(s, s->of[t]->gpus);
		break;
	case 2:
		if (s->of[t]->gpus == s->of[other]->gpus)
			c->gpus[t] = c->gpus[other], c->gpus[other] = gpus;
		break;
	default:
		c->holds[t] = !c->holds[t];
	}
}

static double anneal(struct search *s, struct schedule *best, uint64_t steps)
{
	struct schedule now = *best, next;
	double length = length_ms(s, &now), shortest = length, hot = length * 0.01;
	for (uint64_t i = 0; i < steps; i++) {
		double heat = hot * pow(0.002, (double)i / (double)steps);
		next = now;
		for (uint64_t k = dice_below(&s->dice, 3) + 1; k; k--)
			change(s, &next);
		double got = length_ms(s, &next);
		if (got > length && chance(s) >= exp((length - got) / heat))
			continue;
		now = next;
		length = got;
		if (length < shortest)
			shortest = length, *best = now;
	}
	return shortest;
}

static double search_all(struct search *s, uint64_t steps)
{
	double shortest = INFINITY;
	for (unsigned k = 0; k < RESTARTS; k++) {
		struct schedule c = { 0 };
		for (uint32_t i = 0; i < s->n; i++) {
			c.order[i] = i;
			c.gpus[i] = any_gpus(s, s->of[i]->gpus);
			c.holds[i] = true;
		}
		shortest = fmin(shortest, anneal(s, &c, steps / RESTARTS));
	}
	return shortest;
}

static int set_up(struct search *s, const struct sim_trace *t, const struct sim_workloads *w,
		  const struct device_model *devices, size_t n, struct error *err)
{
	if (t->n > MOST_TASKS || n > MOST_GPUS)
		return error_set(err, ERR_INVALID, "at most %d tasks and %d GPUs", MOST_TASKS, MOST_GPUS);
	*s = (struct search){ .n = (uint32_t)t->n, .n_gpus = (uint32_t)n, .dice = { 1 } };
	for (size_t i = 0; i < n; i++)
		s->mib[i] = devices[i].mem_total_mib - devices[i].mem_reserved_mib;
	for (size_t i = 0; i < t->n; i++) {
		s->of[i] = &w->list[t->list[i].workload];
		s->submit_ms[i] = (double)(t->list[i].submit_ms - t->list[0].submit_ms);
		if (s->of[i]->gpus > n)
			return error_set(err, ERR_INVALID, "%s: wants %u GPUs of %zu", s->of[i]->name, s->of[i]->gpus, n);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct search s;
	struct sim_workloads w = { 0 };
	struct sim_trace t = { 0 };
	struct device_model *devices = NULL;
	size_t n = 0;
	struct error err = ERROR_INIT;
	if (argc < 5 || argc > 6) {
		fputs("usage: bench-schedule TRACE.csv WORKLOADS.csv DEVICES STEPS [MAP]\n", stderr);
		return 2;
	}
	const char *map = argc > 5 ? argv[5] : NULL;
	if (simdev_parse(argv[3], &devices, &n, &err) || sim_workloads_read(&w, argv[2], map, &err) ||
	    sim_trace_read(&t, argv[1], &w, &err) || set_up(&s, &t, &w, devices, n, &err)) {
		fprintf(stderr, "bench-schedule: %s\n", err.text);
		return 1;
	}
	double found_ms = search_all(&s, strtoull(argv[4], NULL, 10));
	printf("{\"tasks\":%u,\"gpus\":%u,\"found_s\":%.1f,\"lower_bound_s\":%.1f}\n", s.n, s.n_gpus, found_ms / 1000,
	       bound_total_s(&t, &w, devices, n, SHARE_MPS, NULL));
	sim_trace_clear(&t);
	sim_workloads_clear(&w);
	free(devices);
	return 0;
}
