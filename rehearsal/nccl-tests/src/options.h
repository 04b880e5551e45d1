// The command line of nccl-tests 2.19.6: every option is known, but options that cannot work on TCP rails are refused.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum average { AVERAGE_RANK0, AVERAGE_MEAN, AVERAGE_MIN, AVERAGE_MAX };

enum blocking {
    BLOCKING_OFF,
    BLOCKING_BARRIER_INNER,
    BLOCKING_NO_BARRIER,
    BLOCKING_BARRIER_OUTER, // the reported time does not include the barrier
};

struct options {
    size_t min_bytes, max_bytes, step_bytes, step_factor;
    int iters, agg_iters, warmup_iters, run_cycles, check, root, timeout_s;
    int unalign; // elements by which both buffers are shifted
    int skip;    // leading iterations that the per-iteration summary leaves out
    int parallel_init;
    enum blocking blocking;
    enum average average;
    bool cpu_time, timestamps, memory, per_iter;
    const char *output_file; // NULL: no file
};

// Parse argv. Returns true to go on; false to exit with *exit_code (after help, or a refusal printed to stderr).
bool options_parse(struct options *options, const char *program, int argc, char **argv, int *exit_code);
