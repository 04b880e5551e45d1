/* The first process of a rehearsed host: drops capabilities with which the host could harm the machine, starts the boot script,
 * copies the console to a log and reaps orphans. This process never restarts anything. Descriptors: 3 is the console's FIFO
 * (read and write), 4 is the console's log (append). argv: the boot script and the script's arguments. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Root in a host is root in the machine's user namespace, so root in a host loses the rights to set the clock, load modules, do
 * raw I/O and make device nodes. */
static const int given_up[] = {CAP_SYS_TIME, CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_MKNOD};

static void copy_console(void)
{
    char text[65536];
    ssize_t got = read(3, text, sizeof text);
    for (ssize_t done = 0, step; done < got; done += step)
        if ((step = write(4, text + done, got - done)) <= 0)
            return;
}

int main(int argc, char **argv)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (unsigned i = 0; i < sizeof given_up / sizeof *given_up; i++)
        prctl(PR_CAPBSET_DROP, given_up[i], 0, 0, 0);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    fcntl(3, F_SETFL, fcntl(3, F_GETFL) | O_NONBLOCK);
    fcntl(4, F_SETFD, FD_CLOEXEC);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (argc < 2 || signals < 0)
        return 2;
    if (fork() == 0) {
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        setsid();
        int console = open("/dev/console", O_WRONLY);
        dup2(console, 1);
        dup2(console, 2);
        close(console);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    struct pollfd wait_for[2] = {{.fd = 3, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    for (;;) {
        if (poll(wait_for, 2, -1) < 0 && errno != EINTR)
            return 1;
        if (wait_for[0].revents & POLLIN)
            copy_console();
        if (wait_for[1].revents & POLLIN) {
            struct signalfd_siginfo info;
            if (read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGTERM)
                exit(0); /* the kernel then kills every other process of the host */
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        }
    }
}
