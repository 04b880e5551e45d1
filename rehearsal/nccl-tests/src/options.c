#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option LONG[] = {
    {"nthreads", required_argument, NULL, 't'},       {"ngpus", required_argument, NULL, 'g'},
    {"minbytes", required_argument, NULL, 'b'},       {"maxbytes", required_argument, NULL, 'e'},
    {"stepbytes", required_argument, NULL, 'i'},      {"stepfactor", required_argument, NULL, 'f'},
    {"iters", required_argument, NULL, 'n'},          {"agg_iters", required_argument, NULL, 'm'},
    {"warmup_iters", required_argument, NULL, 'w'},   {"run_cycles", required_argument, NULL, 'N'},
    {"parallel_init", required_argument, NULL, 'p'},  {"check", required_argument, NULL, 'c'},
    {"op", required_argument, NULL, 'o'},             {"datatype", required_argument, NULL, 'd'},
    {"root", required_argument, NULL, 'r'},           {"blocking", required_argument, NULL, 'z'},
    {"stream_null", required_argument, NULL, 'y'},    {"timeout", required_argument, NULL, 'T'},
    {"cudagraph", required_argument, NULL, 'G'},      {"report_cputime", required_argument, NULL, 'C'},
    {"report_timestamps", required_argument, NULL, 'S'}, {"output_file", required_argument, NULL, 'J'},
    {"average", required_argument, NULL, 'a'},        {"local_register", required_argument, NULL, 'R'},
    {"cta_policy", required_argument, NULL, 'x'},     {"device_implementation", required_argument, NULL, 'D'},
    {"device_cta_count", required_argument, NULL, 'V'}, {"memory", required_argument, NULL, 'M'},
    {"unalign", required_argument, NULL, 'u'},        {"per_iter_timing", required_argument, NULL, 'I'},
    {"per_iter_skip", required_argument, NULL, 'K'},  {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};
static const char SHORT[] = "t:g:b:e:i:f:n:m:w:N:p:c:o:d:r:z:y:T:G:C:S:J:a:R:x:D:V:M:u:I:K:h";

// What each option means here. The options that are missing from this list need a GPU; only -h is missing because it needs no
// explanation.
static const char *const HELP[][2] = {
    {"b", "smallest size in bytes; K, M and G are powers of 1024 (default 32M)"},
    {"e", "largest size in bytes (default 32M)"},
    {"i", "step between sizes in bytes (default 1M)"},
    {"f", "factor between sizes; above 1 it replaces -i"},
    {"n", "iterations that are timed (default 20)"},
    {"m", "operations in one iteration (default 1)"},
    {"w", "warm-up iterations at the smallest size and at each doubling of it (default 1)"},
    {"N", "how often the whole table is measured (default 1; 0: without end)"},
    {"c", "how often results are checked; 0: never (default 1)"},
    {"a", "time reported: 0 rank 0's, 1 mean, 2 smallest, 3 largest of the ranks (default 1)"},
    {"z", "blocking: 1 barrier after each operation, 2 none, 3 barrier after each iteration, not timed"},
    {"T", "seconds after which a measurement is given up (default 0: never)"},
    {"C", "1 labels the time as CPU time; the value stays the elapsed time"},
    {"S", "1 reports the time of day on each line"},
    {"J", "file for the results as JSON (its name ends in .json)"},
    {"M", "1 reports the memory that the run took"},
    {"u", "elements by which buffers are shifted"},
    {"I", "1 reports iterations one by one"},
    {"K", "leading iterations that -I's summary leaves out"},
    {"o", "sum"},
    {"d", "float"},
    {"r", "root, for collectives that have one"},
    {"t", "1: one thread in each process"},
    {"g", "1: one device in each process"},
    {"p", "parallel initialization; without effect, because a process has one thread"},
    {"y", "null stream; without effect, because there is no stream"},
    {"R", "0 or 1: registered buffers; without effect, because there is no GPU"},
};

static void help(const char *program)
{
    printf("USAGE: %s \n", program);
    for (const struct option *one = LONG; one->name; one++) {
        const char *text = one->val == 'h' ? "" : "not on TCP rails: leave it out";
        for (size_t i = 0; i < sizeof HELP / sizeof *HELP; i++)
            if (HELP[i][0][0] == one->val) text = HELP[i][1];
        printf("\t[-%c,--%s%s%s] \n", one->val, one->name, *text ? "  " : "", text);
    }
}

// The number of bytes that a text such as "8", "1.5M" or "8G" means; negative if the text is not a size.
static double size_of(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || value < 0) return -1;
    static const char UNITS[] = "kmg";
    while (*end == ' ') end++;
    if (!*end) return value;
    char unit = (char)(*end | 0x20);
    const char *found = unit ? strchr(UNITS, unit) : NULL;
    if (!found) return -1;
    for (long i = 0; i <= found - UNITS; i++) value *= 1024;
    return value;
}

static bool refuse(const char *program, char option, const char *given, const char *why)
{
    fprintf(stderr, "%s: -%c %s is refused: %s\n", program, option, given, why);
    return false;
}

