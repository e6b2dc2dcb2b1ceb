/*
 * preload: see preload.h. The options are those of python(1), 3.9 to 3.14.
 */
#include "common/spec/preload.h"

#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
#define DIGITS  "0123456789"

/* ---- commands ------------------------------------------------------------------------------------- */

/* python, python3, python3.11 in any folder. */
static int names_python(const char *program)
{
	const char *base = strrchr(program, '/');

	base = base ? base + 1 : program;
	return strncmp(base, "python", 6) == 0 && strspn(base + 6, DIGITS ".") == strlen(base + 6);
}

/* Options that change nothing about how the program is found or ends. -v is missing, because its output would
 * appear while the interpreter waits. */
static const char plain_options[] = "bBdEIOPqRsSu";

static const struct {
	char option;
	const char *sentence;
} refused[] = {
    {'c', "-c runs a text and no file; put it into a script"},
    {'i', "-i waits for a terminal at the end; remove it"},
    {'x', "-x skips the first line of the script; remove it"},
    {'v', "-v reports the imports themselves; remove it"},
};

static int refuse_option(const char *argument, char option, struct err *e)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (refused[i].option == option)
			return err_set(e, ERR_INVALID, "%s", refused[i].sentence);
	if (option == 'm')
		return err_set(e, ERR_INVALID, "\"%.40s\": write -m and the module as arguments of their own",
		               argument);
	return err_set(e, ERR_INVALID, "\"%.40s\" is not an option of an interpreter that can wait (-%s, -W, -X)",
	               argument, plain_options);
}

/* Returns how many arguments the options at argv[i] are, or -1. */
static int option_length(const struct strv *argv, size_t i, struct err *e)
{
	for (const char *p = argv->v[i] + 1; *p; p++) {
		if (*p == 'W' || *p == 'X')
			return p[1] ? 1 : 2;
		if (!strchr(plain_options, *p))
			return refuse_option(argv->v[i], *p, e);
	}
	return 1;
}

int preload_split(const struct strv *argv, struct preload_command *out, struct err *e)
{
	struct preload_command c = {0};
	size_t i = 1;

	if (!argv->n || !names_python(argv->v[0]))
		return err_set(e, ERR_INVALID,
		               "the command does not begin with a Python interpreter, but with \"%.80s\"",
		               argv->n ? argv->v[0] : "");
	while (i < argv->n && argv->v[i][0] == '-' && argv->v[i][1] && strcmp(argv->v[i], "-m") != 0) {
		int n = option_length(argv, i, e);

		if (n < 0)
			return -1;
		i += (size_t)n;
	}
	c.options = i - 1;
	c.module = i < argv->n && strcmp(argv->v[i], "-m") == 0;
	if (i + (size_t)c.module >= argv->n)
		return err_set(e, ERR_INVALID, "the command names no script and no module");
	if (!c.module && (!*argv->v[i] || strcmp(argv->v[i], "-") == 0))
		return err_set(e, ERR_INVALID, "the program comes from the standard input; name a script");
	*out = c;
	return 0;
}

int preload_same_interpreter(const struct strv *a, const struct strv *b)
{
	struct preload_command one, other;
	struct err e;

	if (preload_split(a, &one, &e) < 0 || preload_split(b, &other, &e) < 0 || one.options != other.options)
		return 0;
	for (size_t i = 0; i <= one.options; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return 0;
	return 1;
}

void preload_park_argv(const struct strv *argv, const struct job_spec *s, const char *park, struct strv *out)
{
	struct preload_command c;
	struct err e;

	if (preload_split(argv, &c, &e) < 0)
		return;
	for (size_t i = 0; i <= c.options; i++)
		strv_add(out, argv->v[i]);
	strv_add(out, park);
	if (s->cuda_context)
		strv_add(out, "--cuda-context");
	for (size_t i = 0; i < s->preload.n; i++)
		strv_add(out, s->preload.v[i]);
}

int preload_is_module(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > PRELOAD_NAME_MAX)
		return 0;
	for (;;) {
		n = strspn(name, LETTERS DIGITS);
		if (!n || strchr(DIGITS, *name))
			return 0;
		if (!name[n])
			return 1;
		if (name[n] != '.')
			return 0;
		name += n + 1;
	}
}

/* ---- environments --------------------------------------------------------------------------------- */

/*
 * Every variable that is missing here counts as read by an import: OMP_*, MKL_* and OPENBLAS_* size pools of
 * threads when a library is loaded, LD_*, MALLOC_* and GLIBC_TUNABLES work before main(), PYTHON*, LANG,
 * LC_*, TZ and HOME when Python starts. CUDA_* and NVIDIA_* choose the devices of a context that exists
 * already. NCCL_*, GLOO_* and TORCH_* are read once, and versions differ in when.
 */
static const struct {
	const char *name;
	int prefix;
} late_safe[] = {
    /* Hearth and the script mode of the managed service: programs read them, libraries do not. */
    {"HEARTH_", 1},
    {"SM_", 1},
    {"TRAINING_JOB_", 1},
    {"CURRENT_HOST", 0},
    {"SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY", 0},
    /* torch.distributed and TensorFlow read them when the program joins its gang. */
    {"RANK", 0},
    {"LOCAL_RANK", 0},
    {"NODE_RANK", 0},
    {"GROUP_RANK", 0},
    {"ROLE_RANK", 0},
    {"ROLE_NAME", 0},
    {"WORLD_SIZE", 0},
    {"LOCAL_WORLD_SIZE", 0},
    {"GROUP_WORLD_SIZE", 0},
    {"ROLE_WORLD_SIZE", 0},
    {"MASTER_", 1},
    {"TORCHELASTIC_", 1},
    {"TF_CONFIG", 0},
    /* The launcher's: MPI_Init reads them, and a preload that calls it is refused for its sockets. */
    {"OMPI_", 1},
    {"PMIX_", 1},
    {"PMI_", 1},
    {"ORTE_", 1},
    {"PRTE_", 1},
    /* The shell's notion of the working folder; the folder itself is set by the start. */
    {"PWD", 0},
    {"OLDPWD", 0},
};

int preload_late_safe(const char *name)
{
	for (size_t i = 0; i < sizeof(late_safe) / sizeof(late_safe[0]); i++) {
		const char *known = late_safe[i].name;

		if (late_safe[i].prefix ? strncmp(name, known, strlen(known)) == 0 : strcmp(name, known) == 0)
			return 1;
	}
	return 0;
}

/* Returns the value of the last "NAME=..." in env, of which name is n bytes long; NULL unset. */
static const char *last_value(const struct strv *env, const char *name, size_t n)
{
	for (size_t i = env->n; i-- > 0;)
		if (strncmp(env->v[i], name, n) == 0 && env->v[i][n] == '=')
			return env->v[i] + n + 1;
	return NULL;
}

static char *first_difference(const struct strv *a, const struct strv *b)
{
	for (size_t i = 0; i < a->n; i++) {
		size_t n = strcspn(a->v[i], "=");
		cleanup_free char *name = xstrndup(a->v[i], n);
		const char *one, *other;

		if (!n || preload_late_safe(name))
			continue;
		one = last_value(a, name, n);
		other = last_value(b, name, n);
		if (one && (!other || strcmp(one, other) != 0))
			return xstrdup(name);
	}
	return NULL;
}

char *preload_env_differs(const struct strv *a, const struct strv *b)
{
	char *name = first_difference(a, b);

	return name ? name : first_difference(b, a);
}
