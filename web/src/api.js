// Calls of the API and the one live stream of events. Everything the page shows comes from here.

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

// A session has a cookie and a key. Browsers send the cookie to every port of the host, where a job's own service may read it; the key is in the
// storage of this origin (scheme, host and port) and goes out as a header, so the cookie alone opens nothing. localStorage rather than
// sessionStorage: all tabs of this origin share the session, as they share the cookie.
const KEY = 'hearth_session_key';

export function keepKey(key) {
  if (key) localStorage.setItem(KEY, key);
  else localStorage.removeItem(KEY);
}

function withKey(headers) {
  const key = localStorage.getItem(KEY);
  return key ? { ...headers, 'X-Hearth-Key': key } : headers;
}

export async function api(path, options = {}) {
  const init = { method: options.method || 'GET', headers: withKey({ Accept: 'application/json' }), signal: options.signal };
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

// Calls fn with each event of a body of server-sent events, and returns the id of the last one.
async function readEvents(body, fn, last) {
  const reader = body.getReader(), decoder = new TextDecoder();
  let rest = '', id = last;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return id;
    rest += decoder.decode(value, { stream: true });
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const data = [];
      for (const line of block.split('\n')) {
        if (line.startsWith('id:')) id = line.slice(3).trim();
        if (line.startsWith('data:')) data.push(line.slice(5));
      }
      try { if (data.length) fn(JSON.parse(data.join('\n'))); } catch { /* not ours */ }
    }
  }
}

// Events of the whole cluster. A connection that ends is made again with the last id, so none is missed. An EventSource could not send the key.
export function events(onEvent, onState) {
  const stop = new AbortController();
  let last = null;
  const run = async () => {
    for (let pause = 1000; !stop.signal.aborted; pause = Math.min(pause * 2, 30000)) {
      try {
        const headers = withKey({ Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) });
        const answer = await fetch('/api/v1/stream', { headers, signal: stop.signal });
        if (answer.status === 401 || answer.status === 403) { onState('off'); return; }
        if (answer.ok) {
          onState('live');
          pause = 500;
          last = await readEvents(answer.body, (e) => { last = e.id ?? last; onEvent(e); }, last);
        }
      } catch { /* the connection was cut */ }
      if (stop.signal.aborted) return;
      onState('reconnecting');
      await new Promise((next) => setTimeout(next, pause));
    }
  };
  run();
  return () => stop.abort();
}

// A log stream: the raw bytes, from an offset on, as they come.
export async function followLog(job, stream, attempt, onText, signal) {
  let offset = -65536; // the last 64 KiB first
  const decoder = new TextDecoder();
  for (;;) {
    const answer = await fetch(`/api/v1/jobs/${job}/logs/${encodeURIComponent(stream)}?follow=1&attempt=${attempt}&offset=${offset}`, { headers: withKey({}), signal });
    if (!answer.ok) throw new ApiError(answer.status, await answer.json().catch(() => ({})));
    const begins = Number(answer.headers.get('X-Hearth-Offset') || 0);
    if (offset >= 0 && begins > offset) onText(`\n[hearth: ${begins - offset} bytes are missing here: the log is longer than its limit]\n`);
    offset = begins;
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
      await new Promise((next) => setTimeout(next, 1000)); // the connection was cut, or ended at a hole: go on where it ended
    }
  }
}
