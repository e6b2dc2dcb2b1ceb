/*
 * test_spec_bad: a table of bad documents for job.json with the key or the value that each message must name.
 * The full messages are in tests/golden/job.txt, by document.
 */
#include "common/spec/spec.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"

#define CMD "\"command\": [\"true\"]"

static const struct {
	const char *text, *message; /* a part of it */
} bad[] = {
    /* form */
    {"", "line 1"},
    {"{", "line 1"},
    {"[]", "a job is a JSON object"},
    {"17", "a job is a JSON object"},
    {"{\"command\": [\"x\"], \"command\": [\"y\"]}", "twice"},
    {"{" CMD "} x", "line 1"},
    {"{" CMD ", \"hyperparameters\": {\"seed\": 12345678901234567890}}",
     "12345678901234567890 has more digits"},
    {"{" CMD ",\n\"hyperparameters\": {\"seed\": 9007199254740993}}", "line 2: 9007199254740993"},
    /* unknown keys */
    {"{" CMD ", \"nmae\": \"x\"}", "nmae:"},
    {"{" CMD ", \"instances\": 2}", "instances:"},
    {"{" CMD ", \"resources\": {\"gpu_per_instance\": 2}}", "resources.gpu_per_instance:"},
    {"{" CMD ", \"resources\": {\"placement\": {\"spam\": \"node\"}}}", "resources.placement.spam:"},
    {"{" CMD ", \"xyzzy\": 1}", "xyzzy: unknown key"},
    {"{" CMD ", \"\": 1}", "unknown key"},
    {"{" CMD ", \"a\\u0001b\": 1}", "a?b: unknown key"},
    {"{" CMD ", \"groups\": [{\"name\": \"w\", \"gpus\": 1}]}", "groups[0].gpus:"},
    {"{" CMD ", \"inputs\": {\"a\": {\"url\": \"file:///x\"}}}", "inputs.a.url:"},
    {"{" CMD ", \"watch\": {\"on_spik\": \"alert\"}}", "watch.on_spik:"},
    /* names */
    {"{" CMD ", \"name\": 5}", "name:"},
    {"{" CMD ", \"name\": \"\"}", "name"},
    {"{" CMD ", \"name\": \"../etc\"}", "name"},
    {"{" CMD ", \"name\": \"a/b\"}", "name"},
    {"{" CMD ", \"name\": \"a\\nb\"}", "name:"},
    {"{" CMD ", \"name\": \"a\\u001bb\"}", "control character (0x1b)"},
    {"{" CMD ", \"name\": \"a\\u0000b\"}", "line 1"},
    {"{" CMD ", \"experiment\": [\"x\"]}", "experiment:"},
    {"{" CMD ", \"experiment\": \"a b\"}", "experiment"},
    {"{" CMD ", \"notes\": \"a\\u0007\"}", "notes:"},
    {"{" CMD ", \"queue\": \"a b\"}", "queue"},
    {"{" CMD ", \"queue\": \"a//b\"}", "queue is empty"},
    {"{" CMD ", \"queue\": \"a/@ada\"}", "queue:"},
    {"{" CMD ", \"queue\": \"a/b/c/d/e\"}", "at most 4 levels"},
    {"{" CMD ", \"tags\": [\"a\"]}", "tags:"},
    {"{" CMD ", \"tags\": {\"a\": 1}}", "tags.a:"},
    {"{" CMD ", \"tags\": {\"a b\": \"1\"}}", "tags.a b"},
    {"{" CMD ", \"tags\": {\"a\": null}}", "tags.a:"},
    /* command and sources */
    {"{}", "command:"},
    {"{\"command\": []}", "command:"},
    {"{\"command\": \"train.py\"}", "command:"},
    {"{\"command\": [\"\"]}", "command[0]:"},
    {"{\"command\": [\"python3\", 5]}", "command[1]:"},
    {"{\"command\": [\"python3\", null]}", "command[1]:"},
    {"{\"command\": [\"py\\nthon\"]}", "command[0]:"},
    {"{\"command\": [\"sh\", \"-c\", \"a\\u0008\"]}", "command[2]:"},
    {"{" CMD ", \"source_dir\": 1}", "source_dir: expected a string"},
    {"{" CMD ", \"source_dir\": \".\", \"requirements\": \"../r.txt\"}", "requirements:"},
    {"{" CMD ", \"source_dir\": \".\", \"requirements\": \"/r.txt\"}", "requirements:"},
    {"{" CMD ", \"requirements\": \"r.txt\"}", "requirements:"},
    /* hyperparameters and environment */
    {"{" CMD ", \"hyperparameters\": []}", "hyperparameters:"},
    {"{" CMD ", \"hyperparameters\": {\"a b\": 1}}", "hyperparameters.a b: a name may hold"},
    {"{" CMD ", \"hyperparameters\": {\"--a\": 1}}", "hyperparameters.--a: a name begins with"},
    {"{" CMD ", \"hyperparameters\": {\"\": 1}}", "256"},
    {"{" CMD ", \"hyperparameters\": {\"a../b\": 1}}", "may not hold \"..\""},
    {"{" CMD ", \"hyperparameters\": {\"a\": null}}", "hyperparameters.a:"},
    {"{" CMD ", \"hyperparameters\": {\"a\": \"x\\u0002\"}}", "hyperparameters.a:"},
    {"{" CMD ", \"environment\": {\"A\": 1}}", "environment.A:"},
    {"{" CMD ", \"environment\": {\"A\": true}}", "environment.A:"},
    {"{" CMD ", \"environment\": {\"A\": []}}", "environment.A:"},
    {"{" CMD ", \"environment\": {\"1A\": \"\"}}", "environment.1A:"},
    {"{" CMD ", \"environment\": {\"A=B\": \"\"}}", "not the name of an environment variable"},
    {"{" CMD ", \"environment\": {\"HEARTH_JOB\": \"1\"}}", "environment.HEARTH_JOB:"},
    {"{" CMD ", \"environment\": {\"OMPI_COMM_WORLD_RANK\": \"1\"}}", "is set by Hearth itself (OMPI_*)"},
    {"{" CMD ", \"environment\": {\"OMPI_MCA_btl\": \"tcp\"}}", "go into mpi_options"},
    {"{" CMD ", \"environment\": {\"PMIX_RANK\": \"1\"}}", "is set by Hearth itself"},
    {"{" CMD ", \"environment\": {\"RANK\": \"1\"}}", "is set by Hearth itself"},
    {"{" CMD ", \"environment\": {\"WORLD_SIZE\": \"1\"}}", "is set by Hearth itself"},
    {"{" CMD ", \"environment\": {\"LOCAL_RANK\": \"1\"}}", "is set by Hearth itself"},
    {"{" CMD ", \"environment\": {\"MASTER_ADDR\": \"1\"}}", "is set by Hearth itself"},
    {"{" CMD ", \"environment\": {\"MASTER_PORT\": \"1\"}}", "is set by Hearth itself"},
    {"{" CMD ", \"environment\": {\"SM_HPS\": \"1\"}}", "is set by Hearth itself"},
    /* resources */
    {"{" CMD ", \"resources\": 2}", "resources:"},
    {"{" CMD ", \"resources\": {\"instances\": 0}}", "resources.instances:"},
    {"{" CMD ", \"resources\": {\"instances\": -1}}", "resources.instances:"},
    {"{" CMD ", \"resources\": {\"instances\": 1.5}}", "resources.instances:"},
    {"{" CMD ", \"resources\": {\"instances\": \"2\"}}", "resources.instances:"},
    {"{" CMD ", \"resources\": {\"instances\": 4097}}", "4097"},
    {"{" CMD ", \"resources\": {\"instances\": 1e30}}", "resources.instances"},
    {"{" CMD ", \"resources\": {\"gpus_per_instance\": 100000}}", "resources.gpus_per_instance:"},
    {"{" CMD ", \"resources\": {\"instances\": 4096, \"ranks_per_instance\": 100}}", "resources:"},
    {"{" CMD ", \"resources\": {\"cpus_per_rank\": 0}}", "resources.cpus_per_rank:"},
    {"{" CMD ", \"resources\": {\"memory\": \"8 parsecs\"}}", "resources.memory:"},
    {"{" CMD ", \"resources\": {\"memory\": -5}}", "resources.memory:"},
    {"{" CMD ", \"resources\": {\"memory\": [1]}}", "resources.memory:"},
    {"{" CMD ", \"resources\": {\"memory\": \"999999T\"}}", "resources.memory:"},
    {"{" CMD ", \"resources\": {\"exclusive\": 1}}", "resources.exclusive:"},
    {"{" CMD ", \"resources\": {\"instance_type\": \"auto\"}}", "resources.instance_type:"},
    {"{" CMD ", \"resources\": {\"instance_type\": [\"a\", \"any\"]}}", "resources.instance_type[1]:"},
    {"{" CMD ", \"resources\": {\"instance_type\": [\"a\", 1]}}", "resources.instance_type[1]:"},
    {"{" CMD ", \"resources\": {\"instance_type\": {}}}", "resources.instance_type:"},
    {"{" CMD ", \"resources\": {\"instance_type\": \"a b\"}}", "resources.instance_type"},
    {"{" CMD ", \"resources\": {\"gpu_model\": \"H200\"}}", "resources.gpu_model:"},
    {"{" CMD ", \"resources\": {\"gpu_memory\": \"8GiB\"}}", "resources.gpu_memory:"},
    {"{" CMD ", \"resources\": {\"requires\": \"nvlink\"}}", "resources.requires:"},
    {"{" CMD ", \"resources\": {\"requires\": [\"zone=\"]}}", "resources.requires[0]"},
    {"{" CMD ", \"resources\": {\"gpu_visibility\": \"some\"}}", "\"some\""},
    {"{" CMD ", \"resources\": {\"placement\": {\"span\": \"room\"}}}", "\"switch\""},
    {"{" CMD ", \"resources\": {\"placement\": {\"hard\": true}}}", "resources.placement.hard:"},
    {"{" CMD ", \"resources\": {\"instances\": 2, \"placement\": {\"span\": \"node\", \"hard\": true}}}",
     "resources.placement:"},
    /* launcher and MPI */
    {"{" CMD ", \"launcher\": \"srun\"}", "launcher:"},
    {"{" CMD ", \"mpi_options\": \"--mca btl tcp\"}", "mpi_options:"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"btl\"]}", "mpi_options[0]:"},
    {"{" CMD ", \"mpi_options\": [\"--mca\"]}", "mpi_options[0]:"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"plm_rsh_agent\", \"/tmp/x\"]}",
     "mpi_options[1]: plm_rsh_agent is not allowed"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"odls_base_sigkill_timeout\", \"5\"]}", "Hearth itself"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"oob_tcp_keepalive_time\", \"5\"]}", "Hearth itself"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"routed\", \"direct\"]}", "Hearth itself"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"orte_enable_recovery\", \"1\"]}", "Hearth itself"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"mpi_ft_enable\", \"1\"]}", "is not on the list"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"mca_base_component_path\", \"/tmp\"]}", "is not on the list"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"btlx\", \"tcp\"]}", "btlx is not on the list"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"btl tcp\", \"x\"]}", "is not the name of an MPI parameter"},
    {"{" CMD ", \"mpi_options\": [\"--mca\", \"btl\", \"--mca\"]}", "looks like an option"},
    {"{" CMD ", \"mpi_options\": [\"-np\", \"4\"]}", "mpi_options[0]:"},
    {"{" CMD ", \"mpi_options\": [\"-hostfile\", \"h\"]}",
     "-hostfile cannot be given: Hearth chooses the hosts"},
    {"{" CMD ", \"mpi_options\": [\"--host\", \"a,b\"]}", "Hearth chooses the hosts"},
    {"{" CMD ", \"mpi_options\": [\"--enable-recovery\"]}", "a gang is restarted as a whole"},
    {"{" CMD ", \"mpi_options\": [\"-x\", \"A=B\"]}", "\"environment\""},
    {"{" CMD ", \"mpi_options\": [\"--whatever\", \"1\"]}",
     "mpi_options[0]: \"--whatever\": only --mca NAME VALUE"},
    {"{" CMD ", \"mpi_options\": [\"/bin/sh\"]}", "\"/bin/sh\": only --mca NAME VALUE"},
    {"{" CMD ", \"launcher\": \"direct\", \"mpi_options\": [\"--mca\", \"btl\", \"tcp\"]}", "mpi_options:"},
    /* groups */
    {"{" CMD ", \"groups\": {}}", "groups:"},
    {"{" CMD ", \"groups\": [5]}", "groups[0]:"},
    {"{" CMD ", \"groups\": [{}]}", "groups[0]:"},
    {"{" CMD ", \"groups\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", "groups[1]:"},
    {"{" CMD ", \"groups\": [{\"name\": \"a\"}], \"resources\": {\"instances\": 1}}", "resources.instances:"},
    {"{\"groups\": [{\"name\": \"a\", \"command\": [\"x\"]}, {\"name\": \"b\"}]}", "command:"},
    {"{" CMD
     ", \"groups\": [{\"name\": \"a\", \"instances\": 3000}, {\"name\": \"b\", \"instances\": 3000}]}",
     "groups:"},
    {"{" CMD ", \"launcher\": \"torchrun\", \"groups\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}",
     "launcher:"},
    /* inputs and outputs */
    {"{" CMD ", \"inputs\": []}", "inputs:"},
    {"{" CMD ", \"inputs\": {\"a\": \"file:///x\"}}", "inputs.a:"},
    {"{" CMD ", \"inputs\": {\"a\": {}}}", "inputs.a:"},
    {"{" CMD ", \"inputs\": {\"a b\": {\"uri\": \"file:///x\"}}}", "inputs.a b"},
    {"{" CMD ", \"inputs\": {\"../a\": {\"uri\": \"file:///x\"}}}", "inputs.../a"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"file:///\"}, \"A\": {\"uri\": \"file:///\"}}}",
     "would share its variable"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"file://host/x\"}}}", "inputs.a.uri:"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"file:///x/../y\"}}}", "inputs.a.uri:"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"file:///x/..\"}}}", "inputs.a.uri:"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"/data\"}}}", "inputs.a.uri:"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"s3://b/k\"}}}", "inputs.a.uri:"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"https://\"}}}", "names no host"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"https://h/a b\"}}}", "must be %-escaped"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"job:x/model\"}}}", "expected job:ID/model"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"job:17/secret\"}}}", "expected job:ID/model"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"job:17\"}}}", "expected job:ID/model"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"file:///x\", \"mode\": \"pipe\"}}}", "inputs.a.mode:"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"job:1/model\", \"mode\": \"link\"}}}", "\"link\""},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"http://h/x\", \"sha256\": \"abc\"}}}",
     "inputs.a.sha256: expected 64"},
    {"{" CMD ", \"inputs\": {\"a\": {\"uri\": \"file:///x\", \"unpack\": \"yes\"}}}", "inputs.a.unpack:"},
    {"{" CMD ", \"output_uri\": \"/results\"}", "output_uri: expected file:///PATH, got \"/results\""},
    {"{" CMD ", \"output_uri\": \"s3://b/k\"}", "output_uri:"},
    {"{" CMD ", \"resume_from\": \"17\"}", "resume_from: expected job:ID"},
    {"{" CMD ", \"resume_from\": \"job:17@\"}", "the step after @ must be a number"},
    {"{" CMD ", \"resume_from\": \"job:17@-5\"}", "the step after @ must be a number"},
    {"{" CMD ", \"resume_from\": \"job:last\"}", "resume_from:"},
    {"{" CMD ", \"resume_from\": \"file:///../etc\"}", "resume_from:"},
    /* metrics, limits, the rest */
    {"{" CMD ", \"metrics\": {}}", "metrics:"},
    {"{" CMD ", \"metrics\": [{\"name\": \"loss\"}]}", "metrics[0]:"},
    {"{" CMD ", \"metrics\": [{\"regex\": \"(a)\"}]}", "metrics[0]:"},
    {"{" CMD ", \"metrics\": [{\"name\": \"a b\", \"regex\": \"(a)\"}]}", "metrics[0].name:"},
    {"{" CMD ", \"metrics\": [{\"name\": \"loss\", \"regex\": \"\"}]}", "metrics[0].regex:"},
    {"{" CMD ", \"metrics\": [{\"name\": \"loss\", \"regex\": \"loss=\"}]}", "metrics[0].regex:"},
    {"{" CMD ", \"metrics\": [{\"name\": \"loss\", \"regex\": \"loss=(\"}]}", "metrics[0].regex:"},
    {"{" CMD ", \"metrics\": [{\"name\": \"loss\", \"regex\": 5}]}", "metrics[0].regex:"},
    {"{" CMD ", \"limits\": {\"max_runtime_s\": \"1h\"}}", "limits.max_runtime_s:"},
    {"{" CMD ", \"limits\": {\"max_runtime_s\": -1}}", "limits.max_runtime_s:"},
    {"{" CMD ", \"limits\": {\"grace_s\": 100000}}", "limits.grace_s:"},
    {"{" CMD ", \"warm_pool\": {\"preload\": \"torch\"}}", "warm_pool.preload: expected a list"},
    {"{" CMD ", \"warm_pool\": {\"preload\": [\"a.b\", \"a-b\"]}}", "warm_pool.preload[1]: \"a-b\""},
    {"{" CMD ", \"warm_pool\": {\"preload\": [\"os.\"]}}", "warm_pool.preload[0]: \"os.\""},
    {"{" CMD ", \"warm_pool\": {\"preload\": [\"1a\"]}}", "warm_pool.preload[0]: \"1a\""},
    {"{" CMD ", \"warm_pool\": {\"preload\": [\"\"]}}", "warm_pool.preload[0]: \"\""},
    {"{" CMD ", \"warm_pool\": {\"preload\": [\"torch\"], \"cuda_context\": true}}",
     "warm_pool.cuda_context: the job asks for no GPUs"},
    {"{" CMD ", \"resources\": {\"gpus_per_instance\": 1}, \"warm_pool\": {\"cuda_context\": true}}",
     "warm_pool.cuda_context: only an interpreter with modules"},
    {"{" CMD ", \"priority\": 5000}", "priority:"},
    {"{" CMD ", \"priority\": \"high\"}", "priority: expected a whole number, got a string"},
};

static void test_bad(void)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = {.code = ERR_NONE};
		struct job_spec *s = spec_parse(bad[i].text, strlen(bad[i].text), &e);
		char *id = xasprintf("job/%s", bad[i].text);

		golden(id, s ? NULL : e.text, bad[i].message);
		spec_destroy(s);
		free(id);
	}
}

int main(void)
{
	test_bad();
	return tap_done();
}
