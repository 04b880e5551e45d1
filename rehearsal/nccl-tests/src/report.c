#include "report.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char VERSION[] = "2.19.6", TIME_FORMAT[] = "%Y-%m-%d %H:%M:%S";
enum { JSON_VERSION = 3 };

#define SAY(...) (report->speaks ? (void)printf(__VA_ARGS__) : (void)0)

static void time_of_day(char *text, size_t size)
{
    time_t now = time(NULL);
    strftime(text, size, TIME_FORMAT, localtime(&now));
}

// The version of the NCCL library that a run would load, or the header's version if there is no library.
static int library_version(void)
{
    int version = NCCL_VERSION_CODE;
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    int (*ask)(int *) = NULL;
    if (library) *(void **)&ask = dlsym(library, "ncclGetVersion");
    if (ask) ask(&version);
    return version;
}

// Like nccl-tests, never overwrite a result: append a number to the name instead.
static void open_json(struct report *report)
{
    const char *path = report->options->output_file;
    size_t length = path ? strlen(path) : 0;
    char probe[4096];
    if (length < 5 || strcmp(path + length - 5, ".json")) return;
    snprintf(probe, sizeof probe, "%s", path);
    for (int count = 0; !(report->json.file = fopen(probe, "wx")); count++) {
        if (errno != EEXIST) {
            printf("# skipping json output; %s not accessible\n", probe);
            return;
        }
        snprintf(probe, sizeof probe, "%s.%d", path, count);
    }
    printf("# Writing JSON output to %s\n", probe);
}

void report_start(struct report *report, int argc, char **argv, char **environment, int scale)
{
    const struct options *o = report->options;
    struct json *json = &report->json;
    char now[32], note[96];
    int version = library_version();
    *json = (struct json){.first = true};
    if (!report->speaks) return;
    open_json(report);
    time_of_day(now, sizeof now);
    snprintf(note, sizeof note, "%.*s over TCP rails of this host, line rates scaled by 1/%d",
             (int)(strlen(report->program) - strlen("_perf")), report->program, scale);
    printf("# busbar rehearsal: %s\n", note);

    json_open(json, '{');
    json_key(json, "version"), json_long(json, JSON_VERSION);
    json_key(json, "start_time"), json_string(json, now);
    json_key(json, "args"), json_open(json, '[');
    for (int i = 0; i < argc; i++) json_string(json, argv[i]);
    json_close(json, ']');
    json_key(json, "env"), json_open(json, '[');
    for (char **one = environment; *one; one++) json_string(json, *one); // as in nccl-tests: every variable, even a secret
    json_close(json, ']');
    json_key(json, "nccl_version"), json_long(json, version);
    json_key(json, "rehearsal"), json_open(json, '{');
    json_key(json, "scale"), json_long(json, scale);
    json_key(json, "note"), json_string(json, note);
    json_close(json, '}');
    json_key(json, "config"), json_open(json, '{');
    json_key(json, "nthreads"), json_long(json, 1);
    json_key(json, "ngpus"), json_long(json, 1);
    json_key(json, "minimum_bytes"), json_long(json, (long)o->min_bytes);
    json_key(json, "maximum_bytes"), json_long(json, (long)o->max_bytes);
    json_key(json, o->step_factor > 1 ? "step_factor" : "step_bytes");
    json_long(json, (long)(o->step_factor > 1 ? o->step_factor : o->step_bytes));
    json_key(json, "warmup_iters"), json_long(json, o->warmup_iters);
    json_key(json, "iterations"), json_long(json, o->iters);
    json_key(json, "aggregated_iterations"), json_long(json, o->agg_iters);
    json_key(json, "validation"), json_long(json, o->check);
    json_key(json, "graph"), json_long(json, 0);
    json_key(json, "blocking_collectives"), json_bool_string(json, o->blocking != BLOCKING_OFF);
    json_key(json, "per_iter_timing"), json_bool_string(json, o->per_iter);
    json_key(json, "per_iter_skip"), json_long(json, o->skip);
    json_key(json, "parallel_init"), json_bool_string(json, o->parallel_init != 0);

    printf("# nccl-tests version %s nccl-headers=%d nccl-library=%d\n", VERSION, NCCL_VERSION_CODE, version);
    printf("# Collective test starting: %s\n", report->program);
    printf("# nThread 1 nGpus 1 minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg iters: %d "
           "validation: %d graph: 0 unalign: %d\n",
           o->min_bytes, o->max_bytes, o->step_factor > 1 ? o->step_factor : o->step_bytes,
           o->step_factor > 1 ? "factor" : "bytes", o->warmup_iters, o->iters, o->agg_iters, o->check, o->unalign);
    static const char *const BLOCKING[] = {
        [BLOCKING_BARRIER_INNER] = "wait and barrier after each inner iteration (-m)",
        [BLOCKING_NO_BARRIER] = "wait after each inner iteration (-m), no barrier",
        [BLOCKING_BARRIER_OUTER] = "wait and barrier after each outer iteration (-n); time excludes barrier",
    };
    if (o->blocking != BLOCKING_OFF) printf("# Blocking Enabled: %s \n", BLOCKING[o->blocking]);
    if (o->per_iter) {
        printf("# Per-Iteration Report: wall clock; i_* uses max over process rows");
        if (o->skip) printf("; summary skips first %d iterations", o->skip);
        printf(" \n");
    }
    if (o->parallel_init) printf("# Parallel Init Enabled: threads call into NcclInitRank concurrently \n");
    printf("#\n");
    printf("# Using devices\n");
}

