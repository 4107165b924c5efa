/* SPDX-License-Identifier: MIT
 * See column_fields.h. What one machine without partitions and accounts has none of is told as Slurm tells what is not set, so
 * that a format that somebody brings along prints its columns; what would need a number that nobody has is no field.
 */
#include "cli/column_fields.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/format.h"
#include "cli/member.h"

#include <math.h>
#include <pwd.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* ---- forms of values ---- */

static char *text_of(const json_t *t, const char *key)
{
	return alloc_string(member_text(t, key));
}

static char *number_of(double v)
{
	return isnan(v) ? alloc_string("") : alloc_printf("%.0f", v);
}

/* squeue: "0:05", "1:02:03", "1-02:03:04"; sacct has hours always. */
static char *length_of(double s, enum column_form form)
{
	if (isnan(s))
		return alloc_string(form == COLUMN_SACCT ? "" : "N/A");
	long long n = (long long)s, days = n / 86400, hours = n / 3600 % 24, minutes = n / 60 % 60, seconds = n % 60;
	if (days)
		return alloc_printf("%lld-%02lld:%02lld:%02lld", days, hours, minutes, seconds);
	if (form == COLUMN_SACCT)
		return alloc_printf("%02lld:%02lld:%02lld", hours, minutes, seconds);
	return hours ? alloc_printf("%lld:%02lld:%02lld", hours, minutes, seconds) : alloc_printf("%lld:%02lld", minutes, seconds);
}

static char *moment_of(const json_t *t, const char *key, enum column_form form)
{
	int64_t ms = member_ms(t, key, -1);
	char text[FORMAT_LEN];
	struct tm local;
	if (ms < 0)
		return alloc_string(form == COLUMN_SACCT ? "Unknown" : "N/A");
	time_t s = (time_t)(ms / 1000);
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", localtime_r(&s, &local));
	return alloc_string(text);
}

static double id_number(const json_t *t)
{
	return (double)member_id(t);
}

static char *where_of(const json_t *t, const json_t *gpus)
{
	return format_gpus(json_object_get(member_last_attempt(t), "gpus"), gpus);
}

static bool waits(const json_t *t)
{
	return member_state(t) == TASK_PENDING || member_state(t) == TASK_HELD;
}

/* ---- values ---- */

#define VALUE(name, expression) \
	static char *value_##name(const json_t *t, const json_t *gpus, enum column_form form) \
	{ \
		(void)t, (void)gpus, (void)form; \
		return expression; \
	}
#define NUMBER(name, expression) \
	static double number_##name(const json_t *t) \
	{ \
		return expression; \
	}

NUMBER(ran, member_number(t, "run_s"))
NUMBER(limit, isnan(member_number(t, "time_limit_s")) ? INFINITY : member_number(t, "time_limit_s"))
NUMBER(left, number_limit(t) - member_number(t, "run_s"))
NUMBER(priority, (double)member_int(t, "priority"))
NUMBER(gpus, (double)member_int(t, "gpus_requested"))
NUMBER(cpus, isnan(member_number(t, "cpus")) ? 1 : member_number(t, "cpus"))
NUMBER(mem, member_number(t, "host_mem_mib"))
NUMBER(claim, member_number(json_object_get(t, "estimate"), "claim_mib"))
NUMBER(peak, member_over_attempts(t, "peak_mib", false))
NUMBER(host_peak, member_over_attempts(t, "host_peak_mib", false))
NUMBER(energy, member_over_attempts(t, "energy_j", true))
NUMBER(wait, member_number(t, "wait_s"))
NUMBER(suspended, member_number(t, "suspended_s"))
NUMBER(gpu_s, member_number(t, "gpu_s"))
NUMBER(cores, member_number(member_last_attempt(t), "cores"))
NUMBER(smact, member_number(member_last_attempt(t), "mean_smact"))
NUMBER(attempts, (double)json_array_size(json_object_get(t, "attempts")))

