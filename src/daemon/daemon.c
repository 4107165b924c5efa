/* SPDX-License-Identifier: MIT
 * The wiring: makes the parts, joins them in the loop, and keeps the order "write, commit, then answer, then act".
 *
 * Parts do not know each other, nor this file: what one has to tell another goes through the callbacks here, so each can be
 * tried alone (test_server.c, test_requests.c, test_runner.c), and the only order that matters is the one in daemon_turn.
 *
 * There is one transaction for each turn, not one for each request: a sync of the disk costs milliseconds, and all clients of a
 * turn share it.
 */
#include "daemon/daemon.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/version.h"
#include "core/core.h"
#include "daemon/allowing.h"
#include "daemon/capturing.h"
#include "daemon/chronicle.h"
#include "daemon/claims.h"
#include "daemon/claims_folder.h"
#include "daemon/counting.h"
#include "daemon/drains.h"
#include "daemon/estimating.h"
#include "daemon/explaining.h"
#include "daemon/folding.h"
#include "daemon/hooks.h"
#include "daemon/jobmap.h"
#include "daemon/lookup.h"
#include "daemon/machine.h"
#include "daemon/names.h"
#include "daemon/nobody.h"
#include "daemon/notifying.h"
#include "daemon/now.h"
#include "daemon/pacing.h"
#include "daemon/past.h"
#include "daemon/recording.h"
#include "daemon/pool.h"
#include "daemon/remembering.h"
#include "daemon/requests.h"
#include "daemon/reserving.h"
#include "daemon/restoring.h"
#include "daemon/runner.h"
#include "daemon/sampling.h"
#include "daemon/server.h"
#include "daemon/timer.h"
#include "daemon/troubles.h"
#include "device/device.h"
#include "settings/settings.h"
#include "store/store.h"
#include "submit/wire.h"

#include <errno.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_SNAPSHOT_MS 5000
#define LATEST_COMMIT_MS 20	/* for what nobody waits for */
#define MAX_DESCRIPTORS 65536

/* The parts, in the order in which they are made; they are ended in the reverse one. NULL: not made yet. */
struct daemon {
	struct settings config;		/* as they are in force; SIGHUP changes them */
	struct daemon_options options;
	char *state_dir, *run_dir, *socket_path, *program;	/* owned; program: radd's own path */
	char *log_path;			/* of a radd that rad started */
	struct device *device;		/* the GPUs it was given */
	int lock_fd;
	struct store *store;
	uv_loop_t loop;
	uv_signal_t on_term, on_int, on_hup;
	struct claims *claims;		/* shared with other daemons of this machine */
	struct core *core;
	struct runner *runner;		/* attempts: launching, watching, ending, MPS servers */
	struct pacing *pacing;		/* how far running tasks are */
	struct recording *recording;	/* what the sampler read, over time */
	struct estimating *estimating;	/* workers of slow estimators */
	struct capturing *capturing;	/* tasks that wait for their captures */
	struct explaining *explaining;
	struct names *names, *groups;	/* of users, and of those they are in */
	struct allowing *allowing;	/* what users may have */
	struct nobody *nobody;		/* rows of users that there are none of */
	struct remembering *remembering;	/* what they had */
	struct notifying *notifying;	/* of what people want to be told */
	struct counting counting;	/* what happened, in sums */
	struct jobmap *jobmap;		/* which tasks run where, for dcgm-exporter */
	struct drains *drains;		/* GPUs that are out of use */
	struct reserving *reserving;	/* GPUs that are for one user for a while */
	struct lookups *lookups;	/* workers that look into the history */
	struct folding *folding;	/* what ended long ago */
	struct usages *stored;		/* what each user added to the store */
	struct requests requests;	/* what clients may ask */
	struct server *server;		/* clients */
	struct sampling *sampling;	/* the sampler process */
	bool has_turns;			/* the handles below are in the loop */
	uv_prepare_t prepare;
	uv_check_t check;
	uv_timer_t timer;		/* for what is due: what core_turn says, or a commit */
	int64_t dirty_ms;		/* mono; since when there is something to commit; 0: there is not */
	bool store_failed;		/* the last commit failed */
};

