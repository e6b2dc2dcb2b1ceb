// Chooses the page by the address, keeps it fresh by the events, asks for a token when there is no session.
import { api, ApiError, events, keepKey } from './api.js';
import { el } from './dom.js';
import { jobPage, jobsPage, nodesPage } from './pages.js';

const place = document.getElementById('page');
let page = null, timer = null, stopEvents = null, running = false, again = false;

function choose() {
  const job = location.hash.match(/^#\/jobs\/(\d+)$/);
  if (job) return jobPage(Number(job[1]));
  return location.hash === '#/nodes' ? nodesPage() : jobsPage();
}

// At most one refresh at a time, and at most four a second however many events come.
async function refresh() {
  if (running) { again = true; return; }
  running = true;
  try {
    await page.refresh();
  } catch (e) {
    if (e instanceof ApiError && e.status === 401) login();
    else page.node.prepend(el('p', { class: 'bad', role: 'alert' }, e.message));
  }
  running = false;
  if (again) { again = false; soon(); }
}

function soon() {
  if (!timer) timer = setTimeout(() => { timer = null; refresh(); }, 250);
}

function open() {
  page?.close?.();
  page = choose();
  place.replaceChildren(page.node);
  refresh();
}

function login() {
  stopEvents?.();
  stopEvents = null;
  const token = el('input', { type: 'password', name: 'token', autocomplete: 'off', required: true, 'aria-label': 'token' });
  const said = el('p', { class: 'bad', role: 'alert' });
  place.replaceChildren(el('form', {
    class: 'login',
    onsubmit: async (e) => {
      e.preventDefault();
      try {
        keepKey((await api('/login', { method: 'POST', body: { token: token.value.trim() } })).key);
        start();
      } catch (error) { said.textContent = error.message; }
    },
  }, el('h1', null, 'Log in'), el('p', null, 'Paste a token. The administrator\'s is in admin.token, in the data folder of hearthd.'), token,
  el('button', { type: 'submit' }, 'Log in'), said));
}

async function start() {
  try {
    const me = await api('/whoami');
    document.getElementById('who').textContent = `${me.user} · ${me.cluster}`;
  } catch (e) {
    if (e instanceof ApiError && e.status === 401) return login();
    place.replaceChildren(el('p', { class: 'bad', role: 'alert' }, e.message));
    return undefined;
  }
  stopEvents?.();
  stopEvents = events((e) => { if (!page?.wants || page.wants(e)) soon(); }, (s) => { document.getElementById('live').textContent = s; });
  open();
  return undefined;
}

// A login link leads here with the key of its session; it leaves the address, and the history, at once.
function takeKey() {
  const found = location.hash.match(/^#session=([0-9a-f]+)$/);
  if (!found) return;
  keepKey(found[1]);
  history.replaceState(null, '', location.pathname);
}

takeKey();
window.addEventListener('hashchange', open);
start();
