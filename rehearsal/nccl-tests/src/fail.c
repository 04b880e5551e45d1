#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

const char *fail_host(void)
{
    static char name[256];
    if (!name[0]) {
        gethostname(name, sizeof name - 1);
        name[strcspn(name, ".")] = '\0';
    }
    return name;
}

static void end(enum result code, const char *file, int line)
{
    printf(" .. %s pid %d: Test failure %s:%d\n", fail_host(), (int)getpid(), file, line);
    fflush(stdout);
    launch_abort(code);
}

void fail_at(enum result code, const char *file, int line, const char *format, ...)
{
    const char *kind = code == RESULT_CUDA ? "CUDA" : code == RESULT_NCCL ? "NCCL" : "internal";
    const char *class = code == RESULT_NCCL ? "remote process exited or there was a network error / " : "";
    char message[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    printf("%s: Test %s failure %s:%d '%s%s'\n", fail_host(), kind, file, line, class, message);
    end(code, file, line);
    _exit(code);
}

void fail_timeout_at(int seconds, const char *file, int line)
{
    printf("%s: Test timeout (%ds) %s:%d\n", fail_host(), seconds, file, line);
    end(RESULT_TIMEOUT, file, line);
    _exit(RESULT_TIMEOUT);
}
