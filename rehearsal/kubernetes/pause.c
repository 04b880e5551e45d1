/* The first process of a pod: waits, and reaps each of its child processes that exits. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void collect(int number)
{
    (void)number;
    while (waitpid(-1, 0, WNOHANG) > 0)
        ;
}

static void end(int number)
{
    (void)number;
    _exit(0);
}

int main(void)
{
    signal(SIGCHLD, collect);
    signal(SIGTERM, end);
    signal(SIGINT, end);
    for (;;)
        pause();
}