/* Which MPS servers can be had here: the setting, the devices and the driver have to allow it. */
static enum core_mps has_mps(void *ctx, const char **why)
{
	const struct daemon *d = ctx;
	enum core_mps can = runner_mps(d->runner, why);
	return d->config.mps ? can : CORE_MPS_NONE;
}

/* What users get who are told nothing else. */
static void log_mps(struct daemon *d)
{
	const char *why;
	enum core_mps can = has_mps(d, &why);
	if (geteuid() || can == CORE_MPS_NONE || !d->config.core.mps_together)
		return;
	if (can == CORE_MPS_TOGETHER)
		log_info("MPS: one server for all users (mps_users: together; %s)", why);
	else
		log_warn("MPS: a server for each user, who take turns on a GPU, though mps_users is together: %s", why);
}

static void tell_settings(void *list, const char *text)
{
	troubles_add(list, "settings", "%s (not in force, and radd would not start with it)", text);
}

static void tell_hooks(void *list, const char *text)
{
	troubles_add(list, "settings", "%s (not in force: systemctl reload radd refuses it)", text);
}

/* A mistake in the file of settings, reloaded or not, is told before the next start finds it. Of root's, which is in /etc: that
 * of a user may lie where reading hangs. */
static void look_at_settings(const struct daemon *d, json_t *list)
{
	struct settings next;
	if (geteuid())
		return;
	if (!settings_load(&next, d->options.config_path, d->options.devices, tell_settings, list, NULL) &&
	    (strcmp(next.prolog, d->config.prolog) || strcmp(next.epilog, d->config.epilog)))
		hooks_check(&next, tell_hooks, list);
	settings_clear(&next);
}

/* By its name: the file that it was started from has none any more, or another, once a newer one was put in its place. */
static void look_at_program(const struct daemon *d, json_t *list)
{
	char now[4096];
	ssize_t n = readlink("/proc/self/exe", now, sizeof now - 1);
	now[n > 0 ? n : 0] = 0;
	if (n > 0 && strcmp(now, d->program))
		troubles_add(list, "programs", "%s was replaced or removed since radd was started from it: restart radd (tasks go on)",
			     d->program);
}

static void tell_troubles(void *ctx, json_t *list)
{
	struct daemon *d = ctx;
	look_at_settings(d, list);
	look_at_program(d, list);
	runner_tell_troubles(d->runner, list);
	claims_tell(d->claims, list);
	jobmap_tell(d->jobmap, list);
	nobody_tell(d->nobody, list);
}

/* The turn ------------------------------------------------------------------------------------------------------------- */

/* The only place that hears of every change: it is stored, logged, and noted by those who act on it after the commit. */
static void on_event(void *ctx, const struct event *ev, const struct task *t)
{
	struct daemon *d = ctx;
	store_append(d->store, ev, t, NULL);	/* one that fails dooms the transaction: the commit says why */
	chronicle_event(d->names, ev, t);
	runner_note(d->runner, ev, t);
	notifying_note(d->notifying, ev, t);
	counting_note(&d->counting, ev, t);
	jobmap_note(d->jobmap, ev);
	claims_note(d->claims, ev);
	server_task_changed(d->server);
}

/* A bug of ours: said loudly, and the task stays as it was. */
static void on_trouble(void *ctx, const char *text)
{
	(void)ctx;
	log_error("%s", text);
}

static void on_outcome(void *ctx, const struct outcome *o)
{
	store_add_outcome(((struct daemon *)ctx)->store, o, NULL);
}

static void on_estimate(void *ctx, int64_t question, const struct estimator *row, struct spec *spec,
			uint64_t declared_mib, const struct estimate_context *c)
{
	struct daemon *d = ctx;
	if (capturing_may_come(spec))
		capturing_wait(d->capturing, question, row, spec, declared_mib, c);
	else
		estimating_ask(d->estimating, question, row, spec, declared_mib, c);
}

/* The capture that was waited for is there. */
static void on_captured(void *ctx, int64_t question, const struct estimator *row, struct spec *spec, uint64_t declared_mib,
			const struct estimate_context *c)
{
	estimating_ask(((struct daemon *)ctx)->estimating, question, row, spec, declared_mib, c);
}

static void on_estimated(void *ctx, int64_t question, bool spoke, const struct estimate_result *said)
{
	core_estimated(((struct daemon *)ctx)->core, question, spoke, said, now_read());
}