static bool read_size(size_t *to, const char *name, const char *text)
{
    double bytes = size_of(text);
    if (bytes < 0) {
        fprintf(stderr, "invalid size specified for '%s'\n", name);
        return false;
    }
    *to = (size_t)bytes;
    return true;
}

static bool take(struct options *o, const char *program, int option, const char *text)
{
    long number = text ? strtol(text, NULL, 0) : 0;
    switch (option) {
    case 'b': return read_size(&o->min_bytes, "minbytes", text);
    case 'e': return read_size(&o->max_bytes, "maxbytes", text);
    case 'i': return read_size(&o->step_bytes, "stepbytes", text);
    case 'f': o->step_factor = (size_t)number; return true;
    case 'n': o->iters = (int)number; return true;
    case 'm': o->agg_iters = (int)number; return true;
    case 'w': o->warmup_iters = (int)number; return true;
    case 'N': o->run_cycles = (int)number; return true;
    case 'c': o->check = (int)number; return true;
    case 'r': o->root = (int)number; return true;
    case 'T': o->timeout_s = (int)number; return true;
    case 'C': o->cpu_time = number != 0; return true;
    case 'S': o->timestamps = number != 0; return true;
    case 'M': o->memory = number != 0; return true;
    case 'J': o->output_file = text; return true;
    case 'p': o->parallel_init = (int)number; return true; // has no effect: a process has one thread
    case 'y': return true;                           // there is no stream
    case 'K': o->skip = (int)number; return true;
    case 'u':
        o->unalign = (int)number;
        return (number >= 0 && number <= 4096) || refuse(program, 'u', text, "0 to 4096 elements are allowed.");
    case 'a':
        o->average = (enum average)number;
        return (number >= 0 && number <= 3) || refuse(program, 'a', text, "0, 1, 2 and 3 are allowed.");
    case 'z':
        o->blocking = (enum blocking)number;
        return (number >= 0 && number <= 3) || refuse(program, 'z', text, "0, 1, 2 and 3 are allowed.");
    case 'I':
        o->per_iter = number == 1;
        if (number != 0 && number != 1)
            fprintf(stderr, "per-iteration timing (-I) only supports 0=off or 1=on. Disabling.\n");
        return true;
    case 't': return number == 1 || refuse(program, 't', text, "one rank here is one process with one thread.");
    case 'g': return number == 1 || refuse(program, 'g', text, "one rank here is one process with one device.");
    case 'o': return !strcmp(text, "sum") || refuse(program, 'o', text, "only sum is carried out on TCP rails.");
    case 'd': return !strcmp(text, "float") || refuse(program, 'd', text, "only float is carried out on TCP rails.");
    case 'G': return number == 0 || refuse(program, 'G', text, "a CUDA graph needs a GPU.");
    case 'R': return number == 0 || number == 1 || refuse(program, 'R', text, "symmetric memory needs GPUs.");
    case 'x': return refuse(program, 'x', text, "a CTA policy needs a GPU.");
    case 'D': return number == 0 || refuse(program, 'D', text, "a device implementation needs a GPU.");
    case 'V': return refuse(program, 'V', text, "a number of CTAs needs a GPU.");
    default: return false;
    }
}

bool options_parse(struct options *o, const char *program, int argc, char **argv, int *exit_code)
{
    *o = (struct options){.min_bytes = 32 << 20, .max_bytes = 32 << 20, .step_bytes = 1 << 20, .step_factor = 1,
                          .iters = 20, .agg_iters = 1, .warmup_iters = 1, .run_cycles = 1, .check = 1,
                          .average = AVERAGE_MEAN};
    for (int option; (option = getopt_long(argc, argv, SHORT, LONG, NULL)) != -1;) {
        if (option == 'h' || option == '?') {
            if (option != 'h') printf("invalid option '%c'\n", option);
            help(program);
            *exit_code = 0; // as in nccl-tests, even an invalid option ends the program with 0
            return false;
        }
        if (!take(o, program, option, optarg)) {
            *exit_code = 255;
            return false;
        }
    }
    *exit_code = 255;
    if (o->min_bytes > o->max_bytes) {
        fprintf(stderr, "invalid sizes for 'minbytes' and 'maxbytes': %zu > %zu\n", o->min_bytes, o->max_bytes);
        return false;
    }
    if (o->iters < 1 || o->agg_iters < 1) {
        fprintf(stderr, "%s: -n %d -m %d is refused: at least one operation has to be timed.\n", program, o->iters,
                o->agg_iters);
        return false;
    }
    if (o->min_bytes == 0 || (o->step_factor <= 1 && o->step_bytes == 0 && o->min_bytes < o->max_bytes)) {
        fprintf(stderr, "%s: sizes from %zu by steps of %zu are refused: they would never reach %zu.\n", program,
                o->min_bytes, o->step_bytes, o->max_bytes);
        return false;
    }
    if (o->skip < 0 || o->skip >= o->iters) {
        fprintf(stderr, "per-iteration skip (-K) must be between 0 and %d. Disabling.\n", o->iters - 1);
        o->skip = 0;
    }
    if (o->skip && !o->per_iter) {
        fprintf(stderr, "per-iteration skip (-K) requires per-iteration timing (-I 1). Disabling.\n");
        o->skip = 0;
    }
    return true;
}
