/* Runs a command and cuts some of its file writes short, as a disk near its end or a signal may.
 *
 * shortwrite N PREFIX COMMAND...   every Nth write of more than one byte to a file under PREFIX
 *                                  writes only its first half; the caller sees that and must go on.
 * When the command has ended, says `shortwrite: cut COUNT` on stderr. x86-64 Linux. */
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
static pid_t inside[4096]; /* threads that stand inside a call; the rest stand outside */
static int threads;

static int *place(pid_t thread) {
    static int entered[4096];
    for (int at = 0; at < threads; at++)
        if (inside[at] == thread)
            return &entered[at];
    if (threads == 4096)
        exit(3);
    inside[threads] = thread;
    entered[threads] = 0;
    return &entered[threads++];
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

static void maybe_cut(pid_t thread) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0)
        return;
    int writes = registers.orig_rax == SYS_write || registers.orig_rax == SYS_pwrite64;
    if (!writes || registers.rdx < 2 || !is_ours(thread, (int)registers.rdi))
        return;
    if (++seen % every != 0)
        return;
    registers.rdx /= 2;
    if (ptrace(PTRACE_SETREGS, thread, 0, &registers) == 0)
        cut++;
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
            int *entered = place(thread);
            *entered = !*entered;
            if (*entered)
                maybe_cut(thread);
            signal = 0;
        } else if (signal == SIGTRAP || (signal == SIGSTOP && *place(thread) == 0)) {
            signal = 0; /* a new thread, an exec */
        }
        ptrace(PTRACE_SYSCALL, thread, 0, signal);
    }
    fprintf(stderr, "shortwrite: cut %ld\n", cut);
    return code;
}