/* After the core, what hangs on it: claims say what is held by now, and recordings keep the reading itself. */
static void on_reading(void *ctx, const struct snapshot *snap)
{
	struct daemon *d = ctx;
	struct now now = now_read();
	const char *why;
	core_snapshot(d->core, snap, has_mps(d, &why), now);
	jobmap_note_gpus(d->jobmap, core_gpu_count(d->core));
	claims_refresh(d->claims, d->core);
	recording_note(d->recording, snap, now);
	remembering_note(d->remembering, now, false);
	log_bound(d->log_path);
	server_keep_socket(d->server);
}

/* Whoever waits to be named goes on. A limit may be of a name or a group: what users may have is looked up again, but only
 * where it can be something else, since what is kept for a task is then chosen anew, and a plan is made. */
static void on_names(void *ctx, bool anew)
{
	struct daemon *d = ctx;
	if (anew) {
		allowing_forget(d->allowing);
		core_reconsider(d->core);
	}
	server_names_changed(d->server);
}

/* A store that cannot be written (a full disk) must not lose what was promised, and nothing that was not stored is told or
 * started. What is in memory cannot be rolled back piece by piece, so the daemon ends itself and lets its successor read what
 * is on disk; running tasks do not notice. */
static void daemon_store_broken(struct daemon *d, const struct error *err)
{
	log_error("%s; this radd stops; running tasks go on, and the next radd finds them", err->text);
	server_fail(d->server, err);
	d->store_failed = true;
	uv_stop(&d->loop);
}

/* One commit, with all that follows from it. Returns whether effects were run, which may have made new events. Answers go
 * before effects: a client that submits hears of it before its program runs. */
static bool daemon_commit_and_act(struct daemon *d)
{
	struct error err = ERROR_INIT;
	if (store_commit(d->store, &err)) {
		daemon_store_broken(d, &err);
		return false;
	}
	server_flush(d->server);
	lookups_start(d->lookups);
	notifying_work(d->notifying);
	jobmap_work(d->jobmap, d->core);
	claims_work(d->claims, d->core);
	return runner_work(d->runner);
}

/* That a task began or ended is known from its attempt folder too, so it may be on disk a moment later, in one commit with what
 * comes next, unless somebody waits for an answer or a start: three commits a short task took half of the loop's time. */
static bool daemon_may_commit_later(struct daemon *d, int64_t now_ms)
{
	if (!store_dirty(d->store)) {
		d->dirty_ms = 0;
		return false;
	}
	if (!d->dirty_ms)
		d->dirty_ms = now_ms;
	return now_ms - d->dirty_ms < LATEST_COMMIT_MS && !server_owes(d->server) && !runner_is_urgent(d->runner);
}

static void on_timer(uv_timer_t *t)
{
	(void)t;	/* it only has to wake the loop: the turn comes after */
}

/* Until nothing follows any more: an effect may fail and make an event, which the core has to see before the loop sleeps.
 * Then the timer is set for whatever is due first. */
static void daemon_turn(struct daemon *d)
{
	int64_t due;
	if (d->store_failed)
		return;
	do
		due = core_turn(d->core, now_read());
	while (!daemon_may_commit_later(d, clock_mono_ms()) && daemon_commit_and_act(d));
	explaining_note(d->explaining, d->core, now_read());
	int64_t now = clock_mono_ms();
	if (daemon_may_commit_later(d, now) && d->dirty_ms + LATEST_COMMIT_MS < due)
		due = d->dirty_ms + LATEST_COMMIT_MS;
	timer_set(&d->timer, on_timer, due, now);
}

/* Before the poll, so that what timers did is on disk before the loop sleeps; after it, for what the poll brought. */
static void on_prepare(uv_prepare_t *h) { daemon_turn(h->data); }
static void on_check(uv_check_t *h) { daemon_turn(h->data); }

static void on_signal(uv_signal_t *h, int signum)
{
	struct daemon *d = h->data;
	log_info("%s: stopping; running tasks go on", strsignal(signum));
	uv_stop(&d->loop);
}

