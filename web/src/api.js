// Calls of the API and the one live stream of events. Everything the page shows comes from here.

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

export async function api(path, options = {}) {
  const init = { method: options.method || 'GET', headers: { Accept: 'application/json' }, signal: options.signal };
  if (options.body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(options.body);
  }
  const answer = await fetch(`/api/v1${path}`, init);
  const text = await answer.text();
  let body = null;
  try { body = text ? JSON.parse(text) : null; } catch { /* an answer that is no JSON is told as it is */ }
  if (!answer.ok) throw new ApiError(answer.status, body || { detail: text.slice(0, 200) });
  return body;
}

// Named events reach only listeners of that name (controller/record/event.h).
const TYPES = `submitted held released changed awaited tagged stop_wanted requeue_wanted placed node_preparing node_ready node_running node_stopping node_ended
  node_failed node_cleaned node_lost node_blamed node_saved launching rank_started rank_exited rank_lost rank_failed ending launcher_ended outcome artifact warning cleanup attempt_ended
  requeued ended removed joined inventory connected node_gone drained resumed node_removed token_made incarnation`.split(/\s+/);

// Events of the whole cluster. The browser reconnects by itself and sends the last id, so none is missed.
export function events(onEvent, onState) {
  const source = new EventSource('/api/v1/stream');
  const seen = (e) => { try { onEvent(JSON.parse(e.data)); } catch { /* not ours */ } };
  source.onopen = () => onState('live');
  source.onerror = () => onState(source.readyState === EventSource.CLOSED ? 'off' : 'reconnecting');
  source.onmessage = seen;
  for (const type of TYPES) source.addEventListener(type, seen);
  return () => source.close();
}

// A log stream: the raw bytes, from an offset on, as they come.
export async function followLog(job, stream, attempt, onText, signal) {
  let offset = -65536; // the last 64 KiB first
  const decoder = new TextDecoder();
  for (;;) {
    const answer = await fetch(`/api/v1/jobs/${job}/logs/${encodeURIComponent(stream)}?follow=1&attempt=${attempt}&offset=${offset}`, { signal });
    if (!answer.ok) throw new ApiError(answer.status, await answer.json().catch(() => ({})));
    offset = Number(answer.headers.get('X-Hearth-Offset') || 0);
    const reader = answer.body.getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        offset += value.length;
        onText(decoder.decode(value, { stream: true }));
      }
    } catch (e) {
      if (signal.aborted) return;
      await new Promise((next) => setTimeout(next, 1000)); // the connection was cut: go on where it ended
    }
  }
}