VALUE(id, text_of(t, "id"))
VALUE(job, alloc_printf("%u", TASK_JOB(member_id(t))))
VALUE(index, TASK_INDEX(member_id(t)) < 0 ? alloc_string("N/A") : alloc_printf("%d", TASK_INDEX(member_id(t))))
VALUE(name, text_of(t, "name"))
VALUE(user, text_of(t, "user"))
VALUE(code, alloc_string(task_state_code(member_state(t))))
VALUE(state, text_of(t, "state"))
VALUE(ran, length_of(member_number(t, "run_s"), form))
VALUE(ran_raw, number_of(member_number(t, "run_s")))
VALUE(limit, isinf(number_limit(t)) ? alloc_string("UNLIMITED") : length_of(number_limit(t), form))
VALUE(limit_raw, isinf(number_limit(t)) ? alloc_string("UNLIMITED") : number_of(floor(number_limit(t) / 60)))
VALUE(left, isinf(number_left(t)) ? alloc_string("UNLIMITED") : length_of(fmax(0, number_left(t)), form))
VALUE(submitted, moment_of(t, "submit_time", form))
/* squeue's of one that is told to wait (--begin) is the time for which it waits. */
VALUE(started, moment_of(t, *member_text(t, "start_time") || form == COLUMN_SACCT ? "start_time" : "begin_time", form))
VALUE(ended, moment_of(t, "end_time", form))
VALUE(priority, alloc_printf("%lld", (long long)member_int(t, "priority")))
VALUE(gres, alloc_printf("gpu:%lld", (long long)member_int(t, "gpus_requested")))
VALUE(gpu_count, number_of(number_gpus(t)))
VALUE(folder, text_of(t, "cwd"))
VALUE(command, text_of(t, "command"))
VALUE(log, text_of(t, "log_path"))
VALUE(reason, alloc_string(*member_text(t, "reason") ? member_text(t, "reason") : "None"))
VALUE(gpus, where_of(t, gpus))
VALUE(place, waits(t) ? alloc_printf("(%s)", member_text(t, "reason")) : where_of(t, gpus))
VALUE(share, text_of(t, "share"))
VALUE(cpus, number_of(number_cpus(t)))
VALUE(one, alloc_string("1"))
VALUE(none, alloc_string(form == COLUMN_SACCT ? "" : "N/A"))
VALUE(null, alloc_string(form == COLUMN_SACCT ? "" : "(null)"))
VALUE(max_rss, isnan(number_host_peak(t)) ? alloc_string("") : alloc_printf("%.0fK", number_host_peak(t) * 1024))
VALUE(req_mem, isnan(number_mem(t)) ? alloc_string(form == COLUMN_SACCT ? "" : "0") : alloc_printf("%.0fM", number_mem(t)))
VALUE(energy, number_of(number_energy(t)))
VALUE(wait, length_of(number_wait(t), form))
VALUE(suspended, length_of(number_suspended(t), form))
VALUE(gpu_s, number_of(number_gpu_s(t)))
VALUE(attempts, number_of(number_attempts(t)))
VALUE(restarts, number_of(fmax(0, number_attempts(t) - 1)))

/* An end that is yet to come, or that nobody saw, has neither: 0:0 would be success. */
static char *value_exit_code(const json_t *t, const json_t *gpus, enum column_form form)
{
	if (!json_is_integer(json_object_get(t, "exit_code")) && !json_is_integer(json_object_get(t, "signal")))
		return value_none(t, gpus, form);
	return alloc_printf("%lld:%lld", (long long)member_int(t, "exit_code"), (long long)member_int(t, "signal"));
}

static char *value_mib(double mib)
{
	char text[FORMAT_LEN];
	return alloc_string(format_mib(mib, text));
}
VALUE(claim, value_mib(number_claim(t)))
VALUE(peak, value_mib(number_peak(t)))

VALUE(cores, isnan(number_cores(t)) ? alloc_string("") : alloc_printf("%.2f", number_cores(t)))

static char *value_smact(const json_t *t, const json_t *gpus, enum column_form form)
{
	char text[FORMAT_LEN];
	(void)gpus, (void)form;
	return alloc_string(format_percent(number_smact(t), text));
}

static char *value_uid(const json_t *t, const json_t *gpus, enum column_form form)
{
	const struct passwd *pw = getpwnam(member_text(t, "user"));
	(void)gpus, (void)form;
	return pw ? alloc_printf("%u", (unsigned)pw->pw_uid) : text_of(t, "user");
}