static void tell_change(void *ctx, const struct setting *row, const char *old, const char *new, bool taken)
{
	size_t *n = ctx;
	++*n;
	if (taken)
		log_info("SIGHUP: %s: %s -> %s", row->name, old, new);
	else
		log_warn("SIGHUP: %s: %s -> %s needs a restart of radd; tasks go on meanwhile", row->name, old, new);
}

static void tell_mistake(void *ctx, const char *text)
{
	(void)ctx;
	log_error("SIGHUP: %s", text);
}

/* The settings as a start would read them. With one that is wrong, nothing is changed at all. */
static void on_hangup(uv_signal_t *h, int signum)
{
	struct daemon *d = h->data;
	struct settings next;
	size_t changes = 0;
	(void)signum;
	if (settings_load(&next, d->options.config_path, d->options.devices, tell_mistake, NULL, NULL)) {
		log_error("SIGHUP: settings stay as they were");
	} else {
		settings_adopt(&d->config, &next, tell_change, &changes);
		allowing_forget(d->allowing);
		nobody_look(d->nobody);
		struct core_config filled = machine_fill(&d->config, d->device);
		core_reconfigure(d->core, &filled);
		hooks_check(&d->config, tell_mistake, NULL);
		if (!changes)
			log_info("SIGHUP: settings read again from %s: nothing changed",
				 next.file ? next.file : "the defaults (there is no file)");
	}
	settings_clear(&next);
}

/* What parts ask of each other ----------------------------------------------------------------------------------------- */

static bool state_of(task_id id, enum task_state *state, void *ctx)
{
	struct daemon *d = ctx;
	return past_state(d->core, d->store, id, state);
}

static bool slot_hears(void *ctx, const struct task *t)
{
	return runner_slot_hears(((struct daemon *)ctx)->runner, t);
}

static task_id owner_of(void *ctx, const struct proc_reading *p)
{
	return runner_owner(((struct daemon *)ctx)->runner, p);
}

static struct allowance allowance_of(void *ctx, uid_t uid)
{
	return allowing_of(((struct daemon *)ctx)->allowing, uid);
}

static const char *allowance_source(void *ctx, uid_t uid, enum allowance_kind kind)
{
	return allowing_source(((struct daemon *)ctx)->allowing, uid, kind);
}

static void on_idle(void *ctx, const struct task *t)
{
	const struct daemon *d = ctx;
	char id[TASK_ID_TEXT];
	log_info("task %s of %s (%s): computed nothing for %lld s, and holds its GPUs", task_id_text(t->id, id),
		 t->spec->user ? t->spec->user : "?", task_name(t), (long long)d->config.core.lease_idle_ms / 1000);
}

static void on_memory_near(void *ctx, const struct task *t, uint64_t host_mib)
{
	const struct daemon *d = ctx;
	char id[TASK_ID_TEXT], took[32], asked[32];
	log_info("task %s of %s (%s): took %s of the %s of host memory that it asked for", task_id_text(t->id, id),
		 t->spec->user ? t->spec->user : "?", task_name(t), units_format_mib((double)host_mib, took, sizeof took),
		 units_format_mib((double)task_host_limit_mib(t), asked, sizeof asked));
	notifying_note_memory(d->notifying, t);
}

static char **environment_of(void *ctx, const struct task *t)
{
	return runner_environment(((struct daemon *)ctx)->runner, t);
}

static bool departed(void *ctx, task_id id, const struct exit_report *report)
{
	return runner_departed(((struct daemon *)ctx)->runner, id, report);
}

static int signal_task(void *ctx, const struct task *t, int signal)
{
	return runner_ask(((struct daemon *)ctx)->runner, t, signal);
}

static uid_t payer_of(void *ctx, uid_t uid, bool ask)
{
	return names_payer(((struct daemon *)ctx)->names, uid, ask);
}

static bool may_claim(void *ctx, const struct core_claim *claims, unsigned n)
{
	struct daemon *d = ctx;
	return claims_settle(d->claims, d->core, claims, n);
}

static const char *start_waits(void *ctx, const struct task *t)
{
	return runner_delay(((struct daemon *)ctx)->runner, t->id);
}

static void on_clock_set(void *ctx, int64_t by_ms)
{
	core_clock_set(((struct daemon *)ctx)->core, by_ms, now_read());
}

/* Start-up ------------------------------------------------------------------------------------------------------------- */

