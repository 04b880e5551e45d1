#include "launch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "layout.h"

#ifdef MPI_SUPPORT
#include <mpi.h>
#endif

/* For MPI, a process that exits before the end of MPI_Finalize has failed. All ranks of many hosts share few processors, so
 * MPI_Finalize may take long. This program limits the time of MPI_Finalize, which would wait forever for a peer that died. */
enum { FINISH_S = 60, ABORT_S = 5, NAP_US = 500 };

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

#ifdef MPI_SUPPORT
static void finish(MPI_Request *requests, int count)
{
    int done = 0;
    for (MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE); !done; MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE))
        usleep(NAP_US);
}
#endif

/* Gathers the records at rank 0 and sends all of them to every rank. Sleeps between polls, because many ranks share few
 * processors here; MPI_Allgather would spin until the last rank has arrived. MPI_Iallgather with such polls once made a rank
 * crash in MPI_Finalize. */
void launch_allgather(const void *mine, size_t bytes, void *all)
{
    memcpy((char *)all + (size_t)rank * bytes, mine, bytes);
#ifdef MPI_SUPPORT
    static MPI_Request requests[RANKS_MAX];
    int others = size - 1, part = (int)bytes, whole = size * part;
    if (rank == 0) {
        for (int i = 0; i < others; i++)
            MPI_Irecv((char *)all + (size_t)(i + 1) * bytes, part, MPI_BYTE, i + 1, 0, MPI_COMM_WORLD, &requests[i]);
        finish(requests, others);
        for (int i = 0; i < others; i++) MPI_Isend(all, whole, MPI_BYTE, i + 1, 0, MPI_COMM_WORLD, &requests[i]);
        finish(requests, others);
    } else {
        MPI_Isend(mine, part, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[0]);
        finish(requests, 1);
        MPI_Irecv(all, whole, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[0]);
        finish(requests, 1);
    }
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
