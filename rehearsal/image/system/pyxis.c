/* Stand-in: Pyxis. Each machine builds it with its own compiler against Slurm's own headers, and the real Slurm loads it.
 *
 * As in the real Pyxis, the first task of each node creates and starts the container with enroot, and every task joins the
 * container before its program runs. Sources: README.md, args.c and pyxis_slurmstepd.c of 0.24.0; only the options that a test
 * uses exist here. The stand-in for enroot does not pivot the container's root, so a task changes its root itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1);

enum { IMAGE, MOUNTS, NAME, WORKDIR, ENVIRONMENT, OPTIONS };
static char *given[OPTIONS];

static int take(int option, const char *value, int remote)
{
    (void)remote;
    if (option < OPTIONS)
        given[option] = strdup(value);
    return 0;
}

struct spank_option spank_options[] = {
    {"container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH", "[pyxis] the image", 1, IMAGE, take},
    {"container-mounts", "SRC:DST[:FLAGS][,SRC:DST...]", "[pyxis] bind mounts", 1, MOUNTS, take},
    {"container-name", "NAME", "[pyxis] keep the container for later steps", 1, NAME, take},
    {"container-workdir", "PATH", "[pyxis] working directory", 1, WORKDIR, take},
    {"container-env", "NAME[,NAME...]", "[pyxis] variables that keep the job's value", 1, ENVIRONMENT, take},
    {"no-container-entrypoint", NULL, "[pyxis] do not run the image's entry point (the default)", 0, OPTIONS, take},
    {"no-container-mount-home", NULL, "[pyxis] do not mount the home folder (the default)", 0, OPTIONS, take},
    SPANK_OPTIONS_TABLE_END};

/* What the tasks of one step share on a node. */
static struct shared {
    pthread_mutex_t lock;
    bool tried;
    pid_t container; /* 0 if the container did not start */
    int begun;
} *shared;

static uint32_t number(spank_t sp, spank_item_t item)
{
    uint32_t value = 0;
    spank_get_item(sp, item, &value);
    return value;
}

/* The container's name. A container to which the job gives a name is removed when the job ends (container_scope=job). */
static void name_of(spank_t sp, char *name, size_t size)
{
    uint32_t job = number(sp, S_JOB_ID);
    if (given[NAME])
        snprintf(name, size, "pyxis_%u_%s", job, given[NAME]);
    else
        snprintf(name, size, "pyxis_%u_%u.%u", job, job, number(sp, S_JOB_STEPID));
}

/* Become the job's user, if this process runs as root. */
static void become(spank_t sp)
{
    uid_t user = 0;
    gid_t group = 0;
    if (geteuid() || spank_get_item(sp, S_JOB_UID, &user))
        return;
    if (!spank_get_item(sp, S_JOB_GID, &group) && setgid(group))
        _exit(1);
    if (setuid(user))
        _exit(1);
}

/* Whether a variable of the job is withheld from enroot (pyxis_slurmstepd.c, enroot_deny_env). */
static bool denied(const char *pair)
{
    static const char *const names[] = {"PATH=", "LD_", "SLURM_PROCID=", "SLURM_LOCALID=", "SLURM_TASK_PID=", "PMIX_RANK="};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (!strncmp(pair, names[at], strlen(names[at])))
            return true;
    const char *equals = strchr(pair, '=');
    return !strncmp(pair, "ENROOT_", 7) && equals && equals - pair > 5 && !strncmp(equals - 5, "_PATH", 5);
}

/* Run a shell command with arguments $1 to $3 as the job's user, with the job's variables; return its process. */
static pid_t begin(spank_t sp, const char *text, const char *one, const char *two, const char *three)
{
    char **all = NULL;
    pid_t process = fork();
    if (process)
        return process;
    spank_get_item(sp, S_JOB_ENV, &all);
    clearenv();
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
    for (; all && *all; all++)
        if (!denied(*all))
            putenv(*all);
    become(sp);
    execl("/bin/bash", "bash", "-c", text, "pyxis", one ? one : "", two ? two : "", three ? three : "", NULL);
    _exit(127);
}

