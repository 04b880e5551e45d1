// Stand-in for nccl-tests' all_reduce_perf on hosts without GPUs: see README.md for what it is and is not.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "launch.h"
#include "measure.h"

static double memory_bytes(const char *path, const char *key, double unit) // 0: not known
{
    FILE *file = fopen(path, "r");
    char line[128];
    double value = 0;
    while (file && value == 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key))) value = unit * atof(line + strlen(key));
    if (file) fclose(file);
    return value;
}

static double own_bytes(void) { return memory_bytes("/proc/self/status", "VmRSS:", 1024); }

static void find_device(const struct job *job, struct device *device)
{
    static struct gpu gpus[64];
    int count = host_gpus(gpus, 64);
    const char *first = getenv("NCCL_TESTS_DEVICE");
    int index = first ? atoi(first) : job->local_rank;
    if (count == 0) FAIL(RESULT_CUDA, "no CUDA-capable device is detected");
    if (index < 0 || index >= count) {
        fprintf(stderr, "Invalid number of GPUs: %d requested but only %d were found.\n", index + 1, count);
        fprintf(stderr, "Please check the number of processes and GPUs per process.\n");
        FAIL(RESULT_NOT_IMPLEMENTED, "rank %d has no device", job->rank);
    }
    *device = (struct device){.rank = job->rank, .color = job->color, .pid = getpid(), .index = gpus[index].index};
    snprintf(device->host, sizeof device->host, "%.63s", fail_host());
    memcpy(device->bus, gpus[index].bus, sizeof device->bus);
    memcpy(device->name, gpus[index].name, sizeof device->name);
}

// What buffers may take at most: all ranks of a rehearsal share one machine's memory, so each gets a rank's part of half.
static size_t limited(struct job *job, size_t asked, bool speaks)
{
    double all[RANKS_MAX], least = memory_bytes("/proc/meminfo", "MemAvailable:", 1024) / 4 / job->size;
    job_allgather(job, &least, sizeof least, all);
    for (int rank = 0; rank < job->size; rank++) least = all[rank] < least ? all[rank] : least;
    if (least <= 0 || (double)asked <= least) return asked;
    if (speaks) printf("#\n# Reducing maxBytes to %zu due to memory limitation\n", (size_t)least / 4 * 4);
    return (size_t)least / 4 * 4;
}

struct channel_record {
    float seconds[RAILS_MAX], busy[RAILS_MAX];
    char netdev[RAILS_MAX][16];
};

// NCCL_DEBUG=INFO: how long each rail was busy from each host to the next, so that a slow rail has a name.
static void report_channels(const struct ring *ring, bool speaks)
{
    struct job *job = ring->job;
    const char *debug = getenv("NCCL_DEBUG");
    struct channel_record mine = {0}, *all = calloc((size_t)job->size, sizeof *all);
    _Static_assert(sizeof mine <= RECORD_BYTES, "a channel record travels in one record");
    for (int c = 0; c < ring->rails->count; c++) {
        mine.seconds[c] = (float)ring->seconds[c];
        mine.busy[c] = (float)ring_busy_s(ring, c);
        snprintf(mine.netdev[c], sizeof mine.netdev[c], "%.15s", ring->rails->channels[c].rail.netdev);
    }
    job_allgather(job, &mine, sizeof mine, all);
    bool wanted = speaks && debug && (!strcasecmp(debug, "INFO") || !strcasecmp(debug, "TRACE"));
    for (int c = 0; wanted && c < ring->rails->count; c++)
        for (int host = 0; host < job->host_count; host++) {
            int next = (host + 1) % job->host_count;
            const struct channel_record *owner = &all[job->order[job->host_first[host] + c % job->host_size[host]]];
            printf("# channel %d rail %s peer %s %.3f s (from %s, of %.3f s in the ring)\n", c, owner->netdev[c],
                   rails_host_name(job, next), owner->busy[c], rails_host_name(job, host), owner->seconds[c]);
        }
    free(all);
}

static void sum_over_ranks(struct job *job, int mine, int *sum)
{
    int all[RANKS_MAX];
    job_allgather(job, &mine, sizeof mine, all);
    *sum = 0;
    for (int rank = 0; rank < job->size; rank++) *sum += all[rank];
}

int main(int argc, char **argv, char **environment)
{
    static struct job job;
    static struct rails rails;
    static struct ring ring;
    static struct device devices[RANKS_MAX];
    struct options options;
    struct device device;
    int exit_code, errors;
    setlinebuf(stdout);
    const char *slash = strrchr(argv[0], '/'), *program = slash ? slash + 1 : argv[0];
    if (!options_parse(&options, program, argc, argv, &exit_code)) return exit_code;
    if (getenv("NCCL_TESTS_SPLIT") || getenv("NCCL_TESTS_SPLIT_MASK")) {
        fprintf(stderr, "%s: NCCL_TESTS_SPLIT is refused: this stand-in has one group of all ranks.\n", program);
        return 255;
    }
    launch_start(&argc, &argv);
    bool speaks = launch_rank() == 0;
    struct report report = {.speaks = speaks, .options = &options, .program = program, .ranks = launch_size()};
    const struct collective *collective = collective_named(program);
    if (!collective) collective = collective_named("all_reduce_perf");
    report_start(&report, argc, argv, environment, host_scale());

    double at_start = own_bytes();
    job_start(&job, 2 * bench_stride(&options));
    find_device(&job, &device);
    job_allgather(&job, &device, sizeof device, devices);
    report_devices(&report, devices);
    struct bench bench = {.options = &options, .collective = collective, .job = &job, .ring = &ring, .report = &report,
                          .stride_bytes = bench_stride(&options),
                          .max_bytes = limited(&job, options.max_bytes, speaks)};
    rails_connect(&rails, &job);
    ring = (struct ring){.job = &job, .rails = &rails};
    report_transport(&report, &rails, &job);
    report_table(&report);
    double at_run = own_bytes();
    bench_run(&bench);

    const char *least = getenv("NCCL_TESTS_MIN_BW");
    double least_gbps = least ? atof(least) : -1, mean_gbps = bench.bus_sum_gbps / bench.bus_count;
    sum_over_ranks(&job, bench.errors, &errors);
    report_summary(&report, errors, mean_gbps, least_gbps);
    if (options.memory) {
        double user = 2 * (double)bench.max_bytes, grown = own_bytes() - at_run - user;
        report_memory(&report, at_run - at_start, user, grown > 0 ? grown : 0);
    }
    report_channels(&ring, speaks);
    report_finish(&report);
    job_barrier(&job);
    launch_finish(errors || mean_gbps < 0.9 * least_gbps ? RESULT_WRONG : RESULT_OK);
}