void report_devices(struct report *report, const struct device *devices)
{
    struct json *json = &report->json;
    if (!report->speaks) return;
    json_key(json, "devices"), json_open(json, '[');
    for (int rank = 0; rank < report->ranks; rank++) {
        const struct device *d = &devices[rank];
        printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s\n", d->rank, d->color, d->pid, d->host, d->index,
               d->bus, d->name);
        json_open(json, '{');
        json_key(json, "rank"), json_long(json, d->rank);
        json_key(json, "group"), json_long(json, d->color);
        json_key(json, "pid"), json_long(json, d->pid);
        json_key(json, "hostname"), json_string(json, d->host);
        json_key(json, "device"), json_long(json, d->index);
        json_key(json, "device_hex"), json_string(json, d->bus);
        json_key(json, "device_info"), json_string(json, d->name);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}'); // config
}

void report_transport(struct report *report, const struct transport *transport)
{
    if (!report->speaks) return;
    if (transport->hosts == 1) printf("# busbar rehearsal: NET/none, one host\n");
    else if (transport->across == 0) printf("# busbar rehearsal: NET/none, one host in each group\n");
    else if (transport->over_sockets == transport->across) printf("# busbar rehearsal: NET/Socket\n");
    else printf("# busbar rehearsal: NET/%s rails=%d\n", transport->network, transport->rails);
    if (transport->over_sockets > 0 && transport->over_sockets < transport->across)
        printf("# busbar rehearsal: groups that use NET/Socket, because no rail near their ranks is on all their hosts: %d\n",
               transport->over_sockets);
    if (transport->missing > 0)
        printf("# busbar rehearsal: rails left out, because some host has no active port with an address there: %d\n",
               transport->missing);
}