/* Simulated GPUs are each daemon's own, unless a test says where they meet. */
static const char *claims_place(const struct daemon *d)
{
	const char *said = getenv("RAD_CLAIMS_DIR");
	if (said)
		return *said ? said : NULL;
	return device_kind(d->device)->needs_driver ? CLAIMS_FOLDER : NULL;
}

/* What users may have, and had, decides which task is next, so it comes before the tasks. */
static int daemon_restore(struct daemon *d, struct error *err)
{
	bool failed = allowing_restore(d->allowing, err) || remembering_restore(d->remembering, now_read(), err) ||
		      restoring_run(d->store, d->core, d->runner, err) || drains_restore(d->drains, err) ||
		      reserving_restore(d->reserving, err);
	reserving_are_named(d->reserving, d->names);	/* asked now, known to who looks at the GPUs later */
	now_watch(d->store, on_clock_set, d);
	return failed ? -1 : 0;
}

/* What is there is whole, and another folder would be another queue. */
static int say_read_only(const char *dir, struct error *err)
{
	const struct error why = *err;
	if (why.no != EROFS)
		return -1;
	return error_set(err, why.code, "%s: have it mounted for writing (mount -o remount,rw; dmesg may say why it is not), then "
			 "start radd again: what was stored in %s is safe; --state has a new queue in another folder", why.text, dir);
}

/* Folders, lock, store. */
static int daemon_open_state(struct daemon *d, struct error *err)
{
	if (wire_make_state_dir(d->state_dir, err) ||
	    io_make_dirs(d->run_dir, geteuid() ? 0700 : 0755, err) || wire_prepare_folder(d->socket_path, WIRE_OTHER_SOCKET, err))
		return say_read_only(d->state_dir, err);
	if ((d->lock_fd = store_lock(d->state_dir, err)) < 0 || !(d->store = store_open(d->state_dir, err)))
		return say_read_only(d->state_dir, err);
	return 0;
}

/* Tasks are told these paths, and start in folders of their own: relative ones would lead elsewhere there. */
static char *absolute(const char *path)
{
	char cwd[4096];
	if (*path == '/' || !getcwd(cwd, sizeof cwd))
		return alloc_string(path);
	return alloc_printf("%s/%s", cwd, path);
}

/* A descriptor a client and a running task: what a shell hands down is soon too few. And what else it handed down is for none
 * of the processes that are started here. */
static void prepare_descriptors(void)
{
	struct rlimit limit;
	syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= MAX_DESCRIPTORS)
		return;
	limit.rlim_cur = limit.rlim_max < MAX_DESCRIPTORS ? limit.rlim_max : MAX_DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Where everything is. The server's own keeps MPS servers where systemd cleans up; any other, root's second one too, beside its
 * state: the folder of the server's would keep everybody from having a radd of his own. */
static void daemon_set_paths(struct daemon *d, const struct daemon_options *o, const char *program)
{
	scoped_free char *said = wire_said_socket(), *server_state = wire_own_state_dir();
	d->program = alloc_string(program);
	d->state_dir = o->state_dir ? absolute(o->state_dir) : wire_own_state_dir();
	d->log_path = alloc_printf("%s/radd.log", d->state_dir);
	bool for_server = !geteuid() && !getenv("RAD_STATE") && !strcmp(d->state_dir, server_state);
	d->run_dir = for_server ? alloc_string("/run/rad") : alloc_printf("%s/run", d->state_dir);
	d->socket_path = o->socket_path ? absolute(o->socket_path) : said ? absolute(said) : wire_own_socket_path();
}

/* A signal that comes while the parts are made is heard when the loop runs. */
static void daemon_start_signals(struct daemon *d)
{
	signal(SIGPIPE, SIG_IGN);
	uv_signal_init(&d->loop, &d->on_term);
	uv_signal_init(&d->loop, &d->on_int);
	uv_signal_init(&d->loop, &d->on_hup);
	d->on_term.data = d->on_int.data = d->on_hup.data = d;
	uv_signal_start(&d->on_term, on_signal, SIGTERM);
	uv_signal_start(&d->on_int, on_signal, SIGINT);
	uv_signal_start(&d->on_hup, on_hangup, SIGHUP);
}

/* Those that work without a socket, and cannot fail; each is made of those before it. None touches a task yet: until the store
 * is read, no part knows which there are. */