static char *value_machine(const json_t *t, const json_t *gpus, enum column_form form)
{
	char name[256] = "";
	(void)gpus;
	if (waits(t) || gethostname(name, sizeof name - 1))
		return alloc_string(form == COLUMN_SACCT ? "None assigned" : "n/a");
	name[strcspn(name, ".")] = 0;
	return alloc_string(name);
}

/* "cpu=4,mem=500M,gres/gpu=2": what was asked for. */
static char *value_tres(const json_t *t, const json_t *gpus, enum column_form form)
{
	struct buf text = { 0 };
	(void)gpus, (void)form;
	buf_printf(&text, "cpu=%.0f,", number_cpus(t));
	if (!isnan(number_mem(t)))
		buf_printf(&text, "mem=%.0fM,", number_mem(t));
	buf_printf(&text, "gres/gpu=%.0f", number_gpus(t));
	return buf_steal(&text);
}

/* ---- rows ---- */

static const struct column_field fields[] = {
	{ 'i', "JobID", "ID", "JOBID", 12, value_id, id_number }, { 0, "JobIDRaw", NULL, "JOBID", 12, value_id, id_number },
	{ 'A', "ArrayJobID", NULL, "JOBID", 12, value_job, id_number },
	{ 'F', "ArrayJob", NULL, "ARRAY_JOB_ID", 12, value_job, id_number },
	{ 'K', "ArrayTaskID", NULL, "ARRAY_TASK_ID", 11, value_index, id_number }, { 'j', "JobName", "Name", "NAME", 10, value_name },
	{ 'u', "User", "UserName", "USER", 9, value_user }, { 'U', "UID", "UserID", "USER", 6, value_uid },
	{ 't', "StateCompact", "ST", "ST", 5, value_code }, { 'T', "State", NULL, "STATE", 10, value_state },
	{ 'M', "Elapsed", "TimeUsed Time Run", "TIME", 10, value_ran, number_ran, { "run_s" } },
	{ 0, "ElapsedRaw", NULL, "TIME", 10, value_ran_raw, number_ran, { "run_s" } },
	{ 'l', "Timelimit", NULL, "TIME_LIMIT", 10, value_limit, number_limit, { "time_limit_s" } },
	{ 0, "TimelimitRaw", NULL, "TIME_LIMIT", 12, value_limit_raw, number_limit, { "time_limit_s" } },
	{ 'L', "TimeLeft", NULL, "TIME_LEFT", 10, value_left, number_left, { "time_limit_s", "run_s" } },
	{ 'V', "Submit", "SubmitTime Eligible EligibleTime", "SUBMIT_TIME", 19, value_submitted, NULL, { "submit_time" } },
	{ 'S', "Start", "StartTime", "START_TIME", 19, value_started, NULL, { "start_time", "begin_time" } },
	{ 'e', "End", "EndTime", "END_TIME", 19, value_ended, NULL, { "end_time" } },
	{ 0, "Wait", "Planned Reserved", "WAIT", 10, value_wait, number_wait, { "wait_s" } },
	{ 0, "Suspended", NULL, "SUSPENDED", 10, value_suspended, number_suspended, { "suspended_s" } },
	{ 'Q', "Priority", "PriorityLong", "PRIORITY", 10, value_priority, number_priority, { "priority" } },
	{ 'p', "PriorityFloat", NULL, "PRIORITY", 10, value_priority, number_priority, { "priority" } },
	{ 'b', "Gres", "tres-per-node ReqGRES AllocGRES", "TRES_PER_NODE", 12, value_gres, number_gpus, { "gpus_requested" } },
	{ 0, "NGPUs", NULL, "GPUS", 6, value_gpu_count, number_gpus, { "gpus_requested" } },
	{ 0, "ReqTRES", "AllocTRES tres tres-alloc", "TRES", 30, value_tres, NULL,
	  { "cpus", "host_mem_mib", "gpus_requested" } },
	{ 'C', "NCPUS", "AllocCPUS ReqCPUS NumCPUs", "CPUS", 10, value_cpus, number_cpus, { "cpus" } },
	{ 'D', "NNodes", "AllocNodes ReqNodes NumNodes NTasks", "NODES", 8, value_one },
	{ 0, "ReqMem", "MinMemory", "MIN_MEMORY", 10, value_req_mem, number_mem, { "host_mem_mib" } },
	{ 'm', "Claim", "Mem", "GPU_MEM", 10, value_claim, number_claim, { "estimate" } },
	{ 0, "MaxGPUMem", "PeakMem Peak", "PEAK", 10, value_peak, number_peak, { "attempts" } },
	{ 0, "MaxRSS", NULL, "MAX_RSS", 10, value_max_rss, number_host_peak, { "attempts" } },
	{ 0, "Cores", NULL, "CORES", 6, value_cores, number_cores, { "attempts" } },
	{ 0, "SMACT", "GPUUtil", "SMACT", 7, value_smact, number_smact, { "attempts" } },
	{ 0, "ConsumedEnergy", "ConsumedEnergyRaw Energy", "ENERGY_J", 14, value_energy, number_energy, { "attempts" } },
	{ 0, "GPUSeconds", NULL, "GPU_SECONDS", 10, value_gpu_s, number_gpu_s, { "gpu_s" } },
	{ 0, "Attempts", "Try", "ATTEMPTS", 8, value_attempts, number_attempts, { "attempts" } },
	{ 0, "Restarts", "RestartCnt", "RESTARTS", 8, value_restarts, number_attempts, { "attempts" } },
	{ 0, "ExitCode", "exit_code DerivedExitCode", "EXIT_CODE", 8, value_exit_code, NULL, { "exit_code", "signal" } },
	{ 'Z', "WorkDir", NULL, "WORK_DIR", 20, value_folder, NULL, { "cwd" } },
	{ 'o', "Command", "SubmitLine", "COMMAND", 20, value_command, NULL, { "command" } },
	{ 0, "StdOut", NULL, "STDOUT", 20, value_log, NULL, { "log_path" } },
	{ 'r', "Reason", NULL, "REASON", 22, value_reason, NULL, { "reason" } },
	{ 'N', "GPUs", NULL, "GPUS", 8, value_gpus, NULL, { "attempts" } },
	{ 'R', "ReasonList", NULL, "GPU(REASON)", 22, value_place, NULL, { "reason", "attempts" } },
	{ 'h', "Share", "OverSubscribe", "OVER_SUBSCRIBE", 8, value_share, NULL, { "share" } },
	{ 'B', "NodeList", "BatchHost", "EXEC_HOST", 15, value_machine },
	{ 'P', "Partition", NULL, "PARTITION", 10, value_none }, { 'a', "Account", NULL, "ACCOUNT", 10, value_none },
	{ 'q', "QOS", NULL, "QOS", 10, value_none }, { 'k', "Comment", NULL, "COMMENT", 14, value_null },
	{ 'v', "Reservation", NULL, "RESERVATION", 20, value_null }, { 'w', "WCKey", NULL, "WCKEY", 10, value_null },
};

/* Whether it is one of the words, blanks between them. */
static bool is_among(const char *name, const char *words)
{
	size_t len = strlen(name);
	for (const char *w = words; w && *w; w += strcspn(w, " "), w += *w == ' ')
		if (strcspn(w, " ") == len && !strncasecmp(w, name, len))
			return true;
	return false;
}

const struct column_field *column_fields_find(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(fields); i++)
		if (!strcasecmp(fields[i].name, name) || is_among(name, fields[i].also))
			return &fields[i];
	return NULL;
}

const struct column_field *column_fields_letter(char letter)
{
	for (size_t i = 0; letter && i < COUNT_OF(fields); i++)
		if (fields[i].letter == letter)
			return &fields[i];
	return NULL;
}

const struct column_field *column_fields_next(const struct column_field *f)
{
	f = f ? f + 1 : fields;
	return f < fields + COUNT_OF(fields) ? f : NULL;
}

const char *column_fields_near(const char *name)
{
	const char *names[COUNT_OF(fields) + 1] = { NULL };
	for (size_t i = 0; i < COUNT_OF(fields); i++)
		names[i] = fields[i].name;
	return words_nearest(name, names);
}
