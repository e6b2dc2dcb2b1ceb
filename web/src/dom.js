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
