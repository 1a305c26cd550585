/* Runs a command and cuts some of its file writes short, as a disk near its end or a signal may.
 *
 * shortwrite N PREFIX COMMAND...   every Nth write of more than one byte to a file under PREFIX
 *                                  writes only its first half; the caller sees that and must go on.
 * The register with the count is put back after the call: a caller may count on the system not to
 * change it. When the command has ended, says `shortwrite: cut COUNT` on stderr. x86-64 Linux. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLAGS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | \
               PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL)

static const char *prefix;
static long every, seen, cut;

/* A thread, whether it stands inside a call, and the count that was taken from that call. */
struct place {
    pid_t thread;
    int inside;
    unsigned long whole;
};

static struct place *place(pid_t thread) {
    static struct place places[4096];
    static int known;
    for (int at = 0; at < known; at++)
        if (places[at].thread == thread)
            return &places[at];
    if (known == 4096)
        exit(3);
    places[known].thread = thread;
    return &places[known++];
}

static int is_ours(pid_t thread, int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strncmp(path, prefix, strlen(prefix)) == 0;
}

static void maybe_cut(struct place *place) {
    pid_t thread = place->thread;
    struct user_regs_struct registers;
    place->whole = 0;
    if (ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0)
        return;
    int writes = registers.orig_rax == SYS_write || registers.orig_rax == SYS_pwrite64;
    if (!writes || registers.rdx < 2 || !is_ours(thread, (int)registers.rdi))
        return;
    if (++seen % every != 0)
        return;
    place->whole = registers.rdx;
    registers.rdx /= 2;
    if (ptrace(PTRACE_SETREGS, thread, 0, &registers) == 0)
        cut++;
}

static void give_back(struct place *place) {
    struct user_regs_struct registers;
    if (place->whole == 0 || ptrace(PTRACE_GETREGS, place->thread, 0, &registers) != 0)
        return;
    registers.rdx = place->whole;
    place->whole = 0;
    ptrace(PTRACE_SETREGS, place->thread, 0, &registers);
}

int main(int count, char **words) {
    if (count < 4) {
        fprintf(stderr, "usage: shortwrite N PREFIX COMMAND...\n");
        return 2;
    }
    every = atol(words[1]);
    prefix = words[2];
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(words[3], words + 3);
        perror(words[3]);
        _exit(127);
    }
    int status, code = 0;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, 0, FLAGS);
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread == child)
                code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80)) {
            struct place *now = place(thread);
            now->inside = !now->inside;
            if (now->inside)
                maybe_cut(now);
            else
                give_back(now);
            signal = 0;
        } else if (signal == SIGTRAP || (signal == SIGSTOP && !place(thread)->inside)) {
            signal = 0; /* a new thread, an exec */
        }
        ptrace(PTRACE_SYSCALL, thread, 0, signal);
    }
    fprintf(stderr, "shortwrite: cut %ld\n", cut);
    return code;
}
