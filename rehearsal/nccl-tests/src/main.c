// Stand-in for the programs of nccl-tests on hosts without GPUs. README.md says what the stand-in does and does not do.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "debug.h"
#include "launch.h"
#include "measure.h"
#include "split.h"

static double memory_bytes(const char *path, const char *key, double unit) // returns 0 if the value is unknown
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

static void find_device(const struct job *job, int color, struct device *device)
{
    static struct gpu gpus[64];
    int count = host_gpus(gpus, 64);
    const char *first = getenv("NCCL_TESTS_DEVICE");
    int index = first ? atoi(first) : job->at.local_rank;
    if (count == 0) FAIL(RESULT_CUDA, "no CUDA-capable device is detected");
    if (index < 0 || index >= count) {
        fprintf(stderr, "Invalid number of GPUs: %d requested but only %d were found.\n", index + 1, count);
        fprintf(stderr, "Please check the number of processes and GPUs per process.\n");
        FAIL(RESULT_NOT_IMPLEMENTED, "rank %d has no device", job->at.rank);
    }
    *device = (struct device){.rank = job->at.rank, .color = color, .pid = getpid(), .index = gpus[index].index};
    snprintf(device->host, sizeof device->host, "%.63s", fail_host());
    memcpy(device->bus, gpus[index].bus, sizeof device->bus);
    memcpy(device->name, gpus[index].name, sizeof device->name);
}

// Limit the size of a buffer. All ranks of a rehearsal share one machine's memory. Each rank has two buffers of this size, and
// the buffers of all ranks together may use half of the memory that is available.
static size_t limited(struct job *job, size_t asked, bool speaks)
{
    double all[RANKS_MAX], least = memory_bytes("/proc/meminfo", "MemAvailable:", 1024) / 4 / job->at.size;
    job_allgather(job, &least, sizeof least, all);
    for (int rank = 0; rank < job->at.size; rank++) least = all[rank] < least ? all[rank] : least;
    if (least <= 0 || (double)asked <= least) return asked;
    if (speaks) printf("#\n# Reducing maxBytes to %zu due to memory limitation\n", (size_t)least / 4 * 4);
    return (size_t)least / 4 * 4;
}

// Find what carries the bytes of all groups. The first rank of each group reports for its group.
static void find_transport(const struct group *group, const struct rails *rails, struct transport *transport)
{
    struct told {
        bool first, across, sockets;
        uint64_t used, missing;
    } mine = {group->at.rank == 0, group->at.host_count > 1, rails->sockets_only, rails->used, rails->missing};
    static struct told all[RANKS_MAX];
    uint64_t used = 0, missing = 0;
    *transport = (struct transport){.hosts = group->job->at.host_count, .network = rails->network.name};
    job_allgather(group->job, &mine, sizeof mine, all);
    for (int rank = 0; rank < group->job->at.size; rank++) {
        if (!all[rank].first) continue;
        transport->across += all[rank].across;
        transport->over_sockets += all[rank].sockets;
        used |= all[rank].used;
        missing |= all[rank].missing;
    }
    transport->rails = __builtin_popcountll(used);
    transport->missing = __builtin_popcountll(missing);
}

// Reserve memory of the size of a buffer for sums that are computed, but not kept. Pages that are never written cost nothing.
static float *scratch(size_t bytes)
{
    void *at = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) FAIL(RESULT_INTERNAL, "no memory for sums: %zu bytes", bytes);
    return at;
}

static bool power_of_two(int value) { return value > 0 && !(value & (value - 1)); }

// Whether every group can run the collective. If a group cannot, its ranks print a message.
static bool runs(const struct group *group, const struct collective *collective)
{
    bool mine = !collective->power_of_two || power_of_two(group->at.size), all[RANKS_MAX], everywhere = true;
    if (!mine) printf("nRanks %d is not a power of 2, skipping\n", group->at.size);
    job_allgather(group->job, &mine, sizeof mine, all);
    for (int rank = 0; rank < group->job->at.size; rank++) everywhere = everywhere && all[rank];
    return everywhere;
}