void report_table(struct report *report)
{
    const struct options *o = report->options;
    struct json *json = &report->json;
    const char *time = o->cpu_time ? "cputime" : "time";
    static const char *const EXTRA[2][4] = {{"i_min", "i_max", "i_p99", "i_cv%"}, {"(us)", "(us)", "(us)", "(%)"}};
    if (!report->speaks) return;
    printf("#\n");
    printf("# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
    if (o->per_iter) printf("%14s%s%32s%s\n", "", "out-of-place (+ per-iteration)", "", "in-place (+ per-iteration)");
    else printf("%11s%s%23s%s%10s\n", "", "out-of-place", "", "in-place", "");
    for (int row = 0; row < 2; row++) {
        printf("# %10s  %12s  %8s  %6s  %6s", row ? "(B)" : "size", row ? "(elements)" : "count", row ? "" : "type",
               row ? "" : "redop", row ? "" : "root");
        for (int place = 0; place < 2; place++) {
            printf("  %7s  %6s  %6s  %6s", row ? "(us)" : time, row ? "(GB/s)" : "algbw", row ? "(GB/s)" : "busbw",
                   row ? "" : "#wrong");
            for (int i = 0; i < 4 && o->per_iter; i++) printf("  %7s", EXTRA[row][i]);
        }
        printf(" %*s\n", o->timestamps ? 19 : 0, !o->timestamps ? "" : row ? TIME_FORMAT : "timestamp");
    }
    json_key(json, "results"), json_open(json, '[');
}

void report_line_start(struct report *report, size_t bytes, size_t count, const char *type, const char *op, int root)
{
    struct json *json = &report->json;
    char root_text[16];
    snprintf(root_text, sizeof root_text, "%6d", root);
    SAY("%12zu  %12zu  %8s  %6s  %6s", bytes, count, type, op, root_text);
    json_open(json, '{');
    json_key(json, "size"), json_long(json, (long)bytes);
    json_key(json, "count"), json_long(json, (long)count);
    json_key(json, "type"), json_string(json, type);
    json_key(json, "redop"), json_string(json, op);
    json_key(json, "root"), json_string(json, root_text);
}

// Format a number for a column with as many decimals as fit, at most two.
static const char *column(char *text, size_t size, double value, int width)
{
    for (int decimals = 2; decimals >= 0; decimals--)
        if (snprintf(text, size, "%*.*f", width, decimals, value) <= width) return text;
    snprintf(text, size, "%*.*e", width, width >= 7 ? 1 : 0, value);
    return text;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double ranked(const double *sorted, int count, int percent) // percentile by the nearest-rank method
{
    int index = (count * percent + 99) / 100 - 1;
    return sorted[index < count - 1 ? index : count - 1];
}

static void per_iteration(struct report *report, const struct measured *m, bool in_place)
{
    const struct options *o = report->options;
    struct json *json = &report->json;
    int count = o->iters - o->skip;
    double *us = malloc(sizeof *us * (size_t)count), sum = 0, squares = 0;
    char text[4][32];
    for (int i = 0; i < count; i++) sum += us[i] = 1e6 * m->iteration_s[o->skip + i];
    double mean = sum / count;
    for (int i = 0; i < count; i++) squares += (us[i] - mean) * (us[i] - mean);
    double deviation = sqrt(squares / count), variation = mean > 0 ? 100 * deviation / mean : 0;
    qsort(us, (size_t)count, sizeof *us, ascending);
    SAY("  %7s  %7s  %7s  %7s", column(text[0], 32, us[0], 7), column(text[1], 32, us[count - 1], 7),
        column(text[2], 32, ranked(us, count, 99), 7), column(text[3], 32, variation, 7));
    json_key(json, in_place ? "in_place_per_iter" : "out_of_place_per_iter"), json_open(json, '{');
    json_key(json, "skipped_iterations"), json_long(json, o->skip);
    json_key(json, "min_us"), json_double(json, us[0]);
    json_key(json, "max_us"), json_double(json, us[count - 1]);
    json_key(json, "avg_us"), json_double(json, mean);
    json_key(json, "p50_us"), json_double(json, us[count / 2]);
    json_key(json, "p95_us"), json_double(json, ranked(us, count, 95));
    json_key(json, "p99_us"), json_double(json, ranked(us, count, 99));
    json_key(json, "stdev_us"), json_double(json, deviation);
    json_key(json, "cv_pct"), json_double(json, variation);
    json_key(json, "times_us"), json_open(json, '[');
    for (int i = 0; i < o->iters; i++) json_double(json, 1e6 * m->iteration_s[i]);
    json_close(json, ']');
    if (report->ranks > 1) {
        json_key(json, "per_process_max_times_us"), json_open(json, '[');
        for (int rank = 0; rank < report->ranks; rank++) {
            json_open(json, '[');
            for (int i = 0; i < o->iters; i++) json_double(json, 1e6 * m->rank_iteration_s[rank * o->iters + i]);
            json_close(json, ']');
        }
        json_close(json, ']');
    }
    json_close(json, '}');
    free(us);
}

void report_line_body(struct report *report, const struct measured *m, bool in_place)
{
    const struct options *o = report->options;
    struct json *json = &report->json;
    char text[3][32];
    SAY("  %7s  %6s  %6s", column(text[0], 32, 1e6 * m->time_s, 7), column(text[1], 32, m->algorithm_gb_s, 6),
        column(text[2], 32, m->bus_gb_s, 6));
    if (m->wrong >= 0) SAY("  %6g", (double)m->wrong);
    else SAY("    N/A");
    json_key(json, in_place ? "in_place" : "out_of_place"), json_open(json, '{');
    json_key(json, o->cpu_time ? "cpu_time" : "time"), json_double(json, 1e6 * m->time_s);
    json_key(json, "alg_bw"), json_double(json, m->algorithm_gb_s);
    json_key(json, "bus_bw"), json_double(json, m->bus_gb_s);
    json_key(json, "nwrong");
    if (m->wrong >= 0) json_double(json, (double)m->wrong);
    else json_null(json);
    json_close(json, '}');
    if (m->iteration_s) per_iteration(report, m, in_place);
    if (in_place && o->timestamps) {
        char now[32];
        time_of_day(now, sizeof now);
        SAY("%21s", now);
    }
}

void report_line_end(struct report *report)
{
    struct json *json = &report->json;
    SAY("\n");
    json_key(json, "actual_iterations"), json_long(json, report->options->iters);
    json_key(json, "experiment_name"), json_string(json, "");
    json_close(json, '}');
}

void report_summary(struct report *report, int errors, double mean_gb_s, double least_gb_s)
{
    struct json *json = &report->json;
    bool enough = mean_gb_s >= 0.9 * least_gb_s;
    SAY("# %-20s : %d %s\n", "Out of bounds values", errors, errors ? "FAILED" : "OK");
    SAY("# %-20s : %g %s\n", "Avg bus bandwidth", mean_gb_s, least_gb_s == -1 ? "" : enough ? "OK" : "FAILED");
    SAY("#\n# Collective test concluded: %s\n", report->program);
    json_close(json, ']');
    json_key(json, "out_of_bounds"), json_open(json, '{');
    json_key(json, "count"), json_long(json, errors);
    json_key(json, "okay"), json_bool_string(json, errors == 0);
    json_close(json, '}');
    json_key(json, "average_bus_bandwidth"), json_open(json, '{');
    json_key(json, "bandwidth"), json_double(json, mean_gb_s);
    json_key(json, "okay");
    if (least_gb_s == -1) json_string(json, "unchecked");
    else json_bool_string(json, enough);
    json_close(json, '}');
}

static const char *memory(char *text, size_t size, double bytes)
{
    static const char *const UNITS[] = {"B", "KB", "MB", "GB"};
    int unit = 0;
    for (; fabs(bytes) >= 1024 && unit < 3; unit++) bytes /= 1024;
    snprintf(text, size, "%.*f %s", fabs(bytes) < 10 ? 2 : fabs(bytes) < 100 ? 1 : 0, bytes, UNITS[unit]);
    return text;
}

void report_memory(struct report *report, double start_bytes, double user_bytes, double collective_bytes)
{
    char text[4][32];
    SAY("# %-20s : Initialization %s | User-Allocated %s | Collective %s | Total  %s\n", "GPU memory usage",
        memory(text[0], 32, start_bytes), memory(text[1], 32, user_bytes), memory(text[2], 32, collective_bytes),
        memory(text[3], 32, start_bytes + user_bytes + collective_bytes));
}

void report_waiting(struct report *report, double share)
{
    SAY("# busbar rehearsal: waited for processors %.4f of the time\n", share);
}

void report_finish(struct report *report)
{
    struct json *json = &report->json;
    char now[32];
    SAY("#\n\n");
    time_of_day(now, sizeof now);
    json_key(json, "errors"), json_open(json, '['), json_string(json, ""), json_close(json, ']');
    json_key(json, "end_time"), json_string(json, now);
    json_close(json, '}');
    if (json->file) fclose(json->file);
    json->file = NULL;
}
