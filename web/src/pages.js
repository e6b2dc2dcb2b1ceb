// The pages: jobs, nodes, one job. Each returns { node, refresh, close }.
import { api, followLog } from './api.js';
import { el, number, ran, status, table, when } from './dom.js';

// How the members of an array or a sweep stand, in words.
function membersText(m) {
  const parts = ['running', 'waiting', 'completed', 'failed', 'stopped'].filter((k) => m[k]).map((k) => `${m[k]} ${k}`);
  return `${m.count} members: ${parts.join(', ')}`;
}

export function jobsPage() {
  const node = el('div', null, el('h1', null, 'Jobs'), el('p', { class: 'dim' }, 'Loading'));
  async function refresh() {
    const { jobs } = await api('/jobs?limit=200');
    const heads = [{ name: 'Id', number: true }, { name: 'Name' }, { name: 'Status' }, { name: 'Owner' }, { name: 'Nodes', number: true }, { name: 'GPUs', number: true }, { name: 'Created' }, { name: 'Ran', number: true }, { name: 'Reason' }];
    const rows = jobs.map((j) => [el('a', { href: `#/jobs/${j.id}` }, j.ref || String(j.id)), j.name, status(j.status), j.owner, number(j.nodes), number(j.gpus), when(j.created_at), ran(j.ran_s),
      [j.members && membersText(j.members), j.reason].filter(Boolean).join('; ')]);
    node.replaceChildren(el('h1', null, 'Jobs'),
      rows.length ? table(heads, rows) : el('p', { class: 'dim' }, 'No jobs yet. Submit one: jobctl submit job.json'));
  }
  return { node, refresh, wants: (e) => e.job > 0 };
}

export function nodesPage() {
  const node = el('div', null, el('h1', null, 'Nodes'), el('p', { class: 'dim' }, 'Loading'));
  async function refresh() {
    const { nodes } = await api('/nodes');
    const heads = [{ name: 'Node' }, { name: 'State' }, { name: 'Address' }, { name: 'GPUs', number: true }, { name: 'Slots', number: true }, { name: 'Reason' }];
    const rows = nodes.map((n) => [n.name, status(n.state), n.address, number(Array.isArray(n.gpus) ? n.gpus.length : n.gpus), number(n.slots), n.reason]);
    node.replaceChildren(el('h1', null, 'Nodes'),
      rows.length ? table(heads, rows) : el('p', { class: 'dim' }, 'No nodes have joined. Make a token: jobctl token --join'));
  }
  return { node, refresh, wants: (e) => !e.job };
}

function logView(job) {
  const tabs = el('div', { class: 'tabs', role: 'tablist' }), text = el('pre', { class: 'log', tabindex: '0', 'aria-label': 'log' });
  const node = el('div', null, el('h2', null, 'Log'), tabs, text);
  let stop = null, shown = '', known = '';

  function show(s) {
    stop?.abort();
    stop = new AbortController();
    shown = `${s.attempt}/${s.stream}`;
    text.replaceChildren();
    for (const b of tabs.children) b.setAttribute('aria-selected', String(b.dataset.key === shown));
    followLog(job, s.stream, s.attempt, (t) => {
      const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 30;
      text.append(t);
      if (text.textContent.length > 2e6) text.textContent = text.textContent.slice(-1e6); // the page keeps the end; all of it: jobctl logs
      if (atEnd) text.scrollTop = text.scrollHeight;
    }, stop.signal).catch((e) => { if (e.name !== 'AbortError') text.append(`\n[${e.message}]\n`); });
  }
  async function refresh() {
    const { streams } = await api(`/jobs/${job}/logs`);
    const key = streams.map((s) => `${s.attempt}/${s.stream}`).join(' ');
    if (key === known) return;
    known = key;
    tabs.replaceChildren(...streams.map((s) => el('button', { type: 'button', role: 'tab', 'data-key': `${s.attempt}/${s.stream}`, onclick: () => show(s) },
      `${s.stream}${s.attempt > 1 ? ` (attempt ${s.attempt})` : ''}`)));
    const first = streams.filter((s) => s.stream === 'rank-0').pop() || streams[0];
    if (first && !shown) show(first);
    else for (const b of tabs.children) b.setAttribute('aria-selected', String(b.dataset.key === shown));
  }
  return { node, refresh, close: () => stop?.abort() };
}

