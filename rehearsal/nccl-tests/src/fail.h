// How the job ends when it cannot go on: one rank prints the cause and ends all ranks; the exit code tells the kind of failure.
// There is no recovery, because a collective with a missing rank has no result.
#pragma once

enum result {
    RESULT_OK = 0,
    RESULT_INTERNAL = 1,
    RESULT_CUDA = 2,
    RESULT_NCCL = 3,
    RESULT_TIMEOUT = 4,
    RESULT_NOT_IMPLEMENTED = 5,
    RESULT_WRONG = 7, // wrong values, or a mean bus bandwidth below 0.9 x NCCL_TESTS_MIN_BW
};

const char *fail_host(void); // host name up to its first dot

// Print "<host>: Test <kind> failure <file>:<line> '<message>'" and end the job on all ranks. Does not return.
void fail_at(enum result code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5), noreturn));

// End the job after the -T timeout, with the message that nccl-tests prints. Does not return.
void fail_timeout_at(int seconds, const char *file, int line) __attribute__((noreturn));

#define FAIL(code, ...) fail_at((code), __FILE__, __LINE__, __VA_ARGS__)
#define FAIL_TIMEOUT(seconds) fail_timeout_at((seconds), __FILE__, __LINE__)