static void daemon_start_parts(struct daemon *d)
{
	const struct core_ops ops = { .ctx = d, .event = on_event, .slot_hears = slot_hears,
				      .state_of = state_of, .owner = owner_of, .idle = on_idle, .start_waits = start_waits,
				      .estimate = on_estimate,
				      .claim = may_claim,
				      .outcome = on_outcome, .trouble = on_trouble, .allowance = allowance_of,
				      .allowance_source = allowance_source };
	d->claims = claims_create(&d->loop, claims_place(d), store_mark(d->store));
	machine_take_memory();
	struct core_config filled = machine_fill(&d->config, d->device);
	machine_tell_cores(&filled);
	d->core = core_create(&filled, &ops);
	const struct runner_plan running = { .core = d->core, .config = &d->config, .store = d->store,
					     .home = { d->state_dir, store_mark(d->store), store_marked_ms(d->store) },
					     .run_dir = d->run_dir, .socket_path = d->socket_path, .device = d->device };
	d->runner = runner_create(&d->loop, &running);
	d->pacing = pacing_create(&d->loop, d->core, &running.home, on_memory_near, d);
	d->recording = recording_create(d->store, &d->config);
	d->estimating = estimating_create(&d->loop, d->program, ESTIMATING_DEADLINE_MS, on_estimated, d);
	d->capturing = capturing_create(&d->loop, on_captured, on_estimated, d);
	d->explaining = explaining_create();
	d->names = names_create(&d->loop, d->program, "--name", NAMES_DEADLINE_MS, on_names, d);
	names_of(d->names, geteuid(), &(const char *){ NULL });	/* who acts as administrator is to be named soon */
	d->groups = names_create(&d->loop, d->program, "--groups", NAMES_DEADLINE_MS, on_names, d);
	d->allowing = allowing_create(d->store, d->names, d->groups, &d->config);
	d->nobody = nobody_create(&d->loop, d->program, &d->config);
	d->remembering = remembering_create(d->store, d->core);
	d->notifying = notifying_create(&d->loop, d->program, d->names, d->store);
	d->jobmap = jobmap_create(d->config.dcgm_job_mapping);
	d->drains = drains_create(&d->loop, d->core, d->store);
	d->reserving = reserving_create(&d->loop, d->core, d->store);
	d->lookups = lookups_create(&d->loop, d->program, d->state_dir);
	d->folding = folding_create(&d->loop, d->store, d->core, &d->config);
	d->stored = usages_create_even(STORED_BURST_US);
	d->requests = (struct requests){
		.core = d->core, .store = d->store, .names = d->names, .allowing = d->allowing, .capturing = d->capturing,
		.drains = d->drains, .reserving = d->reserving, .untold = notifying_untold(d->notifying),
		.stored = d->stored, .counting = &d->counting, .recording = d->recording, .config = &d->config,
		.state_dir = d->state_dir, .socket_path = d->socket_path, .started_ms = clock_wall_ms(), .has_mps = has_mps,
		.troubles = tell_troubles, .owner = owner_of, .environment = environment_of,
		.departed = departed, .signal = signal_task, .ctx = d,
	};
}

/* Last, since it waits for a driver for up to five seconds; the socket is bound by then, and whoever connects is answered
 * when the loop runs. */
static int daemon_start_sampling(struct daemon *d, struct error *err)
{
	const struct sampling_plan plan = { .program = d->program, .device = d->device,
					    .interval_ms = d->config.interval_ms, .first_ms = FIRST_SNAPSHOT_MS };
	d->sampling = sampling_create(&d->loop, &plan, on_reading, d, err);
	d->requests.sampling = d->sampling;
	return d->sampling ? 0 : -1;
}

static void daemon_start_turns(struct daemon *d)
{
	uv_prepare_init(&d->loop, &d->prepare);
	uv_check_init(&d->loop, &d->check);
	uv_timer_init(&d->loop, &d->timer);
	d->prepare.data = d->check.data = d->timer.data = d;
	uv_prepare_start(&d->prepare, on_prepare);
	uv_check_start(&d->check, on_check);
	d->has_turns = true;
}

