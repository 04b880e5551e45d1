// What rank 0 writes: the transcript on its standard output and the JSON file, both in the layout of nccl-tests 2.19.6, with
// additions that name the rehearsal. These functions measure nothing.
#pragma once
#include <stdint.h>

#include "json.h"
#include "options.h"
#include "group.h"

struct device {
    int rank, color, pid, index;
    char host[64], bus[32], name[96];
};

struct measured {
    double time_s, bus_gb_s, algorithm_gb_s;
    int64_t wrong;               // -1: not checked
    const double *iteration_s;   // for each iteration, the time of the slowest rank; NULL: no option asks for these times
    const double *rank_iteration_s; // ranks x iterations
};

// What carries bytes between hosts, summed up over all groups.
struct transport {
    int hosts;           // number of hosts of the job
    int across;          // number of groups that span hosts
    int over_sockets;    // number of these groups that use the front end
    int rails;           // number of rails that at least one group uses
    int missing;         // number of rails that at least one group leaves out, because a host of the group lacks them
    const char *network; // the rails' network, in NCCL's words
};

struct report {
    bool speaks; // whether this rank prints: only rank 0 does
    const struct options *options;
    const char *program;
    int ranks;
    struct json json;
};

void report_start(struct report *report, int argc, char **argv, char **environment, int scale);
void report_devices(struct report *report, const struct device *devices); // one device per rank
void report_transport(struct report *report, const struct transport *transport);
void report_table(struct report *report);
void report_line_start(struct report *report, size_t bytes, size_t count, const char *type, const char *op, int root);
void report_line_body(struct report *report, const struct measured *measured, bool in_place);
void report_line_end(struct report *report);
// Print the number of errors, the mean bus bandwidth, and whether this bandwidth reaches 0.9 x `least_gb_s`. `least_gb_s` is
// the value of NCCL_TESTS_MIN_BW (-1: not set).
void report_summary(struct report *report, int errors, double mean_gb_s, double least_gb_s);
void report_memory(struct report *report, double start_bytes, double user_bytes, double collective_bytes);
// Print `share`, the part of the timed loops' time that passed while ranks waited for a processor.
void report_waiting(struct report *report, double share);
void report_finish(struct report *report);
