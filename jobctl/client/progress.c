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

static void draw_bar(char *out, size_t cells, uint64_t done, uint64_t total)
{
	size_t full = (size_t)((double)done / (double)total * (double)cells);
	out[0] = '[';
	for (size_t i = 0; i < cells; i++)
		out[1 + i] = i < full ? '#' : '.';
	memcpy(out + 1 + cells, "] ", 3);
}

const char *progress_line(const struct progress *p, uint64_t done, uint64_t elapsed_us, size_t width,
                          char *out, size_t out_size)
{
	char a[32], b[32], rate[32], left[32], cells[BAR_MAX + 4] = "";
	uint64_t speed = elapsed_us ? (uint64_t)((double)done * 1e6 / (double)elapsed_us) : 0;
	str_size(speed, rate, sizeof(rate));
	str_size(done, a, sizeof(a));
	if (!p->total) {
		snprintf(out, out_size, "%s %s, %s/s", p->what, a, rate);
		return out;
	}
	if (done > p->total)
		done = p->total;
	str_size(done, a, sizeof(a));
	str_size(p->total, b, sizeof(b));
	str_duration(speed ? (p->total - done) / speed : 0, left, sizeof(left));
	if (width >= WIDTH_MIN)
		draw_bar(cells, width >= WIDTH_MIN + BAR_MAX ? BAR_MAX : 10, done, p->total);
	snprintf(out, out_size, "%s %3u %% %s%s of %s, %s/s%s%s", p->what,
	         (unsigned)((double)done / (double)p->total * 100), cells, a, b, rate, speed ? ", " : "",
	         speed ? left : "");
	return out;
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
	char line[256];
	uint64_t now = clock_boot_us(clock_real());
	if (!p->on || now - p->started_us < FIRST_US || now - p->shown_us < EVERY_US)
		return;
	p->shown_us = now;
	p->drawn = 1;
	progress_line(p, done, now - p->started_us, terminal_width(), line, sizeof(line));
	progress_note(line);
}

void progress_end(struct progress *p)
{
	if (p->drawn)
		progress_note("");
	p->drawn = p->on = 0;
}
