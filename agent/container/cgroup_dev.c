/*
 * cgroup_dev: which device nodes the processes of a launch may open.
 *
 * Version 1 has a file for lines of text. Version 2 has none: the kernel runs a BPF program at each open.
 * The program is made here from plain instructions (compare type, major, minor; allow or continue), because
 * a compiler for it would be a large dependency for thirty lines.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "agent/container/cgroup.h"

#define RULES_MAX 128
#define ANY       (-1)

struct rule { /* character devices, all access */
	int major, minor;
};

static const struct rule standard[] = {
    {1, 3},     /* null */
    {1, 5},     /* zero */
    {1, 7},     /* full */
    {1, 8},     /* random */
    {1, 9},     /* urandom */
    {5, 0},     /* tty */
    {5, 1},     /* console */
    {5, 2},     /* ptmx */
    {136, ANY}, /* pts */
};

static size_t collect_rules(const struct strv *devices, struct rule *rules)
{
	size_t n = sizeof(standard) / sizeof(standard[0]);
	struct stat st;

	memcpy(rules, standard, sizeof(standard));
	for (size_t i = 0; devices && i < devices->n && n < RULES_MAX; i++)
		if (stat(devices->v[i], &st) == 0 && S_ISCHR(st.st_mode))
			rules[n++] = (struct rule){(int)major(st.st_rdev), (int)minor(st.st_rdev)};
	return n;
}

static int put_line(const char *dir, const char *file, const char *line, struct err *e)
{
	char path[4200];
	int fd, rc;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	rc = write(fd, line, strlen(line)) < 0 ? err_sys(e, errno, "%s: '%s'", path, line) : 0;
	close(fd);
	return rc;
}

int cgroup_dev_v1(const char *dir, const struct strv *devices, struct err *e)
{
	struct rule rules[RULES_MAX];
	size_t n = collect_rules(devices, rules);
	char line[64], minor_text[16];

	if (put_line(dir, "devices.deny", "a", e) < 0 || put_line(dir, "devices.allow", "c *:* m", e) < 0 ||
	    put_line(dir, "devices.allow", "b *:* m", e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		snprintf(minor_text, sizeof(minor_text), "%d", rules[i].minor);
		snprintf(line, sizeof(line), "c %d:%s rwm", rules[i].major, rules[i].minor == ANY ? "*" : minor_text);
		if (put_line(dir, "devices.allow", line, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- version 2 ------------------------------------------------------------------------------------------
 */

struct program {
	struct bpf_insn v[RULES_MAX * 6 + 16];
	uint32_t n;
};

static void add_insn(struct program *p, uint8_t code, uint8_t dst, uint8_t src, int16_t off, int32_t imm)
{
	struct bpf_insn *i = &p->v[p->n++];
	/* Two fields of four bits in the second byte, written as one: their order follows the machine's. */
	const uint8_t regs =
	    (uint8_t)(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? dst | src << 4 : dst << 4 | src);

	*i = (struct bpf_insn){.code = code, .off = off, .imm = imm};
	memcpy((uint8_t *)i + 1, &regs, 1);
}

static void add_answer(struct program *p, int allow)
{
	add_insn(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, allow);
	add_insn(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void compile_rules(struct program *p, const struct rule *rules, size_t n)
{
	p->n = 0;
	/* r2 type, r3 access, r4 major, r5 minor of struct bpf_cgroup_dev_ctx */
	add_insn(p, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1, 0, 0);
	add_insn(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_2, 0, 0);
	add_insn(p, BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_2, 0, 0, 0xffff);
	add_insn(p, BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_3, 0, 0, 16);
	add_insn(p, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_4, BPF_REG_1, 4, 0);
	add_insn(p, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_5, BPF_REG_1, 8, 0);
	add_insn(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_3, 0, 2, BPF_DEVCG_ACC_MKNOD);
	add_answer(p, 1);
	for (size_t i = 0; i < n; i++) {
		int skip = rules[i].minor == ANY ? 3 : 4; /* to the next rule */

		add_insn(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_2, 0, (int16_t)skip, BPF_DEVCG_DEV_CHAR);
		add_insn(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_4, 0, (int16_t)(skip - 1), rules[i].major);
		if (rules[i].minor != ANY)
			add_insn(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_5, 0, 2, rules[i].minor);
		add_answer(p, 1);
	}
	add_answer(p, 0);
}

static int call_bpf(int cmd, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

int cgroup_dev_v2(const char *dir, const struct strv *devices, struct err *e)
{
	struct rule rules[RULES_MAX];
	struct program p;
	union bpf_attr attr;
	cleanup_close int prog = -1;
	cleanup_close int group = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (group < 0)
		return err_sys(e, errno, "%s", dir);
	compile_rules(&p, rules, collect_rules(devices, rules));
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insns = (uint64_t)(uintptr_t)p.v;
	attr.insn_cnt = p.n;
	attr.license = (uint64_t)(uintptr_t) "Apache-2.0";
	prog = call_bpf(BPF_PROG_LOAD, &attr);
	if (prog < 0)
		return err_sys(e, errno, "device filter");
	memset(&attr, 0, sizeof(attr));
	attr.target_fd = (uint32_t)group;
	attr.attach_bpf_fd = (uint32_t)prog;
	attr.attach_type = BPF_CGROUP_DEVICE;
	attr.attach_flags = BPF_F_ALLOW_MULTI; /* besides one of whoever made the groups above */
	if (call_bpf(BPF_PROG_ATTACH, &attr) < 0)
		return err_sys(e, errno, "device filter of %s", dir);
	return 0;
}
