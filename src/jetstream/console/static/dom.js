// Small helpers to build the page. Text is always set as text, never as markup.
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name || "div");
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}
export function show(parent, ...children) { parent.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false)); }

export const number = (n) => (n ?? 0).toLocaleString("en-US");
export const rate = (n) => (n >= 100 ? Math.round(n).toLocaleString("en-US") : n.toFixed(n >= 10 ? 1 : n ? 2 : 0)) + "/s";
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"]; let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i += 1; }
  return (i ? n.toFixed(1) : n) + " " + units[i];
}
export const when = (ms) => (ms ? new Date(ms).toLocaleString() : "never");
export function duration(ns) {
  if (!ns) return "none";
  let s = ns / 1e9; const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) if (s >= size) { parts.push(Math.floor(s / size) + unit); s %= size; }
  if (s) parts.push(+s.toFixed(3) + "s");
  return parts.join("");
}
export const limit = (n, format = number) => (n === undefined || n < 0 ? "unlimited" : format(n));

export function toast(text, bad = false) {
  const node = h(bad ? "div.toast.bad" : "div.toast", {}, text);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), bad ? 9000 : 4000);
}
export function complain(problem) {
  toast(problem.message + (problem.code ? ` (err_code ${problem.code})` : "") + (problem.hint ? ` — ${problem.hint}` : ""), true);
}
// Runs an action of a button: disabled meanwhile, problems shown.
export function act(run) {
  return async (e) => {
    e?.preventDefault?.();
    const button = e?.currentTarget?.tagName === "BUTTON" ? e.currentTarget : e?.submitter;
    if (button) button.disabled = true;
    try { await run(e); } catch (problem) { complain(problem); } finally { if (button) button.disabled = false; }
  };
}
export const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", `'\\''`)}'`);
export const command = (...words) => h("div.cmd", {}, "same as ", h("code", {}, "jetstream " + words.map(String).map(quote).join(" ")));
export function table(columns, rows, onPick) {
  const head = h("tr", {}, columns.map((c) => h(c.n ? "th.n" : "th", { class: [c.n && "n", c.hide && "hide"].filter(Boolean).join(" ") || null }, c.title)));
  const body = rows.map((row) => {
    const cells = columns.map((c) => h("td", { class: [c.n && "n", c.hide && "hide"].filter(Boolean).join(" ") || null }, c.cell(row)));
    const line = h(onPick ? "tr.pick" : "tr", {}, cells);
    if (onPick) { line.tabIndex = 0; line.addEventListener("click", () => onPick(row)); line.addEventListener("keydown", (e) => e.key === "Enter" && onPick(row)); }
    return line;
  });
  return h("div.scroll", {}, h("table", {}, h("thead", {}, head), h("tbody", {}, body.length ? body : h("tr", {}, h("td", { colspan: columns.length, class: "quiet" }, "nothing here yet")))));
}
export function bar(label, used, most, format = number) {
  const share = most > 0 ? Math.min(1, used / most) : 0;
  const inner = h("i"); inner.style.width = (share * 100).toFixed(1) + "%";
  return h("div", {}, h("span.quiet", {}, `${label}: ${format(used)} of ${limit(most, format)}`), h(share > 0.85 ? "div.bar.high" : "div.bar", {}, inner));
}
