/* held_part: how launches share the bytes that a node may hold. */
#include "agent/keep/held.h"

#include "tests/lib/tap.h"

static long part(unsigned accounts, unsigned own, uint64_t others)
{
	return (long)held_part(1200, &(struct held_use){.accounts = accounts, .own = own, .others = others});
}

int main(void)
{
	is_int(part(1, 1, 0), 1200, "one launch with checkpoints has all");
	is_int(part(2, 1, 100), 1100, "what others leave is free for all");
	is_int(part(2, 1, 1200), 600, "an account has its part, also when another one holds all");
	is_int(part(2, 3, 1200), 200, "its launches share that part");
	is_int(part(3, 1, 5000), 400, "also when the limit became smaller");
	is_int((long)held_part(0, &(struct held_use){.accounts = 1, .own = 1}), 0, "no limit is known: 0");
	return tap_done();
}
