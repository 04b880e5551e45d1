// What MPI is used for: to learn rank and size, to exchange one record per rank at the start, and to end the job.
// No MPI call is made in between: MPI makes no progress while ranks work outside it, so its barriers between sizes would hang.
#pragma once
#include <stddef.h>

#include "fail.h"

void launch_start(int *argc, char ***argv);
int launch_rank(void);
int launch_size(void);
void launch_allgather(const void *mine, size_t bytes, void *all); // all: launch_size() records, by rank
void launch_abort(enum result code) __attribute__((noreturn));
void launch_finish(int code) __attribute__((noreturn)); // exits with code within a minute, even if MPI hangs