// The members of an array or a sweep with their values, the best first.
async function membersTable(id) {
  const { members, metric, made } = await api(`/jobs/${id}/members?limit=500`);
  const axes = members.length ? Object.keys(members[0].values) : [];
  const heads = [{ name: 'Id', number: true }, { name: 'Status' }, ...axes.map((name) => ({ name })), ...(metric ? [{ name: metric, number: true }, { name: 'Step', number: true }] : []), { name: 'Reason' }];
  const text = (v) => (typeof v === 'string' ? v : JSON.stringify(v));
  const rows = members.map((m) => [el('a', { href: `#/jobs/${m.id}` }, m.ref), status(m.status), ...axes.map((a) => text(m.values[a])),
    ...(metric ? [number(m.metric?.best), number(m.metric?.step)] : []), m.reason]);
  return [el('h2', null, 'Members'), table(heads, rows), ...(made > members.length ? [el('p', { class: 'dim' }, `and ${made - members.length} more`)] : [])];
}

export function jobPage(id) {
  const head = el('div'), attempts = el('div'), metrics = el('div'), members = el('div'), log = logView(id);
  const node = el('div', null, head, metrics, attempts, members);
  let ended = false;
  async function refresh() {
    const j = await api(`/jobs/${id}`);
    ended = Boolean(j.ended_at);
    head.replaceChildren(el('h1', null, `Job ${j.ref || j.id} `, j.name || '', ' ', status(j.status)),
      ...(j.array ? [el('p', null, `Member ${j.array.index} of `, el('a', { href: `#/jobs/${j.array.job}` }, `job ${j.array.job}`))] : []),
      ...(j.members ? [el('p', null, membersText(j.members))] : []),
      el('p', null, j.reason || '', j.exit_code !== null && j.exit_code >= 0 ? ` (exit code ${j.exit_code})` : ''),
      el('p', { class: 'dim' }, `${j.owner || ''} · created `, when(j.created_at), j.started_at ? ' · started ' : '', when(j.started_at),
        j.ended_at ? ' · ended ' : '', when(j.ended_at)));
    const series = Object.entries(j.metrics || {});
    metrics.replaceChildren(...(series.length ? [el('h2', null, 'Metrics'), table(
      [{ name: 'Name' }, { name: 'Last', number: true }, { name: 'Least', number: true }, { name: 'Greatest', number: true }, { name: 'Step', number: true }],
      series.map(([name, m]) => [name, number(m.last), number(m.min), number(m.max), number(m.step)]))] : []));
    const list = j.attempts || [];
    attempts.replaceChildren(...(list.length ? [el('h2', null, 'Attempts'), table(
      [{ name: 'No.', number: true }, { name: 'Outcome' }, { name: 'Nodes' }, { name: 'Started' }, { name: 'Ended' }, { name: 'Reason' }],
      list.map((a) => [number(a.number), a.outcome || a.state || '', (a.nodes || []).map((n) => n.node || n.name || n).join(', '), when(a.started_at),
        when(a.ended_at), a.reason]))] : []));
    if (j.members) {
      members.replaceChildren(...await membersTable(id));
      return;
    }
    if (!log.node.parentNode) node.append(log.node);
    await log.refresh();
  }
  // Metrics and logs bring no events: a look each two seconds while the job goes on and somebody can see it.
  const timer = setInterval(() => { if (!ended && !document.hidden) refresh().catch(() => {}); }, 2000);
  return { node, refresh, wants: (e) => e.job === id, close: () => { clearInterval(timer); log.close(); } };
}
