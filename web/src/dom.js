// Small helpers to make elements. Text goes in as text, never as HTML.

export function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v === true ? '' : v);
  }
  for (const c of children.flat()) if (c !== null && c !== undefined) e.append(c);
  return e;
}

export function table(heads, rows) {
  return el('table', null,
    el('thead', null, el('tr', null, heads.map((h) => el('th', { class: h.number ? 'n' : null, scope: 'col' }, h.name)))),
    el('tbody', null, rows.map((r) => el('tr', null, r.map((c, i) => el('td', { class: heads[i].number ? 'n' : null }, c ?? ''))))));
}

export const status = (s) => el('span', { class: `s-${s}` }, s || '?');

export function when(text) {
  if (!text) return '';
  const d = new Date(text);
  return el('time', { datetime: text, title: text }, d.toLocaleString());
}

export function number(v) {
  if (v === null || v === undefined) return '';
  return typeof v === 'number' ? (Number.isInteger(v) ? String(v) : Number(v.toPrecision(6)).toString()) : String(v);
}

// How long something ran, or runs: 45s, 12m, 3h 5m, 2d 4h.
export function ran(seconds) {
  if (seconds === null || seconds === undefined) return '';
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  return s < 86400 ? `${Math.floor(s / 3600)}h ${Math.floor((s % 3600) / 60)}m` : `${Math.floor(s / 86400)}d ${Math.floor((s % 86400) / 3600)}h`;
}
