#include "launch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef MPI_SUPPORT
#include <mpi.h>
#endif

/* MPI takes a process that exits before the end of MPI_Finalize for one that failed. All ranks of many hosts share few
 * processors, so the end may take long; it is bounded because a peer that died is waited for without end. */
enum { FINISH_S = 60, ABORT_S = 5 };

static int rank = 0, size = 1;
static volatile sig_atomic_t final_code;

static void on_alarm(int number)
{
    (void)number;
    _exit(final_code);
}

static void bound(int seconds, int code)
{
    final_code = code;
    signal(SIGALRM, on_alarm);
    alarm((unsigned)seconds);
}

void launch_start(int *argc, char ***argv)
{
    signal(SIGPIPE, SIG_IGN);
#ifdef MPI_SUPPORT
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
#else
    (void)argc;
    (void)argv;
#endif
}

int launch_rank(void) { return rank; }
int launch_size(void) { return size; }

void launch_allgather(const void *mine, size_t bytes, void *all)
{
#ifdef MPI_SUPPORT
    MPI_Allgather((void *)mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
#else
    memcpy(all, mine, bytes);
#endif
}

void launch_abort(enum result code)
{
    fflush(NULL);
#ifdef MPI_SUPPORT
    bound(ABORT_S, code);
    MPI_Abort(MPI_COMM_WORLD, code);
#endif
    _exit(code);
}

void launch_finish(int code)
{
    fflush(NULL);
#ifdef MPI_SUPPORT
    bound(FINISH_S, code);
    MPI_Finalize();
    alarm(0);
#endif
    _exit(code);
}