struct daemon *daemon_create(const struct daemon_options *o, const char *program, struct error *err)
{
	struct daemon *d = alloc_zero(sizeof *d);
	d->options = *o;
	d->lock_fd = -1;
	daemon_set_paths(d, o, program);
	if (settings_load(&d->config, o->config_path, o->devices, NULL, NULL, err) ||
	    !(d->device = device_create(d->config.devices, d->state_dir, err)) || daemon_open_state(d, err) ||
	    pool_begin(err)) {
		daemon_destroy(d);
		return NULL;
	}
	prepare_descriptors();
	uv_loop_init(&d->loop);
	daemon_start_signals(d);
	daemon_start_parts(d);
	const struct server_ops serving = { .run = requests_run, .requests = &d->requests, .lookups = d->lookups,
					    .payer = payer_of, .ctx = d };
	/* The socket is bound first, since without it nothing may be touched; nobody is heard before the loop runs. */
	if (!(d->server = server_create(&d->loop, d->socket_path, &serving, err)) || daemon_restore(d, err) ||
	    daemon_start_sampling(d, err) || store_commit(d->store, err)) {	/* who says that it is ready has a disk */
		daemon_destroy(d);
		return NULL;
	}
	claims_refresh(d->claims, d->core);
	nobody_look(d->nobody);
	daemon_start_turns(d);
	log_info("radd %s: devices %s, %s, state %s, socket %s", version_build, d->config.devices, sampling_gpus(d->sampling),
		 d->state_dir, d->socket_path);
	log_mps(d);
	return d;
}

int daemon_run(struct daemon *d)
{
	uv_run(&d->loop, UV_RUN_DEFAULT);
	runner_leave(d->runner);
	return d->store_failed ? 1 : 0;
}

static void daemon_stop_turns(struct daemon *d)
{
	if (!d->has_turns)
		return;
	uv_close((uv_handle_t *)&d->timer, NULL);
	uv_close((uv_handle_t *)&d->check, NULL);
	uv_close((uv_handle_t *)&d->prepare, NULL);
}

static void daemon_stop_signals(struct daemon *d)
{
	uv_close((uv_handle_t *)&d->on_hup, NULL);
	uv_close((uv_handle_t *)&d->on_int, NULL);
	uv_close((uv_handle_t *)&d->on_term, NULL);
}

/* The last minute of readings; a store that failed once is not written any more. */
static void daemon_keep_readings(struct daemon *d)
{
	if (!d->has_turns || d->store_failed)
		return;
	recording_flush(d->recording, now_read());
	remembering_note(d->remembering, now_read(), true);
	store_commit(d->store, NULL);
}

/* Each part ends with the handles that it has in the loop; they are gone when it has run once more. Those without any stay
 * until the last readings are written. */
static void daemon_stop_parts(struct daemon *d)
{
	daemon_stop_turns(d);
	sampling_destroy(d->sampling);
	server_destroy(d->server);
	usages_destroy(d->stored);
	folding_destroy(d->folding);
	lookups_destroy(d->lookups);
	reserving_destroy(d->reserving);
	drains_destroy(d->drains);
	jobmap_destroy(d->jobmap);
	notifying_destroy(d->notifying);
	nobody_destroy(d->nobody);
	names_destroy(d->groups);
	names_destroy(d->names);
	capturing_destroy(d->capturing);
	estimating_destroy(d->estimating);
	pacing_destroy(d->pacing);
	runner_destroy(d->runner);
	claims_destroy(d->claims);
	daemon_stop_signals(d);
	uv_run(&d->loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&d->loop))
		log_error("a handle was left in the loop");
	daemon_keep_readings(d);
	remembering_destroy(d->remembering);
	allowing_destroy(d->allowing);
	recording_destroy(d->recording);
	explaining_destroy(d->explaining);
	core_destroy(d->core);
}

void daemon_destroy(struct daemon *d)
{
	if (!d)
		return;
	now_watch(NULL, NULL, NULL);
	if (d->core)
		daemon_stop_parts(d);
	store_close(d->store);
	if (d->lock_fd >= 0)
		close(d->lock_fd);
	device_destroy(d->device);
	settings_clear(&d->config);
	free(d->state_dir);
	free(d->log_path);
	free(d->run_dir);
	free(d->socket_path);
	free(d->program);
	free(d);
}