static void run_all(struct bench *bench)
{
    const struct group *group = bench->wire->group;
    int root = bench->options->root, ranks = group->at.size;
    if (!runs(group, bench->collective)) return;
    if (!bench->collective->rooted) {
        bench_run(bench, -1);
        return;
    }
    if (root >= ranks || root < -1)
        FAIL(RESULT_INTERNAL, "invalid root %d (root should be in the 0..%d range)", root, ranks - 1);
    for (int one = root < 0 ? 0 : root; one <= (root < 0 ? ranks - 1 : root); one++) bench_run(bench, one);
}

static void sum_over_ranks(struct job *job, int mine, int *sum)
{
    int all[RANKS_MAX];
    job_allgather(job, &mine, sizeof mine, all);
    *sum = 0;
    for (int rank = 0; rank < job->at.size; rank++) *sum += all[rank];
}

// For each rank, the share of the timed loops' time in which it waited for a processor (see measure.h); returns the largest of
// these shares. All hosts are on one machine, so a rank that is ready to run may have to wait.
static double waiting(struct job *job, const struct bench *bench)
{
    double mine = bench->timed_s > 0 && bench->waited_s > 0 ? bench->waited_s / bench->timed_s : 0, all[RANKS_MAX], most = 0;
    job_allgather(job, &mine, sizeof mine, all);
    for (int rank = 0; rank < job->at.size; rank++) most = all[rank] > most ? all[rank] : most;
    return most < 1 ? most : 1;
}

int main(int argc, char **argv, char **environment)
{
    static struct job job;
    static struct group group;
    static struct rails rails;
    static struct wire wire;
    static struct device devices[RANKS_MAX];
    static bool peers[RANKS_MAX];
    static int colors[RANKS_MAX];
    struct options options;
    struct device device;
    struct transport transport;
    int exit_code, errors, color;
    setlinebuf(stdout);
    const char *slash = strrchr(argv[0], '/'), *program = slash ? slash + 1 : argv[0];
    const struct collective *collective = collective_named(program);
    if (!collective) {
        fprintf(stderr, "%s: there is no such test; the program's name selects the test.\n", program);
        return 255;
    }
    if (!options_parse(&options, program, argc, argv, &exit_code)) return exit_code;
    launch_start(&argc, &argv);
    bool speaks = launch_rank() == 0;
    if (!split_color(launch_rank(), &color)) {
        if (speaks)
            fprintf(stderr, "%s: NCCL_TESTS_SPLIT %s is refused: ranks cannot be divided by 0.\n", program,
                    getenv("NCCL_TESTS_SPLIT"));
        launch_finish(255);
    }
    struct report report = {.speaks = speaks, .options = &options, .program = program, .ranks = launch_size()};
    report_start(&report, argc, argv, environment, host_scale());

    double at_start = own_bytes();
    job_start(&job, 2 * bench_stride(&options));
    find_device(&job, color, &device);
    job_allgather(&job, &device, sizeof device, devices);
    report_devices(&report, devices);
    for (int rank = 0; rank < job.at.size; rank++) colors[rank] = devices[rank].color;
    group_form(&group, &job, colors);
    struct bench bench = {.options = &options, .collective = collective, .job = &job, .wire = &wire, .report = &report,
                          .stride_bytes = bench_stride(&options), .scratch = scratch(bench_stride(&options)),
                          .max_bytes = limited(&job, options.max_bytes, speaks)};
    debug_start(device.index, &job.front_end);
    collective->peers(&group, peers);
    rails_connect(&rails, &group, peers);
    debug_connections(&group, &rails);
    wire = (struct wire){.group = &group, .rails = &rails};
    find_transport(&group, &rails, &transport);
    report_transport(&report, &transport);
    report_table(&report);
    double at_run = own_bytes();
    run_all(&bench);

    const char *least = getenv("NCCL_TESTS_MIN_BW");
    double least_gb_s = least ? atof(least) : -1, mean_gb_s = bench.bus_sum_gb_s / bench.bus_count;
    sum_over_ranks(&job, bench.errors, &errors);
    report_waiting(&report, waiting(&job, &bench));
    report_summary(&report, errors, mean_gb_s, least_gb_s);
    if (options.memory) {
        double user = 2 * (double)bench.max_bytes, grown = own_bytes() - at_run - user;
        report_memory(&report, at_run - at_start, user, grown > 0 ? grown : 0);
    }
    debug_channels(&wire);
    report_finish(&report);
    job_barrier(&job);
    launch_finish(errors || mean_gb_s < 0.9 * least_gb_s ? RESULT_WRONG : RESULT_OK);
}