static int run(spank_t sp, const char *text, const char *one, const char *two, const char *three)
{
    int status = -1;
    pid_t process = begin(sp, text, one, two, three);
    return process > 0 && waitpid(process, &status, 0) == process && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char CREATE[] =
    "enroot list | grep -qxF -- \"$1\" && exit\n"
    "[ -n \"$2\" ] || { echo \"pyxis: error: a container with name \\\"$1\\\" does not exist, and --container-image is not set\" >&2; exit 1; }\n"
    "quietly() { said=$(\"$@\" 2>&1) || { echo \"$said\" >&2; return 1; }; }\n"
    "case $2 in\n"
    "  [./]*) quietly enroot create --name \"$1\" \"$2\" ;;\n"
    "  *)\n"
    "    file=/run/pyxis/$(id -u)/$1.squashfs\n"
    "    quietly enroot import --output \"$file\" \"docker://${2#docker://}\" || exit\n"
    "    quietly enroot create --name \"$1\" \"$file\"; status=$?; rm -f \"$file\"; exit $status ;;\n"
    "esac\n";
/* The started shell stops itself once it runs in the container; `started` waits for that. */
static const char START[] =
    "conf=/run/pyxis/$(id -u)/$1.conf\n"
    "{\n"
    "  printf 'rc() {\\n  exec \"$@\"\\n}\\nmounts() {\\n  :\\n'\n"
    "  while IFS=: read -r source target flags; do\n"
    "    [ -z \"$source\" ] || echo \"  echo '$source ${target:-$source} x-create=auto,rbind,${flags//+/,}'\"\n"
    "  done <<< \"${2//,/$'\\n'}\"\n"
    "  printf '}\\nenviron() {\\n  :\\n'\n"
    "  for name in ${3//,/ }; do echo \"  [ -z \\\"\\${$name-}\\\" ] || echo \\\"$name=\\${$name}\\\"\"; done\n"
    "  echo '}'\n"
    "} > \"$conf\"\n"
    "exec enroot start --conf \"$conf\" \"$1\" sh -c 'kill -STOP $$; exit 0'\n";

/* Create and start the container; return its process, or 0 if it did not start. */
static pid_t started(spank_t sp)
{
    char name[256];
    int status = 0;
    name_of(sp, name, sizeof name);
    if (run(sp, CREATE, name, given[IMAGE], NULL)) {
        slurm_error("pyxis: failed to create container filesystem for image: %s", given[IMAGE] ? given[IMAGE] : "none");
        return 0;
    }
    pid_t process = begin(sp, START, name, given[MOUNTS], given[ENVIRONMENT]);
    if (process < 0 || waitpid(process, &status, WUNTRACED) != process || !WIFSTOPPED(status)) {
        slurm_error("pyxis: container start failed with error code: %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        return 0;
    }
    return process;
}

static bool listed(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, length) && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* Give the task the container's variables. A variable of the container replaces the job's variable of the same name, unless
   --container-env names the variable. */
static int import_environment(spank_t sp, pid_t process)
{
    char path[64], *pair = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "/proc/%d/environ", process);
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    while (getdelim(&pair, &size, 0, file) > 0) {
        char *value = strchr(pair, '=');
        if (!value)
            continue;
        *value++ = 0;
        spank_setenv(sp, pair, value, !listed(given[ENVIRONMENT], pair));
    }
    free(pair);
    return fclose(file);
}

static int opened(pid_t process, const char *what)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process, what);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int join(spank_t sp, pid_t process)
{
    int users = opened(process, "ns/user"), mounts = opened(process, "ns/mnt"), root = opened(process, "root");
    if (users < 0 || mounts < 0 || root < 0 || import_environment(sp, process))
        return -1;
    if (getuid() && setns(users, CLONE_NEWUSER))
        return -1;
    if (setns(mounts, CLONE_NEWNS) || fchdir(root) || chroot("."))
        return -1;
    return chdir(given[WORKDIR] ? given[WORKDIR] : "/");
}

int slurm_spank_init(spank_t sp, int ac, char **av)
{
    (void)sp, (void)ac, (void)av;
    return spank_context() == S_CTX_SLURMD && mkdir("/run/pyxis", 0755) && errno != EEXIST ? -1 : 0;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
    for (int at = 0; at < ac; at++)
        if (strcmp(av[at], "container_scope=job")) {
            slurm_error("pyxis: unknown configuration option: %s", av[at]);
            return -1;
        }
    if (spank_remote(sp) != 1 || (!given[IMAGE] && !given[NAME]))
        return 0;
    char path[64];
    uid_t user = 0;
    spank_get_item(sp, S_JOB_UID, &user);
    snprintf(path, sizeof path, "/run/pyxis/%u", user);
    if ((mkdir(path, 0700) && errno != EEXIST) || chown(path, user, (gid_t)-1))
        return -1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return -1;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    return pthread_mutex_init(&shared->lock, &kind);
}

int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
    (void)ac, (void)av;
    uint32_t tasks = 0;
    if (!shared)
        return 0;
    pthread_mutex_lock(&shared->lock);
    if (!shared->tried)
        shared->container = started(sp);
    shared->tried = true;
    pid_t process = shared->container;
    int failed = process ? join(sp, process) : -1;
    if (process && failed)
        slurm_error("pyxis: couldn't join the container: %s", strerror(errno));
    spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks);
    if (process && ++shared->begun == (int)tasks)
        kill(process, SIGKILL);
    pthread_mutex_unlock(&shared->lock);
    return failed;
}

int slurm_spank_exit(spank_t sp, int ac, char **av)
{
    (void)ac, (void)av;
    char name[256];
    if (spank_remote(sp) != 1 || !shared || given[NAME])
        return 0;
    name_of(sp, name, sizeof name);
    run(sp, "enroot remove -f \"$1\" 2> /dev/null", name, NULL, NULL);
    return 0;
}

int slurm_spank_job_epilog(spank_t sp, int ac, char **av)
{
    (void)ac, (void)av;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "^pyxis_%u_", number(sp, S_JOB_ID));
    return run(sp, "enroot list | grep -e \"$1\" | xargs -r enroot remove -f", prefix, NULL, NULL) ? -1 : 0;
}
