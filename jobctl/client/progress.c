/*
 * progress: see progress.h.
 */
#include "jobctl/client/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/text.h"

#define FIRST_US  300000 /* shorter transfers show nothing */
#define EVERY_US  100000
#define BAR_MAX   30
#define WIDTH_MIN 60 /* below: no bar */

int progress_wanted(void)
{
	return isatty(STDERR_FILENO);
}

void progress_start(struct progress *p, const char *what, uint64_t total)
{
	memset(p, 0, sizeof(*p));
	p->what = what;
	p->total = total;
	p->on = progress_wanted();
	p->started_us = clock_boot_us(clock_real());
}

static void draw_bar(struct text *out, unsigned cells, uint64_t done, uint64_t total)
{
	unsigned full = (unsigned)((double)done / (double)total * cells);
	text_add(out, "[");
	for (unsigned i = 0; i < cells; i++)
		text_add(out, i < full ? "#" : ".");
	text_add(out, "] ");
}

void progress_line(const struct progress *p, uint64_t done, uint64_t elapsed_us, size_t width,
                   struct text *out)
{
	char number[32];
	uint64_t speed = elapsed_us ? (uint64_t)((double)done * 1e6 / (double)elapsed_us) : 0;
	text_add(out, "%s ", p->what);
	if (p->total && done > p->total)
		done = p->total;
	if (p->total)
		text_add(out, "%3u %% ", (unsigned)((double)done / (double)p->total * 100));
	if (p->total && width >= WIDTH_MIN)
		draw_bar(out, width >= WIDTH_MIN + BAR_MAX ? BAR_MAX : 10, done, p->total);
	text_add(out, "%s", str_size(done, number, sizeof(number)));
	if (p->total)
		text_add(out, " of %s", str_size(p->total, number, sizeof(number)));
	text_add(out, ", %s/s", str_size(speed, number, sizeof(number)));
	if (p->total && speed)
		text_add(out, ", %s", str_duration((p->total - done) / speed, number, sizeof(number)));
}

static unsigned terminal_width(void)
{
	struct winsize w = {0};
	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || w.ws_col < 2 ? 80 : w.ws_col;
}

void progress_note(const char *text)
{
	unsigned room = terminal_width() - 1;
	const char *end = text;
	while (*end && room--) {
		end++;
		while (((unsigned char)*end & 0xc0) == 0x80)
			end++;
	}
	fprintf(stderr, "\r%.*s\033[K", (int)(end - text), text);
}

void progress_update(struct progress *p, uint64_t done)
{
	TEXT(line);
	uint64_t now = clock_boot_us(clock_real());
	if (!p->on || now - p->started_us < FIRST_US || now - p->shown_us < EVERY_US)
		return;
	p->shown_us = now;
	p->drawn = 1;
	progress_line(p, done, now - p->started_us, terminal_width(), &line);
	progress_note(line.at);
}

void progress_end(struct progress *p)
{
	if (p->drawn)
		progress_note("");
	p->drawn = p->on = 0;
}
